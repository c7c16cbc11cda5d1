"""Dates in many languages: the same every time, no text stands for two days, held-out days were
never seen."""

import re
import resource
import subprocess
import sys
import unicodedata
from collections import Counter
from datetime import date, timedelta

import pytest

from glassformer.data.pairs import pairs as read_pairs
from glassformer.demos import cldr
from glassformer.demos import dates as module
from glassformer.demos.dates import LANGUAGES, Form, date_forms, dates, write_dates
from glassformer.errors import ConfigError
from small_runs import data_config

pytest.importorskip("babel")

# Written by hand, as the languages' speakers write them.
KNOWN = """
af | Vrydag 15 Augustus 2008 | 2008-08-15
am | 4 ማርች 2007 | 2007-03-04
ar | الأحد، 4 مارس 2007 | 2007-03-04
az | 9 may 1945 | 1945-05-09
be | 25 сакавіка 1918 г. | 1918-03-25
bg | 3 март 1978 г. | 1978-03-03
bn | ২৬ মার্চ, ১৯৭১ | 1971-03-26
bn | 26 মার্চ, 1971 | 1971-03-26
ca | 11 de setembre del 2014 | 2014-09-11
cs | 17. listopadu 1989 | 1989-11-17
cs | pátek 17. listopadu 1989 | 1989-11-17
cy | 1 Mawrth 2020 | 2020-03-01
da | 5. juni 1953 | 1953-06-05
da | søndag den 4. marts 2007 | 2007-03-04
de | Donnerstag, 9. November 1989 | 1989-11-09
de | 9. November 1989 | 1989-11-09
de | donnerstag, 9. november 1989 | 1989-11-09
de | DONNERSTAG, 9. NOVEMBER 1989 | 1989-11-09
de | Donnerstag 9. November 1989 | 1989-11-09
de | 09.11.1989 | 1989-11-09
el | 28 Οκτωβρίου 1940 | 1940-10-28
en | July 20, 1969 | 1969-07-20
en | Sunday, July 20, 1969 | 1969-07-20
en | sunday july 20 1969 | 1969-07-20
en | Jul 20, 1969 | 1969-07-20
es | 12 de octubre de 1992 | 1992-10-12
es | lunes, 12 de octubre de 1992 | 1992-10-12
et | 24. veebruar 1918 | 1918-02-24
eu | 2024(e)ko ekainaren 1(a) | 2024-06-01
fa | ۱۲ ژوئن ۲۰۰۹ | 2009-06-12
fi | 6. joulukuuta 1917 | 1917-12-06
fi | 6.12.1917 | 1917-12-06
fil | Hunyo 12, 1998 | 1998-06-12
fr | 14 juillet 1989 | 1989-07-14
fr | vendredi 14 juillet 1989 | 1989-07-14
ga | 17 Márta 2010 | 2010-03-17
gl | 25 de xullo de 1999 | 1999-07-25
gu | 15 ઑગસ્ટ, 1947 | 1947-08-15
he | 14 במאי 1948 | 1948-05-14
hi | 15 अगस्त 1947 | 1947-08-15
hr | 8. listopada 1991. | 1991-10-08
hu | 1956. október 23. | 1956-10-23
hu | 1956. október 23., kedd | 1956-10-23
hy | 21 սեպտեմբերի, 1991 թ. | 1991-09-21
id | 17 Agustus 1945 | 1945-08-17
is | 17. júní 1944 | 1944-06-17
it | 2 giugno 1946 | 1946-06-02
it | domenica 2 giugno 1946 | 1946-06-02
ja | 2011年3月11日 | 2011-03-11
ja | 2011年3月11日金曜日 | 2011-03-11
ka | 26 მაისი, 1918 | 1918-05-26
kk | 1991 ж. 16 желтоқсан | 1991-12-16
km | 9 វិច្ឆិកា 1953 | 1953-11-09
kn | ನವೆಂಬರ್ 1, 1956 | 1956-11-01
ko | 1945년 8월 15일 | 1945-08-15
ko | 1945년 8월 15일 수요일 | 1945-08-15
lo | 2 ທັນວາ 1975 | 1975-12-02
lt | 1990 m. kovo 11 d. | 1990-03-11
lv | 1918. gada 18. novembris | 1918-11-18
mk | 8 септември 1991 г. | 1991-09-08
ml | 1956, നവംബർ 1 | 1956-11-01
mn | 1990.07.29 | 1990-07-29
mr | १ मे, १९६० | 1960-05-01
my | ၁၉၄၈ ဇန်နဝါရီ ၄ | 1948-01-04
nb | 17. mai 1905 | 1905-05-17
ne | २०१५ सेप्टेम्बर २० | 2015-09-20
nl | 5 mei 1945 | 1945-05-05
nl | 05-05-1945 | 1945-05-05
or | ଅଗଷ୍ଟ 15, 1947 | 1947-08-15
pa | 13 ਅਪ੍ਰੈਲ 1919 | 1919-04-13
pl | 11 listopada 1918 | 1918-11-11
pl | poniedziałek, 11 listopada 1918 | 1918-11-11
pt | 25 de abril de 1974 | 1974-04-25
pt | quinta-feira, 25 de abril de 1974 | 1974-04-25
ro | 1 decembrie 1918 | 1918-12-01
ru | 12 апреля 1961 г. | 1961-04-12
ru | среда, 12 апреля 1961 г. | 1961-04-12
ru | 12.04.1961 | 1961-04-12
si | 1948 පෙබරවාරි 4 | 1948-02-04
sk | 29. augusta 1944 | 1944-08-29
sl | 25. junij 1991 | 1991-06-25
sq | 28 nëntor 1912 | 1912-11-28
sr | 5. октобар 2000. | 2000-10-05
sv | 6 juni 1974 | 1974-06-06
sv | 1974-06-06 | 1974-06-06
sw | 9 Desemba 1961 | 1961-12-09
ta | 14 ஜனவரி, 1969 | 1969-01-14
te | 2 జూన్, 2014 | 2014-06-02
th | 5 ธันวาคม 1950 | 1950-12-05
tr | 29 Ekim 1923 | 1923-10-29
uk | 24 серпня 1991 р. | 1991-08-24
ur | 14 اگست، 1947 | 1947-08-14
vi | 2 tháng 9, 1945 | 1945-09-02
zh | 1949年10月1日 | 1949-10-01
zh | 1949年10月1日星期六 | 1949-10-01
zu | Ephreli 27, 1994 | 1994-04-27
"""

