"""Files of runs, mutated as if by a stranger who then says that nothing was changed."""

import json
import random
import resource
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import glassformer as gf
from glassformer.core.errors import GlassformerError

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


@dataclass
class Outcomes:
    """What mutated files did: their number, the longest time, growth of memory, other errors."""

    cases: int = 0
    seconds: float = 0.0
    growth: float = 0.0
    """Bytes by which the largest memory grew, by those of the file."""
    problems: list[str] = field(default_factory=list)


def mutated_files(run: Path, place: Path, cases: int, outcomes: Outcomes) -> None:
    """Mutate each file of a run so many times, and open the run."""
    copy = place / "copy"
    shutil.copytree(run, copy)
    for file in files_of(copy):
        mutated_file(copy, file, cases, outcomes)
    shutil.rmtree(copy)


def mutated_file(run: Path, file: Path, cases: int, outcomes: Outcomes) -> None:
    """Mutate a file of a run so many times, open the run each time, and put the file back.

    GlassformerError: the run cannot be opened as it is.
    """
    gf.load(run)
    raw, before = file.read_bytes(), _peak()
    header = file.suffix == ".safetensors"
    part = 8 + int.from_bytes(raw[:8], "little") if header else len(raw)
    for case in range(cases):
        draw = random.Random(f"{file.name} {case}")
        file.write_bytes(mutated(raw[:part], draw) + raw[part:])
        begin, outcomes.cases = time.process_time(), outcomes.cases + 1
        for said in opened(run):
            outcomes.problems.append(f"{run.name}/{file.name}, case {case}: {said}"[:300])
        outcomes.seconds = max(outcomes.seconds, time.process_time() - begin)
    outcomes.growth = max(outcomes.growth, _peak() - before)
    file.write_bytes(raw)


def files_of(run: Path) -> list[Path]:
    """The files of a model, and the JSON files of its checkpoints and encoded data; of a published
    model, all."""
    if not (run / "manifest.json").is_file():
        return sorted(run.iterdir())
    listed = json.loads((run / "manifest.json").read_text())["files"]
    others = [path for path in run.rglob("*.json") if path.parent != run]
    return [run / "manifest.json", *(run / name for name in sorted(listed)), *sorted(others)]


def opened(run: Path) -> Iterator[str]:
    """Errors of another kind, of opening a run and its checkpoint and looking at an example."""
    own = (run / "manifest.json").is_file()  # a published folder records nothing to be accepted
    for checkpoint in (None, 2) if (run / "checkpoints").is_dir() else (None,):
        try:
            found = gf.load(run, checkpoint=checkpoint, accept_changed=own and checkpoint is None)
            found.look(found.task.first_input())
        except GlassformerError:
            pass
        except BaseException as error:  # noqa: BLE001 - a panic of a library is none of ours either
            yield f"{type(error).__name__}: {error}"


def _peak() -> int:
    """Bytes of the largest memory of this process so far."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
