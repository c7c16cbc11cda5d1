"""Dates as people write them in many languages, each with its ISO 8601 form.

    søndag den 4. marts 2007  ->  2007-03-04          রবিবার, ৪ মার্চ, ২০০৭  ->  2007-03-04

The words and patterns are those of the Unicode CLDR in Babel (extra `demo`); the pairs are a
function of Babel's version. No text stands for two dates: a form is kept only if no other form
reads the same characters otherwise, in every month and on every weekday (`_unambiguous`).
"""

import re
from collections import ChainMap, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from glassformer.data.config import NAMES, SplitName
from glassformer.demos.cldr import PLAIN, english_names, parsed_locale
from glassformer.demos.tables import constants
from glassformer.demos.writers import write_table

if TYPE_CHECKING:
    from babel import Locale

LANGUAGES: tuple[str, ...] = tuple(constants("languages")["dates_and_strings"])
"""Codes of the languages for which CLDR has all months and weekdays."""
FIRST, LAST = date(1900, 1, 1), date(2099, 12, 31)
"""The range of days; every number of four digits is a year of these two centuries."""
VARIED = 0.3
"""Share of dates that depart from CLDR: in one case, or without commas."""
COUNTS: dict[SplitName, int] = {"train": 100_000, "validation": 1_500, "test": 5_000}
"""Dates of each split."""
HELD_OUT = 0.05
"""Share of all days for validation, and for the test."""

_DAYS = (LAST - FIRST).days + 1
_SKELETONS = ("yMMMMEEEEd", "yMMMMd", "yMMMEd", "yMMMd", "yMEd", "yMd")
_SLOTS = {"d": "{0}", "dd": "{0:02}", "M": "{1}", "MM": "{1:02}", "y": "{2}"}
_FIELDS = re.compile(r"dd?|M{1,4}|L{3,4}|y|E|E{3,4}|c{3,4}|G")  # numbers, months, weekdays, eras
_ZEROS = {"arab": 0x660, "arabext": 0x6F0, "beng": 0x9E6, "deva": 0x966, "mymr": 0x1040}


@dataclass(frozen=True)
class Form:
    """One way to write dates in one language: texts by (month, weekday) with slots for the
    numbers of day, month and year."""

    language: str
    texts: tuple[str, ...]
    zero: int = ord("0")
    varied: bool = False

    def write(self, day: date) -> str:
        """The text of a day."""
        text = _filled(self.texts[7 * (day.month - 1) + day.weekday()], day)
        return text.translate({ord("0") + digit: self.zero + digit for digit in range(10)})


def write_dates(folder: Path) -> None:
    """Write a table of dates, ISO 8601 forms and languages for each split."""
    names = english_names(LANGUAGES)
    for split in NAMES:
        rows = ((text, day, names[code]) for text, day, code in dates(split, COUNTS[split]))
        write_table(folder / f"{split}.tsv", "source target language", rows)


def dates(split: SplitName, n: int) -> Iterator[tuple[str, str, str]]:
    """The first n dates of a split: text, YYYY-MM-DD, and the language's code.

    Day, language, varied or not, and form are drawn uniformly. A day, in whatever form, belongs
    to one split: HELD_OUT of all are for validation, as many for the test. ConfigError: Babel is
    missing.
    """
    days = np.random.default_rng((0, 1)).permutation(_DAYS)
    held, at = round(HELD_OUT * _DAYS), NAMES.index(split)
    own = np.split(days, [held, 2 * held])[at - 1].tolist()  # validation, test, train
    forms = {
        (code, varied): [form for form in of_language if form.varied == varied]
        for code, of_language in date_forms().items()
        for varied in (False, True)
    }
    for when, where, how, which in np.random.default_rng((0, 2 + at)).random((n, 4)).tolist():
        day = FIRST + timedelta(days=own[int(when * len(own))])
        code = LANGUAGES[int(where * len(LANGUAGES))]
        choices = forms[code, how < VARIED] or forms[code, False]
        yield choices[int(which * len(choices))].write(day), day.isoformat(), code


@cache
def date_forms() -> dict[str, tuple[Form, ...]]:
    """The unambiguous forms of every language; those of CLDR come before varied ones."""
    kept: dict[str, tuple[Form, ...]] = dict.fromkeys(LANGUAGES, ())
    for form in _unambiguous([form for code in LANGUAGES for form in _language_forms(code)]):
        kept[form.language] += (form,)
    return kept


