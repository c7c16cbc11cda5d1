"""Points of the forward pass of one sequence by name, also under edits.

    look(model, Batch(ids))  ->  seen
    seen.points()                                      all points, found by running the model
    seen["decoder.blocks.3.resid_post"].sel(position=6)
    seen.pattern(layer=3, head=5)                      [query, key], computed on demand
    seen.edit([Zero("decoder.blocks.3.attention.z", head=5)]).logits

The pass uses fused attention unless an edit needs it written out. Queries, keys, values and the
stream are kept. Scores and patterns are computed from them by `Attention.scores`, head by head. Any
other point is fetched by another pass, which must give the same logits.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partialmethod

import torch

from glassformer.core.axes import Float, Tensor
from glassformer.core.batch import Batch, Positions
from glassformer.core.errors import ConfigError, suggest
from glassformer.inspect.points import (
    LEAF,
    SITE_OF,
    Edit,
    Named,
    Point,
    Replaced,
    check_number,
    fires,
    kind_of,
    point_of,
)
from glassformer.layers.attention.attend import attention_pattern
from glassformer.layers.attention.context import CROSSED, AttentionContext
from glassformer.layers.attention.multi_head import Attention
from glassformer.layers.stack import Stack
from glassformer.layers.tap import Change, Tape, changed, recording
from glassformer.models.transformer import Output, Transformer, evaluating
from glassformer.processors.tokens.elements import Element, prefix_elements

KEPT = ("q", "k", "v", "z", "resid_pre", "resid_mid", "resid_post", "out")
"""Kinds of points that every look keeps."""
WEIGHTS = ("batch", "head", "query", "key")


def run(
    model: Transformer,
    batch: Batch,
    keep: Sequence[str] = (),
    edits: Sequence[Change] = (),
    gradients: bool = False,
) -> tuple[Output, Tape]:
    """One forward pass over all positions, without dropout, under a tape.

    With `gradients`, the embedded elements are leaves, kept as `embed.elements`, and all after them
    can be differentiated. ConfigError: a pattern that matched no point, and the errors of edits.
    """
    if gradients:
        keep, edits = (*keep, LEAF.point), (LEAF, *edits)
    tape = Tape(model, keep, edits)
    batch = batch.to(next(model.parameters()).device)
    with (
        evaluating(model),
        torch.inference_mode(False),
        torch.set_grad_enabled(gradients),
        recording(tape),
    ):
        return model(batch, all_positions=True), tape


def look(
    model: Transformer,
    batch: Batch,
    elements: Sequence[Element] = (),
    source_elements: Sequence[Element] = (),
    names: Sequence[str] = (),
    edits: Sequence[Edit] = (),
) -> "Look":
    """Look at one sequence; without `elements`, tokens are named by their ids. Errors of `run`."""
    if (count := len(batch.elements)) != 1:
        raise ConfigError(
            f"A look is at one sequence, and the batch has {count}; give them one by one."
        )
    batch = replace(batch, at=None, targets=None)
    output, tape = run(model, batch, [f"*.{kind}" for kind in KEPT], edits)
    learned = prefix_elements(model.config.class_token, model.config.n_registers)
    own = tuple(elements) or (*learned, *_number(batch))
    source = () if batch.source is None else tuple(source_elements) or _number(batch.source)
    found = Look(model, batch, own, source, tuple(names), tuple(edits), output, tape)
    for side, stack in ("encoder", model.encoder), ("decoder", model.decoder):
        if stack is not None and stack.bias is not None:  # a weight, which may change later
            found.context(side)
    return found


def precise(logits: Tensor) -> Tensor:
    """Logits in float32 or better, for a softmax."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def log_softmax(model: Transformer, logits: Float[Tensor, "*rows V"]) -> Float[Tensor, "*rows V"]:
    """ln p of every outcome, in float32 or better; ConfigError: a model without outcomes."""
    config, logits = model.config, precise(logits)
    if config.gives_vectors:
        raise ConfigError(
            f"A model with model.head={config.head!r} gives vectors, not probabilities; use one "
            f"with outcomes."
        )
    return config.outcomes.log_probabilities(logits)


