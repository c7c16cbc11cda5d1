"""`glassformer demo translate`: dates as people write them in many languages, to ISO 8601.

    søndag den 4. marts 2007  ->  2007-03-04

The words and patterns are those of the Unicode CLDR in Babel (extra `demo`). A day belongs to one
split in all languages.
"""

import re
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path
from random import Random

from glassformer.core.errors import ConfigError
from glassformer.core.files import write_text
from glassformer.data.config import NAMES, SplitName
from glassformer.data.records.pairs import pairs
from glassformer.demos.kit import Shown, counts, split_of, table, train_and_test, write_table
from glassformer.inspect.alignment import cross_attention
from glassformer.metrics.baselines import NaiveBayes, words
from glassformer.metrics.writing import exact_match
from glassformer.pages.attention import attention_html
from glassformer.processors.tokens.word_spans import NUMBERS_AND_NAMES
from glassformer.run import Run

LANGUAGES = (
    "af am ar az be bg bn ca cs cy da de el en es et eu fa fi fil fr ga gl gu he hi hr hu hy id is "
    "it ja ka kk km kn ko lo lt lv mk ml mn mr my nb ne nl or pa pl pt ro ru si sk sl sq sr sv sw "
    "ta te th tr uk ur vi zh zu"
)
"""Codes of the languages whose months and weekdays have names in CLDR."""
FORMS = ("full", "long")
"""Patterns with the month as a word, which no language reads otherwise."""
COUNTS = counts(60_000, 1_500, 5_000)
FIRST, DAYS = date(1900, 1, 1), 73_049
"""The range of days ends with 2099."""
PLAIN = {0x200E: None, 0x200F: None, 0xA0: " ", 0x202F: " "}
"""Direction marks and no-break spaces, which no one types."""
EXAMPLES = ["Donnerstag, 3. Mai 2091", "2019年12月24日", "1 août 1944", "четверг, 9 мая 1945 г."]


def write_dates(folder: Path) -> None:
    """Write a table of dates, ISO 8601 forms and languages for each split."""
    for split in NAMES:
        write_table(folder / f"{split}.tsv", "source target language", dates(split, COUNTS[split]))


def dates(split: SplitName, n: int) -> Iterator[tuple[str, str, str]]:
    """Return n dates of a split: text, YYYY-MM-DD, and the English name of the language.

    ConfigError: Babel is missing.
    """
    try:
        from babel import Locale
        from babel.dates import format_date
    except ImportError:
        raise ConfigError(
            "`demo translate` needs the names and patterns of Babel, which is not installed: pip "
            "install 'glassformer[demo]'."
        ) from None
    random, names = Random(split), Locale("en").languages
    while n:
        day = FIRST + timedelta(random.randrange(DAYS))
        if split_of(day.isoformat()) == split:
            code, form = random.choice(LANGUAGES.split()), random.choice(FORMS)
            text = format_date(day, form, code).translate(PLAIN)
            yield text, day.isoformat(), str(names[code])
            n -= 1


def rule_for_dates(train: list[tuple[str, str]]) -> Callable[[str], str]:
    """Return a rule for dates, learned from pairs of (date, YYYY-MM-DD).

    The number of four digits is the year. The first of the others is the day, or the last where
    the year comes first. The month is the other number; without one, naive Bayes on the words.
    """
    rows = ((words(source), [int(target[5:7]) - 1]) for source, target in train)
    bayes = NaiveBayes(rows, 12, pairs=False)

    def rule(source: str) -> str:
        numbers = re.findall(r"\d+", source)
        year = next((number for number in numbers if len(number) == 4), "2000")
        others = [int(number) for number in numbers if number != year] or [1]
        if numbers[:1] == [year]:
            others.reverse()
        month = others[1] if others[1:] else bayes.scores([words(source)]).argmax() + 1
        return f"{year}-{month:02}-{others[0]:02}"

    return rule


def show(run: Run) -> Shown:
    """Exact matches on held-out days beside a rule, and an alignment."""
    scores = run.evaluate("test")
    train, test = train_and_test(run, pairs)
    rule = rule_for_dates([(row.source, row.target) for row in train])
    ruled = exact_match([rule(row.source) for row in test], [row.target for row in test])
    exact = {
        "a rule: numbers, words of the month": ruled,
        "this model": scores["exact_match"],
    }
    examples = dict(zip(EXAMPLES, run.translate(EXAMPLES), strict=True))
    source, output = next(iter(examples.items()))
    attention = cross_attention(
        run.model, run.task.processor.pair, source, output, NUMBERS_AND_NAMES
    )
    page = run.folder / "attention.html"
    write_text(page, attention_html(attention, f"{source} to {output}"))
    return Shown(
        {"exact_match": exact, "languages": scores["table"], "examples": examples},
        [
            f"exact matches on held-out days in {len(scores['table'])} languages:",
            *table(exact),
            "",
            *(f"  {source:28} -> {output}" for source, output in examples.items()),
            f"\nwhat each part of the output attends to: {page} (open it in a browser)",
        ],
    )
