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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from itertools import chain, product, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.data.config import NAMES, SplitName
from glassformer.demos.cldr import PLAIN, english_names, parsed_locale
from glassformer.demos.hashing import hashed, split_by_hash
from glassformer.demos.tables import constants
from glassformer.demos.writers import write_table

if TYPE_CHECKING:
    from babel import Locale

_TABLES = constants("languages")
LANGUAGES = tuple(sorted(_TABLES["dates_and_strings"] + _TABLES["other_strings"]))
"""Codes of the languages: those with the most names in CLDR, and close pairs such as Czech and
Slovak."""
COUNTS: dict[SplitName, int] = {"train": 2000, "validation": 50, "test": 100}
"""Strings of each language and split, at most; the kinds of strings take turns."""

_HELD_OUT: dict[SplitName, int] = {"validation": 9, "test": 14}  # percent of the keys
_SALT = "73565"  # with it, every split has months, weekdays, and patterns of dates and lists
_MISSING = re.compile(r"M\d\d|\bQ[1-4]\b")  # CLDR's signs for a missing name

Item = tuple[str, tuple[str, ...], str]
"""Kind, CLDR keys and text of a string."""


@dataclass(frozen=True)
class Phrase:
    """A string of a language (a code), its kind, and the CLDR keys it is made of."""

    language: str
    kind: str
    text: str
    keys: tuple[str, ...]


def write_languages(folder: Path) -> None:
    """Write a table of strings and English names of their languages for each split; in each the
    languages take turns."""
    names = english_names(LANGUAGES)
    for split, phrases in language_phrases().items():
        of_language: dict[str, list[Phrase]] = {code: [] for code in LANGUAGES}
        for phrase in phrases:
            of_language[phrase.language].append(phrase)
        rows = ((phrase.text, names[phrase.language]) for phrase in _turns(of_language))
        write_table(folder / f"{split}.tsv", "text label", rows)


def language_phrases() -> dict[SplitName, list[Phrase]]:
    """The strings of each split, by language; ConfigError: Babel is missing."""
    phrases = [phrase for code in LANGUAGES for phrase in _phrases(code)]
    found: dict[str, set[tuple[str, SplitName]]] = defaultdict(set)
    for phrase in phrases:
        found[phrase.text.casefold()].add((phrase.language, split_of(phrase.keys[0])))
    kinds: dict[tuple[str, SplitName], dict[str, list[Phrase]]]
    kinds = defaultdict(lambda: defaultdict(list))
    for phrase in phrases:
        places = found.pop(phrase.text.casefold(), ())  # a text that comes again is left out
        for place in places if len(places) == 1 else ():
            kinds[place][phrase.kind].append(phrase)
    chosen: dict[SplitName, list[Phrase]] = {name: [] for name in NAMES}
    for (_, split), of_kind in kinds.items():
        chosen[split] += _turns(of_kind)[: COUNTS[split]]
    return chosen


@cache
def split_of(key: str) -> SplitName:
    """The split of everything that is made of a CLDR key."""
    return split_by_hash(_SALT + key, _HELD_OUT)


def _turns(groups: dict[str, list[Phrase]]) -> list[Phrase]:
    """The first phrase of each group, then the second of each, and so on."""
    return list(filter(None, chain(*zip_longest(*groups.values()))))


def _phrases(code: str) -> Iterator[Phrase]:
    """The strings of a language with keys of one split each; some texts come twice."""
    locale = parsed_locale(code)
    single = [*_names(locale), *_amounts(locale), *_distances(locale)]
    single.sort(key=lambda item: hashed(code + item[2]))
    for split in NAMES:
        ours = [item for item in single if split_of(item[1][0]) == split]
        dates = sorted(_dates(locale, split), key=lambda item: hashed(item[2]))
        for kind, keys, text in chain(ours, dates, _lists(locale, split, ours)):
            text = text.translate(PLAIN).strip()
            if any(letter.isalpha() for letter in text) and not _MISSING.search(text):
                yield Phrase(code, kind, text, keys)


