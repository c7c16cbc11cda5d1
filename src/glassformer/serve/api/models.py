"""The models that are served, by their names: a table that is made when the server starts."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError, DataError, suggest
from glassformer.generate.drafts import Drafts
from glassformer.run import Run
from glassformer.serve.api.problems import ApiError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
COMPLETIONS, CHAT, EMBEDDINGS = "completions", "chat/completions", "embeddings"


@dataclass(frozen=True)
class Served:
    """A run and its name; `drafts`: what proposes its tokens."""

    id: str
    run: Run
    created: int
    n_parameters: int
    drafts: Drafts | None = None

    @cached_property
    def routes(self) -> tuple[str, ...]:
        """The routes below /v1/ that it answers."""
        return tuple(route for route in self.run.task.routes if self.refusal(route) is None)

    def refusal(self, route: str) -> str | None:
        """Why this run has no answer at a route of its task; None: it has."""
        try:
            if route == CHAT:
                _ = self.run.task.template
        except (ConfigError, DataError):
            return f"The model {self.id!r} has no chat template."
        if route == EMBEDDINGS and self.run.processor.medium:
            return f"The model {self.id!r} reads {self.run.processor.noun}s, not text."
        return None

    def check(self, route: str) -> None:
        """Raise ApiError 400 for a route that is another model's."""
        if route in self.routes:
            return
        own = " and ".join(f"/v1/{one}" for one in self.routes) or "no route"
        why = self.refusal(route) if route in self.run.task.routes else None
        said = why or f"The model {self.id!r} is for {self.run.task.recipe.task}."
        raise ApiError(
            400, f"{said} It answers {own}, not /v1/{route}.", "model", "model_not_supported"
        )

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


class Registry(Mapping[str, Served]):
    """Served models by name. ConfigError: two of one name, or one without any route."""

    def __init__(self, served: Sequence[Served]):
        self._served = {one.id: one for one in served}
        for one in served:
            if self._served[one.id] is not one:
                raise ConfigError(
                    f"Two runs are named {one.id!r}; give each a name: --name A --name B."
                )
            if not one.routes:
                raise ConfigError(
                    f"{one.run.folder} is a model for {one.run.task.recipe.task}, which no route "
                    f"answers; use `glassformer {one.run.task.verb}`."
                )

    def __getitem__(self, name: str) -> Served:
        return self._served[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._served)

    def __len__(self) -> int:
        return len(self._served)

    def named(self, name: str) -> Served:
        """A model by its name; ApiError 404: there is none."""
        if name not in self._served:
            tail = suggest(name[:128], self._served)
            raise ApiError(
                404, f"There is no model {name[:128]!r}; {tail}.", "model", "model_not_found"
            )
        return self._served[name]


def name_of(folder: Path, given: str | None = None) -> str:
    """The name of a run: the one that was given, or its folder's. ConfigError: no name."""
    name = folder.resolve().name if given is None else given
    if not NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r:.80} is no name of a model; give one of letters, digits, . _ - by --name."
        )
    return name
