"""The demos: a model trained in minutes on data that every machine has, and something to look at in
the end."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from glassformer.cli.train import finish
from glassformer.demos import audio as demo_audio
from glassformer.demos import classify as demo_classify
from glassformer.demos import lm as demo_lm
from glassformer.demos import tag as demo_tag
from glassformer.demos import translate as demo_translate
from glassformer.demos import vision as demo_vision
from glassformer.demos import vqa as demo_vqa
from glassformer.errors import ConfigError, suggest
from glassformer.recipe import Recipe
from glassformer.run import Run, load
from glassformer.training import train as train_recipe
from glassformer.training.loop import Result

Show = Callable[[Run, Result, bool], None]


@dataclass(frozen=True)
class Demo:
    """What a demo is trained by, said before, and shown after."""

    about: str
    recipe: dict[str, dict[str, Any]]
    show: Show
    beside: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    """Recipes of models that are shown with it, by what their run folders' names end with."""


DEMOS = {
    "lm": Demo(demo_lm.ABOUT, demo_lm.RECIPE, demo_lm.show),
    "translate": Demo(demo_translate.ABOUT, demo_translate.RECIPE, demo_translate.show),
    "tag": Demo(demo_tag.ABOUT, demo_tag.RECIPE, demo_tag.show),
    "classify": Demo(demo_classify.ABOUT, demo_classify.RECIPE, demo_classify.show),
    "vision": Demo(demo_vision.ABOUT, demo_vision.RECIPE, demo_vision.show),
    "vqa": Demo(demo_vqa.ABOUT, demo_vqa.RECIPE, demo_vqa.show, {demo_vqa.DRAWING: demo_vqa.DRAWN}),
    "audio": Demo(demo_audio.ABOUT, demo_audio.RECIPE, demo_audio.show),
}


def demo(name: str, run: Path | None, steps: int | None, as_json: bool) -> None:
    """`glassformer demo NAME`: train (or go on, or find it done), then show."""
    if name not in DEMOS:
        raise ConfigError(f"There is no demo {name!r}; {suggest(name, DEMOS)}")
    chosen, folder = DEMOS[name], run or Path("runs") / f"demo-{name}"
    sys.stderr.write(f"{chosen.about}\n")
    for ending, recipe in chosen.beside.items():
        result = _trained(recipe, folder.with_name(folder.name + ending), steps)
        if result.interrupted is not None:
            return finish(result, as_json)
    result = _trained(chosen.recipe, folder, steps)
    if result.interrupted is not None:
        return finish(result, as_json)
    return chosen.show(load(folder), result, as_json)


def _trained(recipe: dict[str, dict[str, Any]], folder: Path, steps: int | None) -> Result:
    train = {**recipe["train"], **({"steps": steps} if steps else {})}
    return train_recipe(
        Recipe.parse({**recipe, "train": train}), folder, (folder / "recipe.yaml").is_file()
    )
