"""What holds of files, names, memory, texts and requests, whoever made them; counted.

python bench/properties [PART ...]

strict_loading      every tensor of every architecture dropped, renamed, of another type or shape,
                    or not finite: refused, and named; every parameter is filled from the file
shared_folder       a run that is trained, read and trained again at once; weights that are saved
                    over the file that they came from
mutated_files       thousands of mutations of each kind of file, opened as if nothing was changed
published_files     ten thousand mutations of each kind of file of published models, likewise
hostile_code        code in files of a run: none is run, nothing is connected to
resource_bombs      models and files of data that would take hours or terabytes: refused at once
file_names          names that lead outside, wherever data and runs name files: nothing is opened
pathological_texts  200 patterns of up to a million characters: time by length, text and back
templates           templates of data settings that compute, reach attributes or grow
poisoned_memory     memory without a value holds NaN: every answer is the same
number_limits       numbers at, below and beyond their limits: an answer or a sentence
open_routes         requests to the explorer without its token: none is answered
drain               SIGTERM while an explorer has 50 answers to give
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

ROOT = Path(__file__).parents[2]
sys.path[:1] = [str(ROOT / "bench"), str(ROOT / "tests")]  # whose models and runs are small

import glassformer as gf  # noqa: E402
from glassformer.serve.explorer.handler import Explorer  # noqa: E402
from properties import (  # noqa: E402
    drain,
    file_names,
    hostile_code,
    mutated_files,
    number_limits,
    open_routes,
    pathological_texts,
    poisoned_memory,
    published_files,
    resource_bombs,
    shared_folder,
    strict_loading,
    templates,
)
from small_kinds import MAKERS, run_of  # noqa: E402
from variants import VARIANTS  # noqa: E402

Found = tuple[str, list[str]]
"""Figures in words, and what should not be."""


def strict(place: Path) -> Found:
    cases, problems = strict_loading.strict_loading(VARIANTS, place)
    return f"{cases} changed files of {len(VARIANTS)} architectures", problems


def shared(place: Path) -> Found:
    loads, problems = shared_folder.read_while_trained(place, 200)
    refused, others = shared_folder.trained_twice(place, 50)
    saved, more = shared_folder.saved_over_its_source(place, 200)
    return (
        f"{loads} times opened while training replaced it; {refused} second trainings refused; "
        f"{saved} times saved over its source",
        [*problems, *others, *more],
    )


def mutated(place: Path) -> Found:
    found = mutated_files.Outcomes()
    for kind in MAKERS:
        mutated_files.mutated_files(run_of(kind, place / kind), place, 400, found)
    return (
        f"{found.cases} files of {len(MAKERS)} kinds of runs, each opened within "
        f"{found.seconds:.2f} s; memory grew by {found.growth / 2**20:.0f} MiB at most",
        found.problems,
    )


def published(place: Path) -> Found:
    kinds, events = published_files.published_files(place, 10_000)
    return (
        "; ".join(
            f"{found.cases} of {kind}, each opened within {found.seconds:.2f} s, memory grew by "
            f"{found.growth / 2**20:.0f} MiB at most"
            for kind, found in kinds.items()
        ),
        [*sorted(events), *(one for found in kinds.values() for one in found.problems)],
    )


def code(place: Path) -> Found:
    cases, problems = hostile_code.hostile_code(run_of("text", place / "text"), place)
    return f"{cases} files with code", problems


def bombs(place: Path) -> Found:
    cases, seconds, megabytes, problems = resource_bombs.resource_bombs(place)
    more, slowest, growth, others = resource_bombs.media_bombs(place)
    return (
        f"{cases} models, each refused in {1e3 * seconds:.0f} ms and {megabytes:.1f} MiB; {more} "
        f"files of data, each in {1e3 * slowest:.0f} ms and {growth:.0f} MiB",
        problems + others,
    )


def outside(place: Path) -> Found:
    text, pictures = run_of("text", place / "text"), run_of("pictures", place / "pictures")
    cases, problems = file_names.file_names(text, pictures, place / "names")
    return f"{cases} names", problems


def filled(place: Path) -> Found:
    cases, slowest, problems = templates.templates()
    return f"{cases} templates, each within {1e3 * slowest:.1f} ms", problems


def poisoned(place: Path) -> Found:
    runs = {kind: run_of(kind, place / kind) for kind in MAKERS}
    cases, problems = poisoned_memory.poisoned_memory(runs)
    return f"{cases} answers of {len(runs)} kinds of runs", problems


def limits(place: Path) -> Found:
    explorer = Explorer(gf.load(run_of("text", place / "text")))
    statuses, slowest, problems = number_limits.number_limits(explorer)
    found, others = number_limits.recipe_fields()
    return (
        f"requests by status {dict(statuses)}, refused within {1e3 * slowest:.0f} ms; values of "
        f"recipe fields {dict(found)}",
        problems + others,
    )


def routes(place: Path) -> Found:
    explorer = Explorer(gf.load(run_of("text", place / "text")))
    cases, problems = open_routes.open_routes(explorer)
    late = 1e9 * open_routes.timing()
    return f"{cases} requests; a token wrong at its end takes {late:+.0f} ns", problems


def drained(place: Path) -> Found:
    run, problems, counts, slowest = run_of("text", place / "text"), list[str](), [], 0.0
    for _ in range(2):
        found, took, wrong = drain.drain(run, 50)
        counts.append(dict(found))
        problems, slowest = problems + wrong, max(slowest, took)
    return f"streams {counts}, gone within {slowest:.2f} s", problems


def texts(place: Path) -> Found:
    units = pathological_texts.patterns()
    sizes = [250_000, 500_000, 1_000_000]
    problems = pathological_texts.pathological_texts(units, sizes, 100_000)
    return f"{len(units)} patterns, 100,000 texts", problems


PARTS: dict[str, Callable[[Path], Found]] = {
    "strict_loading": strict,
    "shared_folder": shared,
    "mutated_files": mutated,
    "published_files": published,
    "hostile_code": code,
    "resource_bombs": bombs,
    "file_names": outside,
    "pathological_texts": texts,
    "templates": filled,
    "poisoned_memory": poisoned,
    "number_limits": limits,
    "open_routes": routes,
    "drain": drained,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help=", ".join(PARTS))
    torch.set_num_threads(1)
    for part in parser.parse_args().parts or PARTS:
        begin = time.perf_counter()
        with tempfile.TemporaryDirectory(prefix="properties-") as folder:
            said, problems = PARTS[part](Path(folder).resolve())
        print(
            f"{part}: {said}; {len(problems)} should not be ({time.perf_counter() - begin:.0f} s)",
            flush=True,
        )
        for problem in problems[:20]:
            print(f"  {problem}")


if __name__ == "__main__":
    main()
