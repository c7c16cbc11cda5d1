"""Short strings in many languages, each with its language.

    четверг, 4 марта 2007 г.  ->  Russian
    через 3 години            ->  Ukrainian
    3 kilometre               ->  Turkish

The names and patterns are those of the Unicode CLDR in Babel (extra `demo`): countries, languages,
scripts, time zones, amounts of money and other units, dates, distances in time, and lists of these.
Each string is made of CLDR keys (a country `territory:FR`, a pattern `list:or`), and a key belongs
to one split in all languages: training has no string of a held-out key in any language. A string
that two of the languages share, whatever its case, has no right answer and is left out. All is a
function of Babel's version.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from glassformer.data.config import NAMES, SplitName
from glassformer.demos.cldr import PLAIN, english_names, parsed_locale
from glassformer.demos.hashing import hashed, split_by_hash
from glassformer.demos.writers import write_table

if TYPE_CHECKING:
    from babel import Locale

LANGUAGES = tuple(
    [
        "af",
        "am",
        "ar",
        "as",
        "az",
        "be",
        "bg",
        "bn",
        "br",
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
        "fo",
        "fr",
        "ga",
        "gd",
        "gl",
        "gu",
        "ha",
        "he",
        "hi",
        "hr",
        "hu",
        "hy",
        "id",
        "ig",
        "is",
        "it",
        "ja",
        "jv",
        "ka",
        "kk",
        "km",
        "kn",
        "ko",
        "kok",
        "ky",
        "lb",
        "lo",
        "lt",
        "lv",
        "mk",
        "ml",
        "mn",
        "mr",
        "ms",
        "my",
        "nb",
        "ne",
        "nl",
        "or",
        "pa",
        "pl",
        "ps",
        "pt",
        "ro",
        "ru",
        "sd",
        "si",
        "sk",
        "sl",
        "so",
        "sq",
        "sr",
        "sv",
        "sw",
        "ta",
        "te",
        "th",
        "tk",
        "tr",
        "uk",
        "ur",
        "uz",
        "vi",
        "yo",
        "zh",
        "zu",
    ]
)
"""The codes of the languages: those of which CLDR has most names, and of close ones (Czech, Slovak)
both."""
COUNTS: dict[SplitName, int] = {"train": 2000, "validation": 50, "test": 100}
"""Strings of each language and split, at most; the kinds of strings take turns."""

_HELD_OUT: dict[SplitName, int] = {"validation": 9, "test": 14}  # percent of the keys
_SALT = "73565"  # with which every split has months, weekdays, and patterns of dates and lists
_SKELETONS = [
    "MMMMEEEEd",
    "yMMMEd",
    "MMMEd",
    "yMMMd",
    "MMMMd",
    "MMMd",
    "yMMMM",
    "yMMM",
    "yQQQQ",
    "Ed",
    "EHm",
]
_DATES = {"full": "ME", "long": "M"} | {
    skeleton: "".join(sorted(set(skeleton) & set("MEQ"))) for skeleton in _SKELETONS
}
"""Patterns of dates and the names in them: month, weekday (E), quarter."""
_LISTS = ("standard", "or")
_HOURS = {
    "year": 8760,
    "month": 720,
    "week": 168,
    "day": 24,
    "hour": 1,
    "minute": 1 / 60,
    "second": 1 / 3600,
}
_AMOUNTS = (1, 2, 3, 4, 5, 7, 8, 10, 11, 12, 15, 20, 25, 30, 100)
_MISSING = re.compile(r"M\d\d|\bQ[1-4]\b")  # CLDR's signs for a name it lacks


@dataclass(frozen=True)
class Phrase:
    """A string of a language (a code), what kind of string it is, and the CLDR keys it is made
    of."""

    language: str
    kind: str
    text: str
    keys: tuple[str, ...]


def write_languages(folder: Path) -> None:
    """Write a table of strings and English names of their languages for each split; in each the
    languages take turns."""
    names = english_names(LANGUAGES)
    for split, phrases in language_phrases().items():
        of_language = [
            [phrase for phrase in phrases if phrase.language == code] for code in LANGUAGES
        ]
        turns = filter(None, chain.from_iterable(zip_longest(*of_language)))
        rows = ((phrase.text, names[phrase.language]) for phrase in turns)
        write_table(folder / f"{split}.tsv", "text label", rows)


def language_phrases() -> dict[SplitName, list[Phrase]]:
    """The strings of each split, by language; ConfigError: Babel is missing."""
    made = [phrase for code in LANGUAGES for phrase in _phrases(code)]
    found: dict[str, set[tuple[str, SplitName]]] = defaultdict(set)
    for phrase in made:
        found[phrase.text.casefold()].add((phrase.language, split_of(phrase.keys[0])))
    kinds: dict[tuple[SplitName, str], dict[str, list[Phrase]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for phrase in made:
        places = found.pop(
            phrase.text.casefold(), set()
        )  # the same text in the same place comes once
        for language, split in places if len(places) == 1 else ():
            kinds[split, language][phrase.kind].append(phrase)
    chosen: dict[SplitName, list[Phrase]] = {name: [] for name in NAMES}
    for (split, _), of_kind in kinds.items():
        chosen[split] += list(filter(None, chain.from_iterable(zip_longest(*of_kind.values()))))[
            : COUNTS[split]
        ]
    return chosen


@cache
def split_of(key: str) -> SplitName:
    """The split of everything that is made of a CLDR key."""
    return split_by_hash(_SALT + key, _HELD_OUT)


def _phrases(code: str) -> Iterator[Phrase]:
    """What can be said in a language with keys of one split; some texts come twice."""
    locale = parsed_locale(code)
    single = list(chain(_names(locale), _amounts(locale), _zones(locale), _distances(locale)))
    single.sort(key=lambda item: hashed(code + item[2]))
    for split in NAMES:
        ours = [item for item in single if split_of(item[1]) == split]
        named = ((kind, text, (key,)) for kind, key, text in ours)
        dates = sorted(_dates(locale, split), key=lambda item: hashed(item[1]))
        for kind, text, keys in chain(named, dates, _lists(locale, split, ours)):
            text = text.translate(PLAIN).strip()
            if any(letter.isalpha() for letter in text) and not _MISSING.search(text):
                yield Phrase(code, kind, text, keys)


def _names(locale: "Locale") -> Iterator[tuple[str, str, str]]:
    """Kind, key and text of what has a name."""
    tables = {
        "territory": locale.territories,
        "language": locale.languages,
        "script": locale.scripts,
        "currency": locale.currencies,
    }
    for kind, table in tables.items():
        yield from ((kind, f"{kind}:{key}", str(text)) for key, text in table.items() if text)


def _amounts(locale: "Locale") -> Iterator[tuple[str, str, str]]:
    """Amounts of money and of units."""
    from babel.numbers import format_currency
    from babel.units import format_unit

    for key in map(str, locale.currencies):
        n = _AMOUNTS[hashed(locale.language + key) % len(_AMOUNTS)]
        text = format_currency(n, key, locale=locale, format_type="name", currency_digits=False)
        yield "money", f"currency:{key}", text
    for key in map(str, locale.unit_display_names):
        n = _AMOUNTS[hashed(locale.language + key) % len(_AMOUNTS)]
        text = format_unit(n, key, locale=locale)
        if key not in text:  # a unit without a name is written as its key
            yield "amount", f"unit:{key}", text


def _zones(locale: "Locale") -> Iterator[tuple[str, str, str]]:
    for key, zone in locale.meta_zones.items():
        yield from (("zone", f"zone:{key}", str(text)) for text in zone.get("long", {}).values())


def _distances(locale: "Locale") -> Iterator[tuple[str, str, str]]:
    """Distances in time, such as "in 3 days"."""
    from babel.dates import format_timedelta

    for unit, hours in _HOURS.items():
        for n in _AMOUNTS[::2]:
            for direction, sign in (("future", 1), ("past", -1)):
                delta = timedelta(hours=sign * n * hours)
                text = format_timedelta(
                    delta,
                    unit,  # pyright: ignore
                    threshold=1e9,
                    add_direction=True,
                    locale=locale,
                )
                yield "distance", f"distance:{unit}:{direction}", text


def _dates(locale: "Locale", split: SplitName) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Dates whose pattern, month and weekday all belong to a split."""
    from babel.dates import format_date, format_skeleton

    for pattern, names in _DATES.items():
        width = pattern in locale.date_formats
        if split_of(f"date:{pattern}") != split or not (
            width or pattern in locale.datetime_skeletons
        ):
            continue
        day = datetime(2000, 1, 1) + timedelta(days=hashed(locale.language + pattern) % 365)
        for _ in range(100):
            day += timedelta(days=97, minutes=611)
            values = {
                "M": f"month:{day.month}",
                "E": f"weekday:{day.weekday()}",
                "Q": f"quarter:{(day.month + 2) // 3}",
            }
            keys = (f"date:{pattern}", *(values[name] for name in names))
            if all(split_of(key) == split for key in keys):
                text = (
                    format_date(day, pattern, locale)
                    if width
                    else format_skeleton(pattern, day, locale=locale)
                )
                yield "date", text, keys


def _lists(
    locale: "Locale", split: SplitName, single: list[tuple[str, str, str]]
) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Lists of two or three names of a kind, and languages with their countries."""
    from babel.lists import format_list

    by_kind: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for kind, key, text in single:
        by_kind[kind].append((key, text))
    for style in _LISTS:
        pattern = locale.list_patterns.get(style, {})
        if split_of(f"list:{style}") != split or not {"2", "start", "end"} <= set(pattern):
            continue
        for kind in ("territory", "language", "currency", "money", "amount"):
            items = by_kind[kind]
            for at in range(0, min(len(items) - 2, 180), 3):
                some = items[at : at + 2 + hashed(items[at][1]) % 2]
                text = format_list([text for _, text in some], style=style, locale=locale)
                yield f"{kind} list", text, (f"list:{style}", *(key for key, _ in some))
    for language, territory in zip(by_kind["language"], by_kind["territory"], strict=False):
        yield "variety", f"{language[1]} ({territory[1]})", (language[0], territory[0])
