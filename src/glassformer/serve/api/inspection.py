"""What a model looked at while it wrote a text: one more pass when the text is complete, as
`Run.look` makes it.

    tokens        x_1 .. x_T: the prompt and the new tokens but the last, which is never read
    attention     A [layer, head, query, key]
    hidden        the stream after the embedding (layer 0) and after each block (1 .. L)
    logit_lens    where each new token was read: the answer if the model stopped after a layer
"""

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save

from glassformer.core.batch import Batch
from glassformer.inspect.lens import lens
from glassformer.inspect.look import Look, look
from glassformer.serve.api.engine_thread import Steps
from glassformer.serve.api.models import Served
from glassformer.serve.api.problems import ApiError
from glassformer.serve.api.requests import Inspect
from glassformer.serve.api.texts import Choice

MOST = {"json": 1 << 18, "safetensors": 1 << 22}
"""Numbers of a reply."""


class Inspection:
    """Parts of the inside of a model for a reply; ApiError 400: a layer or a head that it lacks.

    `parts`: the chosen layers and heads of each part.
    """

    def __init__(self, served: Served, asked: Inspect):
        self.served, self.asked, config = served, asked, served.run.model.config
        self.parts: dict[str, dict[str, list[int]]] = {}
        for name in ("attention", "hidden", "logit_lens"):
            if (part := getattr(asked, name)) is not None:
                n = config.n_layers + (name != "attention")
                self.parts[name] = {"layers": _chosen(part.layers, n, f"{name}.layers")}
        if asked.attention:
            heads = _chosen(asked.attention.heads, config.n_heads, "attention.heads")
            self.parts["attention"]["heads"] = heads

    def check(self, lengths: Sequence[int], several: int, new: int) -> None:
        """Raise ApiError 400 for a reply that may have too many numbers: several texts of at most
        `new` tokens for each prompt, of these lengths."""
        parts, total = self.parts, 0
        for n in (length + new - 1 for length in lengths):
            if attention := parts.get("attention"):
                total += len(attention["layers"]) * len(attention["heads"]) * n * n
            if hidden := parts.get("hidden"):
                total += len(hidden["layers"]) * n * self.served.run.model.config.d_model
            if of_lens := self.asked.logit_lens:
                total += len(parts["logit_lens"]["layers"]) * new * (2 * of_lens.top + 1)
        if (total := total * several) > (most := MOST[self.asked.format]):
            raise ApiError(
                400,
                f"inspect: the reply may have {total:,} numbers, and {most:,} is the most of "
                f"format={self.asked.format!r}; ask for fewer layers, heads or tokens.",
                "inspect",
            )

    def look(self, choices: list[Choice]) -> Steps[list[dict[str, Any]]]:
        """Look at each text from inside, step by step."""
        found = list[dict[str, Any]]()
        for one in choices:
            found.append((yield from self._inside(one.prompt.ids, one.row.made.ids)))
        return found

    def _inside(self, prompt: Sequence[int], new: Sequence[int]) -> Steps[dict[str, Any]]:
        """One text from inside."""
        ids = [*prompt, *new][: len(prompt) + max(0, len(new) - 1)]
        seen = look(self.served.run.model, Batch(torch.tensor([ids])))
        yield
        tokens = list(map(self.served.run.tokenizer.piece, ids))
        told: dict[str, Any] = {"ids": ids, "tokens": tokens, "first": len(prompt)}
        arrays = dict[str, np.ndarray]()
        for name in ("attention", "hidden", "logit_lens"):
            told[name] = dict(chosen) if (chosen := self.parts.get(name)) else None
        if chosen := self.parts.get("attention"):
            patterns = []
            for layer in chosen["layers"]:
                patterns.append(torch.stack([seen.pattern(layer, i) for i in chosen["heads"]]))
                yield
            arrays["attention.values"] = torch.stack(patterns).float().cpu().numpy()
        if chosen := self.parts.get("hidden"):
            streams = [seen.stream(layer) for layer in chosen["layers"]]
            arrays["hidden.values"] = torch.stack(streams).float().cpu().numpy()
        if self.asked.logit_lens:
            positions = list(range(len(prompt) - 1, len(ids)))[: len(new)]
            told["logit_lens"]["positions"] = positions
            layers, top = self.parts["logit_lens"]["layers"], self.asked.logit_lens.top
            arrays |= _lens(seen, top, layers, positions, new)
        yield
        file = None
        if self.asked.format == "safetensors":
            file = b64encode(save(arrays)).decode()
        for name, array in arrays.items():
            part, _, own = name.partition(".")
            told[part][own] = array.tolist() if file is None else None
        return told | {"safetensors": file}


def _lens(
    seen: Look, top: int, layers: Sequence[int], positions: Sequence[int], new: Sequence[int]
) -> dict[str, np.ndarray]:
    if positions:
        of = lens(seen, top, layers=layers, positions=positions, target=new)
        assert of.of_target is not None
        found = of.ids, of.probabilities, of.of_target
    else:
        nothing = torch.zeros(len(layers), 0, top)
        found = nothing.long(), nothing, nothing[..., 0]
    names = ("ids", "probabilities", "chosen")
    return {f"logit_lens.{name}": one.numpy() for name, one in zip(names, found, strict=True)}


def _chosen(asked: Sequence[int] | None, n: int, name: str) -> list[int]:
    if wrong := [one for one in asked or () if one >= n]:
        raise ApiError(
            400,
            f"inspect.{name}: there is no {wrong[0]}; they run from 0 to {n - 1}.",
            "inspect",
        )
    return list(range(n)) if asked is None else list(asked)
