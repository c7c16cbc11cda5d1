"""Inputs of a run: values of requests to what `Run` takes, and back; examples.

    "the cat sat"                                       a text
    ["a dog runs", "ein Hund läuft"]                    a source and its target; or a pair of texts
    [12, 7, 3]      [[12, 7, 3], "ein Hund"]            token ids; also of a source, a target, both
    {"image": ADDRESS}     {"audio": ADDRESS}           one image or audio clip
    [{"image": ADDRESS}, "what is it?"]                 parts in their order
    [{"text": "a dog"}, "runs"]                         parts, not a source and its target
    [[{"image": ADDRESS}, "what is it?"], "a dog"]      parts, and the answer so far

ADDRESS is the content of a file, `data:image/png;base64,...`, or `example:3` of the run in the
explorer. It is never the path of a file: a request must not read the disk.
"""

from base64 import b64decode
from collections.abc import Mapping
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
from glassformer.serve.api.problems import ApiError
from glassformer.training.folder.history import read_metrics

MOST_EXAMPLES = 6


def decode_all(run: Run, given: Any) -> list[Any]:
    """Decode the input of a request to the API, or each of a list; ApiError 400: see `decode`."""
    inputs = RunInputs(run, examples_known=False)
    try:
        return [inputs.decode(one) for one in (given if isinstance(given, list) else [given])]
    except ConfigError as error:
        raise ApiError(400, f"input: {error}", "input") from None


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
        match value:
            case _ if medium := self.run.processor.medium:
                return self._part(value)[medium]
            case str() | {"text": _}:
                return self._part(value)
            case dict():
                return [self._part(value)]
            case [] | None:
                raise ConfigError("The input is empty; give at least a word, or a file.")
            case [str() as only]:
                return (only,)
            case [first, second] if _is_side(first) and _is_side(second):
                return first, second
            case [list() as parts, str() as answer]:
                return [*map(self._part, parts)], answer
            case list():
                return value if _are_ids(value) else [*map(self._part, value)]
        raise ConfigError(
            f"{brief(value)} is no input; give a text, a list of texts and parts, or of token ids."
        )

    def _part(self, value: Any) -> Any:
        media, medium = self.run.processor.media(), self.run.processor.medium
        match [*value.items()] if isinstance(value, dict) else [("text", value)]:
            case [("text", str() as text)] if not medium:
                return text
            case [(kind, str() as where)] if kind in media:
                read = self._example if where.startswith(EXAMPLE) else self._file
                return {kind: read(kind, where)}
        forms = [f'{{"{kind}": "data:{kind}/...;base64,..."}}' for kind in media]
        known = " or ".join(forms if medium else ["a text", *forms])
        raise ConfigError(f"{brief(value)} is no part that this model reads; give {known}.")

    def _example(self, kind: str, where: str) -> Any:
        own = {f"{EXAMPLE}{i}": one for i, one in enumerate(self.kept.get(kind, ()))}
        if where not in own:
            there = f"its examples are 0 to {len(own) - 1}" if own else "it has none"
            raise ConfigError(f"There is no {brief(where)} of kind {kind} in this run; {there}.")
        return own[where]

    def _file(self, kind: str, where: str) -> Any:
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
        """What `gf.look` takes as a value of a request; the files of paths are read.

        ConfigError: it is no input; DataError: no such file.
        """
        kind = self.run.processor.medium
        match given:
            case [str() as first, str() as second] if "parts" in self.run.processor.capabilities:
                given = [[first], second] if isinstance(given, tuple) else [{"text": first}, second]
        return self._plain({kind: given} if kind and not isinstance(given, Mapping) else given)

    def _plain(self, given: Any) -> Any:
        match given:
            case str() | int():
                return given
            case {**parts} if len(parts) == 1:
                ((kind, thing),) = parts.items()
                return {kind: thing if kind == "text" else self._address(str(kind), thing)}
            case list() | tuple():
                return [self._plain(one) for one in given]
        if hasattr(given, "tolist"):  # ids as an array or a tensor
            return self._plain(given.tolist())
        raise ConfigError(f"{brief(given)} is no input; give what gf.look takes.")

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
        lines = [line["inputs"] for line in read_metrics(run.folder) if line.get("inputs")]
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


def _is_side(value: Any) -> bool:
    """Whether a value is one side of a pair: a text, or token ids."""
    return isinstance(value, str) or (isinstance(value, list) and _are_ids(value))


def _are_ids(value: list[Any]) -> bool:
    """Whether a list holds token ids; ConfigError: a number that is none."""
    if not value or not all(type(i) is int for i in value):
        return False
    if not all(0 <= i < 1 << 31 for i in value):
        raise ConfigError(
            f"A token id is a number from 0, and the input holds {min(value)} to {max(value)}."
        )
    return True
