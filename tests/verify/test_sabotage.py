"""Negative controls: production that is wrong in one place fails in the claims that name it, and in
no others. Every claim fails in at least one of them."""

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from types import FunctionType
from typing import Any, NamedTuple

import pytest
import torch
from torch.nn import functional as F

from glassformer.layers import losses
from glassformer.layers.attention import attend, mask
from glassformer.layers.attention.context import Scoring
from glassformer.models.config import ModelConfig
from glassformer.verify.row import claims, rows_of
from glassformer.verify.rows_model import model_gaps
from glassformer.verify.rows_notes import (
    TINY,
    batch_for,
    generation,
    image,
    make_model,
    offsets,
    scores,
    shift,
    temperatures,
)

Wrong = Callable[[Any], Any]


class Sabotage(NamedTuple):
    """`broken`, a name in glassformer, becomes wrong(right); exactly the claims `failing` then fail
    on a small model with the fields `on`, or in the group of gaps `on`.

    Attention that is wrong only when written out differs from the fused one in the later layers.
    """

    broken: str
    wrong: Wrong
    on: dict[str, Any] | Callable[[], Any]
    failing: str


def times(factor: float) -> Wrong:
    """The right result times a factor."""
    return lambda right: lambda *args, **kwargs: right(*args, **kwargs) * factor


def instead(function: Any) -> Wrong:
    """Another function."""
    return lambda right: function


def without_bias(weight: str) -> Wrong:
    """A module's map without its bias."""
    return instead(lambda self, x, *_: F.linear(x, self.get_parameter(weight)))


def sample_norm(x, weight, bias, epsilon):
    """LayerNorm with n - 1 in the deviation."""
    y = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + epsilon).sqrt() * weight
    return y if bias is None else y + bias


def printed_swapped(right):
    """Note C's exponent for the paired one, and the other way round."""
    return lambda place, d_model, *, printed=False, **how: right(
        place, d_model, printed=not printed, **how
    )


def backwards(right):
    """Rotations by the negative angle."""

    def wrong(*args, **kwargs):
        cos, sin = right(*args, **kwargs)
        return cos, -sin

    return wrong


def by_slot(right):
    """Attention whose output depends on the slot."""
    return lambda q, *args: right(q, *args) + torch.arange(q.shape[2])[:, None]


def forgets_the_triangle(q, k, v, allow, bias, scale, dropout=0.0):
    """Fused attention that sees the future."""
    return attend.attend_reference(q, k, v, mask.Allowed(), bias, scale)


def in_single_precision(right):
    """Position vectors rounded to float32."""
    return lambda *args, dtype=torch.float32, **kwargs: right(*args, **kwargs).to(dtype)


def keys_reversed(right):
    """A cache that gives its keys in the other order."""

    def wrong(*args):
        keys, values = right(*args)
        return keys.flip(2), values

    return wrong


def padding_counted(right):
    """A loss that counts the targets at padding."""
    return lambda u, targets: losses.LossSum(right(u, targets).total, targets.numel())


def of_the_second(right):
    """Pooling that reads the second element."""
    return lambda hidden, *_: hidden[:, 1]


