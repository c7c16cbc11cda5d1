"""`glassformer recipe show` and `glassformer recipe fields`."""

from pathlib import Path

from glassformer.cli.terminal import print_json
from glassformer.recipe.fields import as_markdown, field_rows, shown, task_rows
from glassformer.recipe.recipe import read_recipe


def show(where: str, overrides: list[str], as_json: bool) -> None:
    """Print a recipe with every default filled in."""
    path = Path(where)
    recipe = read_recipe(path / "recipe.yaml" if path.is_dir() else path, overrides)
    if as_json:
        print_json(recipe.values())
    else:
        print(recipe.yaml(), end="")


def fields(section: str | None, task: str | None, markdown: bool, as_json: bool) -> None:
    """Print every field of a section, or of all, or those that recipes of a task usually set, with
    default and meaning."""
    if markdown:
        print(as_markdown(), end="")
        return
    for row in field_rows(section) if task is None else task_rows(task):
        if as_json:
            print_json({**vars(row), "default": shown(row.default)})
        else:
            print(f"{row.path:36} {shown(row.default):14} {row.description}")