def _names(locale: "Locale") -> Iterator[Item]:
    """Names of countries, languages, scripts, currencies and time zones."""
    tables = (locale.territories, locale.languages, locale.scripts, locale.currencies)
    for kind, table in zip(_TABLES["names"], tables, strict=True):
        yield from ((kind, (f"{kind}:{key}",), str(text)) for key, text in table.items() if text)
    for key, zone in locale.meta_zones.items():
        yield from (("zone", (f"zone:{key}",), str(name)) for name in zone.get("long", {}).values())


def _amounts(locale: "Locale") -> Iterator[Item]:
    """Amounts of money and of units."""
    from babel.numbers import format_currency
    from babel.units import format_unit

    def amount(key: str) -> int:
        amounts: list[int] = _TABLES["amounts"]
        return amounts[hashed(locale.language + key) % len(amounts)]

    for key in map(str, locale.currencies):
        text = format_currency(
            amount(key), key, locale=locale, format_type="name", currency_digits=False
        )
        yield "money", (f"currency:{key}",), text
    for key in map(str, locale.unit_display_names):
        text = format_unit(amount(key), key, locale=locale)
        if key not in text:  # a unit without a name is written as its key
            yield "amount", (f"unit:{key}",), text


def _distances(locale: "Locale") -> Iterator[Item]:
    """Distances in time, such as "in 3 days"."""
    from babel.dates import format_timedelta

    signs = {"future": 1, "past": -1}
    units: dict[Any, int] = _TABLES["seconds"]
    for unit, n, direction in product(units, _TABLES["amounts"][::2], signs):
        delta = timedelta(seconds=signs[direction] * n * units[unit])
        text = format_timedelta(delta, unit, threshold=1e9, add_direction=True, locale=locale)
        yield "distance", (f"distance:{unit}:{direction}",), text


def _dates(locale: "Locale", split: SplitName) -> Iterator[Item]:
    """Dates whose pattern and names of month, weekday and quarter all belong to a split."""
    from babel.dates import format_date, format_skeleton

    for pattern in _TABLES["date_patterns"]:
        width = pattern in locale.date_formats
        known = width or pattern in locale.datetime_skeletons
        if split_of(f"date:{pattern}") != split or not known:
            continue
        named = {"full": "ME", "long": "M"}.get(pattern) or pattern
        day = datetime(2000, 1, 1) + timedelta(days=hashed(locale.language + pattern) % 365)
        for _ in range(100):
            day += timedelta(days=97, minutes=611)
            values = {"E": f"weekday:{day.weekday()}", "M": f"month:{day.month}"}
            values["Q"] = f"quarter:{(day.month + 2) // 3}"
            keys = (f"date:{pattern}", *(key for name, key in values.items() if name in named))
            if all(split_of(key) == split for key in keys):
                text = (
                    format_date(day, pattern, locale)
                    if width
                    else format_skeleton(pattern, day, locale=locale)
                )
                yield "date", keys, text


def _lists(locale: "Locale", split: SplitName, single: Iterable[Item]) -> Iterator[Item]:
    """Lists of two or three names of a kind, and languages with their countries."""
    from babel.lists import format_list

    by_kind: dict[str, list[Item]] = defaultdict(list)
    for item in single:
        by_kind[item[0]].append(item)
    for style in ("standard", "or"):
        pattern = locale.list_patterns.get(style, {})
        if split_of(f"list:{style}") != split or not {"2", "start", "end"} <= set(pattern):
            continue
        for kind in _TABLES["lists_of"]:
            items = by_kind[kind]
            for at in range(0, min(len(items) - 2, 180), 3):
                n = 2 + hashed(items[at][2]) % 2
                _, keys, texts = zip(*items[at : at + n], strict=True)
                text = format_list(texts, style=style, locale=locale)
                yield f"{kind} list", (f"list:{style}", *chain(*keys)), text
    for language, territory in zip(by_kind["language"], by_kind["territory"], strict=False):
        yield "variety", language[1] + territory[1], f"{language[2]} ({territory[2]})"