PAST = {"epsilon": 1e-5}
POST = {"norm_placement": "post"}
SOURCED = {"architecture": "encoder_decoder"}
RMS = {"norm": "rms", "qk_norm": True}
NOTHING = {"architecture": "encoder", "head": "none", "position": "none"}
CLASSIFY = {"architecture": "encoder", "head": "classify", "n_classes": 5}
IMAGES = {"elements": "patches", "patch_width": 12, **CLASSIFY, "pool": "first"}
DISTILLED = {**IMAGES, "n_registers": 1, "distilled": True}
BUCKETS = {"position": "buckets", "n_buckets": 8, "max_distance": 7}
SABOTAGES = [
    Sabotage(
        "layers.attention.multi_head:Attention.queries",
        lambda right: lambda self, x, rotation: right(self, x - self.q_proj.bias, rotation),
        SOURCED,
        "attention.q cross.q whole gradient",
    ),
    Sabotage(
        "layers.attention.multi_head:Attention.keys_values",
        lambda right: lambda self, k, v, rotation: right(self, v, k, rotation),
        SOURCED,
        "attention.k attention.v cross.k cross.v whole gradient",
    ),
    Sabotage(
        "layers.attention.multi_head:attention_scores",
        times(1.01),
        SOURCED,
        "attention.scores cross.scores attention.fused cross.fused gradient",
    ),
    Sabotage("layers.attention.attend:attention_scores", times(1.01), scores, "simplified terms"),
    Sabotage("layers.attention.attend:attend", times(1.01), scores, "simplified.fused"),
    Sabotage(
        "layers.attention.multi_head:attention_pattern",
        times(0.9),
        SOURCED,
        "attention.pattern attention.sum cross.pattern cross.sum attention.fused cross.fused gradient",
    ),
    Sabotage(
        "layers.attention.multi_head:attention_pattern",
        instead(lambda s: torch.full_like(s, 1 / s.shape[-1])),
        SOURCED,
        "attention.pattern attention.mask cross.pattern cross.mask attention.fused cross.fused gradient",
    ),
    Sabotage(
        "layers.attention.multi_head:attention_values",
        lambda right: lambda pattern, v: right(pattern, v.roll(1, -2)),
        SOURCED,
        "attention.z cross.z attention.fused cross.fused gradient",
    ),
    Sabotage(
        "layers.attention.multi_head:merge_heads",
        instead(lambda z: z.flip(1).transpose(1, 2).flatten(2)),
        SOURCED,
        "attention_out cross_out whole gradient",
    ),
    Sabotage(
        "layers.attention.context:attend",
        instead(forgets_the_triangle),
        PAST,
        "attention.fused whole causality cache",
    ),
    Sabotage(
        "layers.attention.context:attend",
        by_slot,
        PAST,
        "attention.fused whole cache permutation",
    ),
    Sabotage(
        "layers.attention.context:attend",
        by_slot,
        NOTHING,
        "attention.fused whole permutation.none",
    ),
    Sabotage(
        "layers.attention.cache:CROSSED",
        instead(Scoring(mask.Everything())),
        SOURCED,
        "cross.scores cross.mask whole",
    ),
    *(
        Sabotage(
            "layers.position.score_bias:RelativeBias.forward",
            times(-1),
            {"position": "relative", "bias_placement": placement},
            f"attention.scores.relative.{placement} whole gradient",
        )
        for placement in ("inside", "outside")
    ),
    *(
        Sabotage(
            "layers.position.score_bias:BucketBias.forward",
            times(1.01),
            BUCKETS | {"bias_placement": placement},
            f"attention.scores.buckets.{placement} whole gradient",
        )
        for placement in ("inside", "outside")
    ),
    *(
        Sabotage(
            "layers.position.score_bias:alibi_slopes",
            times(0.5),
            {"position": "alibi", "bias_placement": placement},
            f"attention.scores.alibi.{placement} whole gradient",
        )
        for placement in ("inside", "outside")
    ),
    Sabotage(
        "layers.position.kinds:rotation",
        backwards,
        {"position": "rotary"},
        "attention.q attention.k whole gradient",
    ),
    Sabotage(
        "layers.position.vectors:sinusoidal",
        printed_swapped,
        {"position": "sinusoidal"},
        "positions whole",
    ),
    Sabotage(
        "layers.position.vectors:sinusoidal",
        in_single_precision,
        {"position": "sinusoidal"},
        "positions whole",
    ),
    Sabotage(
        "layers.position.vectors:sinusoidal", printed_swapped, offsets, "offset offset.product"
    ),
    Sabotage(
        "layers.position.vectors:LearnedPosition.forward",
        times(1.01),
        PAST,
        "positions.learned whole",
    ),
    Sabotage(
        "layers.position.vectors:GridPosition.forward",
        times(1.01),
        IMAGES | {"grid": [3, 4], "position": "sinusoidal_2d"},
        "positions.sinusoidal_2d whole",
    ),
    Sabotage("layers.position.vectors:naive_index", times(1.01), offsets, "naive"),
    Sabotage(
        "layers.position.vectors:binary_code",
        lambda right: lambda *args: right(*args).flip(-1),
        offsets,
        "binary",
    ),
    Sabotage(
        "layers.embed:TokenEmbedding.forward",
        lambda right: lambda self, ids: right(self, (ids + 1) % len(self.weight)),
        PAST,
        "embedding whole",
    ),
    Sabotage("layers.norm:layer_norm", instead(sample_norm), PAST, "norm.layer whole gradient"),
    Sabotage(
        "layers.norm:rms_norm",
        times(1.01),
        RMS,
        "attention.q attention.k norm.rms whole gradient",
    ),
    Sabotage(
        "layers.feedforward:FeedForward.forward",
        lambda right: lambda self, x: right(self, x) + x.mean(1, keepdim=True),
        PAST,
        "ffn whole causality cache",
    ),
    Sabotage(
        "layers.feedforward:FeedForward.forward", times(1.01), {"gated": True}, "ffn.gated whole"
    ),
    *(
        Sabotage(
            "layers.block:Block.join",
            instead(lambda self, x, branch: branch),
            fields,
            f"{claim} whole gradient",
        )
        for fields, claim in ((PAST, "block.pre"), (POST, "block.post"))
    ),
    *(
        Sabotage(
            "layers.block:Block.join",
            instead(lambda self, x, branch: x + branch),
            fields | {"residual": False},
            f"{claim}.without whole gradient.without",
        )
        for fields, claim in ((PAST, "block.pre"), (POST, "block.post"))
    ),
    Sabotage("layers.heads:LanguageModelHead.forward", times(1.01), PAST, "head.lm whole"),
    Sabotage(
        "layers.heads:LanguageModelHead.forward",
        without_bias("weight"),
        {"tied": False, "head_bias": True},
        "head.lm.untied whole",
    ),
    Sabotage(
        "layers.heads:MaskedLanguageModelHead.forward",
        times(1.01),
        {"architecture": "encoder", "head": "masked_lm"},
        "head.masked_lm whole",
    ),
    Sabotage("layers.heads:NoHead.forward", times(1.01), NOTHING, "head.none whole"),
    Sabotage(
        "layers.heads:TagHead.forward",
        without_bias("proj.weight"),
        {"architecture": "encoder", "head": "tag", "n_classes": 5},
        "head.tag whole",
    ),
    *(
        Sabotage(
            "layers.heads:ClassifyHead.forward",
            times(1.01),
            fields,
            f"head.{claim} whole",
        )
        for fields, claim in (
            (CLASSIFY, "classify"),
            (CLASSIFY | {"head": "pool"}, "pool"),
            (DISTILLED, "classify.distilled"),
        )
    ),
    Sabotage("verify.rows_model:cross_entropy", padding_counted, PAST, "loss"),
    Sabotage(
        "runtime.selectors.sampling:temperature",
        lambda right: lambda u, tau: right(u, 1 / tau),
        temperatures,
        "temperature",
    ),
    Sabotage(
        "data.collate:shift_right",
        instead(lambda answers, bos: torch.tensor([list(ids) for ids in answers])),
        shift,
        "shift shift.teaching",
    ),
    Sabotage(
        "runtime.selectors.sampler:next_tokens",
        instead(lambda u, rows, config: u.topk(2).indices[:, 1]),
        generation,
        "greedy",
    ),
    Sabotage("layers.attention.cache:Cache.store", keys_reversed, PAST, "cache"),
    Sabotage(
        "verify.rows_notes:patchify",
        lambda right: lambda pixels, size: right(pixels.transpose(1, 2), size),
        image,
        "patches",
    ),
    Sabotage("layers.embed:PatchEmbedding.forward", times(1.01), IMAGES, "embedding.patches whole"),
]


