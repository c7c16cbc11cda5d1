"""What a model looked at while it wrote a text: one more pass when the text is complete, as
`Run.look` makes it.

    tokens        x_1 .. x_T: the prompt and the new tokens but the last, which is never read
    attention     A [layer, head, query, key]
    hidden        the stream after the embedding (layer 0) and after each block (1 .. L)
    logit_lens    where each new token was read: the answer if the model stopped after a layer
"""

import math
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import torch
from safetensors.torch import save

from glassformer.core.axes import Tensor
from glassformer.core.batch import Batch
from glassformer.inspect.lens import lens
from glassformer.inspect.look import Look, look
from glassformer.serve.api.engine_thread import Steps
from glassformer.serve.api.problems import ApiError
from glassformer.serve.api.requests import Inspect
from glassformer.serve.api.service import Served
from glassformer.serve.api.texts import Choice

MOST = {"json": 1 << 18, "safetensors": 1 << 22}
"""Numbers of a reply."""


class Inspection:
    """Parts of the inside of a model for a reply with texts of at most `new` tokens after prompts
    of these lengths.

    `parts`: the chosen layers and heads of each part; None: it is left out. ApiError 400: a layer
    or a head that the model lacks, or a reply that may have too many numbers.
    """

    def __init__(self, served: Served, asked: Inspect, lengths: Sequence[int], new: int):
        self.served, self.asked, config = served, asked, served.run.model.config
        sizes = {"layers": config.n_layers, "heads": config.n_heads}
        streams = {"layers": config.n_layers + 1}
        self.top = getattr(asked.logit_lens, "top", 0)
        self.parts: dict[str, dict[str, Any] | None] = {
            name: (part := getattr(asked, name))
            and {own: _choose(getattr(part, own), n, f"{name}.{own}") for own, n in of.items()}
            for name, of in {"attention": sizes, "hidden": streams, "logit_lens": streams}.items()
        }
        patterns, streams, answers = (
            math.prod(map(len, part.values())) if part else 0 for part in self.parts.values()
        )
        width, of_each = config.d_model, answers * new * (2 * self.top + 1)
        long = [length + new - 1 for length in lengths]
        total = sum(patterns * n * n + streams * n * width + of_each for n in long)
        if total > (most := MOST[asked.format]):
            raise ApiError(
                400,
                f"inspect: the reply may have {total:,} numbers, and {most:,} is the most of "
                f"format={asked.format!r}; ask for fewer layers, heads or tokens.",
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
        inside: dict[str, Any] = {name: part and dict(part) for name, part in self.parts.items()}
        arrays = dict[str, Tensor]()
        if part := inside["attention"]:
            patterns = []
            for layer in part["layers"]:
                patterns.append(torch.stack([seen.pattern(layer, i) for i in part["heads"]]))
                yield
            arrays["attention.values"] = torch.stack(patterns).float()
        if part := inside["hidden"]:
            arrays["hidden.values"] = torch.stack([*map(seen.stream, part["layers"])]).float()
        if part := inside["logit_lens"]:
            part["positions"] = list(range(len(prompt) - 1, len(ids)))[: len(new)]
            arrays |= _lens(seen, self.top, part, new)
        yield
        arrays = {name: one.cpu().contiguous() for name, one in arrays.items()}
        as_file = self.asked.format == "safetensors"
        for name, array in arrays.items():
            part, _, own = name.partition(".")
            inside[part][own] = None if as_file else array.tolist()
        file = b64encode(save(arrays)).decode() if as_file else None
        return {"ids": ids, "tokens": tokens, "first": len(prompt), **inside, "safetensors": file}


def _lens(
    seen: Look, top: int, part: dict[str, list[int]], new: Sequence[int]
) -> dict[str, Tensor]:
    layers, at = part["layers"], part["positions"]
    of = lens(seen, top, layers=layers, positions=at or [0], target=new or [0])
    assert of.of_target is not None
    lists = {"ids": of.ids, "probabilities": of.probabilities, "chosen": of.of_target}
    return {f"logit_lens.{name}": one[:, : len(at)] for name, one in lists.items()}


def _choose(asked: Sequence[int] | None, n: int, name: str) -> list[int]:
    if wrong := [one for one in asked or () if one >= n]:
        raise ApiError(
            400,
            f"inspect.{name}: there is no {wrong[0]}; they run from 0 to {n - 1}.",
            "inspect",
        )
    return list(range(n)) if asked is None else list(asked)
