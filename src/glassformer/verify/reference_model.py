"""A whole Transformer in float64 NumPy from a dictionary of weights and plain configuration values.

Each step reports its result by the name that production gives it, and the next step begins from the
value that the report returns: in a verification, that of production.
Weights are those of the model's state dict (maps stored as out x in); heads are H x T x K arrays.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np

from glassformer.models.account import Account
from glassformer.models.config import ModelConfig
from glassformer.verify import reference as ref
from glassformer.verify.reference import Array


class Patches(NamedTuple):
    """Patches instead of tokens: type, slots, N x P numbers, and the number of each in its
    image."""

    name: str
    at: Array
    values: Array
    place: Array


class Sample(NamedTuple):
    """One sequence: T ids or T x P patches, and for each element its position, document, validity
    and token type."""

    elements: Array
    position: Array
    document: Array
    valid: Array
    token_type_ids: Array
    parts: tuple[Patches, ...] = ()


Source = tuple[Array, Sample]
"""The encoder's output, and the positions of its rows."""
Report = Callable[[str, Array], Array]
"""Called with the name and the result of a step; returns the value to go on with."""


class ReferenceModel:
    """The model of `config`, of which only fields are read, with `weights` (float64 arrays by
    parameter name). ConfigError: a weight of no equation here."""

    def __init__(
        self, weights: Mapping[str, Array], config: ModelConfig, report: Report = lambda _, x: x
    ):
        self.weights, self.config, self.report = weights, (c := config), report
        account = Account("The reference", weights)
        account.take_known()
        account.finish()
        scales = {"head": c.d_head or c.d_model // c.n_heads, "model": c.d_model, "none": 1}
        self.scale = scales[c.scale] ** -0.5
        learned = (f"embed.element.{name}" for name in ("class_token", "registers"))
        self.learned = [weights[name][0] for name in learned if name in weights]
        self.ahead = sum(map(len, self.learned))
        self.columns = c.grid[1] if c.grid else 0

    def linear(self, name: str, x: Array, weight: str | None = None) -> Array:
        """x W + b with the stored W transposed to the notes' orientation (equation 1 with W_Q, W_K
        or W_V; every other map of the notes); `weight`: the name of W if it has another."""
        y = x @ self.weights[f"{weight or name}.weight"].T
        bias = self.weights.get(f"{name}.bias")
        return y if bias is None else y + bias

    def norm(self, name: str, x: Array) -> Array:
        """The norm of that name, of the configured kind."""
        gamma, epsilon = self.weights[f"{name}.weight"], self.config.epsilon
        if self.config.norm == "rms":
            return ref.rms_norm(x, gamma, epsilon)
        return ref.layer_norm(x, gamma, self.weights.get(f"{name}.bias"), epsilon)

    def sublayer(self, name: str, x: Array, f: Callable[[Array], Array]) -> Array:
        """x + f(LN(x)) of pre-norm models, else LN(x + f(x)), for the branch f of that name
        (equations 11, 12); without residual connections (Note C), x + is left out of both."""
        norm = lambda y: self.report(f"{name}_norm", self.norm(f"{name}_norm", y))
        pre, residual = self.config.norm_placement == "pre", self.config.residual
        branch = self.report(f"{name}_out", f(norm(x) if pre else x))
        joined = x + branch if residual else branch
        return joined if pre else norm(self.report(f"{name}_norm.input", joined))

    def positions(self, sample: Sample) -> Sample:
        """The sample after a class token and registers, if there are any."""
        ahead, n = np.arange(self.ahead), self.ahead
        return sample._replace(
            position=np.append(ahead, sample.position + n),
            document=np.append(ahead * 0 + sample.document[0], sample.document),
            valid=np.append(ahead >= 0, sample.valid),
        )

    def position_vectors(self, position: Array, table: str) -> Array | None:
        """Position vectors; None for kinds that act elsewhere (equation 8)."""
        c, d = self.config, self.config.d_model
        if c.position_combination == "concatenate":
            d = c.position_width or d // 2
        match c.position:
            case "learned":
                return self.weights[f"{table}.position.weight"][position]
            case "sinusoidal" | "sinusoidal_printed" | "sinusoidal_halves":
                return ref.sinusoid(position + c.first_position, d, c.position[11:])
            case "sinusoidal_2d":
                return ref.sinusoid_grid(position - self.ahead, self.columns, d)
            case _:
                return None

    def elements(self, sample: Sample, table: str) -> Array:
        """Rows of E (times √d in the 2017 model), or patches times W_emb after learned tokens."""
        c, x = self.config, sample.elements
        if c.elements == "tokens":
            of = table if c.source_vocab_size else "embed"  # else words are shared
            rows = self.weights[f"{of}.element.weight"][x]
            rows = rows * math.sqrt(c.d_model if c.embedding_scale else 1)
            for part in sample.parts:  # times W, plus their type's vector, plus that of their place
                name = f"{table}.parts.{part.name}"
                y = self.linear(f"{name}.proj", part.values) + self.weights[f"{name}.kind"]
                places = self.weights.get(f"{name}.position.weight")
                rows[part.at] = y if places is None else y + places[part.place]
            return rows
        x = self.stem(x) if c.stem else self.linear("embed.element.proj", x)
        return np.concatenate([*self.learned, x])

    def stem(self, patches: Array) -> Array:
        """Patches laid out as an image, 3 x 3 convolutions with a GELU after each, and W_emb, the
        last of them."""
        c = self.config
        assert c.grid is not None
        assert c.patch is not None
        (rows, columns), (p, q) = c.grid, c.patch
        x = patches.reshape(rows, columns, p, q, -1).transpose(0, 2, 1, 3, 4)
        x = x.reshape(rows * p, columns * q, -1)
        names = [*(f"stem.convolutions.{i}" for i in range(len(c.stem))), "proj"]
        for i, name in enumerate(names, 1):
            x = ref.gelu(x) if i > 1 else x
            # A side is halved while the convolutions left cannot bring it to the grid.
            left = 2 ** (len(names) - i)
            down, across = 1 + (len(x) > rows * left), 1 + (x.shape[1] > columns * left)
            wide = np.pad(x, ((1, 1), (1, 1), (0, 0)))
            seen = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), axis=(0, 1))
            seen = seen[::down, ::across]
            x = self.linear(f"embed.element.{name}", seen.reshape(*seen.shape[:2], -1))
        return x.reshape(rows * columns, -1)

    def embed(self, sample: Sample, positions: Array | None, table: str) -> Array:
        """Elements + positions (or [elements; positions]) + token types, normalized if the model
        does so."""
        c, x = self.config, self.elements(sample, table)
        if positions is not None:
            joined = c.position_combination == "concatenate"
            x = np.hstack([x, positions]) if joined else x + positions
        if c.n_token_types:
            x = x + self.weights[f"{table}.kind.weight"][sample.token_type_ids]
        return self.norm(f"{table}.norm", x) if c.embedding_norm else x

    def surroundings(self, side: str, sample: Sample) -> tuple[Array, Array | float, Array]:
        """M, B of each head and the positions of rotations, of self-attention (equations 4 and 6);
        M is -inf at padding, other documents, the future (decoder) and beyond the window."""
        c, at, name = self.config, sample.position, f"{side}.bias.weight"
        gap, both_ways = np.subtract.outer(at, at), side == "encoder"
        seen = (gap >= 0) | both_ways
        if c.window is not None:
            seen &= np.abs(gap) < c.window
        mask, bias = np.where(seen, self.source_mask(sample, sample), -np.inf), 0.0
        if c.position == "relative":
            bias = ref.relative(self.weights[name], at)
        elif c.position == "buckets":
            bias = ref.bucket_bias(self.weights[name], at, c.max_distance, both_ways=both_ways)
        elif c.position == "alibi":
            bias = ref.alibi(c.n_heads, at)
        return mask, bias, at

    def source_mask(self, sample: Sample, source: Sample) -> Array:
        """M of cross-attention: padding of the source, and another document's source, but no future
        (equation 7)."""
        own = np.equal.outer(sample.document, source.document)
        return np.where(own & source.valid, 0.0, -np.inf)

    def project_heads(
        self, name: str, which: str, x: Array, rotated_at: Array | None = None
    ) -> Array:
        """q, k or v of each head: x W, normalized and rotated if the model does so (equation 1)."""
        c, x = self.config, self.linear(f"{name}.{which}_proj", x)
        n_heads = c.n_heads if which == "q" else c.n_kv_heads or c.n_heads
        heads = np.stack(np.split(x, n_heads, axis=1))
        if which != "v" and c.qk_norm:
            heads = ref.rms_norm(heads, self.weights[f"{name}.{which}_norm.weight"], c.epsilon)
        if rotated_at is not None and c.position == "rotary":
            scaling = c.rotary_factor, c.rotary_wavelengths
            heads = ref.rotary(heads, rotated_at, c.rotary_base, *scaling)
        if rotated_at is not None and c.position == "rotary_2d":
            heads = ref.rotary_grid(heads, rotated_at - self.ahead, self.columns, c.rotary_base)
        return self.report(f"{name}.{which}", heads)

    def attention(
        self,
        name: str,
        x: Array,
        source: Array,
        mask: Array,
        bias: Array | float = 0.0,
        rotated_at: Array | None = None,
    ) -> Array:
        """concat_h(softmax(S_h) V_h) W_O (equations 3 to 6; 7 if `source` is the encoder's output).

        B is outside or inside the division; one head of keys and values serves H / G neighbouring
        heads of queries.
        """
        c, q = self.config, self.project_heads(name, "q", x, rotated_at)
        k = self.project_heads(name, "k", source, rotated_at)
        v = self.project_heads(name, "v", source)
        k, v = (np.repeat(heads, len(q) // len(heads), axis=0) for heads in (k, v))
        inside = c.bias_placement == "inside"
        scores = ref.scores(q, k, self.scale, mask, bias, inside=inside)
        pattern = ref.softmax(self.report(f"{name}.scores", scores))
        z = self.report(f"{name}.z", self.report(f"{name}.pattern", pattern) @ v)
        return self.linear(f"{name}.out_proj", np.hstack([*z]))

    def feed_forward(self, name: str, x: Array) -> Array:
        """φ(x W₁ + b₁) W₂ + b₂; gated: (φ(x W_g + b_g) ⊙ (x W₁ + b₁)) W₂ + b₂ (equation 10)."""
        phi, up = ref.PHI[self.config.activation], self.linear(f"{name}.up_proj", x)
        hidden = phi(self.linear(f"{name}.gate_proj", x)) * up if self.config.gated else phi(up)
        return self.linear(f"{name}.down_proj", hidden)

    def attend_half(self, name: str, x: Array, sample: Sample, source: Source | None) -> Array:
        """The first half of the block of that name: self-attention, and cross-attention if there is
        a source, on the stream."""
        own, cross = f"{name}.attention", f"{name}.cross"
        around = self.surroundings(name.split(".")[0], sample)
        x = self.sublayer(own, x, lambda y: self.attention(own, y, y, *around))
        if source is None:
            return x
        hidden, mask = source[0], self.source_mask(sample, source[1])
        return self.sublayer(cross, x, lambda y: self.attention(cross, y, hidden, mask))

    def _run(self, side: str, sample: Sample, source: Source | None = None) -> Array:
        """Embedding, all blocks of a side, and the final norm of a pre-norm model."""
        c, at = self.config, self.positions(sample)
        own = side == "encoder" and (c.source_vocab_size or c.own_source_positions)
        table = "source_embed" if own else "embed"
        p = self.position_vectors(at.position, table)
        p = None if p is None else self.report(f"{side}.positions", p)
        x = self.embed(sample, p, table)
        for layer in range((side == "encoder" and c.n_encoder_layers) or c.n_layers):
            name = f"{side}.blocks.{layer}"
            x = self.report(f"{name}.resid_pre", x)
            x = self.report(f"{name}.resid_mid", self.attend_half(name, x, at, source))
            fed = f"{name}.feedforward"
            x = self.sublayer(fed, x, partial(self.feed_forward, fed))
            x = self.report(f"{name}.resid_post", x)
        name, pre = f"{side}.norm", c.norm_placement == "pre"
        return self.report(name, self.norm(name, x)) if pre else x

    def head(self, hidden: Array, sample: Sample) -> Array:
        """Logits from the stream (equations 13 and 18); for a pooling head one vector."""
        c, tied = self.config, "embed.element" if self.config.tied else None
        match c.head:
            case "lm":
                factor = c.d_model**-0.5 if c.head_scale else 1.0
                return self.linear("head", hidden * factor, tied)
            case "masked_lm":
                gamma, beta = (self.weights[f"head.norm.{name}"] for name in ("weight", "bias"))
                h = ref.PHI[c.head_activation or "gelu"](self.linear("head.dense", hidden))
                return self.linear("head.unembed", ref.layer_norm(h, gamma, beta, c.epsilon), tied)
            case "classify" if c.distilled:
                maps = enumerate(("head.proj", "head.distilled_proj"))
                return np.mean([self.linear(name, hidden[i]) for i, name in maps], axis=0)
            case "classify" | "pool":
                hidden = self.pool(hidden, self.positions(sample))
        return self.linear("head.proj", hidden) if c.head in ("tag", "classify") else hidden

    def pool(self, hidden: Array, sample: Sample) -> Array:
        """One vector: the last real row (Note D), the first, or the mean of all but registers; then
        BERT's dense layer if there is one."""
        real = np.flatnonzero(sample.valid)
        real = real[np.argsort(sample.position[real])]
        c = self.config
        at = {"first": real[:1], "last": real[-1:], "mean": real[self.ahead :]}[c.pool]
        x = hidden[at].mean(0)
        phi = ref.PHI[c.head_activation or "tanh"]
        return phi(self.linear("head.dense", x)) if c.pooler else x

    def logits(self, sample: Sample, source: Sample | None = None) -> Array:
        """The whole forward pass."""
        side, encoded = self.config.architecture, None
        if source is not None:
            side, encoded = "decoder", (self._run("encoder", source), self.positions(source))
        return self.report("logits", self.head(self._run(side, sample, encoded), sample))
