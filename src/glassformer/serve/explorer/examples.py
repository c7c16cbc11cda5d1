"""Example inputs of a run, as requests have them: from what its folder keeps, else neutral ones."""

from contextlib import suppress
from typing import Any

from glassformer.errors import GlassformerError
from glassformer.run import Run
from glassformer.serve.explorer.decode_input import Sensed, decode_input
from glassformer.serve.explorer.encode_input import encode_input
from glassformer.training.history import read_metrics

MOST = 6


def capabilities(run: Run) -> frozenset[str]:
    """What a run reads and answers with: generates, masked, tags, classes, vectors, draws; pair,
    parts, image, audio."""
    return run.task.capabilities | run.processor.capabilities


def media_of(run: Run) -> dict[str, list[Sensed]]:
    """The example images and recordings by medium: `example:0`, `example:1`, ..."""
    kept = {kind: reader.kept_inputs(run.folder) for kind, reader in run.processor.media().items()}
    return {kind: rows for kind, rows in kept.items() if rows}


def examples(run: Run) -> list[Any]:
    """Example inputs as requests have them, at least one; the model can read all of them."""
    media = media_of(run)
    own = run.task.example_inputs(run.folder, _sampled(run))
    neutral = [encode_input(given, run) for given in run.processor.neutral_inputs()]
    for inputs in (own, neutral):
        if found := [one for one in inputs if _fits(run, one, media)]:
            return found[:MOST]
    return ["a"]


def first(run: Run) -> Any:
    """The first example as `Run.look` takes it."""
    return decode_input(examples(run)[0], media_of(run), run.processor.medium)


def _fits(run: Run, one: Any, media: dict[str, list[Sensed]]) -> bool:
    """Whether an input is neither empty nor too long for the model."""
    with suppress(GlassformerError):
        run.encode(decode_input(one, media, run.processor.medium))
        return True
    return False


def _sampled(run: Run) -> list[Any]:
    """The inputs of the latest samples of training."""
    lines = [line["inputs"] for line in read_metrics(run.folder) if line.get("inputs")]
    return lines[-1] if lines and isinstance(lines[-1], list) else []
