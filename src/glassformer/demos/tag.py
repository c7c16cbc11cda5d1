"""`glassformer demo tag`: Python source highlighted by meaning, from the standard library's own
files."""

from collections.abc import Sequence
from typing import Any

from glassformer.data.tagged import tagged
from glassformer.demos.baselines import majority, most_frequent_tag
from glassformer.demos.codetags import TAGS
from glassformer.demos.codewords import split_code
from glassformer.demos.demo import Demo, Shown, Training
from glassformer.demos.python_code import write_code
from glassformer.files import write_text
from glassformer.pages.highlight import coloured, highlight_html, legend
from glassformer.run import Run

SHOWN = 30
"""Lines of the held-out file on the terminal, or names where the output is piped."""
NAMES = TAGS[:9]
"""Tags of names."""

Sentences = Sequence[tuple[Sequence[str], Sequence[str]]]
"""Words and tags."""


def show(run: Run, terminal: bool) -> Shown:
    """Accuracy on held-out files beside two baselines, and one of these files in colours."""
    folder, scores = run.folder, _scores(run)
    file = next((folder / "data").glob("*.py"))
    source = file.read_text(encoding="utf-8")
    words, spans = split_code(source)
    tags = [tag for _, tag in run.tag(words)]
    picture = folder / "highlight.html"
    write_text(
        picture, highlight_html(source, spans, tags, TAGS, f"{file.name}, tagged by {folder.name}")
    )
    recall = (f"{tag} {share:.0%}" for tag, share in scores["recall"].items())
    return Shown(
        {**scores, "file": file.stem},
        [
            "accuracy on the words of held-out files:",
            f"  {'':36} {'names':>8} {'all words':>10}",
            *(
                f"  {name:36} {own['names']:8.2%} {own['all']:10.2%}"
                for name, own in scores["accuracy"].items()
            ),
            "\nrecall of the tags of names:",
            "  " + "  ".join(recall),
            f"\nfrom {file.stem}, a file it never saw:\n",
            _excerpt(source, spans, tags, terminal),
            f"the whole file in colours: {picture}   curves, confusions: {folder / 'report.html'}",
        ],
        [
            f"python examples/highlight.py {folder} YOUR_FILE.py --html YOUR_FILE.html",
            f'echo "total = price * count" | glassformer tag {folder} --json',
        ],
    )


def _scores(run: Run) -> dict[str, Any]:
    """Accuracy on names, whose letters do not tell their tag, and on all words but layout, beside
    two baselines; recall of each tag of names."""
    assert run.recipe is not None
    rows = list(tagged(run.recipe.data))
    train, test = (
        [(list(row.words), list(row.tags)) for row in rows if row.split == split]
        for split in ("train", "test")
    )
    found = run.tag([words for words, _ in test])
    predicted = [[tag for _, tag in sentence] for sentence in found]
    names = ("the most frequent tag", "each word's most frequent tag", "this model")
    accuracy: dict[str, dict[str, float]] = {name: {} for name in names}
    for what, chosen in (("names", set(NAMES)), ("all", set(TAGS) - {"layout"})):
        learned, asked = _only(train, chosen), _only(test, chosen)
        values = (
            majority(_tags(learned), _tags(asked)),
            most_frequent_tag(learned, asked),
            _recall(test, predicted, chosen),
        )
        for name, value in zip(names, values, strict=True):
            accuracy[name][what] = value
    here = {tag for _, tags in test for tag in tags}
    recall = {tag: _recall(test, predicted, {tag}) for tag in NAMES if tag in here}
    return {"accuracy": accuracy, "recall": recall}


def _recall(test: Sentences, predicted: Sequence[Sequence[str]], chosen: set[str]) -> float:
    """The share of the words with one of these tags that the model tags right."""
    right = [
        tag == gold
        for (_, tags), found in zip(test, predicted, strict=True)
        for gold, tag in zip(tags, found, strict=True)
        if gold in chosen
    ]
    return sum(right) / len(right)


def _only(sentences: Sentences, chosen: set[str]) -> Sentences:
    """The words with one of these tags."""
    kept = (
        [pair for pair in zip(words, tags, strict=True) if pair[1] in chosen]
        for words, tags in sentences
    )
    return [([word for word, _ in pairs], [tag for _, tag in pairs]) for pairs in kept]


def _tags(sentences: Sentences) -> list[str]:
    return [tag for _, tags in sentences for tag in tags]


def _excerpt(
    source: str, spans: Sequence[tuple[int, int]], tags: Sequence[str], terminal: bool
) -> str:
    """Lines of the file from its first definition on: in colours, or names with their tags."""
    begin = source.rfind("\n", 0, max(source.find("def "), 0)) + 1
    end = begin + sum(len(line) for line in source[begin:].splitlines(keepends=True)[:SHOWN])
    within = [i for i, (start, stop) in enumerate(spans) if begin <= start and stop <= end]
    if terminal:
        inside = [(spans[i][0] - begin, spans[i][1] - begin) for i in within]
        text = coloured(source[begin:end], inside, [tags[i] for i in within], TAGS)
        return f"{legend(TAGS)}\n\n{text}"
    named = [i for i in within if tags[i] in NAMES]
    return "\n".join(f"  {source[slice(*spans[i])]:24} {tags[i]}" for i in named[:SHOWN])


DEMO = Demo(
    "A tagger that reads Python source and says what each name means: function, parameter, "
    "attribute, import, ...",
    (Training("tag", write_code),),
    show,
)
