"""The data of the demos are ordinary files, right, and of other things in every split."""

import json
import re
import sys
from collections import Counter, defaultdict
from datetime import date, timedelta
from itertools import combinations, product
from pathlib import Path
from random import Random

import numpy as np
import pytest

from glassformer.data.config import NAMES
from glassformer.data.records.labelled import read_labelled
from glassformer.data.records.pairs import pairs
from glassformer.data.records.parts import read_parts
from glassformer.data.records.pictures import decode, pictures
from glassformer.data.records.recordings import recordings
from glassformer.data.records.tagged import read_tagged
from glassformer.demos import __main__ as demos_main
from glassformer.demos import shapes
from glassformer.demos.audio import KEYS, MOVEMENTS, RATE, tone
from glassformer.demos.catalog import DATA, DEMOS, recipe_of
from glassformer.demos.classify import NEGATED, WORDS
from glassformer.demos.shapes import COLOURS, DESCRIBE, OUTLINES, PLACES, SIZES
from glassformer.demos.tag import SPANS
from glassformer.demos.translate import FORMS, LANGUAGES, PLAIN, dates
from glassformer.metrics.baselines import most_frequent
from glassformer.recipe import read_recipe
from glassformer.training.folder.given_data import write_data

READ = {
    "translate": (pairs, lambda row: row.source),
    "tag": (read_tagged, lambda row: row.words),
    "classify": (read_labelled, lambda row: row.text),
    "vision": (pictures, lambda row: row.pixels().tobytes()),
    "audio": (recordings, lambda row: row.samples()[0].tobytes()),
    "vqa": (read_parts, lambda row: Path(row.parts[0][1]).read_bytes()),
}


def rows(name: str, folder: Path) -> list:
    """Rows of a data set, written and read as its recipe says."""
    DATA[name](folder)
    recipe = read_recipe(recipe_of(name), [f"data.root={json.dumps(str(folder))}"])
    read = READ[name][0] if name in READ else read_parts
    return list(read(recipe.data))


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("name", READ)
def test_no_input_of_the_test_is_in_training_and_writing_is_repeatable(name, tmp_path):
    found = rows(name, tmp_path)
    inputs = {split: {READ[name][1](row) for row in found if row.split == split} for split in NAMES}
    assert all(inputs.values())
    assert all(not first & second for first, second in combinations(inputs.values(), 2))
    (tmp_path / "again").mkdir()
    DATA[name](tmp_path / "again")
    for file in (tmp_path / "again").rglob("*.*"):
        assert file.read_bytes() == (tmp_path / file.relative_to(tmp_path / "again")).read_bytes()


def test_no_text_stands_for_two_days():
    """Every month, weekday and day, in every language and form."""
    format_date = pytest.importorskip("babel.dates").format_date
    days = [date(2004, 1, 1) + timedelta(n) for n in range(366)]
    found = defaultdict[str, set[date]](set)
    for code, form, day in product(LANGUAGES.split(), FORMS, days):
        text = format_date(day, form, code).translate(PLAIN)
        assert not re.search(r"M\d\d", text)  # the sign of a name that CLDR lacks
        found[text].add(day)
    assert all(len(days) == 1 for days in found.values())


def test_days_belong_to_one_split_and_all_languages_come():
    pytest.importorskip("babel")
    found = {split: [*dates(split, 2000)] for split in NAMES}
    assert {len({language for *_, language in of}) for of in found.values()} == {71}
    days = [{day for _, day, _ in of} for of in found.values()]
    assert all(not first & second for first, second in combinations(days, 2))
    assert all(text.count(day[:4]) == 1 for text, day, _ in found["train"])


