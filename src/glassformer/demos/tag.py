"""`glassformer demo tag`: invented people, places and organizations, found by their context.

    Tolan Beska, who was born in Port Varim, joined Onder.   ->   PER, LOC, ORG

Sentences come from a small grammar. A name has syllables of any kind, so only the words around it
say what it names, and it belongs to one split: no name of the test is in training.
"""

from collections.abc import Iterator
from pathlib import Path
from random import Random

from glassformer.data.config import NAMES, SplitName
from glassformer.demos.kit import Shown, counts, split_of, table, with_baselines, write_json_lines
from glassformer.run import Run

GRAMMAR = {
    "TEXT": ["LINE .", "WHEN , LINE .", "LINE WHEN .", "LINE , while LINE ."],
    "LINE": ["PER WHO DEED", "PER DEED and DEED", "ORG WHICH ACT", "LOC FATE", "NEWS"],
    "WHO": ["", ", who DEED ,", "from LOC", "of ORG", "and PER"],
    "WHICH": ["", ", which ACT ,", "from LOC"],
    "DEED": [
        "met PER",
        "moved to LOC",
        "joined ORG",
        "left ORG",
        "was born in LOC",
        "wrote to PER",
    ],
    "ACT": ["hired PER", "opened an office in LOC", "bought ORG", "was sold to ORG"],
    "FATE": ["lies near LOC", "was flooded", "elected PER as mayor", "welcomed PER"],
    "NEWS": ["the mayor of LOC DEED", "the head of ORG DEED", "the train to LOC was late"],
    "WHEN": ["on DATE", "since DATE", "in LOC"],
    "PER": ["NAME", "NAME NAME"],
    "LOC": ["NAME", "NAME", "Port NAME", "New NAME"],
    "ORG": ["NAME", "NAME and NAME", "NAME NAME"],
    "DATE": ["Monday", "Friday", "DAY May", "DAY June 2004", "DAY March"],
}
"""What each word in capital letters may become."""
SPANS = ("PER", "LOC", "ORG", "DATE")
COUNTS = counts(10_000, 300, 2_000)
"""Sentences of each split."""
EXAMPLES = [
    "Anna Karlsson , who was born in Oslo , joined Siemens on 3 May .",
    "Oslo was flooded , while Siemens hired the mayor of New Delhi .",
]
ONSETS, RHYMES = "b d f g k l m n p r s t v z", "a e i o u an el in or us"
"""Beginnings and ends of syllables."""


def write_sentences(folder: Path) -> None:
    """Write the words and tags of each sentence as JSON lines for each split."""
    for split in NAMES:
        random = Random(split)
        pairs = (zip(*sentence(random, split), strict=True) for _ in range(COUNTS[split]))
        rows = ({"words": words, "tags": tags} for words, tags in pairs)
        write_json_lines(folder / f"{split}.jsonl", rows)


def sentence(random: Random, split: SplitName, symbol: str = "TEXT") -> Iterator[tuple[str, str]]:
    """Return the words of a sentence with their tags: B-X at the first word of a span, I-X at the
    others."""
    begin = "B"
    for word in random.choice(GRAMMAR[symbol]).split():
        if word in GRAMMAR:
            yield from sentence(random, split, word)
            continue
        if word == "NAME":
            word = draw_name(random, split)
        elif word == "DAY":
            word = str(random.randint(1, 28))
        yield word, f"{begin}-{symbol}" if symbol in SPANS else "O"
        begin = "I"


def draw_name(random: Random, split: SplitName) -> str:
    """Return a name of a split."""
    while True:
        name = ""
        for _ in range(random.randint(2, 3)):
            name += random.choice(ONSETS.split()) + random.choice(RHYMES.split())
        if split_of(name) == split:
            return name.title()


def show(run: Run) -> Shown:
    """F1 of spans with names it never saw beside a baseline, and sentences."""
    f1 = with_baselines(run.evaluate("test"))

    def mark(text: str) -> str:
        return " ".join(word if tag == "O" else f"{word}/{tag}" for word, tag in run.tag(text))

    return Shown(
        {"f1": f1, "examples": {text: run.tag(text) for text in EXAMPLES}},
        [
            "F1 of people, places, organizations and dates in sentences with names that it never "
            "saw:",
            *table(f1),
            "",
            *(f"  {mark(text)}" for text in EXAMPLES),
        ],
    )
