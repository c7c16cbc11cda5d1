"""Dates as people write them in many languages, each with its ISO 8601 form.

    søndag den 4. marts 2007  ->  2007-03-04          রবিবার, ৪ মার্চ, ২০০৭  ->  2007-03-04

The words and patterns are those of the Unicode CLDR in Babel (extra `demo`); the pairs are a
function of Babel's version. No text stands for two dates: a form is kept only if no other form
reads the same characters otherwise, in every month and on every weekday (`_unambiguous`).
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from glassformer.data.config import NAMES, SplitName
from glassformer.demos.cldr import PLAIN, english_names, parsed_locale
from glassformer.demos.writers import write_table

if TYPE_CHECKING:
    from babel import Locale

LANGUAGES = tuple(
    [
        "af",
        "am",
        "ar",
        "az",
        "be",
        "bg",
        "bn",
        "ca",
        "cs",
        "cy",
        "da",
        "de",
        "el",
        "en",
        "es",
        "et",
        "eu",
        "fa",
        "fi",
        "fil",
        "fr",
        "ga",
        "gl",
        "gu",
        "he",
        "hi",
        "hr",
        "hu",
        "hy",
        "id",
        "is",
        "it",
        "ja",
        "ka",
        "kk",
        "km",
        "kn",
        "ko",
        "lo",
        "lt",
        "lv",
        "mk",
        "ml",
        "mn",
        "mr",
        "my",
        "nb",
        "ne",
        "nl",
        "or",
        "pa",
        "pl",
        "pt",
        "ro",
        "ru",
        "si",
        "sk",
        "sl",
        "sq",
        "sr",
        "sv",
        "sw",
        "ta",
        "te",
        "th",
        "tr",
        "uk",
        "ur",
        "vi",
        "zh",
        "zu",
    ]
)
"""The codes of the languages, of which CLDR knows all months and weekdays."""
FIRST, LAST = date(1900, 1, 1), date(2099, 12, 31)
"""The days that occur: whatever has four digits is a year of these two centuries."""
VARIED = 0.3
"""The share of dates that are written a little otherwise than by the book: in one case, without
commas."""
COUNTS: dict[SplitName, int] = {"train": 100_000, "validation": 1_500, "test": 5_000}
"""Dates of each split."""
HELD_OUT = 0.05
"""The share of all days for validation, and for the test."""

_DAYS = (LAST - FIRST).days + 1
_SKELETONS = ("yMMMMEEEEd", "yMMMMd", "yMMMEd", "yMMMd", "yMEd", "yMd")
_NUMBERS = {
    "d": "\ue000",
    "dd": "\ue001",
    "M": "\ue002",
    "MM": "\ue003",
    "y": "\ue004",
}  # slots in private characters
_MONTHS, _WEEKDAYS, _ERA = ("MMM", "MMMM", "LLL", "LLLL"), ("E", "EEE", "EEEE", "ccc", "cccc"), "G"
_ZEROS = {"arab": 0x660, "arabext": 0x6F0, "beng": 0x9E6, "deva": 0x966, "mymr": 0x1040}
_FIRSTS = [date(2001, month, 1) for month in range(1, 13)]
_WEEK = [date(2001, 1, day) for day in range(1, 8)]  # from Monday to Sunday


@dataclass(frozen=True)
class Form:
    """One way to write dates in one language: texts by (month, weekday), in which day, month and
    year have slots."""

    language: str
    texts: tuple[str, ...]
    zero: int = ord("0")
    varied: bool = False

    def write(self, day: date) -> str:
        """The text of a day."""
        text = _filled(
            self.texts[7 * (day.month - 1) + day.weekday()], day.year, day.month, day.day
        )
        zero = ord("0")
        return (
            text
            if self.zero == zero
            else text.translate({zero + digit: self.zero + digit for digit in range(10)})
        )


def write_dates(folder: Path) -> None:
    """Write a table of dates, ISO 8601 forms and languages for each split."""
    names = english_names(LANGUAGES)
    for split in NAMES:
        rows = ((text, day, names[code]) for text, day, code in dates(split, COUNTS[split]))
        write_table(folder / f"{split}.tsv", "source target language", rows)


def dates(split: SplitName, n: int) -> Iterator[tuple[str, str, str]]:
    """The first n dates of a split: text, YYYY-MM-DD, and the language's code.

    Day, language, whether by the book, and form are drawn evenly. A day, in whatever form, belongs
    to one split: HELD_OUT of all are for validation, as many for the test. ConfigError: Babel is
    missing.
    """
    days = np.random.default_rng((0, 1)).permutation(_DAYS).tolist()
    held, at = round(HELD_OUT * _DAYS), NAMES.index(split)
    days = days[2 * held :] if split == "train" else days[(at - 1) * held : at * held]
    forms = date_forms()
    book = {code: [form for form in forms[code] if not form.varied] for code in LANGUAGES}
    free = {code: [form for form in forms[code] if form.varied] or book[code] for code in LANGUAGES}
    for when, where, how, which in np.random.default_rng((0, 2 + at)).random((n, 4)).tolist():
        day = FIRST + timedelta(days=days[int(when * len(days))])
        code = LANGUAGES[int(where * len(LANGUAGES))]
        choices = free[code] if how < VARIED else book[code]
        yield choices[int(which * len(choices))].write(day), day.isoformat(), code


@cache
def date_forms() -> dict[str, tuple[Form, ...]]:
    """The forms of every language, none of which can be mistaken for another date; those by the
    book come first."""
    kept: dict[str, list[Form]] = {code: [] for code in LANGUAGES}
    for form in _unambiguous([form for code in LANGUAGES for form in _language_forms(code)]):
        kept[form.language].append(form)
    return {code: tuple(forms) for code, forms in kept.items()}


def _filled(text: str, year: int, month: int, day: int) -> str:
    """The text with numbers in its slots."""
    return text.translate(
        {
            0xE000: str(day),
            0xE001: f"{day:02}",
            0xE002: str(month),
            0xE003: f"{month:02}",
            0xE004: str(year),
        }
    )


def _unambiguous(forms: Iterable[Form]) -> Iterator[Form]:
    """The forms that no other form contradicts.

    The shape of a text is what remains when its numbers are blanked; a year is known by its four
    digits. Two forms contradict each other if they share a shape but read it differently: another
    month's name, or day and month in the other order. Equal texts have equal shapes, so if none is
    contradicted, a text stands for one date.
    """
    forms = list(forms)
    readings: dict[str, set[tuple[str | int, ...]]] = defaultdict(set)
    shapes = [
        [_shape(text, 1 + place // 7) for place, text in enumerate(form.texts)] for form in forms
    ]
    for shape, reading in (pair for of_form in shapes for pair in of_form):
        readings[shape].add(reading)
    for form, of_form in zip(forms, shapes, strict=True):
        if all(len(readings[shape]) == 1 and "?" not in reading for shape, reading in of_form):
            yield form


def _shape(text: str, month: int) -> tuple[str, tuple[str | int, ...]]:
    """A text with blanks for its numbers, and what they are: "day", "month", "year", and the month
    if it is a word."""
    roles = {28: "day", month: "month", 2005: "year"}
    probe = _filled(text, 2005, month, 28)
    numbers = [roles.get(int(number), "?") for number in re.findall(r"\d+", probe)]
    complete = sorted(numbers) in (["day", "year"], ["day", "month", "year"])
    blanked = re.sub(r"\d+", lambda found: "####" if len(found[0]) == 4 else "#", probe)
    return blanked, tuple(numbers if "month" in numbers else [*numbers, month]) if complete else (
        "?",
    )


def _language_forms(code: str) -> Iterator[Form]:
    """The forms of CLDR in both kinds of digits, then the same varied; no two of them write the
    same."""
    locale = parsed_locale(code)
    zero = _ZEROS.get(locale.default_numbering_system, ord("0"))
    book = [texts for pattern in _patterns(locale) if (texts := _texts(locale, pattern))]
    free = [tuple(vary(text) for text in texts) for vary in _variations(book) for texts in book]
    seen: set[tuple[str, ...]] = set()
    for place, texts in enumerate([*book, *free]):
        if texts not in seen:
            seen.add(texts)
            yield from (
                Form(code, texts, digit, place >= len(book)) for digit in sorted({ord("0"), zero})
            )


def _patterns(locale: "Locale") -> Iterator[str]:
    """The patterns in use, such as `EEEE, d. MMMM y`; one may come twice."""
    skeletons = locale.datetime_skeletons
    yield from (
        str(locale.date_formats[width].pattern) for width in ("full", "long", "medium", "short")
    )
    yield from (str(skeletons[name].pattern) for name in _SKELETONS if name in skeletons)


def _texts(locale: "Locale", pattern: str) -> tuple[str, ...]:
    """The pattern in words for every month and weekday; nothing if a field (a year of two digits)
    or name is unfit."""
    from babel.dates import DateTimeFormat, parse_pattern

    template = str(parse_pattern(pattern).format)
    fields = set(re.findall(r"%\((\w+)\)s", template))
    if not fields <= {*_NUMBERS, *_MONTHS, *_WEEKDAYS, _ERA}:
        return ()
    months = [
        {field: DateTimeFormat(day, locale)[field] for field in fields & {*_MONTHS, _ERA}}
        for day in _FIRSTS
    ]
    week = [
        {field: DateTimeFormat(day, locale)[field] for field in fields & set(_WEEKDAYS)}
        for day in _WEEK
    ]
    texts = tuple(
        (template % (_NUMBERS | month | day)).translate(PLAIN) for month in months for day in week
    )
    return (
        () if any(re.search(r"M\d\d", text) for text in texts) else texts
    )  # CLDR's sign for a name it lacks


def _variations(book: list[tuple[str, ...]]) -> Iterator[Callable[[str], str]]:
    """How people depart from the book: no commas, and one case, where that is a matter of spelling
    alone.

    Case is kept where the script has none in use (title case is lower case) or where it does not
    come back: ß, and the two kinds of i in Turkish and Azerbaijani.
    """
    text = "".join(text for texts in book for text in texts)
    yield _without_commas
    if (
        text.title() != text.lower()
        and not set("ıİß") & set(text)
        and text.upper().lower() == text.lower()
    ):
        yield str.lower
        yield str.upper
        yield lambda text: _without_commas(text).lower()


def _without_commas(text: str) -> str:
    return re.sub(r"[,،፣、]", "", text)