def _filled(text: str, day: date) -> str:
    """The text with numbers in its slots."""
    return text.format(day.day, day.month, day.year)


def _unambiguous(forms: Iterable[Form]) -> Iterator[Form]:
    """The forms that no other form contradicts.

    The shape of a text is what remains when its numbers are blanked; a year is known by its four
    digits. Two forms contradict each other if they share a shape but read it differently: another
    month's name, or day and month in the other order. Equal texts have equal shapes, so if none is
    contradicted, a text stands for one date.
    """
    shapes = [
        (form, [_shape(text, 1 + place // 7) for place, text in enumerate(form.texts)])
        for form in forms
    ]
    readings: dict[str, set[tuple[str | int, ...]]] = defaultdict(set)
    for shape, reading in (pair for _, pairs in shapes for pair in pairs):
        readings[shape].add(reading)
    for form, pairs in shapes:
        if all(len(readings[shape]) == 1 and "?" not in reading for shape, reading in pairs):
            yield form


def _shape(text: str, month: int) -> tuple[str, tuple[str | int, ...]]:
    """A text with blanks for its numbers, and what they are: "day", "month", "year", and the month
    if it is a word; "?" if they are no date."""
    roles = {28: "day", month: "month", 2005: "year"}
    probe = _filled(text, date(2005, month, 28))
    numbers = [roles.get(int(number), "?") for number in re.findall(r"\d+", probe)]
    blanked = re.sub(r"\d+", lambda found: "####" if len(found[0]) == 4 else "#", probe)
    if sorted(numbers) == ["day", "year"]:
        return blanked, (*numbers, month)
    return blanked, tuple(numbers) if sorted(numbers) == ["day", "month", "year"] else ("?",)


def _language_forms(code: str) -> Iterator[Form]:
    """The forms of CLDR in both kinds of digits, then the same varied; no two of them write the
    same."""
    locale = parsed_locale(code)
    zero = _ZEROS.get(locale.default_numbering_system, ord("0"))
    book = [texts for pattern in _patterns(locale) if (texts := _texts(locale, pattern))]
    free = [tuple(map(vary, texts)) for vary in _variations(book) for texts in book]
    varied = dict.fromkeys(free, True) | dict.fromkeys(book, False)
    for texts in dict.fromkeys([*book, *free]):
        for digit in sorted({ord("0"), zero}):
            yield Form(code, texts, digit, varied[texts])


def _patterns(locale: "Locale") -> Iterator[str]:
    """The patterns in use, such as `EEEE, d. MMMM y`; one may come twice."""
    skeletons = locale.datetime_skeletons
    for width in ("full", "long", "medium", "short"):
        yield str(locale.date_formats[width].pattern)
    yield from (str(skeletons[name].pattern) for name in _SKELETONS if name in skeletons)


def _texts(locale: "Locale", pattern: str) -> tuple[str, ...]:
    """The pattern in words for every month and weekday; none if it has an unfit field (a year of
    two digits) or CLDR lacks a name."""
    from babel.dates import DateTimeFormat, parse_pattern

    template = str(parse_pattern(pattern).format)
    if not all(map(_FIELDS.fullmatch, re.findall(r"%\((\w+)\)s", template))):
        return ()
    days = [date(2001, month, day) for month in range(1, 13) for day in range(1, 8)]
    days.sort(key=lambda day: (day.month, day.weekday()))
    formats = (ChainMap(_SLOTS, DateTimeFormat(day, locale)) for day in days)  # pyright: ignore
    texts = (template % of for of in formats)
    plain = tuple(text.translate(PLAIN) for text in texts)
    return () if re.search(r"M\d\d", "\n".join(plain)) else plain  # CLDR's sign for a missing name


def _variations(book: list[tuple[str, ...]]) -> Iterator[Callable[[str], str]]:
    """How people depart from CLDR: no commas, and one case, where that is a matter of spelling
    alone.

    Case is kept where the script has none in use (title case is lower case) or where it does not
    come back: ß, and the two kinds of i in Turkish and Azerbaijani.
    """
    text = "".join(text for texts in book for text in texts)
    lower = text.lower()
    yield _without_commas
    if text.title() != lower and not set("ıİß") & set(text) and text.upper().lower() == lower:
        yield str.lower
        yield str.upper
        yield lambda text: _without_commas(text).lower()


def _without_commas(text: str) -> str:
    return re.sub(r"[,،፣、]", "", text)
