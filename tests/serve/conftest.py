"""Tiny runs of every family, trained for two steps and then stirred, so that every number differs
from every other."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

QUICK = {
    "steps": 2,
    "schedule.warmup_steps": 1,
    "evaluate.every": 2,
    "save.every": 1,
    "sample.tokens": 3,
    "sample.every": 2,
}


def recipes() -> dict[str, Callable[[Path], Any]]:
    import small_drawings
    import small_parts
    import small_runs
    import small_senses
    import small_tasks

    shape = {"n_heads": 4, "n_kv_heads": 2}
    return {
        "lm": lambda f: small_runs.recipe(f, model={**shape, "max_length": 48}, train=QUICK),
        "masked": lambda f: small_tasks.masked_recipe(
            f, train=QUICK, model={"max_length": 48, "position": "alibi"}
        ),
        "tag": lambda f: small_tasks.tag_recipe(f, train=QUICK, model={"norm_placement": "post"}),
        "classify": lambda f: small_tasks.class_recipe(f, train=QUICK, model={"norm": "rms"}),
        "translate": lambda f: small_runs.pair_recipe(
            f, train=QUICK, model={"n_layers": 2, "norm_placement": "post"}
        ),
        "image": lambda f: small_senses.picture_recipe(f, train=QUICK),
        "audio": lambda f: small_senses.sound_recipe(f, train=QUICK),
        "mixture": lambda f: small_parts.parts_recipe(f, train=QUICK),
        "depiction": lambda f: small_drawings.recipe(f, train=QUICK),
    }


CAPABILITIES = {
    "lm": ["generates"],
    "masked": ["masked"],
    "tag": ["tags"],
    "classify": ["classes"],
    "translate": ["generates", "pair"],
    "image": ["classes", "image"],
    "audio": ["audio", "classes"],
    "mixture": ["generates", "image", "parts"],
    "depiction": ["draws", "generates"],
}
FAMILIES = [*CAPABILITIES]


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory) -> Callable[[str], Path]:
    """The folder of a run of a family."""

    @cache
    def made(family: str) -> Path:
        from small_runs import go

        folder = tmp_path_factory.mktemp(family)
        go(recipes()[family](folder), folder / "run")
        return folder / "run"

    return made


@pytest.fixture(scope="session")
def explorer_of(run_folder) -> Callable[[str], Any]:
    """An explorer of a run of a family, whose weights are stirred."""

    @cache
    def made(family: str):
        from glassformer.run import load
        from glassformer.serve.explorer.handler import Explorer
        from tiny import stir

        run = load(run_folder(family))
        stir(run.model, 0.3)
        return Explorer(run)

    return made


@pytest.fixture(params=FAMILIES)
def explorer(request, explorer_of):
    """One of every family."""
    return explorer_of(request.param)


@pytest.fixture
def lm(explorer_of):
    return explorer_of("lm")


@pytest.fixture(scope="module")
def static(tmp_path_factory):
    """A page of our own: what is tested is how files are given out, not what they are."""
    from glassformer.serve.explorer import routes

    place = tmp_path_factory.mktemp("pages")
    folder = place / "static"
    (folder / "pages").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html><title>page</title>" + "<p>word</p>" * 200)
    (folder / "pages" / "a.js").write_text("export const a = 1;\n")
    (place / "outside.js").write_text("no")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(routes, "STATIC", folder)
        yield folder
