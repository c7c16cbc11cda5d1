"""A whole Transformer in float64 NumPy from a dictionary of weights and plain configuration values.

Each step is a method, so that a verification can give it production's input of just that step.
Weights are those of the model's state dict (maps stored as out x in).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from glassformer.verify import reference as ref
from glassformer.verify import reference_position as where
from glassformer.verify.reference import Array


@dataclass(frozen=True)
class Patches:
    """Patches that stand in place of tokens: their type, slots, N x P numbers, and the number of
    each in its image."""

    name: str
    at: list[int]
    values: Array
    index: list[int]


@dataclass(frozen=True)
class Sample:
    """One sequence: T ids or T x P patches, and for each element its position, document, validity
    and token type."""

    elements: Array
    position: list[int]
    document: list[int] | None = None
    valid: list[bool] | None = None
    token_type_ids: Array | None = None
    parts: tuple[Patches, ...] = ()


@dataclass(frozen=True)
class Source:
    """The encoder's output and where its rows stand."""

    hidden: Array
    positions: Sample


class ReferenceModel:
    """The model of `config` (plain values by field name) with `weights` (float64 arrays by
    parameter name)."""

    def __init__(self, weights: Mapping[str, Array], config: Mapping[str, Any]):
        self.weights, self.config = weights, config
        heads, d_model = config["n_heads"], config["d_model"]
        shared = config["n_kv_heads"] or heads
        self.heads = {"q": heads, "k": shared, "v": shared}
        scales = {"head": config["d_head"] or d_model // heads, "model": d_model, "none": 1}
        self.scale = scales[config["scale"]] ** -0.5
        self.class_token = weights.get("embed.element.class_token")
        self.ahead = int(self.class_token is not None)

    def linear(self, name: str, x: Array) -> Array:
        """x W + b with the stored W transposed to the notes' orientation."""
        return ref.project(x, self.weights[f"{name}.weight"].T, self.weights.get(f"{name}.bias"))

    def norm(self, name: str, x: Array) -> Array:
        """The norm of that name, of the configured kind."""
        gamma, epsilon = self.weights[f"{name}.weight"], self.config["epsilon"]
        if self.config["norm"] == "rms":
            return ref.rms_norm(x, gamma, epsilon)
        return ref.layer_norm(x, gamma, self.weights.get(f"{name}.bias"), epsilon)

    def sublayer(self, name: str, x: Array, f: Callable[[Array], Array]) -> Array:
        """f with its norm and residual connection (equations 11 and 12)."""
        return ref.sublayer(
            x,
            f,
            partial(self.norm, name),
            self.config["norm_placement"],
            residual=self.config["residual"],
        )

    def positions(self, sample: Sample) -> Sample:
        """The sample as its stream stands: a class token in front moves every patch by one."""
        if not self.ahead:
            return sample
        document, valid = sample.document, sample.valid
        return replace(
            sample,
            position=[0, *(i + 1 for i in sample.position)],
            document=document and [document[0], *document],
            valid=valid and [True, *valid],
        )

    def table(self, side: str) -> str:
        """Name of the embedding that a side reads: its own, if the source has a vocabulary of its
        own."""
        return "source_embed" if side == "encoder" and self.config["source_vocab_size"] else "embed"

    def patch_numbers(self, position: list[int]) -> list[int]:
        """Which patch stands at each position; below 0 the class token."""
        return [i - self.ahead for i in position]

    def position_vectors(self, position: list[int], table: str = "embed") -> Array | None:
        """Position vectors; None for kinds that act elsewhere (equation 8)."""
        d, counted = self.config["d_model"], [i + self.config["first_position"] for i in position]
        if self.config["position_combination"] == "concatenate":
            d = self.config["position_width"] or d // 2
        match self.config["position"]:
            case "learned":
                return self.weights[f"{table}.position.weight"][position]
            case "sinusoidal" | "sinusoidal_printed" as kind:
                return where.sinusoid(counted, d, printed=kind != "sinusoidal")
            case "sinusoidal_2d":
                patches = self.patch_numbers(position)
                return where.sinusoid_grid(patches, self.config["grid"][1], d)
            case _:
                return None

    def elements(self, sample: Sample, table: str = "embed") -> Array:
        """Rows of E (times √d in the 2017 model), or patches times W_emb behind the class token."""
        if self.config["elements"] == "tokens":
            rows = self.weights[f"{table}.element.weight"][sample.elements]
            rows = rows * math.sqrt(self.config["d_model"] if self.config["embedding_scale"] else 1)
            for part in sample.parts:
                rows[part.at] = self.part(f"{table}.parts.{part.name}", part)
            return rows
        x = sample.elements
        x = self.stem(x) if self.config["stem"] else self.linear("embed.element.proj", x)
        token = self.class_token
        return x if token is None else np.concatenate([token.reshape(1, -1), x])

    def stem(self, patches: Array) -> Array:
        """Patches laid out as an image, 3 x 3 convolutions with a GELU after each, and W_emb, the
        last of them."""
        (rows, columns), (p, q) = self.config["grid"], self.config["patch"]
        x = patches.reshape(rows, columns, p, q, -1).transpose(0, 2, 1, 3, 4)
        x = x.reshape(rows * p, columns * q, -1)
        names = [f"stem.convolutions.{i}" for i in range(len(self.config["stem"]))]
        for i, name in enumerate([*names, "proj"]):
            x, left = ref.gelu(x) if i else x, len(names) - i  # convolutions after this one
            down, across = (
                range(0, side, 2 if side > count * 2**left else 1)
                for side, count in zip(x.shape, (rows, columns), strict=False)
            )
            wide = np.pad(x, ((1, 1), (1, 1), (0, 0)))
            seen = [[wide[r : r + 3, c : c + 3] for c in across] for r in down]
            seen = np.moveaxis(np.array(seen), -1, 2).reshape(len(down), len(across), -1)
            x = self.linear(f"embed.element.{name}", seen)
        return x.reshape(rows * columns, -1)

    def part(self, name: str, part: Patches) -> Array:
        """Patches times W, plus their type's vector, plus that of their place in the image if there
        is a table."""
        x = part.values @ self.weights[f"{name}.proj.weight"].T + self.weights[f"{name}.kind"]
        table = self.weights.get(f"{name}.position.weight")
        return x if table is None else x + table[part.index]

    def embed(self, sample: Sample, positions: Array | None, table: str = "embed") -> Array:
        """Elements + positions (or [elements; positions]) + token types, normalized if the model
        does so."""
        x = self.elements(sample, table)
        if positions is not None:
            joined = self.config["position_combination"] == "concatenate"
            x = np.concatenate([x, positions], axis=1) if joined else x + positions
        if self.config["n_token_types"]:
            types = sample.token_type_ids
            x = x + self.weights[f"{table}.kind.weight"][[0] * len(x) if types is None else types]
        return self.norm(f"{table}.norm", x) if self.config["embedding_norm"] else x

    def mask(self, side: str, sample: Sample) -> Array:
        """M of self-attention: -inf at padding, other documents, the future (decoder) and beyond
        the window."""
        gap, window = np.subtract.outer(sample.position, sample.position), self.config["window"]
        seen = (gap >= 0) | (side == "encoder")
        if window is not None:
            seen &= np.abs(gap) < window
        if sample.document is not None:
            seen &= np.equal.outer(sample.document, sample.document)
        if sample.valid is not None:
            seen &= np.array(sample.valid)
        return np.where(seen, 0.0, -np.inf)

    def bias(self, side: str, position: list[int]) -> Array | None:
        """B of each head in that stack, H x T x T, before any scaling; None if there is none."""
        match self.config["position"]:
            case "relative":
                return where.relative(self.weights[f"{side}.bias.weight"], position, position)
            case "buckets":
                table, far = self.weights[f"{side}.bias.weight"], self.config["max_distance"]
                both_ways = side == "encoder"
                return where.bucketed(table, position, position, far, both_ways=both_ways)
            case "alibi":
                return where.alibi(self.heads["q"], position, position)
            case _:
                return None

    def project_heads(
        self, name: str, which: str, x: Array, rotated_at: list[int] | None = None
    ) -> list[Array]:
        """q, k or v of each head: x W, normalized and rotated if the model does so (equation 1)."""
        heads, base = self.linear(f"{name}.{which}_proj", x), self.config["rotary_base"]
        heads = np.split(heads, self.heads[which], axis=1)
        if which == "v":
            return heads
        if self.config["qk_norm"]:
            gamma = self.weights[f"{name}.{which}_norm.weight"]
            heads = [ref.rms_norm(head, gamma, self.config["epsilon"]) for head in heads]
        if rotated_at is not None and self.config["position"] == "rotary":
            return [where.rotary(head, rotated_at, base) for head in heads]
        if rotated_at is not None and self.config["position"] == "rotary_2d":
            patches, columns = self.patch_numbers(rotated_at), self.config["grid"][1]
            return [where.rotary_grid(head, patches, columns, base) for head in heads]
        return heads

    def scores(
        self, q: list[Array], k: list[Array], mask: Array, bias: Array | None
    ) -> list[Array]:
        """S of each head, B outside or inside the division (equations 3, 4, 6); with fewer keys
        than queries, one serves H / G neighbouring heads."""
        inside, share = self.config["bias_placement"] == "inside", len(q) // len(k)
        added = np.zeros(len(q)) if bias is None else bias
        return [
            ref.scores(q[h], k[h // share], self.scale, mask, added[h], inside=inside)
            for h in range(len(q))
        ]

    def weighted(self, pattern: list[Array], v: list[Array]) -> list[Array]:
        """Z = A V of each head."""
        share = len(pattern) // len(v)
        return [pattern[h] @ v[h // share] for h in range(len(pattern))]

    def mixed(
        self,
        name: str,
        x: Array,
        source: Array,
        mask: Array,
        bias: Array | None = None,
        rotated_at: list[int] | None = None,
    ) -> Array:
        """concat_h(softmax(S_h) V_h) (equations 3 and 5; 7 if `source` is the encoder's output)."""
        q = self.project_heads(name, "q", x, rotated_at)
        k = self.project_heads(name, "k", source, rotated_at)
        v = self.project_heads(name, "v", source)
        pattern = [ref.softmax(s) for s in self.scores(q, k, mask, bias)]
        return np.concatenate(self.weighted(pattern, v), axis=1)

    def attention(self, name: str, *given: Any) -> Array:
        """`mixed` times W_O."""
        return self.linear(f"{name}.out_proj", self.mixed(name, *given))

    def feed_forward(self, name: str, x: Array) -> Array:
        """φ(x W₁ + b₁) W₂ + b₂; gated: (φ(x W_g + b_g) ⊙ (x W₁ + b₁)) W₂ + b₂ (equation 10)."""
        phi, up = ref.PHI[self.config["activation"]], self.linear(f"{name}.up_proj", x)
        gated = self.config["gated"]
        hidden = phi(self.linear(f"{name}.gate_proj", x)) * up if gated else phi(up)
        return self.linear(f"{name}.down_proj", hidden)

    def source_mask(self, sample: Sample, source: Source) -> Array:
        """M of cross-attention: padding of the source, and another document's source, but no future
        (equation 7)."""
        queries, keys = len(sample.position), len(source.hidden)
        mask = ref.padding_mask(queries, source.positions.valid or [True] * keys)
        own, other = sample.document or [0] * queries, source.positions.document or [0] * keys
        return np.where(np.equal.outer(own, other), mask, -np.inf)

    def attend_half(
        self, side: str, layer: int, x: Array, sample: Sample, source: Source | None
    ) -> Array:
        """The first half of a block: self-attention, and cross-attention if there is a source, on
        the stream."""
        name, at = f"{side}.blocks.{layer}", sample.position
        own, bias, mask = f"{name}.attention", self.bias(side, at), self.mask(side, sample)
        x = self.sublayer(f"{own}_norm", x, lambda y: self.attention(own, y, y, mask, bias, at))
        if source is None:
            return x
        cross, seen = f"{name}.cross", self.source_mask(sample, source)
        attend = lambda y: self.attention(cross, y, source.hidden, seen)  # noqa: E731
        return self.sublayer(f"{cross}_norm", x, attend)

    def block(
        self, side: str, layer: int, x: Array, sample: Sample, source: Source | None = None
    ) -> Array:
        """One block: attention, then the feed-forward network, each on the residual stream."""
        x, name = self.attend_half(side, layer, x, sample, source), f"{side}.blocks.{layer}"
        name = f"{name}.feedforward"
        return self.sublayer(f"{name}_norm", x, partial(self.feed_forward, name))

    def features(self, sample: Sample, source: Sample | None = None) -> Array:
        """The stream before the head, T x d."""
        if self.config["architecture"] == "encoder_decoder":
            assert source is not None
            encoded = Source(self._run("encoder", source), self.positions(source))
            return self._run("decoder", sample, encoded)
        return self._run(self.config["architecture"], sample)

    def _run(self, side: str, sample: Sample, source: Source | None = None) -> Array:
        """Embedding, all blocks of a side, and the final norm of a pre-norm model."""
        at, table = self.positions(sample), self.table(side)
        x = self.embed(sample, self.position_vectors(at.position, table), table)
        for layer in range(self.config["n_layers"]):
            x = self.block(side, layer, x, at, source)
        return self.norm(f"{side}.norm", x) if self.config["norm_placement"] == "pre" else x

    def head(self, hidden: Array, sample: Sample) -> Array:
        """Logits from the stream (equations 13 and 18); for a pooling head one vector."""
        unembed = "embed.element" if self.config["tied"] else "head"
        match self.config["head"]:
            case "lm":
                factor = self.config["d_model"] ** -0.5 if self.config["head_scale"] else 1.0
                bias = self.weights.get("head.bias")
                return ref.project(hidden * factor, self.weights[f"{unembed}.weight"].T, bias)
            case "masked_lm":
                gamma, beta = self.weights["head.norm.weight"], self.weights["head.norm.bias"]
                h = ref.gelu(self.linear("head.dense", hidden))
                h = ref.layer_norm(h, gamma, beta, self.config["epsilon"])
                name = unembed if self.config["tied"] else "head.unembed"
                bias = self.weights["head.unembed.bias"]
                return ref.project(h, self.weights[f"{name}.weight"].T, bias)
            case "tag":
                return self.linear("head.proj", hidden)
            case "classify":
                return self.linear("head.proj", self.pooled(hidden, self.positions(sample)))
            case "pool":
                return self.pooled(hidden, self.positions(sample))
            case _:
                return hidden

    def pooled(self, hidden: Array, sample: Sample) -> Array:
        """One vector: the last real row (Note D), the first, or the mean; then BERT's tanh layer if
        there is one."""
        real = [i for i in range(len(hidden)) if sample.valid is None or sample.valid[i]]
        real.sort(key=sample.position.__getitem__)
        at = {"first": real[:1], "last": real[-1:], "mean": real}[self.config["pool"]]
        x = hidden[at].mean(0)
        return np.tanh(self.linear("head.dense", x)) if self.config["pooler"] else x

    def logits(self, sample: Sample, source: Sample | None = None) -> Array:
        """The whole forward pass."""
        return self.head(self.features(sample, source), sample)
