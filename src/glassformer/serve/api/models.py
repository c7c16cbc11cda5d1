"""The models that are served, by their names: a table that is made when the server starts."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from glassformer.core.errors import ConfigError
from glassformer.native import compiler, fits
from glassformer.run import Run, load
from glassformer.run.drafting import NGRAM, drafts_in
from glassformer.runtime.speculative import Drafts
from glassformer.serve.api.problems import ApiError

COMPLETIONS, CHAT, EMBEDDINGS = "completions", "chat/completions", "embeddings"


@dataclass(frozen=True)
class Served:
    """A run and its name; `drafts`: what proposes its tokens."""

    id: str
    run: Run
    created: int
    drafts: Drafts | None = None

    @cached_property
    def routes(self) -> tuple[str, ...]:
        """The routes below /v1/ that it answers."""
        predictors = self.run.task.predictors.values()
        return tuple(route for one in predictors for route in one.routes)

    def check(self, route: str) -> None:
        """Raise ApiError 400 for a route that is another model's."""
        if route in self.routes:
            return
        own = " and ".join(f"/v1/{one}" for one in self.routes)
        said, *_ = self.run.task.lack(route) or [f"is for {self.run.task.recipe.task}"]
        sentence = f"The model {self.id!r} {said}. It answers {own}, not /v1/{route}."
        raise ApiError(400, sentence, "model", "model_not_supported")

    def described(self) -> dict[str, Any]:
        """The model as /v1/models lists it."""
        run = self.run
        return {
            "id": self.id,
            "object": "model",
            "created": self.created,
            "owned_by": "glassformer",
            "task": run.task.recipe.task,
            "max_length": run.model.config.max_length,
            "routes": [f"/v1/{route}" for route in self.routes],
            "input": run.processor.schema(),
            "output": run.task.schema(),
        }


def open_models(
    folders: Sequence[Path],
    names: Sequence[str] = (),
    device: str = "cpu",
    quantize: str | None = None,
    drafts: Sequence[str] = (),
    compile: bool | None = None,
) -> dict[str, Served]:
    """The runs of these folders by name, some with a draft, NAME=RUN or NAME=ngram.

    `compile`: those that write decode by a compiled step; None: if there is a C compiler.
    ConfigError: more names than runs, one twice, a run that no route answers, a draft of none of
    them, or with another vocabulary; no compiler, if it was requested. Errors of `load`.
    """
    if len(names) > len(folders):
        raise ConfigError(
            f"--name was given {len(names)} times for {len(folders)} runs; give one for each run."
        )
    ids = [*names, *(folder.resolve().name for folder in folders[len(names) :])]
    drafted, now, found = _drafts(drafts, ids), int(time.time()), dict[str, Served]()
    if compile is None:
        compile = compiler() is not None

    def open_run(folder: str | Path, quantize: str | None = None) -> Run:
        run = load(folder, device, quantize=quantize)
        return run.compiled() if compile and fits(run.model) else run

    for name, folder in zip(ids, folders, strict=True):
        if name in found:
            raise ConfigError(f"Two runs are named {name!r}; give each a name: --name A --name B.")
        run, draft = open_run(folder, quantize), drafted.get(name)
        if draft and COMPLETIONS not in Served(name, run, now).routes:
            raise ConfigError(
                f"--draft {name}={draft} is for a run that answers /v1/{COMPLETIONS}, unlike this "
                "one; leave it out."
            )
        proposes = draft if draft in (None, NGRAM) else open_run(draft)
        found[name] = Served(name, run, now, drafts_in(run, proposes))
        if not found[name].routes:
            raise ConfigError(
                f"{folder} is a model for {run.task.recipe.task}, which no route answers; use "
                f"`glassformer {run.task.verb}`."
            )
    return found


def _drafts(given: Sequence[str], ids: Sequence[str]) -> dict[str, str]:
    """The draft of each model that has one; ConfigError: another form, or no such model."""
    found: dict[str, str] = {}
    for text in given:
        name, _, draft = text.partition("=")
        if not draft or name not in ids:
            raise ConfigError(
                f"--draft {text!r} is no NAME=RUN or NAME=ngram with the name of a served run "
                f"({', '.join(ids)}); write it so, or leave it out."
            )
        found[name] = draft
    return found
