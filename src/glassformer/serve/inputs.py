"""Inputs of a run in requests (see `processors.requests`), their files, and examples.

A file is its content, `data:image/png;base64,...`, or `example:3` of the run in the explorer. It is
never a path: a request must not read the disk.
"""

from base64 import b64decode
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from mimetypes import guess_type
from pathlib import Path
from typing import Any

from glassformer.core.errors import ConfigError, GlassformerError, brief
from glassformer.data.formats.contents import content
from glassformer.data.sources import source_at
from glassformer.pages.images import address
from glassformer.processors.media.processor import EXAMPLE
from glassformer.run import Run
from glassformer.run.checkpoints import history

MOST_EXAMPLES = 6


@dataclass
class RunInputs:
    """The inputs that a run reads; `examples_known`: its own examples are some."""

    run: Run
    examples_known: bool = True

    @cached_property
    def kept(self) -> dict[str, list[Any]]:
        """Example images and audio of the run folder by medium: `example:0`, `example:1`, ..."""
        media = self.run.processor.media() if self.examples_known else {}
        return {kind: reader.kept_inputs(self.run.folder) for kind, reader in media.items()}

    def decode(self, value: Any) -> Any:
        """Return a value of a request as `Run.look` takes it.

        ConfigError: no input, or one that the model does not read; DataError: a damaged file.
        """
        return self.run.processor.from_request(value, self.read)

    def read(self, kind: str, where: str) -> Any:
        """Return an example, or the content of an address."""
        if where.startswith(EXAMPLE):
            own = {f"{EXAMPLE}{i}": one for i, one in enumerate(self.kept.get(kind, ()))}
            if where in own:
                return own[where]
            there = f"its examples are 0 to {len(own) - 1}" if own else "it has none"
            raise ConfigError(f"There is no {brief(where)} of kind {kind} in this run; {there}.")
        head, _, body = where.partition(";base64,")
        try:
            raw = b64decode(body, validate=True)
        except ValueError:
            raw = b""
        if not raw or not head.startswith("data:"):
            raise ConfigError(
                f'{brief(where)} is no file; give it as "data:{kind}/...;base64,...".'
            )
        return self.run.processor.media()[kind].from_file(raw)

    def encode(self, given: Any) -> Any:
        """Return an input of `gf.look` as a value of a request; files are read.

        ConfigError: it is no input; DataError: no such file.
        """
        return self.run.processor.to_request(given, self._address)

    def _address(self, kind: str, thing: Any) -> str:
        if isinstance(thing, str) and thing.startswith(("data:", EXAMPLE)):
            return thing
        if isinstance(thing, str | Path):
            file = str(Path(thing).expanduser().absolute())
            return address(guess_type(file)[0] or f"{kind}/*", content(source_at(file)))
        reader = self.run.processor.media().get(kind)
        raw = reader and reader.to_file(thing)
        if raw is None:
            raise ConfigError(
                f"{brief(thing)} is no {kind}; give a file, pixels uint8 [H, W, C], or (samples, "
                "rate)."
            )
        return address(reader.accept.partition(",")[0], raw)

    def examples(self) -> list[Any]:
        """Example inputs as requests have them, at least one, all of which the model can read.

        They are those of the run folder, otherwise neutral ones.
        """
        run = self.run
        lines = [line["inputs"] for line in history(run) if line.get("inputs")]
        sampled = lines[-1] if lines and isinstance(lines[-1], list) else []
        own = run.task.objective.example_inputs(run.folder, sampled)
        neutral = [self.encode(given) for given in run.processor.neutral_inputs()]
        found = [*filter(self._fits, own)] or [*filter(self._fits, neutral)] or ["a"]
        return found[:MOST_EXAMPLES]

    def _fits(self, value: Any) -> bool:
        """Whether an input is neither empty nor too long for the model."""
        with suppress(GlassformerError):
            self.run.encode(self.decode(value))
            return True
        return False
