"""`glassformer demo classify`: praise or criticism, where single words mislead.

    although the soup was never dull , the hotel was anything but pleasant .  ->  criticism

Sentences come from a small grammar in which a negation turns a word round and the clause after
"but", or after that of "although", decides. What is said of a thing belongs to one split: no thing
of the test has in training the word that it has in the test.
"""

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from random import Random

from glassformer.data.config import NAMES
from glassformer.demos.kit import Shown, counts, split_of, table, with_baselines, write_table
from glassformer.run import Run

THINGS = (
    "film book song soup bread hotel garden museum train teacher song story dance concert coffee "
    "room beach market journey answer"
)
WORDS = {
    "praise": "good great lovely pleasant clever charming fine superb perfect bright",
    "criticism": "bad poor dull awful boring terrible weak clumsy horrid dreary",
}
PLAIN = ("was {}", "seemed {}", "was really {}", "was always {}", "turned out to be {}")
NEGATED = (
    "was not {}",
    "was never {}",
    "was hardly {}",
    "was anything but {}",
    "was not at all {}",
)
FORMS = ("{1}", "{0} , but {1}", "although {0} , {1}", "{1} , although {0}", "{0} ; still , {1}")
"""The second clause decides; the first says the opposite, or the same, by chance."""
COUNTS = counts(10_000, 300, 2_000)
"""Sentences of each split."""
EXAMPLES = [
    "the film was not bad",
    "although the soup was superb , the hotel was anything but pleasant",
    "the museum was hardly great , but the garden was never dull",
]


def write_opinions(folder: Path) -> None:
    """Write a table of sentences and opinions for each split."""
    for split in NAMES:
        random = Random(split)
        facts = [
            (thing, word, kind)
            for kind, words in WORDS.items()
            for thing, word in product(THINGS.split(), words.split())
            if split_of(f"{thing} {word}") == split
        ]
        rows = (opinion(random, facts) for _ in range(COUNTS[split]))
        write_table(folder / f"{split}.tsv", "text label", rows)


def opinion(random: Random, facts: Sequence[tuple[str, str, str]]) -> tuple[str, str]:
    """Return a sentence about two things and its opinion; facts: thing, word, kind of the word."""
    clauses, labels = list[str](), list[str]()
    for thing, word, kind in random.choices(facts, k=2):
        negated = random.random() < 0.5
        verb = random.choice(NEGATED if negated else PLAIN)
        clauses.append(f"the {thing} {verb.format(word)}")
        labels += WORDS.keys() - {kind} if negated else {kind}
    return f"{random.choice(FORMS).format(*clauses)} .", labels[1]


def show(run: Run) -> Shown:
    """Accuracy on held-out sentences beside two baselines, and sentences."""
    scores = run.evaluate("test")
    accuracy = with_baselines(scores)
    examples = dict(zip(EXAMPLES, run.classify(EXAMPLES), strict=True))
    return Shown(
        {"accuracy": accuracy, "examples": examples},
        [
            f"accuracy on {scores['examples']:,} sentences that say of each thing what training "
            "does not:",
            *table(accuracy),
            "",
            *(f"  {text:66} {label}" for text, label in examples.items()),
        ],
    )
