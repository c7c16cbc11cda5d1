"""Recipes by name: the YAML files of the package.

recipe_file("lm")            the package's; `./lm` is a file
recipe_file("my.yaml")       a file
"""

from itertools import takewhile
from pathlib import Path

from glassformer.core.errors import ConfigError, suggest

FOLDER = Path(__file__).parents[1] / "recipes"


def recipe_names() -> list[str]:
    """The names of the package's recipes."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def is_name(given: object) -> bool:
    """Whether a text names a recipe of the package; with a folder or a suffix it is a file."""
    return given in recipe_names()


def recipe_file(given: str | Path) -> Path:
    """The file of a recipe, by its name in the package or its path; ConfigError: neither."""
    names, hint = recipe_names(), "give a YAML file, or a name that `glassformer recipe list` shows"
    path = FOLDER / f"{given}.yaml" if is_name(given) else Path(given)
    if str(given) and path.exists():
        return path
    if path.stem in names or (path.stem and not path.suffix):
        hint = suggest(path.stem, names)
    raise ConfigError(f"The recipe {given} does not exist; {hint}.")


def about(name: str) -> str:
    """Return what the head of a recipe says before its first command."""
    lines = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    first = takewhile(lambda line: not line.startswith("#   "), lines)
    return " ".join(line.removeprefix("#").strip() for line in first)
