"""What an exported folder computes in its target, beside the model that it was made from."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer.batch import Batch
from glassformer.errors import ConfigError, GlassformerError
from glassformer.interop.fit import Fit
from glassformer.models.transformer import Transformer, evaluating
from glassformer.tasks.task import Task

INPUTS = 8
"""Inputs that are compared."""
CLOSE = 1e-4
"""Largest difference of outputs of about 1: both round each sum in float32, in other orders."""


@dataclass(frozen=True)
class Parity:
    """Outputs of a model here and in its target, on some inputs."""

    target: str
    inputs: int
    outputs: int
    difference: float
    """The largest, absolute."""
    scale: float
    """The largest output, absolute."""
    same: float
    """Share of outputs whose largest value is at the same place."""

    @property
    def agrees(self) -> bool:
        """Whether both compute the same up to rounding."""
        return self.difference <= CLOSE * max(1.0, self.scale)

    def __str__(self) -> str:
        return (
            f"{self.outputs:,} outputs of {self.inputs} inputs in {self.target}: largest "
            f"difference {self.difference:.1e} (of outputs up to {self.scale:.1f}), the likeliest "
            f"is the same in {self.same:.2%}"
        )


def with_transformers(model: Transformer, task: Task, fit: Fit, folder: Path) -> Parity:
    """Compare with the class of transformers that the folder is for.

    ConfigError: the library is not installed, or no example input fits into the model.
    """
    try:
        import transformers
    except ImportError:
        raise ConfigError(
            "The export is compared in transformers, which is not installed; run pip install "
            "'glassformer[export]', or add --no-check."
        ) from None
    theirs: Any = getattr(transformers, fit.name)
    theirs = theirs.from_pretrained(folder, local_files_only=True).eval()
    pairs = [
        (_ours(model, batch), _theirs(theirs, batch)) for batch in islice(batches(task), INPUTS)
    ]
    if not pairs:
        raise ConfigError("There is no example input to compare; train with a validation split.")
    return _parity(f"transformers {transformers.__version__}", pairs)


def batches(task: Task) -> Iterator[Batch]:
    """Example inputs of a task that its model can read, each as a batch of one."""
    processor = task.processor
    for given in (*processor.kept_inputs(task.folder), *processor.neutral_inputs()):
        with suppress(GlassformerError):
            yield task.encode(given).batch


def _parity(target: str, pairs: list[tuple[Tensor, Tensor]]) -> Parity:
    differences = torch.stack([(ours - theirs).abs().max() for ours, theirs in pairs])
    same = [(ours.argmax(-1) == theirs.argmax(-1)).flatten() for ours, theirs in pairs]
    scale = max(ours.abs().max().item() for ours, _ in pairs)
    joined = torch.cat(same)
    return Parity(
        target,
        len(pairs),
        len(joined),
        differences.max().item(),  # of torch: NaN, where one is
        scale,
        joined.float().mean().item(),
    )


def _ours(model: Transformer, batch: Batch) -> Tensor:
    with evaluating(model):
        return model(batch).logits.float().cpu()


def _theirs(model: Any, batch: Batch) -> Tensor:
    """Outputs of a model of transformers for a batch of one: logits, or vectors."""
    given: dict[str, Any] = {"input_ids": batch.elements}
    if batch.source is not None:
        given = {"input_ids": batch.source.elements, "decoder_input_ids": batch.elements}
    elif batch.elements.is_floating_point():
        given = {"pixel_values": _pixels(batch.elements, model.config)}
    if batch.token_type_ids is not None:
        given["token_type_ids"] = batch.token_type_ids
    with torch.inference_mode():
        found = model(**given)
    for name in ("logits", "pooler_output", "last_hidden_state"):
        if (values := getattr(found, name, None)) is not None:
            return values.float()
    raise ConfigError(f"{type(model).__name__} has no outputs to compare.")


def _pixels(patches: Tensor, config: Any) -> Tensor:
    """Patches [1, T, p·q·C] as pixels [1, C, H, W]."""
    (height, width), (p, q) = (
        own if isinstance(own, list | tuple) else (own, own)
        for own in (config.image_size, config.patch_size)
    )
    cut = patches.reshape(1, height // p, width // q, p, q, -1)
    return cut.permute(0, 5, 1, 3, 2, 4).reshape(1, -1, height, width)
