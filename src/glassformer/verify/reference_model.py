"""A whole Transformer in float64 NumPy from a dictionary of weights and plain configuration values.

Every step is a method of its own, so that a verification can give it the production's input of just
that step. Weights are those of the model's state dict (maps stored as out x in).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.verify import reference as ref
from glassformer.verify import reference_position as where
from glassformer.verify.reference import Array


@dataclass(frozen=True)
class Patches:
    """Patches that stand in place of tokens: their type, slots, N x P numbers, and which of its
    picture each is."""

    name: str
    at: list[int]
    values: Array
    index: list[int]


@dataclass(frozen=True)
class Sample:
    """One sequence: T ids or T x P patches, and for each element its position, document, reality
    and segment."""

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
        self.heads: int = config["n_heads"]
        self.kv_heads: int = config["n_kv_heads"] or config["n_heads"]
        self.d_head: int = config["d_head"] or config["d_model"] // config["n_heads"]
        self.scale = {"head": self.d_head**-0.5, "model": config["d_model"] ** -0.5, "none": 1.0}[
            config["scale"]
        ]

    def linear(self, name: str, x: Array) -> Array:
        """x W + b with the stored W transposed to the notes' orientation."""
        return ref.project(x, self.weights[f"{name}.weight"].T, self.weights.get(f"{name}.bias"))

    def norm(self, name: str, x: Array) -> Array:
        """The norm of that name, of the configured kind."""
        gamma, epsilon = self.weights[f"{name}.weight"], self.config["epsilon"]
        if self.config["norm"] == "rms":
            return ref.rms_norm(x, gamma, epsilon)
        return ref.layer_norm(x, gamma, self.weights.get(f"{name}.bias"), epsilon)

    def positions(self, sample: Sample) -> Sample:
        """The sample as its stream stands: a class token in front moves every patch by one."""
        if "embed.element.class_token" not in self.weights:
            return sample
        return Sample(
            sample.elements,
            [0, *(i + 1 for i in sample.position)],
            None if sample.document is None else [sample.document[0], *sample.document],
            None if sample.valid is None else [True, *sample.valid],
        )

    def table(self, side: str) -> str:
        """Whose embedding a side reads: its own, if the source has a vocabulary of its own."""
        return "source_embed" if side == "encoder" and self.config["source_vocab_size"] else "embed"

    def position_vectors(self, position: list[int], table: str = "embed") -> Array | None:
        """What is added to the embedding at these positions; None for kinds that act elsewhere
        (equation 8)."""
        counted = [i + self.config["first_position"] for i in position]
        match self.config["position"]:
            case "learned":
                return self.weights[f"{table}.position.weight"][position]
            case "sinusoidal":
                return where.sinusoid(counted, self.config["d_model"])
            case "sinusoidal_printed":
                return where.sinusoid_printed(counted, self.config["d_model"])
            case "sinusoidal_2d":
                ahead = int("embed.element.class_token" in self.weights)
                return where.sinusoid_grid(
                    [i - ahead for i in position], self.config["grid"][1], self.config["d_model"]
                )
            case _:
                return None

    def elements(self, sample: Sample, table: str = "embed") -> Array:
        """Rows of E (times √d in the 2017 model), or patches times W_emb behind the class token."""
        if self.config["elements"] == "tokens":
            rows = self.weights[f"{table}.element.weight"][sample.elements]
            rows = (
                rows * math.sqrt(self.config["d_model"]) if self.config["embedding_scale"] else rows
            )
            for part in sample.parts:
                rows[part.at] = self.part(f"{table}.parts.{part.name}", part)
            return rows
        if self.config["stem"]:
            x = self.stem(sample.elements)
        else:
            x = self.linear("embed.element.proj", sample.elements)
        token = self.weights.get("embed.element.class_token")
        return x if token is None else np.concatenate([token.reshape(1, -1), x])

    def stem(self, patches: Array) -> Array:
        """Patches laid out as a picture, 3 x 3 convolutions with a GELU after each, and W_emb, the
        last of them."""
        (rows, columns), (p, q) = self.config["grid"], self.config["patch"]
        x = np.zeros((rows * p, columns * q, patches.shape[1] // (p * q)))
        for n, patch in enumerate(patches):
            r, c = divmod(n, columns)
            x[r * p : (r + 1) * p, c * q : (c + 1) * q] = patch.reshape(p, q, -1)
        names = [f"embed.element.stem.convolutions.{i}" for i in range(len(self.config["stem"]))]
        for i, name in enumerate([*names, "embed.element.proj"]):
            left = len(names) - i  # convolutions behind this one
            x = ref.gelu(x) if i else x
            step = [
                2 if side > 2**left else 1 for side in (x.shape[0] // rows, x.shape[1] // columns)
            ]
            wide = np.pad(x, ((1, 1), (1, 1), (0, 0)))
            x = np.array(
                [
                    [
                        self.linear(
                            name, wide[r : r + 3, c : c + 3].transpose(2, 0, 1).reshape(1, -1)
                        )[0]
                        for c in range(0, x.shape[1], step[1])
                    ]
                    for r in range(0, x.shape[0], step[0])
                ]
            )
        return x.reshape(rows * columns, -1)

    def part(self, name: str, part: Patches) -> Array:
        """Patches times W, plus their type's vector, plus that of their place in the picture if
        there is a table."""
        x = part.values @ self.weights[f"{name}.proj.weight"].T + self.weights[f"{name}.kind"]
        table = self.weights.get(f"{name}.position.weight")
        return x if table is None else x + table[part.index]

    def embed(self, sample: Sample, positions: Array | None, table: str = "embed") -> Array:
        """Elements + positions + segments, normalized if the model does so."""
        x = self.elements(sample, table)
        x = x if positions is None else x + positions
        if self.config["n_token_types"]:
            kinds = (
                np.zeros(len(x), dtype=np.int64)
                if sample.token_type_ids is None
                else sample.token_type_ids
            )
            x = x + self.weights[f"{table}.kind.weight"][kinds]
        return self.norm(f"{table}.norm", x) if self.config["embedding_norm"] else x

    def mask(self, side: str, sample: Sample) -> Array:
        """M of self-attention: -inf at padding, other documents, the future (decoder) and beyond
        the window."""
        position = np.array(sample.position)
        gap = position[:, None] - position[None, :]
        open_to = np.ones(gap.shape, dtype=bool)
        if side == "decoder":
            open_to &= gap >= 0
        if self.config["window"] is not None:
            open_to &= np.abs(gap) < self.config["window"]
        if sample.document is not None:
            open_to &= np.array(sample.document)[:, None] == np.array(sample.document)[None, :]
        if sample.valid is not None:
            open_to &= np.array(sample.valid)[None, :]
        return np.where(open_to, 0.0, -np.inf)

    def bias(self, side: str, query: list[int], key: list[int]) -> Array | None:
        """B of each head in that stack, H x T x S, as the notes define it (not yet scaled); None if
        there is none."""
        match self.config["position"]:
            case "relative":
                return where.relative(self.weights[f"{side}.bias.weight"], query, key)
            case "buckets":
                table = self.weights[f"{side}.bias.weight"]
                return where.bucketed(
                    table, query, key, self.config["max_distance"], both_ways=side == "encoder"
                )
            case "alibi":
                return where.alibi(self.heads, query, key)
            case _:
                return None

    def project_heads(
        self, name: str, which: str, x: Array, turned_at: list[int] | None = None
    ) -> list[Array]:
        """q, k or v of each head: x W, normalized and turned by rotary angles if the model does so
        (equation 1)."""
        heads = ref.split(
            self.linear(f"{name}.{which}_proj", x), self.heads if which == "q" else self.kv_heads
        )
        if self.config["qk_norm"] and which != "v":
            gamma = self.weights[f"{name}.{which}_norm.weight"]
            heads = [ref.rms_norm(head, gamma, self.config["epsilon"]) for head in heads]
        if self.config["position"] == "rotary" and which != "v" and turned_at is not None:
            heads = [where.rotary(head, turned_at, self.config["rotary_base"]) for head in heads]
        if self.config["position"] == "rotary_2d" and which != "v" and turned_at is not None:
            patches = [i - int("embed.element.class_token" in self.weights) for i in turned_at]
            columns, base = self.config["grid"][1], self.config["rotary_base"]
            heads = [where.rotary_grid(head, patches, columns, base) for head in heads]
        return heads

    def scores(
        self, q: list[Array], k: list[Array], mask: Array, bias: Array | None
    ) -> list[Array]:
        """S of each head: B outside or inside the division (equations 3, 4, 6)."""
        form = ref.scores_inside if self.config["bias_placement"] == "inside" else ref.scores
        share = len(q) // len(k)
        return [
            form(q[h], k[h // share], self.scale, mask, 0.0 if bias is None else bias[h])
            for h in range(self.heads)
        ]

    def weighted(self, pattern: list[Array], v: list[Array]) -> list[Array]:
        """Z = A V of each head."""
        share = len(pattern) // len(v)
        return [pattern[h] @ v[h // share] for h in range(len(pattern))]

    def attention(
        self,
        name: str,
        x: Array,
        source: Array,
        mask: Array,
        bias: Array | None = None,
        turned_at: list[int] | None = None,
    ) -> Array:
        """concat_h(softmax(S_h) V_h) W_O (equations 3 and 5; 7 if `source` is the encoder's
        output)."""
        q = self.project_heads(name, "q", x, turned_at)
        k = self.project_heads(name, "k", source, turned_at)
        v = self.project_heads(name, "v", source)
        pattern = [ref.softmax(s) for s in self.scores(q, k, mask, bias)]
        return self.linear(f"{name}.out_proj", np.concatenate(self.weighted(pattern, v), axis=1))

    def hidden(self, name: str, x: Array) -> Array:
        """φ(x W₁ + b₁), times the gate if there is one."""
        phi, up = ref.PHI[self.config["activation"]], self.linear(f"{name}.up_proj", x)
        return phi(self.linear(f"{name}.gate_proj", x)) * up if self.config["gated"] else phi(up)

    def feed_forward(self, name: str, x: Array) -> Array:
        """FFN(x) (equation 10)."""
        return self.linear(f"{name}.down_proj", self.hidden(name, x))

    def source_mask(self, sample: Sample, source: Source) -> Array:
        """M of cross-attention: padding of the source, and another document's source, but no future
        (equation 7)."""
        queries, keys = len(sample.position), len(source.hidden)
        mask = ref.padding_mask(queries, source.positions.valid or [True] * keys)
        own, other = sample.document or [0] * queries, source.positions.document or [0] * keys
        return np.where(np.array(own)[:, None] == np.array(other)[None, :], mask, -np.inf)

    def attend_half(
        self, side: str, layer: int, x: Array, sample: Sample, source: Source | None
    ) -> Array:
        """The first half of a block: self-attention, and cross-attention if there is a source, on
        the stream."""
        name, bias = f"{side}.blocks.{layer}", self.bias(side, sample.position, sample.position)
        sublayer = ref.pre_norm if self.config["norm_placement"] == "pre" else ref.post_norm

        def own(y: Array) -> Array:
            return self.attention(
                f"{name}.attention", y, y, self.mask(side, sample), bias, sample.position
            )

        x = sublayer(x, own, lambda y: self.norm(f"{name}.attention_norm", y))
        if source is None:
            return x
        seen = self.source_mask(sample, source)
        return sublayer(
            x,
            lambda y: self.attention(f"{name}.cross", y, source.hidden, seen),
            lambda y: self.norm(f"{name}.cross_norm", y),
        )

    def block(
        self, side: str, layer: int, x: Array, sample: Sample, source: Source | None = None
    ) -> Array:
        """One block: attention, then the feed-forward network, each on the residual stream
        (equations 11, 12)."""
        x, name = self.attend_half(side, layer, x, sample, source), f"{side}.blocks.{layer}"
        sublayer = ref.pre_norm if self.config["norm_placement"] == "pre" else ref.post_norm
        return sublayer(
            x,
            lambda y: self.feed_forward(f"{name}.feedforward", y),
            lambda y: self.norm(f"{name}.feedforward_norm", y),
        )

    def stack(self, side: str, x: Array, sample: Sample, source: Source | None = None) -> Array:
        """All blocks of a side, then the final norm of a pre-norm model."""
        for layer in range(self.config["n_layers"]):
            x = self.block(side, layer, x, sample, source)
        return self.norm(f"{side}.norm", x) if self.config["norm_placement"] == "pre" else x

    def features(self, sample: Sample, source: Sample | None = None) -> Array:
        """The stream before the head, T x d."""
        if self.config["architecture"] == "encoder_decoder":
            assert source is not None
            encoded = Source(self._run("encoder", source), self.positions(source))
            return self._run("decoder", sample, encoded)
        return self._run(self.config["architecture"], sample)

    def _run(self, side: str, sample: Sample, source: Source | None = None) -> Array:
        at, table = self.positions(sample), self.table(side)
        x = self.embed(sample, self.position_vectors(at.position, table), table)
        return self.stack(side, x, at, source)

    def unembedding(self) -> Array:
        """The V x d matrix of the head: the embedding matrix itself when tied."""
        if self.config["tied"]:
            return self.weights["embed.element.weight"]
        return self.weights[
            "head.unembed.weight" if self.config["head"] == "masked_lm" else "head.weight"
        ]

    def head(self, hidden: Array, sample: Sample) -> Array:
        """Logits from the stream (equations 13 and 18); for a pooling head one vector."""
        match self.config["head"]:
            case "lm":
                hidden = (
                    hidden / math.sqrt(self.config["d_model"])
                    if self.config["head_scale"]
                    else hidden
                )
                return ref.project(hidden, self.unembedding().T, self.weights.get("head.bias"))
            case "masked_lm":
                gamma, beta = self.weights["head.norm.weight"], self.weights["head.norm.bias"]
                h = ref.layer_norm(
                    ref.gelu(self.linear("head.dense", hidden)), gamma, beta, self.config["epsilon"]
                )
                return ref.project(h, self.unembedding().T, self.weights["head.unembed.bias"])
            case "tag":
                return self.linear("head.proj", hidden)
            case "classify" | "pool":
                pooled = self.pooled(hidden, self.positions(sample))
                return (
                    self.linear("head.proj", pooled)
                    if self.config["head"] == "classify"
                    else pooled
                )
            case _:
                return hidden

    def pooled(self, hidden: Array, sample: Sample) -> Array:
        """One vector: the last real row (Note D), the first, or the mean; then BERT's tanh layer if
        there is one."""
        real = [i for i in range(len(hidden)) if sample.valid is None or sample.valid[i]]
        match self.config["pool"]:
            case "mean":
                x = hidden[real].mean(0)
            case "first":
                x = hidden[min(real, key=lambda i: sample.position[i])]
            case _:
                x = hidden[max(real, key=lambda i: sample.position[i])]
        return np.tanh(self.linear("head.dense", x)) if self.config["pooler"] else x

    def logits(self, sample: Sample, source: Sample | None = None) -> Array:
        """The whole forward pass."""
        return self.head(self.features(sample, source), sample)
