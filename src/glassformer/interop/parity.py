"""Outputs of an exported folder in its target, compared with those of its model."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from glassformer.core.batch import Batch
from glassformer.core.errors import ConfigError, GlassformerError
from glassformer.data.collate import split_rows
from glassformer.models.transformer import Transformer, evaluating
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.decode import decode
from glassformer.runtime.prompts import common
from glassformer.tasks.task import Task

INPUTS = 8
"""Inputs that are compared."""
TOKENS = 64
"""Tokens that are generated after each."""
CLOSE = 1e-4
"""Largest difference of outputs of about 1: both round each sum in float32, in other orders."""


@dataclass(frozen=True)
class Plan:
    """The kind of model in a target, and the fields that keep a model from being one."""

    name: str | None
    """The class or architecture there, the nearest one where fields differ; None: no class is for
    the task."""
    differences: tuple[str, ...] = ()


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
    tokens: int = 0
    """Tokens generated greedily here."""
    same_tokens: int = 0
    """Of these, those that the target generates too, up to the first other one of each input."""
    gap: float = 0.0
    """Where one is another: how far its logit lies below the largest, here; the largest gap."""

    @property
    def agrees(self) -> bool:
        """Whether both compute the same up to rounding, and choose the same tokens except where
        rounding decides."""
        bound = CLOSE * max(1.0, self.scale)
        return self.difference <= bound and self.gap <= 2 * bound

    def __str__(self) -> str:
        tokens = f"{self.same_tokens:,} of {self.tokens:,} tokens generated greedily are equal"
        return (
            f"{self.outputs:,} outputs of {self.inputs} inputs in {self.target}: largest "
            f"difference {self.difference:.1e} (of outputs up to {self.scale:.1f}), the likeliest "
            f"is the same in {self.same:.2%}{f'; {tokens}' if self.tokens else ''}"
        )


def compare_outputs(
    target: str,
    model: Transformer,
    task: Task,
    outputs: Callable[[Batch], Tensor],
    continued: Callable[[Batch, int], Sequence[int]],
) -> Parity:
    """Compare a model with its target on example inputs of its task.

    outputs: A batch of one to the outputs in the target, in the shape of `Output.logits`.
    continued: A batch of one and a number to the tokens that the target generates greedily after
    it, at most this number; called only for models that predict the next token.

    ConfigError: no example input fits into the model.
    """
    pairs = list[tuple[Tensor, Tensor]]()
    tokens, same_tokens, gap = 0, 0, 0.0
    for batch in islice(batches(task), INPUTS):
        pairs.append((_logits(model, batch), outputs(batch).float().cpu()))
        room = model.config.max_length - batch.elements.shape[1]
        if model.config.predicts_next and room > 0:
            own = _greedy(model, batch, min(TOKENS, room), task)
            theirs = [*map(int, continued(batch, len(own)))] if own else []
            same = common(own, theirs)
            tokens, same_tokens = tokens + len(own), same_tokens + same
            if same < len(own):
                gap = max(gap, _gap(model, batch, own[:same], theirs[same:]))
    if not pairs:
        raise ConfigError(
            "There is no example input to compare; train with a validation split, "
            "or export with --no-check."
        )
    differences = torch.stack([(ours - theirs).abs().max() for ours, theirs in pairs])
    same = torch.cat([(ours.argmax(-1) == theirs.argmax(-1)).flatten() for ours, theirs in pairs])
    return Parity(
        target,
        inputs=len(pairs),
        outputs=len(same),
        difference=differences.max().item(),  # of torch: NaN, where one is
        scale=max(ours.abs().max().item() for ours, _ in pairs),
        same=same.float().mean().item(),
        tokens=tokens,
        same_tokens=same_tokens,
        gap=gap,
    )


def batches(task: Task) -> Iterator[Batch]:
    """Example inputs of a task that its model can read, each as a batch of one."""
    processor = task.processor
    for given in (*processor.kept_inputs(task.folder), *processor.neutral_inputs()):
        with suppress(GlassformerError):
            yield task.encode(given).batch


def _logits(model: Transformer, batch: Batch) -> Tensor:
    with evaluating(model):
        return model(batch).logits.float().cpu()


def _greedy(model: Transformer, batch: Batch, n: int, task: Task) -> list[int]:
    """The n likeliest next tokens, one after another, with the cache; fewer before a symbol that
    ends a text, after which a target may continue in other ways."""
    template, specials = task.processor.template, task.processor.tokenizer.specials
    ends = [specials["eos"]] if "eos" in specials else []
    ends = ends if template is None else sorted(template.ends)
    config = GenerateConfig.parse({"temperature": 0, "max_new_tokens": n})
    sources = batch.source and split_rows(batch.source)
    steps = decode(model, [batch.elements[0].tolist()], config, ends, sources)
    return [step.ids[0] for step in steps if step.ids[0] not in ends]


def _gap(model: Transformer, batch: Batch, own: Sequence[int], theirs: Sequence[int]) -> float:
    """Return how far the target's next token lies below the largest logit after common tokens."""
    if not theirs:
        return float("inf")
    text = torch.cat([batch.elements, batch.elements.new_tensor([own])], 1)
    logits = _logits(model, Batch(text, source=batch.source))[0, -1]
    return (logits.max() - logits[theirs[0]]).item()
