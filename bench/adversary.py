"""What an adversary's tries do, counted.

python bench/adversary.py [--cases 2200]

corruptions   run folders of every kind with a file flipped, cut, deleted, replaced or swapped: they
              are refused in a sentence, or every answer (to all that the run can be asked, and a
              look at a checkpoint) is the one of the whole folder
refusals      60 commands that are refused: the run folder is byte for byte what it was
foreign       40 commands among a user's files: none of those is changed, made, removed or moved
"""

import argparse
import contextlib
import ctypes
import hashlib
import io
import os
import random
import shlex
import shutil
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "tests"))  # whose runs are small

import glassformer as gf
from glassformer.cli.main import main as program
from glassformer.core.errors import GlassformerError
from properties.answers import answers, questions, same
from small_kinds import MAKERS, run_of

WORDS = ["the", "cat", "sat", "on", "a", "mat", "dog", "ran"]
SMALL = [
    *("task=text-generation", "model.d_model=16", "model.n_layers=1", "model.n_heads=2"),
    *("model.max_length=16", "processor.tokenizer.kind=character", "train.steps=4"),
    *("train.batch_size=4", "train.evaluate.every=2", "train.evaluate.batches=1"),
    *("train.save.every=2", "train.sample.tokens=0", "train.precision=float32"),
]


def run_program(*arguments: object) -> tuple[int, str, str]:
    """The program in this process: its exit code, stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    before = sys.argv, sys.stdin
    sys.argv = ["glassformer", *map(str, arguments)]
    sys.stdin = io.TextIOWrapper(io.BytesIO())
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            program()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        finally:
            sys.argv, sys.stdin = before
    return code, out.getvalue(), err.getvalue()


def tree(folder: Path) -> dict[str, str]:
    """SHA-256 of every file below a folder; where a link leads; an empty text for a folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"link to {os.readlink(path)}"
        else:
            whole = path.is_file()
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest() if whole else ""
    return found


def trained(place: Path) -> Path:
    """A small run in a folder."""
    draw = random.Random(0)
    (place / "text.txt").write_text(" ".join(draw.choices(WORDS, k=600)) + "\n")
    data = f"data.train.path={place / 'text.txt'}"
    code, _, err = run_program("train", *SMALL, data, "--run", place / "run")
    assert code == 0, err
    return place / "run"


def answers_of(folder: Path, asked: list[tuple[str, Any]]) -> Any:
    """The answers of a run and of its checkpoint; an exception of the project's own is told."""
    return answers(gf.load(folder), asked), answers(gf.load(folder, checkpoint=2), asked[:1])


