"""B3: whatever becomes of the files of a checkpoint is found, told and put aside, and the one before
is taken; the name of a step is never another one."""

import random
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest
import torch

from glassformer.core.errors import CheckpointError, ConfigError
from glassformer.training.folder.checkpoints import Checkpoints, State
from glassformer.training.folder.models import fill_mean

from .small import model, saved

N_QUICK, N = 24, 2000


def names(folder: Path) -> list[str]:
    """The manifest first."""
    return sorted(path.name for path in folder.iterdir())


def flip(folder: Path, draw: random.Random) -> None:
    file = folder / draw.choice(names(folder)[1:])  # spaces of the manifest mean nothing
    content = bytearray(file.read_bytes())
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    file.write_bytes(content)


def truncate(folder: Path, draw: random.Random) -> None:
    file = folder / draw.choice(names(folder))
    content = file.read_bytes()
    file.write_bytes(content[: draw.randrange(len(content))])


def zero(folder: Path, draw: random.Random) -> None:
    """A sector that was never written."""
    file = folder / draw.choice(names(folder))
    content = file.read_bytes()
    at = draw.randrange(len(content))
    file.write_bytes(content[:at] + bytes(len(content) - at))


def swap(folder: Path, draw: random.Random) -> None:
    one, other = (folder / name for name in draw.sample(names(folder), 2))
    one.rename(folder / "kept")
    other.rename(one)
    (folder / "kept").rename(other)


def swap_with_another_step(folder: Path, draw: random.Random) -> None:
    """A whole file, of the right name, of the step before."""
    name = draw.choice(names(folder))
    shutil.copy(folder.parent / "step-00000003" / name, folder / name)


def delete(folder: Path, draw: random.Random) -> None:
    (folder / draw.choice(names(folder))).unlink()


def duplicate_step(folder: Path, draw: random.Random) -> None:
    shutil.rmtree(folder)
    shutil.copytree(folder.parent / "step-00000003", folder)


def append(folder: Path, draw: random.Random) -> None:
    with (folder / draw.choice(names(folder)[1:])).open("ab") as file:
        file.write(draw.choice([b"\0", b"\n", b" ", b"}"]))


def replace_by_a_folder(folder: Path, draw: random.Random) -> None:
    name = draw.choice(names(folder))
    (folder / name).unlink()
    (folder / name).mkdir()


def replace_by_a_file(folder: Path, draw: random.Random) -> None:
    shutil.rmtree(folder)
    folder.write_text("")


HOW = (
    *(flip, truncate, zero, swap, swap_with_another_step, delete, duplicate_step),
    *(append, replace_by_a_folder, replace_by_a_file),
)


@pytest.fixture(params=[1, 2], ids=["whole", "in parts"])
def run(tmp_path, request) -> Path:
    """Saved by one process, or by two."""
    for step in (3, 7):
        tensors = {"a:b": torch.full((5,), step)}
        saved(Checkpoints(tmp_path), model(step), tensors, State(step, "d"), request.param)
    return tmp_path


def content(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in (folder, *folder.rglob("*"))
    }


def found(run: Path, n: int) -> Counter[str]:
    """How many damages were found, by kind; each is an error at its own name, and passed over when
    a run is resumed."""
    kept, draw, counts = run.parent / f"{run.name}-kept", random.Random(0), Counter()
    shutil.copytree(run, kept)
    while counts.total() < n:
        shutil.rmtree(run)
        shutil.copytree(kept, run)
        checkpoints, how = Checkpoints(run), HOW[counts.total() % len(HOW)]
        how(damaged := checkpoints.path(7), draw)
        if content(damaged) == content(kept / "checkpoints" / "step-00000007"):
            continue  # zeros in the place of zeros
        with pytest.raises(CheckpointError):
            (checkpoints.state if how is duplicate_step else checkpoints.check)(7)
        was, said = content(damaged), []
        assert checkpoints.first(resume=True, data="d", say=said.append).step == 3, how
        [sentence] = said
        where = re.search(r"It is kept as (.*)\.$", sentence)
        assert where, sentence
        assert content(Path(where[1])) == was
        reason = Path(f"{where[1]}.txt").read_text().strip()
        assert reason in sentence
        assert "step-00000007" in reason
        assert checkpoints.steps() == [3]
        counts[how.__name__] += 1
    return counts


def test_damage_is_found_told_and_put_aside(run):
    assert found(run, N_QUICK).total() == N_QUICK


def test_the_name_of_a_step_is_never_another_one(run):
    checkpoints = Checkpoints(run)
    flip(checkpoints.path(7), random.Random(2))
    min(checkpoints.path(7).glob("model*")).write_bytes(b"")
    for _ in range(2):
        with pytest.raises(CheckpointError, match="step-00000007"):
            checkpoints.weights(7)
    with pytest.raises(CheckpointError, match="step-00000007"):
        fill_mean(checkpoints, [3, 7], model())
    checkpoints.first(resume=True, data="d", say=lambda text: None)
    with pytest.raises(ConfigError, match=r"There is no checkpoint of step 7 in .*; it has 3"):
        checkpoints.weights(7)


def test_what_is_put_aside_twice_is_there_twice(run):
    checkpoints = Checkpoints(run)
    for _ in range(2):
        (checkpoints.path(7) / "state.json").write_text("{}")
        checkpoints.first(resume=True, data="d", say=lambda text: None)
        saved(checkpoints, model(7), {}, State(7, "d"))
    names = {path.name for path in (checkpoints.folder / ".quarantine").iterdir()}
    assert names == {
        *("step-00000007-1", "step-00000007-1.txt", "step-00000007-2", "step-00000007-2.txt")
    }
    assert checkpoints.steps() == [3, 7]


@pytest.mark.parametrize("name", [".DS_Store", "Thumbs.db", "desktop.ini"])
def test_what_systems_put_into_folders_is_no_damage(run, name):
    (Checkpoints(run).path(7) / name).write_text("")
    assert Checkpoints(run).newest() == (State(7, "d"), {})


@pytest.mark.slow
@pytest.mark.reliability
def test_two_thousand_damages(run, table):
    """Quick: `test_damage_is_found_told_and_put_aside`."""
    counts = found(run, N)
    table("B3", f"{counts.total()} of {N} found, told and put aside: {dict(counts)}")