def breaks(patch: pytest.MonkeyPatch, broken: str, wrong: Wrong) -> None:
    """Apply a sabotage; a replaced function keeps its name, which rows show."""
    module, _, path = broken.partition(":")
    *owners, name = path.split(".")
    owner = import_module(f"glassformer.{module}")
    for inner in owners:
        owner = getattr(owner, inner)
    right = getattr(owner, name)
    wrong = wrong(right)
    patch.setattr(owner, name, wraps(right)(wrong) if isinstance(wrong, FunctionType) else wrong)


def failing(on) -> set[str]:
    """The claims that fail on a model, on a small model with these fields, or in this group."""
    if isinstance(on, dict):
        on = make_model(ModelConfig.parse(TINY | on))
    gaps = model_gaps(on, batch_for(on.config)) if isinstance(on, torch.nn.Module) else on()
    return {gap.claim for gap in gaps for row in rows_of([gap]) if not row.passed}


@pytest.mark.parametrize("one", SABOTAGES, ids=lambda one: f"{one.broken} {one.failing}")
def test_the_named_claims_fail_and_no_others(monkeypatch, one):
    breaks(monkeypatch, one.broken, one.wrong)
    assert failing(one.on) == set(one.failing.split())


def test_every_claim_fails_in_a_sabotage():
    failed = {claim for one in SABOTAGES for claim in one.failing.split()}
    assert failed == {claim for claim, line in claims().items() if not line["fields"]}


def test_scale_of_one_block():
    model = make_model(ModelConfig.parse(TINY))
    model.decoder.blocks[1].attention.scale *= 1.001
    assert failing(model) == {"attention.scores", "whole", "gradient"}


def test_unmasked_future():
    model = make_model(ModelConfig.parse(TINY))
    model.decoder.mask = mask.Valid()
    assert {"attention.scores", "attention.mask", "causality"} <= failing(model)


def test_a_head_that_is_not_tied_any_more():
    model = make_model(ModelConfig.parse(TINY))
    model.head.weight = torch.nn.Parameter(model.head.weight.detach() * 1.001)
    model.tie = lambda: None
    assert failing(model) == {"head.lm", "whole"}


def test_epsilon_where_the_notes_have_none():
    model = make_model(ModelConfig.parse(TINY | {"epsilon": 0.0}))
    model.decoder.blocks[0].attention_norm.epsilon = 1e-5
    assert "norm.layer" in failing(model)


def test_not_a_number_fails():
    model = make_model(ModelConfig.parse(TINY))
    with torch.no_grad():
        model.decoder.blocks[0].feedforward.down_proj.weight[0, 0] = float("nan")
    assert "ffn" in failing(model)
