"""Strings in many languages: the same every time, no name was seen before, none has two answers."""

import resource
import subprocess
import sys
from collections import Counter, defaultdict
from datetime import date

import pytest

from glassformer.data.labelled import labelled
from glassformer.demos import cldr
from glassformer.demos import languages as module
from glassformer.demos.languages import (
    COUNTS,
    LANGUAGES,
    language_phrases,
    split_of,
    write_languages,
)
from glassformer.errors import ConfigError
from small_runs import data_config

pytest.importorskip("babel")

# Names and phrases as the languages' speakers write them, of the CLDR key that must be behind them.
KNOWN = """
da | Tyskland | territory:DE
de | Frankreich | territory:FR
fi | Saksa | territory:DE
hu | Németország | territory:DE
el | Ελλάδα | territory:GR
ru | через 3 года | distance:year:future
es | hace 3 días | distance:day:past
tr | 3 saat önce | distance:hour:past
ja | 日本 | territory:JP
cy | Yr Almaen | territory:DE
"""
# Close ones are in: they make it hard.
SOME = (
    "bg",
    "ca",
    "cs",
    "da",
    "en",
    "es",
    "gl",
    "hi",
    "id",
    "ja",
    "mr",
    "ms",
    "nb",
    "pt",
    "ru",
    "sk",
    "uk",
)


