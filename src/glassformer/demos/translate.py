"""`glassformer demo translate`: dates as people write them in many languages, to ISO 8601."""

from collections.abc import Iterator

from glassformer.data.pairs import Pair, pairs
from glassformer.demos.baselines import exact_match, rule_for_dates
from glassformer.demos.dates import write_dates
from glassformer.demos.demo import Demo, Shown, Training, table
from glassformer.files import write_text
from glassformer.inspect.alignment import CrossAttention, cross_attention
from glassformer.pages.attention import attention_html
from glassformer.processors.word_spans import NUMBERS_AND_NAMES
from glassformer.run import Run

EXAMPLES = (
    "Donnerstag, 3. Mai 2091",
    "2019年12月24日",
    "le 1er août 1944",
    "четверг, 9 мая 1945 г.",
)


def show(run: Run, terminal: bool) -> Shown:
    """Exact matches on held-out dates beside two baselines, the hardest languages, an alignment,
    then a prompt at which to try it."""
    assert run.recipe is not None
    folder, scores = run.folder, run.evaluate("test")
    exact = {**_baselines(list(pairs(run.recipe.data))), "this model": scores["exact_match"]}
    outputs = run.translate(list(EXAMPLES))
    examples = dict(zip(EXAMPLES, outputs, strict=True))
    attention = cross_attention(
        run.model, run.task.pair, EXAMPLES[0], outputs[0], NUMBERS_AND_NAMES
    )
    picture = folder / "attention.html"
    write_text(picture, attention_html(attention, f"{EXAMPLES[0]} to {outputs[0]}"))
    hardest = sorted(scores["table"], key=lambda row: row["exact_match"])[:5]
    return Shown(
        {
            "exact_match": scores["exact_match"],
            "baselines": exact,
            "languages": scores["table"],
            "examples": examples,
        },
        [
            f"exact matches on held-out days in {len(scores['table'])} languages:",
            *table(exact),
            "\nthe hardest languages:",
            *(f"  {row['group']:20} {row['exact_match']:8.2%} of {row['n']}" for row in hardest),
            "",
            *(f"  {source:28} -> {output}" for source, output in examples.items()),
            "\nwhere each part of the output attends in the last layer:\n",
            *(f"  {line}" for line in drawn(attention)),
            f"\nthe same for every layer and head: {picture}   curves, samples, languages: "
            f"{folder / 'report.html'}",
        ],
        [
            f'echo "24 décembre 2031" | glassformer translate {folder} --scores',
            f"glassformer verify {folder}",
        ],
        ("type a date in any language", run.translate),
    )


def _baselines(rows: list[Pair]) -> dict[str, float]:
    train, test = (
        [(row.source, row.target) for row in rows if row.split == split]
        for split in ("train", "test")
    )
    rule = rule_for_dates(train)
    return {
        "a copy of the source": exact_match(test, lambda source: source),
        "a rule: numbers by place, month words": exact_match(test, rule),
    }


def drawn(attention: CrossAttention) -> Iterator[str]:
    """A line for each part of the output, a column for each of the source; dark: much attention."""
    words = attention.source.words
    yield f"{'':8}" + " ".join(words)
    masses = attention.words([len(attention.patterns) - 1])
    for part, row in zip(attention.target.words, masses, strict=True):
        cells = [
            " ░▒▓█"[min(4, int(5 * float(mass)))] * len(word)
            for word, mass in zip(words, row, strict=True)
        ]
        yield f"{part:>6}  " + " ".join(cells)


DEMO = Demo(
    "An encoder-decoder that reads dates as people write them in many languages and writes them "
    "in ISO 8601.",
    (Training("translate", write_dates),),
    show,
)
