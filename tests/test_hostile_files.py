"""Files of a run that are made by a stranger, and say that nothing was changed: a sentence or an
answer, no other error, no code, no connection."""

import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import glassformer as gf
from glassformer.errors import GlassformerError
from small_drawings import recipe as drawing_recipe
from small_parts import parts_recipe
from small_runs import go, pair_recipe, recipe
from small_senses import picture_recipe, sound_recipe
from small_tasks import class_recipe, tag_recipe

MAKERS = {
    "text": recipe,
    "pairs": pair_recipe,
    "classes": class_recipe,
    "tags": tag_recipe,
    "pictures": picture_recipe,
    "sounds": sound_recipe,
    "parts": parts_recipe,
    "drawings": drawing_recipe,
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Path]:
    folder, made = tmp_path_factory.mktemp("hostile"), {}
    for name, maker in MAKERS.items():
        (folder / name).mkdir()
        go(maker(folder / name, train={"steps": 2, "save.every": 2}), folder / name / "run")
        made[name] = folder / name / "run"
    return made


VALUES = [
    *("null", "true", "[]", "{}", '""', "-1", "0", "1e999", "NaN", "1.5", '"x"', "[[[[]]]]"),
    *("9" * 30, '"' + "y" * 500 + '"', '{"a": {"a": {"a": 1}}}', "18446744073709551616"),
]


def mutated(raw: bytes, draw: random.Random) -> bytes:
    """Bytes flipped, cut, doubled or exchanged, or a value of JSON in the place of another."""
    changed = bytearray(raw)
    for _ in range(draw.randrange(1, 4)):
        at = draw.randrange(len(changed) or 1)
        match draw.choice(["flip", "cut", "double", "exchange", "value", "value", "value"]):
            case "flip" if changed:
                changed[at % len(changed)] ^= 1 << draw.randrange(8)
            case "cut":
                del changed[at : at + draw.randrange(1, 40)]
            case "double":
                changed[at:at] = changed[at : at + draw.randrange(1, 40)]
            case "exchange":
                other = draw.randrange(len(changed) or 1)
                changed[at : at + 5], changed[other : other + 5] = (
                    changed[other : other + 5],
                    changed[at : at + 5],
                )
            case _:
                begin = changed.find(b": ", at) + 2
                ends = [changed.find(mark, begin) for mark in (b",", b"\n", b"}")]
                if begin > 1 and (found := [end for end in ends if end > 0]):
                    changed[begin : min(found)] = draw.choice(VALUES).encode()
    return bytes(changed)


def outcome(run: Path) -> str:
    """What opening a run and looking at an example does; the text of an error of another kind."""
    begin = time.perf_counter()
    try:
        opened = gf.load(run, accept_changed=True)
        opened.look(opened.task.first_input())
    except GlassformerError:
        pass
    except BaseException as error:  # noqa: BLE001 - a panic of a library is none of ours either
        return f"{type(error).__name__}: {error}"
    took = time.perf_counter() - begin
    return "" if took < 5 else f"took {took:.1f} s"


def files_of(run: Path) -> list[Path]:
    """The files of a model, its weights by their header."""
    listed = json.loads((run / "manifest.json").read_text())["files"]
    return [run / name for name in sorted(listed)]


@pytest.mark.parametrize("name", MAKERS)
def test_mutated_files_are_told_or_harmless(runs, tmp_path, name):
    problems = attacked(runs[name], tmp_path, 12)
    assert problems == []


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKERS)
def test_hundreds_of_mutated_files(runs, tmp_path, name):
    assert attacked(runs[name], tmp_path, 400) == []


def attacked(run: Path, tmp_path: Path, cases: int) -> list[str]:
    """The outcomes of mutated copies of each file that are no sentence and no answer."""
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    problems = []
    for file in files_of(copy):
        raw = file.read_bytes()
        for case in range(cases):
            draw = random.Random(f"{file.name} {case}")
            header = file.suffix == ".safetensors"
            part = 8 + int.from_bytes(raw[:8], "little") if header else len(raw)
            file.write_bytes(mutated(raw[:part], draw) + raw[part:])
            if found := outcome(copy):
                problems.append(f"{file.name}, case {case}: {found}"[:300])
        file.write_bytes(raw)
    return problems


HOOKED = """
import sys
import glassformer as gf, tokenizers  # imported before the hook, as other programs are
from glassformer.errors import GlassformerError
gf.load(sys.argv[1]).look("the cat")
BAD = ("pickle.find_class", "os.system", "subprocess.Popen", "socket.connect", "os.exec",
       "os.posix_spawn", "ctypes.dlopen")
seen = []
def hook(event, arguments):
    if event in BAD:
        seen.append((event, str(arguments)[:200]))
sys.addaudithook(hook)
for folder in sys.argv[1:]:
    try:
        run = gf.load(folder, accept_changed=True)
        run.look("the cat")
    except GlassformerError:
        pass
print(seen)
"""


def test_nothing_is_run_or_connected_to_while_a_run_is_opened(runs, tmp_path):
    import pickle

    canary = tmp_path / "canary"

    class Evil:
        def __reduce__(self) -> tuple:
            return os.system, (f"touch {canary}",)

    folders = [runs["text"]]
    for number, name in enumerate(
        ("model.safetensors", "config.json", "tokenizer.json", "recipe.yaml")
    ):
        for kind in ("pickle", "yaml"):
            folder = Path(shutil.copytree(runs["text"], tmp_path / f"{number}{kind}"))
            yaml = f"!!python/object/apply:os.system ['touch {canary}']\n".encode()
            (folder / name).write_bytes(pickle.dumps(Evil()) if kind == "pickle" else yaml)
            folders.append(folder)
    done = subprocess.run(
        [sys.executable, "-c", HOOKED, *map(str, folders)], capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
    assert not canary.exists()


def test_who_reads_while_another_trains_sees_whole_models(tmp_path):
    """The model is replaced many times a second, and opened at the same time."""
    import threading

    made = recipe(tmp_path, train={"steps": 40, "evaluate.every": 1, "save.every": 1})
    run, problems, loads = tmp_path / "run", list[str](), 0
    thread = threading.Thread(target=go, args=(made, run))
    thread.start()
    while thread.is_alive():
        if (run / "model.safetensors").exists():
            try:
                gf.load(run)
                loads += 1
            except GlassformerError as error:
                problems.append(str(error))
    thread.join()
    assert problems == []
    assert loads > 5


@pytest.mark.parametrize(
    ("train", "removed"),
    [
        ({"save.every": 4}, "was removed or emptied during training; nothing can be saved"),
        ({"evaluate.every": 4}, r"Cannot write .*/run/report\.html: No such file"),
    ],
)
def test_a_run_folder_that_is_removed_while_training_is_one_sentence(
    tmp_path, monkeypatch, train, removed
):
    train = {"save.every": 100, "evaluate.every": 100} | train
    from glassformer.errors import CheckpointError
    from glassformer.training import loop

    real = loop._Training.advance

    def advance(self):
        if self.state.step == 3:
            shutil.rmtree(self.run)
        real(self)

    monkeypatch.setattr(loop._Training, "advance", advance)
    with pytest.raises(CheckpointError, match=removed):
        go(recipe(tmp_path, train=train), tmp_path / "run")
    assert not (tmp_path / "run").exists()