@pytest.fixture(scope="module", autouse=True)
def _some_languages():
    """Here every call is checked, so that all languages would take half a minute."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LANGUAGES", SOME)
        phrases = language_phrases()
        patch.setattr(module, "language_phrases", lambda: phrases)
        yield


@pytest.fixture(scope="module")
def rows():
    """Split, text, language and keys of every string."""
    names = cldr.english_names(SOME)
    return [
        (split, phrase.text, names[phrase.language], " ".join(phrase.keys))
        for split, phrases in module.language_phrases().items()
        for phrase in phrases
    ]


def read(folder):
    paths = {"train.path": "train", "validation.path": "validation", "test.path": "test"}
    named = {name: f"{folder}/{split}.tsv" for name, split in paths.items()}
    return [(row.split, row.text, row.labels[0]) for row in labelled(data_config(named))]


def assert_enough(counts, labels):
    assert {label for _, label in counts} == set(labels)
    for split, least in (("train", 300), ("validation", 30), ("test", 60)):
        of_split = [counts[split, label] for label in labels]
        assert least <= min(of_split) <= max(of_split) == COUNTS[split]


def test_every_language_has_enough_strings_in_every_split(rows):
    labels = list(cldr.english_names(SOME).values())
    assert len(labels) == len(set(labels)) == len(SOME)
    assert_enough(Counter((split, label) for split, _, label, _ in rows), labels)


def test_no_string_has_two_languages_or_two_splits(rows):
    places = defaultdict(set)
    for split, text, label, _ in rows:
        places[text.casefold()].add((split, label))
    assert len(places) == len(rows)  # and none comes twice
    assert all(len(found) == 1 for found in places.values())


def test_no_key_of_a_held_out_string_is_in_another_split(rows):
    splits = defaultdict(set)
    for split, _, _, keys in rows:
        for key in keys.split():
            splits[key].add(split)
    assert {split_of(key) for key in splits} == {"train", "validation", "test"}
    assert all(found == {split_of(key)} for key, found in splits.items())
    kinds = defaultdict(set)
    for key, found in splits.items():
        kinds[key.split(":")[0]] |= found
    for kind in (
        "territory",
        "language",
        "script",
        "currency",
        "zone",
        "unit",
        "distance",
        "date",
        "month",
        "weekday",
    ):
        assert kinds[kind] == {"train", "validation", "test"}, kind


def test_a_name_that_languages_share_is_left_out_even_if_only_one_of_them_shows_it():
    from babel import Locale

    owners = defaultdict(set)
    for code in SOME:
        for name in Locale.parse(code).territories.values():
            owners[name.casefold()].add(code)
    assert len(owners["peru"]) > 5
    shared = {name for name, codes in owners.items() if len(codes) > 1}
    assert not [
        p
        for phrases in module.language_phrases().values()
        for p in phrases
        if p.text.casefold() in shared
    ]


def test_strings_are_what_people_write(rows):
    texts = {(label, text): keys for _, text, label, keys in rows}
    for label, text in texts:
        assert text == text.strip()
        assert len(text) < 250
        assert not {"\u200e", "\u200f", "\xa0", "\u202f"} & set(text)
        assert any(letter.isalpha() for letter in text), (label, text)
    kinds = Counter(phrase.kind for phrase in module.language_phrases()["train"])
    assert len(kinds) == 15
    assert min(kinds.values()) > len(SOME) * 20  # kinds take turns until they run out
    for phrase in (phrase for phrases in module.language_phrases().values() for phrase in phrases):
        assert not any(
            key.startswith("unit:") and key.removeprefix("unit:") in phrase.text
            for key in phrase.keys
        )


def test_known_names_are_where_they_belong():
    """Of all that can be said, before some of it is chosen."""
    for line in KNOWN.strip().splitlines():
        code, text, key = line.split(" | ")
        assert (text, (key,)) in {(phrase.text, phrase.keys) for phrase in module._phrases(code)}, (
            line
        )


def test_phrases_of_several_names_are_whole(rows):
    english = {text: keys.split() for _, text, label, keys in rows if label == "English"}
    lists = {text: keys for text, keys in english.items() if keys[0].startswith("list:")}
    assert len(lists) > 100
    for text, keys in lists.items():
        assert (" and " if keys[0] == "list:standard" else " or ") in text
        assert len(keys) - 1 in (2, 3)
    months = [date(2001, month, 1).strftime("%b") for month in range(1, 13)]
    weekdays = [date(2001, 1, day).strftime("%a") for day in range(1, 8)]
    dates = {text: keys[1:] for text, keys in english.items() if keys[0].startswith("date:")}
    assert len(dates) > 30
    for text, keys in dates.items():
        for key in keys:
            kind, value = key.split(":")
            name = {
                "month": lambda v: months[v - 1],
                "weekday": lambda v: weekdays[v],
                "quarter": lambda v: f"{v}",
            }
            assert name[kind](int(value)) in text


def test_files_hold_the_strings_and_languages_take_turns(rows, tmp_path):
    write_languages(tmp_path)
    found = read(tmp_path)
    assert sorted(found) == sorted(row[:3] for row in rows)
    first = [label for split, _, label in found if split == "test"][: len(SOME)]
    assert first == list(cldr.english_names(SOME).values())


@pytest.mark.slow
def test_all_languages_are_made_in_a_few_seconds_and_always_the_same(tmp_path):
    # in processes of their own, where no call is checked
    command = [sys.executable, "-m", "glassformer.demos", "classify"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    for name in ("first", "second"):
        subprocess.run([*command, tmp_path / name], check=True)
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 30
    for split in COUNTS:
        one, other = (tmp_path / name / f"{split}.tsv" for name in ("first", "second"))
        assert one.read_bytes() == other.read_bytes()
    found = read(tmp_path / "first")
    counts = Counter((split, label) for split, _, label in found)
    labels = {label for _, label in counts}
    assert len(LANGUAGES) == len(set(LANGUAGES)) == len(labels) >= 60
    assert set(LANGUAGES) >= set(SOME)
    assert_enough(counts, labels)
    assert len({text.casefold() for _, text, _ in found}) == len(found)


def test_without_babel_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setattr(module, "parsed_locale", cldr.parsed_locale.__wrapped__)
    monkeypatch.setitem(sys.modules, "babel", None)
    with pytest.raises(ConfigError, match=r"pip install 'glassformer\[demo\]'"):
        language_phrases()
