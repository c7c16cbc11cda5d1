"""What a model looked at while it wrote a text: one more pass when the text is complete, as
`Run.look` makes it.

    tokens        x_1 .. x_T: the prompt and the new tokens but the last, which is never read
    attention     A [layer, head, query, key]
    hidden        the stream after the embedding (layer 0) and after each block (1 .. L)
    logit_lens    where each new token was read: the answer if the model stopped after a layer
"""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save

from glassformer.axes import Tensor
from glassformer.batch import Batch
from glassformer.generate import Steps
from glassformer.inspect.lens import lens
from glassformer.inspect.look import Look, look
from glassformer.serve.api.models import Served
from glassformer.serve.api.problems import ApiError
from glassformer.serve.api.requests import Inspect
from glassformer.serve.api.texts import Choice, Wanted

MOST = {"json": 1 << 18, "safetensors": 1 << 22}
"""Numbers of a reply."""


class Inspection:
    """What is asked of the inside of a model; ApiError 400: a layer or a head that it lacks."""

    def __init__(self, served: Served, asked: Inspect):
        self.served, self.asked, config = served, asked, served.run.model.config
        n, of_lens = config.n_layers, asked.logit_lens
        attention, hidden = asked.attention, asked.hidden
        self.layers = _chosen(attention and attention.layers, n, "attention.layers")
        self.heads = _chosen(attention and attention.heads, config.n_heads, "attention.heads")
        self.hidden = _chosen(hidden and hidden.layers, n + 1, "hidden.layers")
        self.lens = _chosen(of_lens and of_lens.layers, n + 1, "logit_lens.layers")

    def check(self, lengths: Sequence[int], wanted: Wanted) -> None:
        """Raise ApiError 400 for a reply that may have too many numbers; `lengths`: of prompts."""
        config, new = self.served.run.model.config, wanted.how.max_new_tokens
        total = 0
        for length in lengths:
            n = length + new - 1
            if self.asked.attention:
                total += wanted.n * len(self.layers) * len(self.heads) * n * n
            if self.asked.hidden:
                total += wanted.n * len(self.hidden) * n * config.d_model
            if self.asked.logit_lens:
                total += wanted.n * len(self.lens) * new * (2 * self.asked.logit_lens.top + 1)
        if total > (most := MOST[self.asked.format]):
            raise ApiError(
                400,
                f"inspect: the reply may have {total:,} numbers, and {most:,} is the most of "
                f"format={self.asked.format!r}; ask for fewer layers, heads or tokens.",
                "inspect",
            )

    def seen(self, choices: list[Choice]) -> Steps[list[dict[str, Any]]]:
        """Look at each text from inside, step by step."""
        found = list[dict[str, Any]]()
        for one in choices:
            found.append((yield from self._inside(one.prompt.ids, one.ids)))
        return found

    def _inside(self, prompt: Sequence[int], new: Sequence[int]) -> Steps[dict[str, Any]]:
        """One text from inside."""
        piece, asked = self.served.run.tokenizer.piece, self.asked
        ids = [*prompt, *new][: len(prompt) + max(0, len(new) - 1)]
        seen = look(self.served.run.model, Batch(torch.tensor([ids])))
        yield
        told: dict[str, Any] = {"attention": None, "hidden": None, "logit_lens": None}
        arrays = dict[str, np.ndarray]()
        if asked.attention:
            told["attention"] = {"layers": self.layers, "heads": self.heads}
            patterns = yield from _patterns(seen, self.layers, self.heads)
            arrays["attention.values"] = _array(patterns)
        if asked.hidden:
            told["hidden"] = {"layers": self.hidden}
            arrays["hidden.values"] = _array([*_streams(seen, self.hidden)])
        if asked.logit_lens:
            positions = list(range(len(prompt) - 1, len(ids)))[: len(new)]
            told["logit_lens"] = {"layers": self.lens, "positions": positions}
            top = asked.logit_lens.top
            arrays |= _lens(seen, top, self.lens, positions, new)
        yield
        file = None
        if asked.format == "safetensors":
            file = b64encode(save(arrays)).decode()
        for name, array in arrays.items():
            part, _, own = name.partition(".")
            told[part][own] = array.tolist() if file is None else None
        read = {"ids": ids, "tokens": list(map(piece, ids)), "first": len(prompt)}
        return read | told | {"safetensors": file}


def _patterns(seen: Look, layers: Sequence[int], heads: Sequence[int]) -> Steps[list[Tensor]]:
    found = list[Tensor]()
    for layer in layers:
        found.append(torch.stack([seen.pattern(layer, head) for head in heads]))
        yield
    return found


def _streams(seen: Look, layers: Sequence[int]) -> Iterator[Tensor]:
    for layer in layers:
        name = f"{layer - 1}.resid_post" if layer else "0.resid_pre"
        yield seen[f"{seen.answering}.blocks.{name}"].tensor


def _lens(
    seen: Look, top: int, layers: Sequence[int], positions: Sequence[int], new: Sequence[int]
) -> dict[str, np.ndarray]:
    if not positions:
        nothing = np.zeros((len(layers), 0, top), np.float32)
        found = nothing.astype(np.int64), nothing, nothing[..., 0]
    else:
        of = lens(seen, top, layers=layers, positions=positions, target=new)
        assert of.of_target is not None
        found = of.ids.numpy(), of.probabilities.numpy(), of.of_target.numpy()
    names = ("ids", "probabilities", "chosen")
    return {f"logit_lens.{name}": one for name, one in zip(names, found, strict=True)}


def _array(tensors: list[Tensor]) -> np.ndarray:
    return torch.stack(tensors).float().cpu().contiguous().numpy()


def _chosen(asked: Sequence[int] | None, n: int, name: str) -> list[int]:
    if wrong := [one for one in asked or () if one >= n]:
        raise ApiError(
            400,
            f"inspect.{name}: there is no {wrong[0]}; they run from 0 to {n - 1}.",
            "inspect",
        )
    return list(range(n)) if asked is None else list(asked)