MONTHS = {
    "de": "jan feb mär apr mai jun jul aug sep okt nov dez",
    "fr": "janv févr mars avr mai juin juil août sept oct nov déc",
    "nl": "jan feb m(?:aa)?rt apr mei jun jul aug sep okt nov dec",
    "pl": "sty lut mar kwi maj cze lip sie wrz paź lis gru",
    "ru": "янв фев мар апр мая июн июл авг сен окт ноя дек",
    "sv": "jan feb mars apr maj juni juli aug sep okt nov dec",
    "en": "jan feb mar apr may jun jul aug sep oct nov dec",
    "ja": " ".join(f"\\b{month}月" for month in range(1, 13)),
}


@pytest.fixture(scope="module")
def pairs():
    return list(dates("train", 15_000))


def test_date_n_does_not_depend_on_how_many_there_are(pairs):
    assert list(dates("train", 500)) == pairs[:500]
    assert list(dates("test", 500)) != pairs[:500]
    assert list(dates("validation", 0)) == []


@pytest.mark.slow
def test_many_are_made_in_a_few_seconds():
    # in a process of its own, where no call is checked
    script = (
        "from glassformer.demos.dates import dates; assert len(list(dates('train', 200_000))) > 1e5"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run([sys.executable, "-c", script], check=True)
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 15


def test_files_hold_pairs_with_the_english_names_of_languages(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "COUNTS", {"train": 300, "validation": 20, "test": 30})
    write_dates(tmp_path)
    paths = {"train.path": "train", "validation.path": "validation", "test.path": "test"}
    config = data_config(
        {name: f"{tmp_path}/{split}.tsv" for name, split in paths.items()}
        | {"group_field": "language"}
    )
    found = [(row.split, row.source, row.target, row.group) for row in read_pairs(config)]
    names = cldr.english_names(LANGUAGES)
    assert (names["de"], names["ko"], names["fil"]) == ("German", "Korean", "Filipino")
    assert found == [
        (split, text, day, names[code])
        for split, n in module.COUNTS.items()
        for text, day, code in dates(split, n)
    ]


def test_languages_and_scripts(pairs):
    assert len(LANGUAGES) >= 40
    assert len(set(LANGUAGES)) == len(LANGUAGES)
    counts = Counter(code for _, _, code in pairs)
    assert set(counts) == set(LANGUAGES)
    assert min(counts.values()) > 150  # 15000 / 71 = 211, and four deviations less
    letters = {letter for text, _, _ in pairs for letter in text if letter.isalpha()}
    scripts = {unicodedata.name(letter).split()[0] for letter in letters}
    assert {
        "LATIN",
        "CYRILLIC",
        "GREEK",
        "ARABIC",
        "HEBREW",
        "DEVANAGARI",
        "BENGALI",
        "THAI",
        "CJK",
    } <= scripts
    assert {"HANGUL", "GEORGIAN", "ARMENIAN", "ETHIOPIC", "TAMIL", "KHMER"} <= scripts


def test_no_text_stands_for_two_days(pairs):
    meaning: dict[str, str] = {}
    forms = [form for of_language in date_forms().values() for form in of_language]
    days = [
        date(2007, month, day) for month in range(1, 13) for day in range(1, 13)
    ]  # where orders can be confused
    days += [date(1900, 1, 1) + timedelta(days=4999 * i) for i in range(73_049 // 4999 + 1)]
    written = ((form.write(day), day.isoformat()) for form in forms for day in days)
    for source, target in (*written, *(pair[:2] for pair in pairs)):
        assert meaning.setdefault(source, target) == target, source
    assert len(meaning) > 90_000


def test_what_is_ambiguous_is_found_not_listed():
    kept = {form.texts for forms in date_forms().values() for form in forms}
    day = date(2007, 3, 4)
    lost = {
        code: {f.write(day) for f in module._language_forms(code) if f.texts not in kept}
        for code in LANGUAGES
    }
    assert "3/4/2007" in lost["en"]
    assert "4/3/2007" in lost["hi"]
    assert "04/03/2007" in lost["fr"]
    assert not any(
        "4.3.2007" in texts for texts in lost.values()
    )  # nobody writes the month first with full stops


def test_contradicting_forms_are_both_left_out():
    def form(language, *texts):
        return Form(
            language, tuple(texts[month % len(texts)] for month in range(12) for _ in range(7))
        )

    d, m, y = "{0}", "{1}", "{2}"
    european, american, iso = (
        form("a", f"{d}/{m}/{y}"),
        form("b", f"{m}/{d}/{y}"),
        form("c", f"{y}-{m}-{d}"),
    )
    october, november = [*"ABCDEFGHI", "listopada", "J", "K"], [*"abcdefghi", "j", "listopada", "k"]
    croatian, polish = (form(code, *(f"{d} {name} {y}" for name in names)) for code, names in
                        (("d", october), ("e", november)))  # fmt: skip
    assert list(module._unambiguous([european, american, iso])) == [iso]
    assert list(module._unambiguous([european, iso])) == [european, iso]
    assert list(module._unambiguous([croatian, polish])) == []
    assert list(module._unambiguous([croatian])) == [croatian]
    assert list(module._unambiguous([form("f", f"{d} MON {y}")])) == []  # one name for all months
    assert list(module._unambiguous([form("g", f"{d}{y}")])) == []  # numbers that run together
    assert list(module._unambiguous([form("h", f"{d}.{m}.")])) == []  # no year


@pytest.mark.parametrize("line", KNOWN.strip().splitlines())
def test_known_dates_are_written_so(line):
    code, text, iso = line.split(" | ")
    assert text in {form.write(date.fromisoformat(iso)) for form in date_forms()[code]}


def test_every_language_has_a_known_date():
    assert {line.split(" | ")[0] for line in KNOWN.strip().splitlines()} == set(LANGUAGES)


def test_targets_are_the_days_that_an_independent_reading_finds(pairs):
    read = 0
    for text, target, code in pairs:
        assert re.fullmatch(r"(19|20)\d\d-\d\d-\d\d", target)
        day = date.fromisoformat(target)
        numbers = [int(number) for number in re.findall(r"\d+", text)]
        assert day.year in numbers
        assert day.day in numbers
        if code in MONTHS:
            names = MONTHS[code].split()
            found = {
                month
                for month, name in enumerate(names, 1)
                if re.search(rf"\b{name}", text.lower())
            }
            spelt = any(letter.isalpha() for letter in text) and "月" not in text
            if found and (spelt or code == "ja"):
                assert day.month in found, text
                read += len(found) == 1
    assert read > 800


def test_digits_and_marks(pairs):
    assert any("৪" in text for text, _, code in pairs if code == "bn")
    assert any("4" in text for text, _, code in pairs if code == "bn")
    for text, _, _ in pairs:
        assert text == text.strip()
        assert not {"\u200e", "\u200f", "\xa0", "\u202f"} & set(text)
        assert not re.search("[{}]|M\\d\\d", text)  # every slot was filled, every name is known


def test_case_changes_only_where_it_comes_back():
    forms = date_forms()
    day = date(2007, 3, 4)
    assert "DIMANCHE 4 MARS 2007" in {form.write(day) for form in forms["fr"]}
    assert not any(form.write(day).isupper() for form in forms["tr"])  # two kinds of i
    assert not any(
        "\u1c90" <= letter <= "\u1cbf" for form in forms["ka"] for letter in form.write(day)
    )
    assert all(any(not form.varied for form in of_language) for of_language in forms.values())


def test_every_language_keeps_some_forms():
    assert (
        min(len([form for form in forms if not form.varied]) for forms in date_forms().values())
        >= 3
    )


def test_held_out_days_occur_nowhere_else(pairs):
    parts = [pairs, list(dates("validation", 2_000)), list(dates("test", 1_000))]
    days, texts = ([{pair[i] for pair in part} for part in parts] for i in (1, 0))
    for found in (days, texts):
        assert not found[0] & found[1]
        assert not found[0] & found[2]
        assert not found[1] & found[2]
    assert len({day[:4] for day in days[1]}) > 180  # held-out days are spread over the centuries


def test_without_babel_one_sentence_says_what_to_install(monkeypatch, tmp_path):
    date_forms.cache_clear()
    cldr.parsed_locale.cache_clear()
    monkeypatch.setitem(sys.modules, "babel", None)
    with pytest.raises(ConfigError, match=r"pip install 'glassformer\[demo\]'"):
        write_dates(tmp_path)
