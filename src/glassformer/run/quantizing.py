"""What quantized matrices cost and gain: the loss on a validation text, and the speed of decoding.

            bits per byte   tokens/s
float32            1.8405      310.4
int8               1.8412      455.0
"""

import math
import statistics
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise

from glassformer.data.tokens import TokenSplit
from glassformer.errors import ConfigError
from glassformer.generate.config import GenerateConfig
from glassformer.generate.decode import decode
from glassformer.models.transformer import Transformer
from glassformer.run.evaluating import other_data, own_data
from glassformer.run.run import Run
from glassformer.tasks.evaluate import Evaluation
from glassformer.tasks.task import Task

BATCHES = 4
"""Batches of about 4,096 tokens that the loss is the mean of, spread evenly over the text."""
PROMPT, NEW, ROUNDS = 32, 24, 3
"""Tokens before and of a timed answer, and how often each model gives it, in turn."""
VALIDATION = "validation"


@dataclass(frozen=True)
class Cost:
    """Loss in nats and bits for each byte of the text (None: the data has no bytes), and greedy
    tokens a second of one row."""

    loss: float
    bits_per_byte: float | None
    tokens_per_second: float


def compared(full: Run, packed: Run, data: str | None = None) -> list[Cost]:
    """The costs of a run in float32 and with quantized matrices, on the same part of its validation
    split, or of `data`; they are timed in turn.

    ConfigError: a run without data of its own and no `data`.
    """
    if full.recipe is None and data is None:
        raise ConfigError(
            f"{full.folder} has no recipe.yaml and so no validation text to compare precisions on; "
            "give --data PATH."
        )
    models = [full.model, packed.model]
    with ExitStack() as stack:
        if data is None:
            task = stack.enter_context(own_data(full.task, VALIDATION))[0]
        else:
            task = stack.enter_context(other_data(full.task, data))
        losses = [_loss(task, model) for model in models]
        rates = speeds(models, _prompt(task, full.model.config.max_length))
    return [Cost(*loss, rate) for loss, rate in zip(losses, rates, strict=True)]


def speeds(models: Sequence[Transformer], prompt: Sequence[int]) -> list[float]:
    """Greedy tokens a second of each model behind one prompt: the median of all steps."""
    how = GenerateConfig.parse({"temperature": 0.0, "max_new_tokens": NEW + 1})
    steps: list[list[float]] = [[] for _ in models]
    for _ in range(ROUNDS):
        for model, own in zip(models, steps, strict=True):
            times = [time.perf_counter() for _ in decode(model, [list(prompt)], how)]
            own += [after - before for before, after in pairwise(times)]
    return [1 / statistics.median(own) for own in steps]


def _loss(task: Task, model: Transformer) -> tuple[float, float | None]:
    """Nats a token and bits a byte, the bytes of a part in proportion to its tokens."""
    loss = task.evaluate(model, VALIDATION, Evaluation(limit=BATCHES))["loss"]
    split = task.split(VALIDATION)
    if not isinstance(split, TokenSplit):
        return loss, None
    return loss, loss / math.log(2) * (len(split.tokens) - 1) / split.n_bytes


def _prompt(task: Task, context: int) -> list[int]:
    """The beginning of the text, such that no answer fills the context."""
    split = task.split(VALIDATION)
    longest = max(1, min(PROMPT, context - NEW))
    return split.tokens[:longest].tolist() if isinstance(split, TokenSplit) else [0] * longest
