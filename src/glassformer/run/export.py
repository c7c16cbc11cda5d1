"""A run exported for another program, and compared there."""

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from glassformer import __version__
from glassformer.core.errors import ConfigError, DataError, GlassformerError, suggest
from glassformer.core.files import read_bytes, write_text
from glassformer.core.manifest import new_folder
from glassformer.interop.parity import Parity, Plan
from glassformer.interop.targets import ctranslate2, gguf, onnx, transformers
from glassformer.recipe.recipe import Recipe
from glassformer.run.folder import load
from glassformer.tasks.task import Task

LARGEST_CARD = 1 << 18
"""Bytes of a model card that is taken over."""


TARGETS: dict[str, ModuleType] = {
    "transformers": transformers,
    "onnx": onnx,
    "gguf": gguf,
    "ctranslate2": ctranslate2,
}
"""Programs that models are exported for.

LIBRARY                       name in the metadata of model cards
plan(recipe)                  the `Plan` of a recipe's model there
write(model, task, folder)    writes the files; the class or architecture; ConfigError: none fits
usage(task, name)             what to write to load the folder there, in Markdown
"""
COMPARED = {"transformers": transformers.compare, "onnx": onnx.compare}
"""Run example inputs in the program; ConfigError: it is not installed."""


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

    With `check`, a folder for transformers or onnxruntime is opened there and its outputs compared;
    where they differ, nothing is kept. ConfigError: no such target, a model that fits none of its
    classes, a folder that is there, or a library that is not. GlassformerError: the outputs differ.
    """
    out, target = Path(out), _target(to)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out} is there already; give a new folder.")
    opened = load(run)
    with new_folder(out) as folder:
        name = target.write(opened.model, opened.task, folder)
        compare = COMPARED.get(to) if check else None
        parity = None if compare is None else compare(opened.model, opened.task, folder)
        if parity is not None and not parity.agrees:
            raise GlassformerError(f"The export does not compute the same: {parity}.")
        card = _card(Path(run), target, name, opened.task, parity)
        write_text(folder / "README.md", card)
    return Exported(name, parity)


def plan_export(recipe: Recipe, to: str) -> Plan:
    """What a recipe's model would be exported as; ConfigError: no such target."""
    return _target(to).plan(recipe)


def _target(to: str) -> ModuleType:
    if to not in TARGETS:
        raise ConfigError(f"There is no target {to!r}; {suggest(to, TARGETS)}")
    return TARGETS[to]


def _card(run: Path, target: ModuleType, name: str, task: Task, parity: Parity | None) -> str:
    return f"""---
library_name: {target.LIBRARY}
pipeline_tag: {task.recipe.task}
tags: [glassformer]
---

# {run.name}

Exported by glassformer {__version__} as `{name}`.

## Use

{target.usage(task, name)}

## Compared with the original

{parity or "Not compared"}.
{_original(run)}"""


def _original(run: Path) -> str:
    """The model card of the run, its headings one level lower."""
    try:
        card = read_bytes(run / "README.md", LARGEST_CARD, "a model card")
    except DataError:
        return ""
    card = card.decode("utf-8", "replace")
    body = re.sub(r"\A---\n.*?\n---\n", "", card, flags=re.DOTALL)
    body = re.sub(r"\A\s*# .*\n", "", body)
    body = body.replace("is in `recipe.yaml`", "is in the `recipe.yaml` of the run")
    return f"\n## The original\n\n{re.sub(r'(?m)^##', '###', body).strip()}\n"
