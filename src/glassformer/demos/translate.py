"""`glassformer demo translate`: dates as people write them in many languages, to ISO 8601."""

from collections.abc import Iterator

from glassformer.data.pairs import pairs
from glassformer.demos.baselines import rule_for_dates, share
from glassformer.demos.demo import Shown, table, train_and_test
from glassformer.files import write_text
from glassformer.inspect.alignment import CrossAttention, cross_attention
from glassformer.pages.attention import attention_html
from glassformer.processors.word_spans import NUMBERS_AND_NAMES
from glassformer.run import Run

EXAMPLES = [
    "Donnerstag, 3. Mai 2091",
    "2019年12月24日",
    "le 1er août 1944",
    "четверг, 9 мая 1945 г.",
]


def show(run: Run, terminal: bool) -> Shown:
    """Exact matches on held-out dates beside two baselines, the hardest languages, an alignment,
    then a prompt for other dates."""
    folder, scores = run.folder, run.evaluate("test")
    train, test = train_and_test(run, pairs, lambda row: (row.source, row.target))
    rule = rule_for_dates(train)
    exact = {
        "a copy of the source": share(source == target for source, target in test),
        "a rule: numbers by place, month words": share(rule(text) == day for text, day in test),
        "this model": scores["exact_match"],
    }
    outputs = run.translate(EXAMPLES)
    examples = dict(zip(EXAMPLES, outputs, strict=True))
    source, output = EXAMPLES[0], outputs[0]
    attention = cross_attention(run.model, run.task.pair, source, output, NUMBERS_AND_NAMES)
    page = folder / "attention.html"
    write_text(page, attention_html(attention, f"{source} to {output}"))
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
            f"\nthe same for every layer and head: {page}   curves, samples, languages: "
            f"{folder / 'report.html'}",
        ],
        ("type a date in any language", run.translate),
    )


def drawn(attention: CrossAttention) -> Iterator[str]:
    """A line for each part of the output, a column for each of the source; dark: much attention."""
    words = attention.source.words
    yield f"{'':8}" + " ".join(words)
    masses = attention.words([len(attention.patterns) - 1])
    for part, row in zip(attention.target.words, masses.tolist(), strict=True):
        shades = (" ░▒▓█"[min(4, int(5 * mass))] for mass in row)
        cells = (shade * len(word) for word, shade in zip(words, shades, strict=True))
        yield f"{part:>6}  {' '.join(cells)}"
