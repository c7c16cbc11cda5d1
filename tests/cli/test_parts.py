"""Commands on sequences of parts: pictures and questions in, answers or classes out; each mistake
is one sentence."""

import json

import numpy as np
import pytest

from small_parts import parts_recipe as recipe
from small_parts import rows_file, sky
from small_runs import go
from small_senses import write_picture
from small_tasks import LEARNING

WHAT = "what is it?"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two runs, one that answers and one that tells classes, and a picture of the day."""
    folder = tmp_path_factory.mktemp("parts")
    train = LEARNING | {"steps": 40}
    go(recipe(folder, train=train), folder / "answers")
    classes = {"architecture": "encoder", "head": "classify", "pool": "mean"}
    go(recipe(folder, train=train, model=classes), folder / "classes")
    write_picture(folder / "day.png", sky("day", np.random.default_rng(7)))
    return folder


def test_generate_answers_to_a_picture_and_each_prompt(cli, folder):
    asked = ("--prompt", WHAT, "--prompt", "is there any light to be seen?")
    found = cli("generate", folder / "answers", "--image", folder / "day.png", *asked)
    assert (found.code, found.out) == (0, "day\nyes\n")
    piped = cli(
        "generate", folder / "answers", "--image", folder / "day.png", stdin=f"{WHAT}\n".encode()
    )
    assert piped.out == "day\n"
    values = cli(
        "generate", folder / "answers", "--image", folder / "day.png", "--prompt", WHAT, "--json"
    ).json
    assert values == {
        "prompt": WHAT,
        "image": str(folder / "day.png"),
        "text": "day",
        "finish": "end",
        "tokens": 2,
    }


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--image", "nothing.png", "--prompt", "a"), "nothing.png"),
        (("--audio", "a.wav", "--prompt", "a"), "a part was given as audio; known are image, text"),
        (("--image", "rows.jsonl", "--prompt", "a"), "is not an image"),
        (("--prompt", "a", "--stream"), "gives its answers as a whole; leave out --stream"),
        (("--prompt", "a " * 30), "and the context 16"),
    ],
)
def test_generate_says_in_a_sentence_what_is_wrong(cli, folder, monkeypatch, arguments, sentence):
    monkeypatch.chdir(folder)
    said = cli("generate", folder / "answers", *arguments)
    assert said.code in (1, 2)
    assert sentence in said.err
    assert said.err.count("\n") == 1


def test_classify_reads_rows_of_parts(cli, folder, monkeypatch):
    monkeypatch.chdir(folder)
    row = json.dumps([{"image": "day.png"}, {"text": WHAT}])
    lines = f'{row}\n\n[{{"image": "day.png"}}, "is there any light to be seen?"]\n'
    assert cli("classify", folder / "classes", stdin=lines.encode()).out == "day\n\nyes\n"
    values = cli("classify", folder / "classes", "--json", stdin=f"{row}\n".encode()).json
    assert values["label"] == "day"
    assert values["parts"] == [{"image": "day.png"}, {"text": WHAT}]
    for bad, sentence in (
        (b"{no\n", "Line 1 is not JSON"),
        (b'[{"smell": "x"}]\n', "is of type 'smell', which is none"),
    ):
        said = cli("classify", folder / "classes", stdin=bad)
        assert said.code == 1
        assert sentence in said.err
    assert "give lines: < day.png." in cli("classify", folder / "classes", "day.png").err


def test_evaluate_show_and_plan_know_rows_of_parts(cli, folder):
    assert "--beams is for what an encoder-decoder writes" in (
        cli("evaluate", folder / "answers", "--beams", 2).err
    )
    scores = cli("evaluate", folder / "answers", "--json").json
    assert scores["exact_match"] == 1.0
    other = rows_file(folder, 4, "others.jsonl", seed=3)
    assert cli("evaluate", folder / "answers", "--data", other, "--json").json["tokens"] == 16
    shown = cli("data", "show", folder / "answers", "--rows", 1).out
    assert "image 0" in shown
    assert "image 3" in shown
    plan = cli("plan", folder / "answers" / "recipe.yaml", "--json")
    assert plan.code == 0, plan.err
    assert any("embed.parts.image" in matrix["name"] for matrix in plan.json["matrices"])
