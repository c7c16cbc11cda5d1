"""Equations of the notes on a given model's own weights and a given batch, step by step and as a
whole.

The reference computes each step from the very input that production's step had, so that a wrong
step shows in its own row; the last rows compare whole forward passes. One row holds the worst of
all blocks.
"""

import copy
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from glassformer.core.batch import IGNORE, Batch, Part
from glassformer.inspect.look import run
from glassformer.layers.attention.cache import Cache
from glassformer.layers.losses import cross_entropy
from glassformer.models.transformer import Transformer
from glassformer.verify import reference as ref
from glassformer.verify.reference import Array
from glassformer.verify.reference_model import Patches, ReferenceModel, Sample
from glassformer.verify.row import Gap, Row, rows_of, variant

CLAIMS = {
    "resid_pre": "embedding",
    "attention_norm": "norm",
    "cross_norm": "norm",
    "feedforward_norm": "norm",
    "feedforward_out": "ffn",
    "input": "block",
    "resid_mid": "block",
    "resid_post": "block",
    "logits": "head",
}
"""Claims of steps that are not named like them."""


def model_rows(model: Transformer, batch: Batch) -> Iterator[Row]:
    """Every equation that `model` uses, on its own weights and `batch`; the model itself is not
    changed.

    A float64 copy is made. Tolerances grow with the largest number compared, as rounding does.
    """
    return rows_of(model_gaps(model, batch))


def model_gaps(model: Transformer, batch: Batch) -> Iterator[Gap]:
    """The gaps of `model_rows`."""
    seen = Production(model, batch)
    for row in range(len(batch.elements)):
        yield from seen.steps(row)
    for side in seen.sides:
        for layer in range(model.config.depth(side)):
            yield seen.gradient(side, layer)
    yield from seen.outputs()
    if model.decoder is not None:
        yield from seen.past()
    if not model.config.reads_patches:
        yield seen.permutation()


class Production:
    """A float64 copy of a model, run twice on a batch: with attention written out, and fused.

    `values`: all points of the first pass, norms and positions, by the names of the reference's
    steps.
    """

    def __init__(self, model: Transformer, batch: Batch):
        with torch.inference_mode(False):  # which a caller may have on, and has no derivatives
            self.model, self.reference = pair(model)
            batch, x = copy.deepcopy(batch.to("cpu")), batch.elements.cpu().clone()
            x = x.double() if x.is_floating_point() else x
            self.batch = replace(batch, elements=x, at=None)
            norms: dict[str, Tensor] = {}
            keep = lambda path, _, inputs, result: norms.update(
                {path: result, f"{path}.input": inputs[0]}
            )
            for path, one in self.model.named_modules():
                if path.endswith("norm"):
                    one.register_forward_hook(partial(keep, path))
            output, tape = run(self.model, self.batch, ["*"], gradients=True)
            self.values = {**tape.kept, **norms, "logits": output.logits}
            self.fused, light = run(self.model, self.batch, ["*.z"])
        self.fused_z = light.kept
        self.sides = [side for side in ("encoder", "decoder") if getattr(self.model, side)]
        for side in self.sides:
            own = self.model.source_embed if side == "encoder" else None
            if (position := (own or self.model.embed).position) is not None:
                vectors = position(self.model.positions(self.batch_of(side)))
                self.values[f"{side}.positions"] = vectors.expand(len(self.batch.elements), -1, -1)
        config = self.model.config
        self.cases = (
            config.elements,
            config.position,
            f"{config.position}.{config.bias_placement}",
            config.norm,
            "gated" * config.gated,
            config.norm_placement + ".without" * (not config.residual),
            "without" * (not config.residual),
            f"{config.head}.distilled" * config.distilled,
            f"{config.head}.untied" * (not config.tied),
            config.head,
        )
        """Ends of the names of claims that are those of some models only."""

    def batch_of(self, side: str) -> Batch:
        """The part of the batch that goes into that side."""
        return (side == "encoder" and self.batch.source) or self.batch

    def steps(self, row: int) -> list[Gap]:
        """Equations 1, 3 to 13 and 18, each step from production's own input of that step."""
        gaps: list[Gap] = []
        report, source = partial(self._compare, row, gaps), self.batch.source
        reference = ReferenceModel(self.reference.weights, self.model.config, report)
        reference.logits(sample_of(self.batch, row), source and sample_of(source, row))
        return gaps

    def _compare(self, row: int, gaps: list[Gap], name: str, expected: Array) -> Array:
        """Add the gaps of a step; return production's value, from which the next step begins."""
        path, _, kind = name.rpartition(".")
        owner, got = path.rpartition(".")[2], array(self.values[name][row])
        step = f"{owner}.{kind}" if owner in ("attention", "cross") else CLAIMS.get(kind, kind)
        found: list[tuple[str, Array, Array]] = [(step, got, expected)]
        match kind:
            case "scores":
                closed = expected == -np.inf
                weights = array(self.values[f"{path}.pattern"][row])[closed]
                found.append((f"{owner}.mask", weights, np.zeros_like(weights)))
            case "pattern":  # a query that may attend to nothing has weights 0
                found.append((f"{owner}.sum", got.sum(-1), expected.sum(-1)))
            case "z":
                found.append((f"{owner}.fused", array(self.fused_z[name][row]), expected))
        gaps += [
            Gap(variant(claim, *self.cases), f"{name} row {row}", *two) for claim, *two in found
        ]
        return got

    def outputs(self) -> Iterator[Gap]:
        """Equation 14, and the whole forward pass."""
        logits, targets = self.values["logits"], self.batch.targets
        if targets is not None and not self.model.config.gives_vectors:
            total, count = ref.cross_entropy(array(logits), targets.numpy(), IGNORE)
            summed, n = cross_entropy(logits.detach(), targets), max(count, 1)
            got = float(summed.total) / n, summed.count / n
            yield Gap("loss", f"{count} targets", got, (total / n, count / n))
        whole = np.stack(reference_logits(self.reference, self.batch))
        yield Gap("whole", "", self.fused.logits, whole)

    @torch.no_grad()
    def past(self) -> Iterator[Gap]:
        """Equations 4 and 16: other elements from the middle on change nothing before it, and three
        pieces through a cache give the whole stream."""
        elements, whole = self.batch.elements, self.fused.features.hidden
        length = elements.shape[1]
        t, other = length // 2, elements.clone()
        other[:, t:] = (other[:, t:] + 1) % self.model.config.vocab_size
        got = self.model.features(replace(self.batch, elements=other)).hidden[:, :t]
        yield Gap("causality", f"t = {t} of {length}", got, array(whole[:, :t]))
        cache, memory, read = Cache(), None, []
        for slots in torch.arange(length).tensor_split([t, t + 1]):
            if len(slots):
                features = self.model.features(select_slots(self.batch, slots), memory, cache)
                memory, cache = features.memory, features.cache
                read.append(features.hidden)
        yield Gap("cache", "", torch.cat(read, 1), array(whole))

    @torch.no_grad()
    def permutation(self) -> Gap:
        """Equation 17: slots in another order, each element with its own position (where there are
        positions)."""
        batch, source = self.batch, self.batch.source
        order = torch.randperm(batch.elements.shape[1], generator=torch.Generator().manual_seed(0))
        if source is not None:
            source = select_slots(source, torch.arange(source.elements.shape[1]).flip(0))
        got = self.model.features(replace(select_slots(batch, order), source=source)).hidden
        none = self.model.config.position == "none" and self.model.decoder is None
        claim = "permutation.none" if none else "permutation"
        return Gap(claim, "", got, array(self.fused.features.hidden[:, order]))

    def gradient(self, side: str, layer: int) -> Gap:
        """Equation 19 for the attention half of a block: (∂x_mid/∂x_pre) w for a random w, in the
        first row."""
        name, reference = f"{side}.blocks.{layer}", self.reference
        before, after = (self.values[f"{name}.{point}"] for point in ("resid_pre", "resid_mid"))
        generator = torch.Generator().manual_seed(0)
        w = torch.zeros_like(before)
        w[0] = torch.randn(before[0].shape, generator=generator, dtype=w.dtype)
        with torch.inference_mode(False), torch.enable_grad():
            # uᵀ J is linear in u: its derivative along w is J w.
            u = torch.zeros_like(after, requires_grad=True)
            (back,) = torch.autograd.grad(after, before, u, create_graph=True)
            (got,) = torch.autograd.grad(back, u, w, retain_graph=True)
        place = lambda of: reference.positions(sample_of(self.batch_of(of), 0))
        source = None
        if self.sides[0] != side:
            source = array(self.values["encoder.out"][0]), place("encoder")
        half = lambda x: reference.attend_half(name, x, place(side), source)
        expected = ref.derivative(half, array(before[0]), array(w[0]))
        return Gap(variant("gradient", *self.cases), name, got[0], expected)


