"""Comparison of two looks: patterns, metrics and answers of aligned elements, B - A.

    found = compare(a, b)            two prompts, checkpoints, models, or lists of edits
    found.pattern(3, 5)              difference of a head's pattern between aligned elements
    found.answer().change            change of the outcomes' probabilities

Elements are aligned by label (difflib); equally many replaced elements are aligned one to one and
marked as not the same ("tired" for "wide").
"""

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from glassformer.axes import Float, Int, Tensor
from glassformer.errors import ConfigError
from glassformer.inspect.headmetrics import HeadMetrics, head_metrics
from glassformer.inspect.lens import log_probabilities
from glassformer.inspect.look import Look
from glassformer.processors.elements import Element


@dataclass(frozen=True)
class Pair:
    """Element `a` of one sequence and element `b` of the other; `same`: their labels are equal."""

    a: int
    b: int
    same: bool


@dataclass(frozen=True)
class Answer:
    """How the answer changed: the outcomes whose probability did most, with their probability in A
    and in B.

    `divergence` is Σ p_A log2 (p_A / p_B) over all outcomes, in bits, 0 where nothing changed.
    """

    ids: Int[Tensor, "_"]
    before: Float[Tensor, "_"]
    after: Float[Tensor, "_"]
    divergence: float

    @property
    def change(self) -> Float[Tensor, "_"]:
        """B - A."""
        return self.after - self.before


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two looks and the elements that they share, in order; those of the sources of
    encoder-decoders likewise."""

    a: Look
    b: Look
    pairs: tuple[Pair, ...]
    source_pairs: tuple[Pair, ...]

    def pattern(
        self, layer: int, head: int, *, side: str = "", site: str = "self"
    ) -> Float[Tensor, "_ _"]:
        """A head's pattern in B minus that in A, [queries, keys] of aligned elements, in [-1, 1].

        What a row lacks to 0 went to elements that only one of the two has. ConfigError: a head
        that one has not.
        """
        queries, keys = self.sides(side, site)
        first, second = (
            look.pattern(layer, head, side=side, site=site) for look in (self.a, self.b)
        )
        before = first[[pair.a for pair in queries]][:, [pair.a for pair in keys]]
        return second[[pair.b for pair in queries]][:, [pair.b for pair in keys]] - before

    def sides(self, side: str, site: str) -> tuple[tuple[Pair, ...], tuple[Pair, ...]]:
        """The aligned queries and keys of an attention."""
        queries = self.source_pairs if side == "encoder" and self.source_pairs else self.pairs
        return queries, self.source_pairs if site == "cross" else queries

    def metrics(self, *, side: str = "", site: str = "self") -> HeadMetrics:
        """The metrics of every head in B minus those in A; ConfigError: models of other sizes."""
        first, second = (head_metrics(look, side=side, site=site) for look in (self.a, self.b))
        if first.values.shape != second.values.shape:
            sizes = " and ".join(
                f"{n} layers of {h} heads" for n, h, _ in (first.values.shape, second.values.shape)
            )
            raise ConfigError(
                f"The heads of two models can be compared if they are as many, not {sizes}."
            )
        return HeadMetrics(second.values - first.values, first.names, side, site)

    def answer(self, number: int = -1, k: int = 10) -> Answer:
        """How the answer at pair `number` changed, by its k largest changes; of a head that pools,
        the one answer.

        ConfigError: models with other outcomes, or no such pair.
        """
        self._comparable()
        both = zip((self.a, self.b), self._positions([number]), strict=True)
        first, second = (
            next(log_probabilities(look, [look.model.config.n_layers], at))[0] for look, at in both
        )
        before, after = first.exp(), second.exp()
        most = (after - before).abs().topk(min(k, len(before))).indices
        divergence = _divergence(first, second, self.a.model.config.multi_label)
        return Answer(most, before[most], after[most], float(divergence))

    def lens(self, layers: Sequence[int] | None = None) -> Float[Tensor, "L _"]:
        """How far the lens of B is from that of A, after `layers` (None: all) at every pair: Σ p_A
        log2 (p_A / p_B).

        In bits. ConfigError: models with other outcomes or with other numbers of layers.
        """
        self._comparable()
        most, other = (look.model.config.n_layers for look in (self.a, self.b))
        if most != other:
            raise ConfigError(
                f"The models have {most} and {other} layers, so their lenses cannot be compared."
            )
        layers = range(most + 1) if layers is None else layers
        at = self._positions(range(len(self.pairs)))
        a, b = (log_probabilities(look, layers, at[i]) for i, look in enumerate((self.a, self.b)))
        several = self.a.model.config.multi_label
        found = torch.cat([_divergence(*pair, several) for pair in zip(a, b, strict=True)])
        return found.view(len(layers), -1)

    def _comparable(self) -> None:
        first, second = (look.logits for look in (self.a, self.b))
        named = self.a.names and self.b.names
        if (first.dim(), first.shape[-1]) != (second.dim(), second.shape[-1]) or (
            named and self.a.names != self.b.names
        ):
            raise ConfigError(
                "The two models do not choose among the same outcomes, so their answers cannot "
                "be compared."
            )

    def _positions(self, numbers: Sequence[int]) -> tuple[list[int], list[int]]:
        """Where pairs stand in A and in B; nowhere, if the head answers to the whole sequence."""
        if self.a.logits.dim() == 1:
            return [], []
        count = len(self.pairs)
        for number in numbers:
            if not -count <= number < count:
                raise ConfigError(
                    f"There is no pair {number} of aligned elements; there are {count}, "
                    f"counted from 0."
                )
        return [self.pairs[n].a for n in numbers], [self.pairs[n].b for n in numbers]


def compare(a: Look, b: Look) -> Comparison:
    """Two looks with their elements aligned."""
    return Comparison(
        a, b, aligned(a.elements, b.elements), aligned(a.source_elements, b.source_elements)
    )


def aligned(a: Sequence[Element], b: Sequence[Element]) -> tuple[Pair, ...]:
    """Elements that correspond, in order: equal labels, and one for one where as many stand for as
    many."""
    labels = [[element.label for element in side] for side in (a, b)]
    matcher = difflib.SequenceMatcher(None, *labels, autojunk=False)
    return tuple(
        Pair(i, j, tag == "equal")
        for tag, begin, end, other, other_end in matcher.get_opcodes()
        if end - begin == other_end - other
        for i, j in zip(range(begin, end), range(other, other_end), strict=True)
    )


def _divergence(
    first: Float[Tensor, "*rows _"], second: Float[Tensor, "*rows _"], several: bool
) -> Tensor:
    """Σ p log2 (p / q) of ln p and ln q; of outcomes that do not exclude each other, the sum of
    each one's own."""
    terms = first.exp() * (first - second)
    if several:
        first, second = (torch.log(-torch.expm1(logs)) for logs in (first, second))
        terms = terms + first.exp() * (first - second)
    return terms.where(~terms.isnan(), 0.0).sum(-1) / math.log(2)  # 0 ln 0 = 0