def damage(folder: Path, draw: random.Random) -> str:
    """One change of one file; its name and kind."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "run.lock")
    file, other = draw.choice(files), draw.choice(files)
    kind = draw.choice(["flip", "byte", "cut", "grow", "delete", "empty", "swap", "copy"])
    raw = bytearray(file.read_bytes())
    match kind:
        case "flip" if raw:
            at = draw.randrange(len(raw))
            raw[at] ^= 1 << draw.randrange(8)
        case "byte" if raw:
            raw[draw.randrange(len(raw))] = draw.randrange(256)
        case "cut" if raw:
            del raw[draw.randrange(len(raw)) :]
        case "grow":
            raw += draw.randbytes(draw.randrange(1, 50))
        case "empty":
            raw.clear()
        case "swap":
            theirs = other.read_bytes()
            other.unlink()
            other.write_bytes(raw)
            raw = bytearray(theirs)
        case "copy":
            raw = bytearray(other.read_bytes())
    file.unlink()
    if kind != "delete":
        file.write_bytes(raw)
    return f"{kind} {file.relative_to(folder)}"


def aimed(folder: Path, draw: random.Random) -> str:
    """A digit of a text file, or a number among the weights or tokens, replaced by another."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "run.lock")
    file = draw.choice([path for path in files if path.suffix in TEXTS or path.stat().st_size > 64])
    raw = bytearray(file.read_bytes())
    digits = [at for at, byte in enumerate(raw) if chr(byte).isdigit()]
    if file.suffix in TEXTS and digits:
        at = draw.choice(digits)
        raw[at] = ord("0") + (raw[at] - ord("0") + draw.randrange(1, 10)) % 10
    else:
        at = len(raw) - 1 - draw.randrange(len(raw) // 2)
        raw[at] = (raw[at] + draw.randrange(1, 256)) % 256
    file.unlink()
    file.write_bytes(raw)
    return f"aimed {file.relative_to(folder)}"


TEXTS = (".json", ".yaml", ".jsonl")


def corruptions(runs: Sequence[Path], place: Path, cases: int) -> Counter[str]:
    """How many damaged copies were told, harmless, silent, or met a foreign exception."""
    asked = [questions(gf.load(run)) for run in runs]
    whole = [answers_of(*each) for each in zip(runs, asked, strict=True)]
    found, begin = Counter[str](), time.perf_counter()
    for case in range(cases):
        draw, copy, own = random.Random(case), place / "copy", case % len(runs)
        shutil.copytree(runs[own], copy, copy_function=os.link)  # damage replaces, changes nothing
        how = (aimed if case % 11 == 0 else damage)(copy, draw)
        try:
            answered = answers_of(copy, asked[own])
            outcome = "harmless" if same(answered, whole[own]) else "silent"
        except GlassformerError:
            outcome = "told"
        except Exception as error:  # noqa: BLE001 - this is what is looked for
            outcome = f"foreign {type(error).__name__}"
        found[outcome] += 1
        if outcome not in ("told", "harmless"):
            print(f"  case {case}: {runs[own]}, {how}: {outcome}")
        shutil.rmtree(copy)
    print(f"  {time.perf_counter() - begin:.0f} s")
    return found


def lines(text: str) -> list[list[str]]:
    """Commands, a line each, with places in capitals."""
    return [shlex.split(line) for line in text.strip().splitlines()]


REFUSED = lines("""
train SMALL DATA --run RUN
train SMALL DATA --run .
train SMALL DATA --run ''
train SMALL DATA --run HOME
train --resume --run RUN model.d_model=32
train --resume --run RUN model.n_layers=2
train --resume --run RUN train.seed=1
train --resume --run RUN data.text_field=body
train --resume --run RUN train.optimizer.kind=muon
train --resume --run RUN processor.tokenizer.kind=byte
train --resume --run RUN model.position=alibi
train --resume --run RUN data.train.path=NOTES
train --resume --run RUN data.train.path=missing
train --resume --run RUN data.validation.fraction=0.3
train --resume --run RUN train.steps=-1
train --resume --run RUN train.stpes=9
train --resume --run RUN train.steps=x
train --resume --run RUN train.batch_size=0
train --resume --run RUN =
train --resume --run RUN train
train --resume --run RUN train.device=abacus
train --resume --run RUN train.evaluate.best=bleu
train --resume --run RUN task=fill-mask
train --resume --run RUN model.head=tag
train --resume --run RUN train.micro_batches=3
train --resume --run RUN train.length=99
train --resume --run RUN train.schedule.kind=none
train --resume --run RUN data.encoding=none
train --resume --run RUN train.init_from=missing
train --resume --run RUN train.precision=float8
train --resume --run RUN train.workers=-1
generate RUN --temperature -1
generate RUN --top-p 2
generate RUN --beams 3 --temperature 1
generate RUN --prompt 'the cat sat on a mat and the dog ran on and on'
generate RUN --device abacus
generate RUN --max-new-tokens 0
generate RUN --seed -1
evaluate RUN --split none
evaluate RUN --data missing
evaluate RUN --targets x
evaluate RUN --data NOTES --split test
translate RUN
tag RUN
classify RUN
embed RUN --pool none
embed RUN --layer 99
verify RUN --text ''
verify RUN --html NOTES
verify --accept-changed
data show RUN --html NOTES
data show RUN train.steps=x
recipe show RUN a=b
plan RUN/recipe.yaml model.d_model=7
tokenize RUN train.steps=5
inspect RUN --host 256.0.0.1 --no-browser
inspect RUN --port 99999 --no-browser
inspect RUN/tokens
generate RUN/tokens --prompt the
""")
ALLOWED = lines("""
generate RUN --prompt the
evaluate RUN
verify RUN
verify RUN --accept-changed
recipe show RUN
tokenize RUN --text 'the cat'
plan RUN/recipe.yaml
data show RUN
data show RUN --html page.html
verify RUN --html rows.html
train SMALL DATA --run second
train --resume --run second train.steps=6
train SMALL DATA --run third train.steps=2
recipe fields train
evaluate second
score RUN --prompt 'the cat'
""")


def foreign(place: Path) -> set[str]:
    """A user's files, with every name that a careless sweep would take for its own."""
    names = {
        "notes.txt",
        ".thesis.tmp",
        ".tmp-notes",
        "model.safetensors",
        "run.lock.txt",
        "a.html",
    }
    for name in names:
        (place / name).write_text(name)
    for name in (".old-photos", ".tmp-photos", "tokens"):
        (place / name).mkdir()
        (place / name / "kept").write_text(name)
        names |= {name, f"{name}/kept"}
    return names


def filled_in(arguments: list[str], run: Path) -> list[str]:
    """A command with the places of this folder."""
    texts = {
        "RUN": [str(run)],
        "SMALL": SMALL,
        "DATA": [f"data.train.path={run.parent / 'text.txt'}"],
        "NOTES": [str(run.parent / "notes.txt")],
        "HOME": [str(Path.home())],
    }
    found = chain.from_iterable(texts.get(one, [one]) for one in arguments)
    return [
        one.replace("RUN/", f"{run}/").replace("=NOTES", f"={run.parent / 'notes.txt'}")
        for one in found
    ]


def refusals(run: Path) -> tuple[int, int]:
    """How many commands were refused, and how many of them changed the run."""
    before, changed, refused = tree(run), 0, 0
    for arguments in REFUSED:
        code, _, err = run_program(*filled_in(arguments, run))
        if code not in (1, 2) or "should not" in err:
            print(f"  not refused: {' '.join(arguments)[:100]}: {code} {err.strip()[-200:]}")
            continue
        refused += 1
        if tree(run) != before:
            changed += 1
            print(f"  changed the run: {' '.join(arguments)[:100]}")
    return refused, changed


class Watch:
    """The names in a folder that inotify reports as changed, made, moved or deleted."""

    MASK, OPENED = 0x2 | 0x4 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800, 0x20

    def __init__(self, folders: list[Path], mask: int = MASK):
        self._library = ctypes.CDLL(None, use_errno=True)
        self._handle = self._library.inotify_init1(os.O_NONBLOCK)
        self._folders = {
            self._library.inotify_add_watch(self._handle, os.fsencode(folder), mask): folder
            for folder in folders
        }

    def names(self) -> set[Path]:
        """Those since the last call."""
        found = set()
        with contextlib.suppress(BlockingIOError):
            while raw := os.read(self._handle, 1 << 16):
                while raw:
                    watch, _, _, size = struct.unpack("iIII", raw[:16])
                    name = os.fsdecode(raw[16 : 16 + size].rstrip(b"\0"))
                    found.add(self._folders[watch] / name)
                    raw = raw[16 + size :]
        return found


def others(run: Path, names: set[str]) -> tuple[int, int]:
    """How many commands ran, and how many changed a user's files, by inotify."""
    place = run.parent
    folders = [place, *(place / name for name in names if (place / name).is_dir())]
    watch, theirs, changed = Watch(folders), {place / name for name in names}, 0
    commands = [*ALLOWED, *REFUSED[:24]]
    for arguments in commands:
        run_program(*filled_in(arguments, run))
        if touched := watch.names() & theirs:
            changed += 1
            print(f"  changed {sorted(map(str, touched))}: {' '.join(arguments)[:100]}")
    return len(commands), changed


def main() -> None:
    """Run the parts and print their counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=2200)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="adversary-") as folder:
        place = Path(folder)
        run = trained(place)
        os.chdir(place)
        names = foreign(place)
        ran, changed = others(run, names)
        print(f"commands that changed a foreign file: {changed} of {ran}")
        refused, changed = refusals(run)
        print(f"refused commands that changed the run: {changed} of {refused}")
        runs = [run_of(kind, place / kind) for kind in MAKERS]
        found = corruptions(runs, place, asked.cases)
        print(f"corruptions of {len(runs)} kinds of runs: {asked.cases}: {dict(found)}")


if __name__ == "__main__":
    main()
