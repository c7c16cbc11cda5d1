"""Losses as a sum over targets and their number, so that any split of a step gives the same total.

The mean is taken once, over all targets of a step (all micro-batches and processes).
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch.nn import functional as F

from glassformer.core.axes import Float, Int, Tensor
from glassformer.core.batch import IGNORE


@dataclass(frozen=True)
class LossSum:
    """A loss summed over `count` targets, in nats."""

    total: Float[Tensor, ""]
    count: int


def cross_entropy(
    logits: Float[Tensor, "*rows V"],
    targets: Int[Tensor, "*rows"] | Float[Tensor, "*rows V"],
    smoothing: float = 0.0,
    weights: Float[Tensor, "V"] | None = None,
) -> LossSum:
    """Cross-entropy -Σ_i Σ_j y_ij log f_ij over the targets that are not IGNORE (Note E), summed,
    in float32 or better.

    Targets are classes, or shares of every class (mixed images).
    `smoothing` ε in [0, 1) spreads that share of each target evenly over the vocabulary (Szegedy et
    al. 2016). `weights` multiply the terms of each class, but not the count.
    """
    flat = at_least_float32(logits).flatten(0, -2)
    if targets.is_floating_point():
        shares = targets.flatten(0, -2).to(flat.dtype)
        return LossSum(
            F.cross_entropy(flat, shares, weights, reduction="sum", label_smoothing=smoothing),
            len(flat),
        )
    wanted = targets.flatten()
    total = F.cross_entropy(
        flat, wanted, weights, ignore_index=IGNORE, reduction="sum", label_smoothing=smoothing
    )
    return LossSum(total, int((wanted != IGNORE).sum()))


def binary_cross_entropy(
    logits: Float[Tensor, "N C"],
    targets: Int[Tensor, "N C"] | Float[Tensor, "N C"],
    smoothing: float = 0.0,
    weights: Float[Tensor, "C"] | None = None,
) -> LossSum:
    """Binary cross-entropy -Σ_i Σ_c y log σ(u) + (1 - y) log(1 - σ(u)) of independent classes, over
    the targets 0 to 1 that are not IGNORE.

    `smoothing` ε moves targets to ε/2 and 1 - ε/2; `weights` multiply the terms of each class.
    """
    known = targets != IGNORE
    wanted = targets.to(at_least_float32(logits).dtype) * (1 - smoothing) + smoothing / 2
    terms = F.binary_cross_entropy_with_logits(
        at_least_float32(logits), wanted, weights, reduction="none"
    )
    return LossSum(torch.where(known, terms, 0.0).sum(), int(known.sum()))


class Outcomes(ABC):
    """Relation of the outcomes of a model, which have a logit each."""

    exclusive = True
    """Whether one of them holds, and no other."""

    @abstractmethod
    def log_probabilities(self, logits: Float[Tensor, "*rows V"]) -> Float[Tensor, "*rows V"]:
        """Return ln p of every outcome."""

    @abstractmethod
    def relative_entropy(self, log_p: Float[Tensor, "V"], log_q: Float[Tensor, "V"]) -> float:
        """Return Σ p log₂ (p / q) in bits, of ln p and ln q."""

    def divergence(
        self,
        logits: Float[Tensor, "*rows V"],
        again: Float[Tensor, "*rows V"],
        targets: Int[Tensor, "*rows"] | Int[Tensor, "*rows V"] | Float[Tensor, "*rows V"],
    ) -> Float[Tensor, ""]:
        """Return ½ (KL(p‖q) + KL(q‖p)) = ½ Σ_j (p_j - q_j) (u_j - v_j) of two predictions p and q
        with logits u and v, summed over the targets that are not IGNORE, in nats.

        Source: Liang et al. 2021, R-Drop.
        """
        u, v = at_least_float32(logits), at_least_float32(again)
        terms = (self._probabilities(u) - self._probabilities(v)) * (u - v) / 2
        return self._sum(terms, targets)

    @abstractmethod
    def _probabilities(self, logits: Float[Tensor, "*rows V"]) -> Float[Tensor, "*rows V"]: ...

    def _sum(self, terms: Float[Tensor, "*rows V"], targets: Tensor) -> Float[Tensor, ""]:
        known = targets != IGNORE
        known = known if known.dim() == terms.dim() else known[..., None]
        return torch.where(known, terms, 0.0).sum()


class Exclusive(Outcomes):
    """One outcome holds: softmax."""

    def log_probabilities(self, logits: Float[Tensor, "*rows V"]) -> Float[Tensor, "*rows V"]:
        """Return ln of the softmax."""
        return logits.log_softmax(-1)

    def relative_entropy(self, log_p: Float[Tensor, "V"], log_q: Float[Tensor, "V"]) -> float:
        """Return Σ p log₂ (p / q)."""
        terms = log_p.exp() * (log_p - log_q)
        return float(terms.nansum() / math.log(2))  # 0 ln 0 = 0

    def _probabilities(self, logits: Float[Tensor, "*rows V"]) -> Float[Tensor, "*rows V"]:
        return logits.softmax(-1)


class Independent(Outcomes):
    """Any number of outcomes hold: a sigmoid for each."""

    exclusive = False

    def log_probabilities(self, logits: Float[Tensor, "*rows V"]) -> Float[Tensor, "*rows V"]:
        """Return ln of each sigmoid."""
        return F.logsigmoid(logits)

    def relative_entropy(self, log_p: Float[Tensor, "V"], log_q: Float[Tensor, "V"]) -> float:
        """Return Σ p log₂ (p / q) over each outcome and its opposite."""
        opposites = [torch.log(-torch.expm1(logs)) for logs in (log_p, log_q)]
        pairs = (log_p, log_q), opposites
        terms = sum(p.exp() * (p - q) for p, q in pairs)
        return float(torch.as_tensor(terms).nansum() / math.log(2))

    def _probabilities(self, logits: Float[Tensor, "*rows V"]) -> Float[Tensor, "*rows V"]:
        return logits.sigmoid()

    def _sum(self, terms: Float[Tensor, "*rows V"], targets: Tensor) -> Float[Tensor, ""]:
        if targets.is_floating_point():  # shares count as one target, not one a class
            return terms.sum() / targets.shape[-1]
        return super()._sum(terms, targets)


EXCLUSIVE, INDEPENDENT = Exclusive(), Independent()


def at_least_float32(logits: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Logits in float32 or better, for sums of exponentials; half precisions become float32."""
    return logits.float() if logits.element_size() < 4 else logits
