"""Comparison of two looks: patterns and answers of aligned elements, B - A.

    compare(a, b)  ->  found             prompts, checkpoints, models or edits
    found.pattern(3, 5)                  difference of a head's pattern
    found.answer().change                change of the outcomes' probabilities

Elements are aligned by label (difflib). Runs of replaced elements of one length are aligned too.
"""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from glassformer.core.axes import Float, Int, Tensor
from glassformer.core.errors import ConfigError
from glassformer.inspect.look import Look, log_softmax
from glassformer.inspect.target import index_in
from glassformer.processors.tokens.elements import Element


class Pair(NamedTuple):
    """Element `a` of one sequence and element `b` of the other."""

    a: int
    b: int


@dataclass(frozen=True)
class Answer:
    """Outcomes whose probability changed most, with their probability in A and in B.

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
    """Two looks with the pairs of aligned elements, in order; `source_pairs` of the encoders."""

    a: Look
    b: Look
    pairs: tuple[Pair, ...]
    source_pairs: tuple[Pair, ...]

    def pattern(
        self, layer: int, head: int, *, side: str = "", site: str = "self"
    ) -> Float[Tensor, "_ _"]:
        """A head's pattern in B minus that in A, [queries, keys] of aligned elements, in [-1, 1].

        The rest of a row to 0 went to elements that only one of the two has. ConfigError: a head
        that one does not have.
        """
        queries, keys = self.sides(side, site)

        def part(look: Look, own: int) -> Tensor:
            pattern = look.pattern(layer, head, side=side, site=site)
            return pattern[[pair[own] for pair in queries]][:, [pair[own] for pair in keys]]

        return part(self.b, 1) - part(self.a, 0)

    def sides(self, side: str, site: str) -> tuple[tuple[Pair, ...], tuple[Pair, ...]]:
        """The aligned queries and keys of an attention."""
        queries = self.source_pairs if side == "encoder" and self.source_pairs else self.pairs
        return queries, self.source_pairs if site == "cross" else queries

    def answer(self, number: int = -1, k: int = 10) -> Answer:
        """The k largest changes of the answer at pair `number`; of a head that pools, of its one.

        ConfigError: models with other outcomes, or no such pair.
        """
        a, b = self.a.logits, self.b.logits
        renamed = self.a.names and self.b.names and self.a.names != self.b.names
        if (a.dim(), a.shape[-1]) != (b.dim(), b.shape[-1]) or renamed:
            raise ConfigError(
                "The two models do not choose among the same outcomes, so their answers cannot "
                "be compared."
            )
        if a.dim() > 1:
            pair = self.pairs[index_in(number, len(self.pairs), "pair", "the aligned elements")]
            a, b = a[pair.a], b[pair.b]
        first, second = log_softmax(self.a.model, a).cpu(), log_softmax(self.b.model, b).cpu()
        before, after = first.exp(), second.exp()
        most = (after - before).abs().topk(min(k, len(before))).indices
        divergence = self.a.model.config.outcomes.relative_entropy(first, second)
        return Answer(most, before[most], after[most], divergence)


def compare(a: Look, b: Look) -> Comparison:
    """Two looks with their elements aligned."""
    sources = align(a.source_elements, b.source_elements)
    return Comparison(a, b, align(a.elements, b.elements), sources)


def align(a: Sequence[Element], b: Sequence[Element]) -> tuple[Pair, ...]:
    """Return pairs of corresponding elements: equal labels, or replaced runs of one length."""
    labels = [[element.label for element in side] for side in (a, b)]
    matcher = difflib.SequenceMatcher(None, *labels, autojunk=False)
    return tuple(
        Pair(i, j)
        for _, begin, end, other, other_end in matcher.get_opcodes()
        if end - begin == other_end - other
        for i, j in zip(range(begin, end), range(other, other_end), strict=True)
    )