def _number(batch: Batch) -> tuple[Element, ...]:
    """Return elements named by numbers."""
    if batch.elements.dim() == 2:
        return tuple(Element(str(i), i, "token") for i in batch.elements[0].tolist())
    return tuple(Element(f"patch {i}", None, "image") for i in range(batch.elements.shape[1]))


@dataclass(frozen=True, eq=False)
class Look:
    """One forward pass, with its points by name; see the module."""

    model: Transformer
    batch: Batch
    """One sequence."""
    elements: tuple[Element, ...]
    """Elements of the stack that the head reads: the decoder of an encoder-decoder."""
    source_elements: tuple[Element, ...]
    """Elements of the encoder of an encoder-decoder, else none."""
    names: tuple[str, ...]
    """Names of the outcomes by index: vocabulary, tags or classes."""
    edits: tuple[Edit, ...]
    output: Output
    tape: Tape

    @property
    def logits(self) -> Float[Tensor, "T V"] | Float[Tensor, "C"]:
        """Logits of all outcomes at every position, or of the sequence's classes."""
        return self.output.logits[0]

    def probabilities(self, position: int = -1) -> Float[Tensor, "V"]:
        """Softmax of the logits at a position, in float32 or better; their sigmoid if independent.
        ConfigError: no such position, or a model without outcomes."""
        found = log_softmax(self.model, self.logits).exp()
        if not self.model.config.one_output:
            return Named(found, ("position", "vocabulary")).sel(position=position).tensor
        if position != -1:
            raise ConfigError(
                f"position={position} was given, and a sequence has its class as a whole; omit it."
            )
        return found

    def edit(self, edits: Sequence[Edit]) -> "Look":
        """Look at the same input under these edits, instead of those of this look."""
        return look(self.model, self.batch, self.elements, self.source_elements, self.names, edits)

    def points(self) -> tuple[Point, ...]:
        """Return all points in firing order, an encoder's first, found by another pass."""
        every = Replaced("*", lambda x: x)  # changes nothing, but has every point computed
        _, tape = run(self.model, self.batch, (), (*self.edits, every))
        return tuple(
            point_of(name, tape.axes[name], tape.shapes[name], fires(self.edits, name))
            for name in tape.points
        )

    def __getitem__(self, name: str) -> Named:
        """Tensor of a point without its batch axis, after the edits; ConfigError: no such point."""
        if name in self.tape.on_demand:
            place, _, kind = name.rpartition(".")
            return Named(self._compute(place, kind)[0], WEIGHTS[1:])
        return Named(self._tensor(name)[0].detach(), self.tape.axes[name][1:])

    def pattern(
        self, layer: int, head: int, *, side: str = "", site: str = "self", kind: str = "pattern"
    ) -> Float[Tensor, "T S"]:
        """Attention pattern of a head, [query, key]; rows sum to 1, or are 0 if all is masked.

        `side` "": the only stack, or the decoder of an encoder-decoder. ConfigError: no such head.
        """
        place, _ = self.attention(layer, side=side, site=site, head=head)
        edited = fires(self.edits, f"{place}.scores", f"{place}.pattern")
        found = self._compute(place, kind, None if edited else head)  # an edit may need all heads
        return found[0, head if edited else 0]

    scores = partialmethod(pattern, kind="scores")
    """Scores of a head before the softmax: q kᵀ · scale + bias, -inf where masked."""

    def sequences(self, side: str = "", site: str = "self") -> tuple[tuple[Element, ...], ...]:
        """Elements of the queries and of the keys of an attention."""
        encoded = side == "encoder" and self.source_elements
        queries = self.source_elements if encoded else self.elements
        return queries, self.source_elements if site == "cross" else queries

    def stack(self, side: str = "") -> Stack:
        """Stack of a side; ConfigError: the model has none."""
        own = {"encoder": self.model.encoder, "decoder": self.model.decoder}
        if (stack := own.get(name := side or self.answering)) is None:
            there = " and ".join(name for name in own if own[name] is not None)
            raise ConfigError(f"side={name!r} is not in this model; it has {there}.")
        return stack

    @property
    def answering(self) -> str:
        """Side that the head reads: the decoder if there is one."""
        return "encoder" if self.model.decoder is None else "decoder"

    def positions(self, side: str = "") -> Positions:
        """Positions of the elements of a side."""
        own, memory = self.output.features, self.output.features.memory
        return own.positions if side in ("", self.answering) or memory is None else memory.positions

    def stream(self, layer: int, side: str = "") -> Float[Tensor, "T D"]:
        """Stream of a side after a block (1 .. L), or after the embedding (0)."""
        name = f"{layer - 1}.resid_post" if layer else "0.resid_pre"
        return self[f"{side or self.answering}.blocks.{name}"].tensor

    def attention(
        self, layer: int, *, side: str = "", site: str = "self", head: int | None = None
    ) -> tuple[str, Attention]:
        """Path and module of an attention; ConfigError: no such layer, side, site or head."""
        blocks, own = self.stack(side).blocks, {site: name for name, site in SITE_OF.items()}
        side = side or self.answering
        check_number("layer", layer, len(blocks))
        if site not in own:
            raise ConfigError(f"There is no site {site!r} of attention; {suggest(site, own)}")
        if (module := getattr(blocks[layer], own[site])) is None:
            raise ConfigError(f"The {side} has no cross-attention; ask for site='self'.")
        if head is not None:
            check_number("head", head, module.n_heads)
        return f"{side}.blocks.{layer}.{own[site]}", module

    @torch.no_grad()
    def _compute(self, place: str, kind: str, head: int | None = None) -> Tensor:
        """Return scores or pattern of one head or of all, [1, H, T, S], after the edits."""
        side, _, layer, name = place.split(".")
        module, q, k, context = self.attending(int(layer), side=side, site=SITE_OF[name])
        scores = module.scores(q, k, context, head)
        found = changed(scores, self.edits, WEIGHTS, f"{place}.scores")
        if kind == "pattern":
            found = changed(attention_pattern(found), self.edits, WEIGHTS, f"{place}.pattern")
        return found

    @torch.no_grad()
    def attending(
        self, layer: int, *, side: str = "", site: str = "self"
    ) -> tuple[Attention, Float[Tensor, "1 H T _"], Float[Tensor, "1 K S _"], AttentionContext]:
        """An attention with its queries, keys and context: the arguments of `Attention.scores`;
        ConfigError: no such layer, side or site."""
        place, module = self.attention(layer, side=side, site=site)
        q, k = (self._tensor(f"{place}.{name}") for name in "qk")
        return module, q, k, self.context(side, site)

    @torch.no_grad()
    def context(self, side: str = "", site: str = "self") -> AttentionContext:
        """Mask, bias and rotation of an attention, computed once for all layers."""
        side = side or self.answering
        if (side, site) not in self._contexts:
            keys = self.positions("encoder" if site == "cross" else side)
            exact = torch.promote_types(self.output.features.hidden.dtype, torch.float32)
            scoring = CROSSED if site == "cross" else self.stack(side).scoring(exact)
            self._contexts[side, site] = scoring.context(self.positions(side), keys)
        return self._contexts[side, site]

    @cached_property
    def _contexts(self) -> dict[tuple[str, str], AttentionContext]:
        return {}

    def rerun(self, *keep: str) -> Tape:
        """Run the model again on this input, keeping these points; ConfigError: other logits."""
        output, tape = run(self.model, self.batch, keep, self.edits)
        before = self.output.logits
        # as with another number of threads: by less than 512 units in the last place of the largest
        # logit, or half of the digits of a short type
        unit = torch.finfo(before.dtype).eps
        rounding = min(512 * unit, unit**0.5) * float(before.nan_to_num().abs().amax())
        if not torch.allclose(output.logits, before, rtol=0, atol=rounding, equal_nan=True):
            raise ConfigError(
                "The model's weights have changed since this look, so nothing more can be computed "
                "for it; look again."
            )
        return tape

    def _tensor(self, name: str) -> Tensor:
        """Tensor of a point; if it was not kept, all points of its kind are fetched. ConfigError:
        no such point, and that of `rerun`."""
        if name not in self.tape.kept:
            if name not in self.tape.axes:
                hint = suggest(name, {*self.tape.points, *self.tape.on_demand})
                raise ConfigError(f"There is no point {name!r} in this model; {hint}")
            self.tape.kept.update(self.rerun(f"*.{kind_of(name)}").kept)
        return self.tape.kept[name]
