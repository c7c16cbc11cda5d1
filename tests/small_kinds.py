"""A run of every kind, of two steps."""

from pathlib import Path

from small_drawings import recipe as drawing_recipe
from small_parts import parts_recipe
from small_runs import go, pair_recipe, recipe
from small_senses import picture_recipe, sound_recipe
from small_tasks import class_recipe, masked_recipe, tag_recipe

MAKERS = {
    "text": recipe,
    "pairs": pair_recipe,
    "classes": class_recipe,
    "tags": tag_recipe,
    "masked": masked_recipe,
    "pictures": picture_recipe,
    "sounds": sound_recipe,
    "parts": parts_recipe,
    "drawings": drawing_recipe,
}


def run_of(kind: str, folder: Path) -> Path:
    """A run of a kind, in a folder with its data."""
    folder.mkdir()
    go(MAKERS[kind](folder, train={"steps": 2, "save.every": 2}), folder / "run")
    return folder / "run"
