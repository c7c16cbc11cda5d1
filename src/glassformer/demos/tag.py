"""`glassformer demo tag`: Python source highlighted by meaning, from the standard library's own
files."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from operator import eq
from typing import Any

from glassformer.data.tagged import tagged
from glassformer.demos.baselines import share
from glassformer.demos.codetags import TAGS
from glassformer.demos.codewords import split_code
from glassformer.demos.demo import Shown, train_and_test
from glassformer.files import write_text
from glassformer.metrics.baselines import commonest, most_frequent
from glassformer.pages.highlight import coloured, highlight_html, legend
from glassformer.run import Run

SHOWN = 30
"""Lines of the held-out file on the terminal, or names where the output is piped."""
NAMES = TAGS[:9]
"""Tags of names."""


def show(run: Run, terminal: bool) -> Shown:
    """Accuracy on held-out files beside two baselines, and one of these files in colours."""
    folder, scores = run.folder, _scores(run)
    file = next((folder / "data").glob("*.py"))
    source = file.read_text(encoding="utf-8")
    words, spans = split_code(source)
    tags = [tag for _, tag in run.tag(words)]
    page, title = folder / "highlight.html", f"{file.name}, tagged by {folder.name}"
    write_text(page, highlight_html(source, spans, tags, TAGS, title))
    recall = (f"{tag} {value:.0%}" for tag, value in scores["recall"].items())
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
            f"the whole file in colours: {page}   curves, confusions: {folder / 'report.html'}",
        ],
    )


def _scores(run: Run) -> dict[str, Any]:
    """Accuracy on names, whose letters do not tell their tag, and on all words but layout, beside
    two baselines; recall of each tag of names."""
    train, test = train_and_test(run, tagged, lambda row: zip(row.words, row.tags, strict=True))
    test = list(map(list, test))
    answers = run.tag([[word for word, _ in pairs] for pairs in test])
    known, asked, found = (list(chain.from_iterable(rows)) for rows in (train, test, answers))
    names = ("the most frequent tag", "each word's most frequent tag", "this model")
    accuracy: dict[str, dict[str, float]] = {name: {} for name in names}
    for what, chosen in (("names", set(NAMES)), ("all", set(TAGS) - {"layout"})):
        pairs = [pair for pair in known if pair[1] in chosen]
        rows = ((*pair, own) for pair, (_, own) in zip(asked, found, strict=True))
        words, gold, own = zip(*(row for row in rows if row[1] in chosen), strict=True)
        common = commonest(Counter(tag for _, tag in pairs))
        accuracy[names[0]][what] = share(tag == common for tag in gold)
        accuracy[names[1]][what] = share(map(eq, most_frequent(pairs, words, rare=True), gold))
        accuracy[names[2]][what] = share(map(eq, own, gold))
    pairs = ((tag, own) for (_, tag), (_, own) in zip(asked, found, strict=True))
    return {"accuracy": accuracy, "recall": _recall(pairs)}


def _recall(pairs: Iterable[tuple[str, str]]) -> dict[str, float]:
    """The recall of each tag of names that occurs, for pairs of (right tag, found tag)."""
    right: dict[str, list[bool]] = {tag: [] for tag in TAGS}
    for tag, found in pairs:
        right[tag].append(tag == found)
    return {tag: share(right[tag]) for tag in NAMES if right[tag]}


def _excerpt(
    source: str, spans: Sequence[tuple[int, int]], tags: Sequence[str], terminal: bool
) -> str:
    """Lines of the file from its first definition on: in colours, or names with their tags."""
    begin = source.rfind("\n", 0, max(source.find("def "), 0)) + 1
    text = "".join(source[begin:].splitlines(keepends=True)[:SHOWN])
    within = [
        ((start - begin, stop - begin), tag)
        for (start, stop), tag in zip(spans, tags, strict=True)
        if begin <= start and stop <= begin + len(text)
    ]
    if terminal:
        inside, own = [span for span, _ in within], [tag for _, tag in within]
        return f"{legend(TAGS)}\n\n{coloured(text, inside, own, TAGS)}"
    named = [(text[slice(*span)], tag) for span, tag in within if tag in NAMES]
    return "\n".join(f"  {name:24} {tag}" for name, tag in named[:SHOWN])