@pytest.mark.usefixtures("few")
def test_names_are_new_and_tags_mark_spans(tmp_path):
    names = defaultdict[str, set[str]](set)
    for row in rows("tag", tmp_path):
        before = "O"
        for word, tag in zip(row.words, row.tags, strict=True):
            assert tag == "O" or tag[2:] in SPANS
            assert tag[0] != "I" or before[2:] == tag[2:]
            if tag[2:] in ("PER", "LOC", "ORG") and word not in ("Port", "New", "and"):
                names[row.split].add(word)
            before = tag
    assert not names["train"] & names["test"]


@pytest.mark.usefixtures("few")
def test_opinions_are_those_of_an_independent_reading(tmp_path):
    negations = [form.partition(" {}")[0] for form in NEGATED]
    for row in rows("classify", tmp_path):
        text = row.text.removesuffix(" .")
        if text.startswith("although"):
            last = text.partition(" , ")[2]
        elif " , although" in text:
            last = text.partition(" , although")[0]
        else:
            last = re.split(" , but | ; still , ", text)[-1]
        praise = last.split()[-1] in WORDS["praise"].split()
        negated = any(negation in last for negation in negations)
        assert row.labels == ("praise" if praise != negated else "criticism",)


def test_tones_move_as_their_name_says():
    """Measured on the spectrum, whose loudest line is the pitch, not an overtone."""
    random = np.random.default_rng(0)

    def pitches(name: str) -> np.ndarray:
        frames = tone(random, name, 69).reshape(8, -1)[2:6] * np.hanning(1000)
        return np.fft.rfftfreq(8000, 1 / RATE)[np.abs(np.fft.rfft(frames, 8000)).argmax(1)]

    for _ in range(20):
        steady, rising, falling = map(pitches, ("steady", "rising", "falling"))
        assert steady == pytest.approx(440, abs=2)
        assert np.all(np.diff(rising) > 10)
        assert np.all(np.diff(falling) < -10)
    assert all(
        np.abs(tone(random, name, key)).max() <= 1 for name in MOVEMENTS for key in KEYS[::9]
    )


def read_caption(text: str) -> list[tuple[int, str, str, str]]:
    found = []
    for part in text.split(", "):
        size, colour, shape, place = re.fullmatch(r"a (\w+) (\w+) (\w+) (.+)", part).groups()
        found.append((PLACES.index(place), size, colour, shape))
    return found


@pytest.fixture(scope="module")
def scenes():
    random = Random(0)
    return {split: [shapes.scene(random, split, 3) for _ in range(400)] for split in NAMES}


def test_captions_say_what_is_there(scenes):
    for things in scenes["test"]:
        assert read_caption(shapes.caption(things)) == things
        image = np.asarray(shapes.draw(Random(1), things, 3)).astype(int)
        seen = {}
        for place in range(9):
            row, column = divmod(place, 3)
            centre = image[16 * row + 5 : 16 * row + 11, 16 * column + 5 : 16 * column + 11]
            far = {name: np.abs(centre - rgb).sum(2).min() for name, rgb in COLOURS.items()}
            nearest = min(far, key=far.__getitem__)
            if far[nearest] < 20:
                seen[place] = nearest
        assert seen == {place: colour for place, _, colour, _ in things}


def test_a_large_thing_covers_more_than_a_small_one():
    covered = {}
    for size, shape in product(SIZES, OUTLINES):
        image = np.asarray(shapes.draw(Random(0), [(0, size, "blue", shape)])).astype(int)
        covered[size, shape] = int((np.abs(image - 232).sum(2) > 60).sum())
    assert all(covered["large", shape] > 2 * covered["small", shape] for shape in OUTLINES)


def test_every_test_scene_has_a_thing_that_training_lacks(scenes):
    kinds = {split: [{thing[1:] for thing in of} for of in all_] for split, all_ in scenes.items()}
    trained = set().union(*kinds["train"])
    assert all(of - trained for of in kinds["test"])
    for at in range(3):
        words = [{kind[at] for of in own for kind in of} for own in kinds.values()]
        assert words[0] == words[1] == words[2]


