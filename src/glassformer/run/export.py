"""A run exported for another program, and compared there."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from glassformer import __version__
from glassformer.errors import ConfigError, GlassformerError, suggest
from glassformer.files import write_text
from glassformer.interop.export import write_published
from glassformer.interop.fit import nearest
from glassformer.interop.parity import Parity, with_transformers
from glassformer.manifest import new_folder
from glassformer.recipe.recipe import Recipe
from glassformer.run.folder import load

TARGETS = ("transformers",)


@dataclass(frozen=True)
class Exported:
    """What was written, and how it compares."""

    name: str
    """The class that loads it."""
    parity: Parity | None

    @property
    def values(self) -> dict[str, Any]:
        """As plain values."""
        return {"class": self.name, "parity": self.parity and asdict(self.parity)}


def export_run(
    run: str | Path, to: str = "transformers", out: str | Path = "exported", check: bool = True
) -> Exported:
    """Write a run (or a published model) as a new folder for another program.

    With `check`, the folder is opened there and its outputs compared; where they differ, nothing is
    kept. ConfigError: no such target, a model that fits none of its classes, a folder that is
    there, or a library that is not. GlassformerError: the outputs differ.
    """
    out = Path(out)
    check_target(to)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out} is there already; give a new folder.")
    opened = load(run)
    with new_folder(out) as folder:
        fit = write_published(opened.model, opened.task, folder)
        parity = with_transformers(opened.model, opened.task, fit, folder) if check else None
        if parity is not None and not parity.agrees:
            raise GlassformerError(f"The export does not compute the same: {parity}.")
        write_text(
            folder / "README.md", _card(Path(run), fit.name, opened.task.recipe.task, parity)
        )
    return Exported(fit.name, parity)


def planned(recipe: Recipe, to: str) -> dict[str, Any]:
    """The class that a recipe's model would be exported as, or the nearest one and the fields in
    which they differ; ConfigError: no such target."""
    check_target(to)
    fit = nearest(recipe.model, recipe.task)
    if fit is None:
        return {"class": None, "differences": [f"task={recipe.task!r}, which has no class there"]}
    return {"class": fit.name, "differences": list(fit.differences)}


def check_target(to: str) -> None:
    """Raise ConfigError for a target that is not known."""
    if to not in TARGETS:
        raise ConfigError(f"There is no target {to!r}; {suggest(to, TARGETS)}")


def _card(run: Path, name: str, task: str, parity: Parity | None) -> str:
    compared = f"Compared: {parity}." if parity else "Not compared with the original."
    return f"""---
library_name: transformers
pipeline_tag: {task}
tags: [glassformer]
---

# {run.name}

Exported by glassformer {__version__} as `{name}`.

{compared}
"""