def array(tensor: Tensor) -> Array:
    """Float64 array of a tensor."""
    return tensor.detach().cpu().double().numpy()


def pair(model: Transformer) -> tuple[Transformer, ReferenceModel]:
    """A float64 copy of the model for evaluation on the CPU, and a reference with its weights."""
    twin = copy.deepcopy(model).cpu().double().eval()
    weights = {name: array(value) for name, value in twin.state_dict().items()}
    return twin, ReferenceModel(weights, model.config)


def sample_of(batch: Batch, row: int) -> Sample:
    """Row `row` of a batch as the reference reads it."""
    elements, p = batch.elements, batch.where()
    rows, length = elements.shape[:2]

    def for_elements(values: Tensor | None, default: int = 0) -> Array:
        values = torch.tensor([[default]]) if values is None else values
        return values.expand(rows, length)[row].numpy()

    def patches(part: Part) -> Patches:
        here = part.at // length == row
        fields = part.at % length, part.values, part.index
        return Patches(part.name, *(field[here].numpy() for field in fields))

    return Sample(
        elements[row].numpy(),
        for_elements(p.position),
        for_elements(p.document),
        for_elements(p.valid, 1).astype(bool),
        for_elements(batch.token_type_ids),
        tuple(map(patches, batch.parts)),
    )


def reference_logits(model: ReferenceModel, batch: Batch) -> list[Array]:
    """The reference's logits for each row."""
    sources = batch.source
    return [
        model.logits(sample_of(batch, row), sources and sample_of(sources, row))
        for row in range(len(batch.elements))
    ]


def select_slots(batch: Batch, slots: Tensor) -> Batch:
    """The elements in these slots, each with its own position, and the same source."""
    types = batch.token_type_ids
    return replace(
        batch,
        elements=batch.elements[:, slots],
        positions=batch.where().map(lambda t: t[:, slots]),
        token_type_ids=None if types is None else types[:, slots],
        lengths=None,
        parts=tuple(part.select(slots, batch.elements.shape[1]) for part in batch.parts),
    )