def test_answers_are_right_and_not_known_without_looking(scenes):
    random, asked = Random(0), defaultdict[str, list](list)
    for things in scenes["train"] * 4:
        by_colour = {thing[2]: thing for thing in things}
        shapes_there = [thing[3] for thing in things]
        for kind, text, answer in shapes.questions(random, things):
            asked[kind].append((text, answer))
            named = [by_colour[word] for word in re.findall(r"\w+", text) if word in by_colour]
            match kind:
                case "shape" | "size":
                    assert answer == named[0][3 if kind == "shape" else 1]
                case "place":
                    assert answer == PLACES[named[0][0]]
                case "colour":
                    assert by_colour[answer][3] in text
                case "relation":
                    first, second = (thing[0] // 3 for thing in named)
                    assert (answer == "yes") == (first < second)
                    assert first != second
                case "number":
                    shape = re.findall("|".join(OUTLINES), text)[0]
                    assert answer == str(shapes_there.count(shape))
                case "existence":
                    colour, shape = text.removesuffix("?").split()[-2:]
                    assert (answer == "yes") == (by_colour.get(colour, [""])[-1] == shape)
    for kind, own in asked.items():
        prompts, gold = zip(*own[1000:], strict=True) if len(own) > 1200 else zip(*own, strict=True)
        guesses = most_frequent(Counter(own[:1000]), prompts)
        right = np.mean([guess == answer for guess, answer in zip(guesses, gold, strict=True)])
        assert right < 0.7, kind


@pytest.mark.usefixtures("few")
def test_small_images_are_drawn_and_judged_from_the_same_words(tmp_path):
    drawn = rows("shapes-drawn", tmp_path)
    assert Counter(row.split for row in drawn) == shapes.DRAWN_COUNTS
    assert decode(Path(drawn[0].image).read_bytes(), "x").shape == (16, 16, 3)
    words = {row.parts[0][1] for row in drawn if row.split == "test"}
    assert not words & {row.parts[0][1] for row in drawn if row.split == "train"}
    (tmp_path / "judged").mkdir()
    DATA["shapes-judge"](tmp_path / "judged")
    classes = (tmp_path / "judged" / "test.tsv").read_text().split()
    assert {*SIZES, *COLOURS, *OUTLINES} <= {*classes}
    assert {DESCRIBE} == {"describe"}


def test_a_data_set_is_whole_or_absent_and_written_once(tmp_path):
    def fail(folder):
        (folder / "half").write_text("")
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        write_data(fail, tmp_path / "data")
    assert not (tmp_path / "data").exists()
    write_data(lambda folder: (folder / "whole").touch(), tmp_path / "data")
    assert [file.name for file in (tmp_path / "data").iterdir()] == ["whole"]
    write_data(fail, tmp_path / "data")
    assert [file.name for file in tmp_path.iterdir()] == ["data"]


def test_every_demo_has_a_recipe_without_a_place_on_this_machine():
    for demo in DEMOS.values():
        for training in demo.trainings:
            recipe = read_recipe(recipe_of(training))
            assert recipe.data.root is None
            assert not str(recipe.data.train.path).startswith("/")


def test_the_command_writes_a_data_set_and_refuses_a_folder_that_exists(
    tmp_path, monkeypatch, capsys
):
    command = ["glassformer.demos", "classify", str(tmp_path / "new")]
    monkeypatch.setattr(sys, "argv", command)
    demos_main.main()
    assert all(
        next((tmp_path / "new").glob(f"{split}.*")).stat().st_size > 10_000 for split in NAMES
    )
    with pytest.raises(SystemExit) as ended:
        demos_main.main()
    assert ended.value.code == 2
    assert "already exists" in capsys.readouterr().err


def test_without_babel_one_sentence_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "babel", None)
    with pytest.raises(Exception, match=r"pip install 'glassformer\[demo\]'"):
        DATA["translate"](tmp_path)
