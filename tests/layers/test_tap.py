"""Taps: what they show, what they change, and that nothing is left of them."""

import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

import tiny
from glassformer.core.batch import Batch, Positions
from glassformer.core.errors import ConfigError
from glassformer.layers.attention.cache import Cache
from glassformer.layers.tap import Tape, recording, tap, watching
from tiny import EXACT

DECODER_POINTS = [
    "embed.elements",
    "embed.positions",
    "decoder.blocks.0.resid_pre",
    "decoder.blocks.0.attention.q",
    "decoder.blocks.0.attention.k",
    "decoder.blocks.0.attention.v",
    "decoder.blocks.0.attention.scores",
    "decoder.blocks.0.attention.pattern",
    "decoder.blocks.0.attention.z",
    "decoder.blocks.0.attention_out",
    "decoder.blocks.0.resid_mid",
    "decoder.blocks.0.feedforward.pre",
    "decoder.blocks.0.feedforward.post",
    "decoder.blocks.0.feedforward_out",
    "decoder.blocks.0.resid_post",
    "decoder.out",
    "head.logits",
]

ENCODER_DECODER_POINTS = [
    "embed.elements",
    "embed.positions",
    "encoder.blocks.0.resid_pre",
    "encoder.blocks.0.attention.q",
    "encoder.blocks.0.attention.k",
    "encoder.blocks.0.attention.v",
    "encoder.blocks.0.attention.scores",
    "encoder.blocks.0.attention.pattern",
    "encoder.blocks.0.attention.z",
    "encoder.blocks.0.attention_out",
    "encoder.blocks.0.resid_mid",
    "encoder.blocks.0.feedforward.pre",
    "encoder.blocks.0.feedforward.gate",
    "encoder.blocks.0.feedforward.post",
    "encoder.blocks.0.feedforward_out",
    "encoder.blocks.0.resid_post",
    "encoder.out",
    "decoder.blocks.0.resid_pre",
    "decoder.blocks.0.attention.q",
    "decoder.blocks.0.attention.k",
    "decoder.blocks.0.attention.v",
    "decoder.blocks.0.attention.scores",
    "decoder.blocks.0.attention.pattern",
    "decoder.blocks.0.attention.z",
    "decoder.blocks.0.attention_out",
    "decoder.blocks.0.cross.q",
    "decoder.blocks.0.cross.k",
    "decoder.blocks.0.cross.v",
    "decoder.blocks.0.cross.scores",
    "decoder.blocks.0.cross.pattern",
    "decoder.blocks.0.cross.z",
    "decoder.blocks.0.cross_out",
    "decoder.blocks.0.resid_mid",
    "decoder.blocks.0.feedforward.pre",
    "decoder.blocks.0.feedforward.gate",
    "decoder.blocks.0.feedforward.post",
    "decoder.blocks.0.feedforward_out",
    "decoder.blocks.0.resid_post",
    "decoder.out",
    "head.logits",
]


@dataclass(frozen=True)
class By:
    """An edit by any function of the tensor."""

    point: str
    change: Callable[[torch.Tensor], torch.Tensor]

    def __call__(self, tensor, axes, point):
        return self.change(tensor)


def look(model, batch, keep=("*",), edits=()):
    with recording(Tape(model, keep, edits)) as tape:
        logits = model(batch, all_positions=True).logits
    return logits, tape


def pair():
    return Batch(tiny.tokens(2, 3), source=Batch(tiny.tokens(2, 4), Positions.pad([4, 2])))


def test_the_points_of_a_decoder():
    """A renamed module is a renamed point: people's scripts and the explorer rely on these
    names."""
    _, tape = look(tiny.model(n_layers=1), tiny.tokens(1, 3))
    assert tape.points == DECODER_POINTS


def test_the_points_of_an_encoder_decoder():
    _, tape = look(tiny.model(architecture="encoder_decoder", n_layers=1, gated=True), pair())
    assert list(dict.fromkeys(tape.points)) == ENCODER_DECODER_POINTS
    for point, tensor in tape.kept.items():
        assert tensor.ndim == len(tape.axes[point]), point


def test_axes_say_what_is_there():
    _, tape = look(tiny.model(n_kv_heads=2), tiny.tokens(3, 5))
    size = {
        "batch": 3,
        "position": 5,
        "query": 5,
        "key": 5,
        "model": 8,
        "dim": 2,
        "hidden": 12,
        "vocabulary": 13,
    }
    for point, tensor in tape.kept.items():
        head = 2 if point.endswith((".k", ".v")) else 4
        assert tensor.shape[-1] == size[tape.axes[point][-1]], point
        if point != "embed.positions":  # one row for every sequence
            assert tuple(tensor.shape) == tuple(
                (size | {"head": head})[axis] for axis in tape.axes[point]
            ), point


@pytest.mark.parametrize("position", tiny.POSITIONS)
@pytest.mark.parametrize("architecture", ["encoder", "decoder", "encoder_decoder"])
def test_looking_changes_nothing(position, architecture):
    model = tiny.model(architecture=architecture, position=position, n_kv_heads=2, window=4)
    batch = (
        pair()
        if architecture == "encoder_decoder"
        else Batch(tiny.tokens(2, 6), Positions.pad([3, 6], "left"))
    )
    logits, tape = look(model, batch)
    assert_close(logits, model(batch).logits, **EXACT)
    for point, pattern in tape.kept.items():
        if point.endswith("pattern"):
            sums = pattern.sum(-1)
            assert_close(sums, (sums > 0).to(sums), **EXACT)  # rows sum to 1, or see nothing


def test_looking_changes_nothing_with_a_cache():
    model, ids = tiny.model(position="rotary"), tiny.tokens(1, 5)
    cache = model(ids[:, :4], Cache()).features.cache
    with recording(Tape(model, ("*.pattern",))) as tape:
        logits = model(ids[:, 4:], cache).logits
    assert_close(logits, model(ids).logits[:, 4:], **EXACT)
    assert tape.kept["decoder.blocks.1.attention.pattern"].shape == (1, 4, 1, 5)


def test_a_tape_keeps_what_is_asked_and_nothing_else():
    model, ids = tiny.model(), tiny.tokens(1, 4)
    _, tape = look(model, ids, ("*.1.attention.z", "head.logits"))
    assert set(tape.kept) == {"decoder.blocks.1.attention.z", "head.logits"}
    assert "decoder.blocks.1.attention.pattern" not in tape.points  # was never computed


def test_kept_tensors_carry_gradients():
    model, ids = tiny.model(), tiny.tokens(1, 4)
    logits, tape = look(model, ids, ("*.0.resid_post",))
    (gradient,) = torch.autograd.grad(logits.sum(), [tape.kept["decoder.blocks.0.resid_post"]])
    assert gradient.abs().sum() > 0


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("decoder.blocks.1.attention.patern", "'decoder.blocks.1.attention.pattern'"),
        ("*.attention.patern", r"'\*.attention.pattern'"),
        ("*.resid_pst", r"'\*.resid_post'"),
        ("*.zzzzzzzz", r"known are .*\*.attention.q"),
    ],
)
def test_a_misspelt_point_raises_and_names_the_right_one(asked, meant):
    model = tiny.model()
    with pytest.raises(ConfigError, match=rf"never fired.*{meant}"):
        look(model, tiny.tokens(1, 3), (asked,))
    with pytest.raises(ConfigError, match=rf"never fired.*{meant}"):
        look(model, tiny.tokens(1, 3), (), [By(asked, torch.zeros_like)])


def test_edits_work_where_they_are_made():
    model, ids = tiny.model(position="none"), tiny.tokens(1, 5)
    plain = model(ids).logits
    same, tape = look(model, ids, ("*",), [By("*.attention.z", lambda z: z)])
    assert_close(same, plain, **EXACT)
    # a pattern replaced by the identity: each element sees only itself, as in a window of 1
    only_self = [By("*.pattern", lambda a: torch.eye(a.shape[-1], dtype=a.dtype).expand_as(a))]
    edited, tape = look(model, ids, ("*.pattern",), only_self)
    assert_close(edited, tiny.model(position="none", window=1)(ids).logits, **EXACT)
    assert (tape.kept["decoder.blocks.0.attention.pattern"][0, 0] == torch.eye(5)).all()
    # one head cut off equals its rows of W_O set to 0
    cut = lambda z: z * (torch.arange(4) != 2)[:, None, None]
    edited, _ = look(model, ids, (), [By("decoder.blocks.1.attention.z", cut)])
    weight = model.decoder.blocks[1].attention.out_proj.weight
    saved = weight.data.clone()
    try:
        weight.data[:, 4:6] = 0
        assert_close(model(ids).logits, edited, **EXACT)
    finally:
        weight.data.copy_(saved)
    assert_close(model(ids).logits, plain, **EXACT)


def test_edits_act_in_their_order_and_what_came_before_them_is_kept():
    model, ids, point = tiny.model(), tiny.tokens(1, 4), "decoder.blocks.0.resid_post"
    _, plain = look(model, ids, (point,))
    ramp = torch.arange(8).double()
    double, more = By("*.0.resid_post", lambda x: x * 2), By(point, lambda x: x + ramp)
    logits, tape = look(model, ids, (point,), (double, more))
    assert torch.equal(tape.before[point], plain.kept[point])
    assert torch.equal(tape.kept[point], plain.kept[point] * 2 + ramp)
    other, turned = look(model, ids, (point,), (more, double))
    assert torch.equal(turned.kept[point], (plain.kept[point] + ramp) * 2)
    assert not torch.allclose(logits, other)
    assert not plain.before  # nothing was edited


def test_every_step_of_a_generation_has_its_own():
    model, ids = tiny.model(position="rotary"), tiny.tokens(1, 5)
    _, whole = look(model, ids, ("*.0.attention.q",))
    with recording(Tape(model, ("*.0.attention.q",))) as tape:
        cache, queries = Cache(), []
        for i in range(5):
            assert tape.step == i
            cache = model(ids[:, i : i + 1], cache).features.cache
            queries += tape.taken().values()
    assert tape.kept == {}
    assert_close(torch.cat(queries, 2), whole.kept["decoder.blocks.0.attention.q"], **EXACT)


def test_a_model_that_was_not_run_is_told_from_a_misspelt_point():
    said = r"No point fired, '\*.q' neither: the model was not run .* or it is compiled"
    with pytest.raises(ConfigError, match=said), recording(Tape(tiny.model(), ("*.q",))):
        pass


def test_an_edit_must_keep_the_shape():
    with pytest.raises(
        ConfigError, match=r"head.logits returned shape \(1, 3, 1\); \(1, 3, 13\) is needed"
    ):
        look(tiny.model(), tiny.tokens(1, 3), (), [By("head.logits", lambda t: t[..., :1])])


def test_nothing_is_left_after_an_exception():
    model, ids = tiny.model(), tiny.tokens(1, 3)
    before = model(ids).logits

    def fails(_):
        raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):  # and not: a pattern never fired
        look(model, ids, ("*.later",), [By("*.1.attention.q", fails)])
    assert torch.equal(model(ids).logits, before)
    assert not watching(model.decoder.blocks[0].attention, "pattern")
    assert all(not module._forward_hooks for module in model.modules())


def test_tapes_nest():
    model, ids = tiny.model(), tiny.tokens(1, 3)
    with recording(Tape(model, ("head.logits",))) as outer:
        with recording(Tape(model, ("*.q",))) as inner:
            model(ids)
        model(ids)
    assert set(outer.kept) == {"head.logits"}
    assert len(inner.kept) == 2


def test_threads_do_not_see_each_others_tapes():
    """Three threads, 200 runs each: one edits heads, one the network, one nothing; every number is
    as it is alone."""
    model, ids = tiny.model(), tiny.tokens(1, 6)
    kinds = [
        None,
        [By("*.0.attention.z", torch.zeros_like)],
        [By("*.feedforward_out", torch.zeros_like)],
    ]
    alone = [
        model(ids).logits if edits is None else look(model, ids, (), edits)[0] for edits in kinds
    ]
    assert not any(torch.allclose(a, b) for a, b in itertools.combinations(alone, 2))
    wrong, barrier = [], threading.Barrier(len(kinds))

    def run(expected, edits):
        barrier.wait()
        for _ in range(200):
            logits = model(ids).logits if edits is None else look(model, ids, (), edits)[0]
            if not torch.allclose(logits, expected, rtol=1e-12, atol=1e-12):
                wrong.append(edits)

    threads = [threading.Thread(target=run, args=args) for args in zip(alone, kinds, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_an_idle_tap_costs_next_to_nothing():
    """Measured 0.2 µs; at 50 times that a busy machine does not fail it, but a search by name
    does."""
    module, x = torch.nn.Identity(), torch.zeros(1)
    idle = getattr(tap, "__wrapped__", tap)  # without the shape check of the tests
    best = min(_seconds(lambda: idle(module, "q", x, "batch"), 1000) for _ in range(5))
    assert best / 1000 < 10e-6


def _seconds(call, times):
    begin = time.perf_counter()
    for _ in range(times):
        call()
    return time.perf_counter() - begin


COMPILED = """
import sys
sys.path[:0] = {paths!r}
import torch, tiny, variants
from glassformer.core.batch import Batch, Positions
from glassformer.layers.tap import Tape, recording
from glassformer.core.errors import ConfigError
from small_adapters import adapted

for position in {positions}:
    torch._dynamo.reset()
    model = tiny.model(position=position, n_kv_heads=2, n_layers=1)
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    left = Positions.pad([3, 6], "left")
    for batch in (Batch(tiny.tokens(2, 6)), Batch(tiny.tokens(2, 6), left)):
        torch.testing.assert_close(
            compiled(batch).logits, model(batch).logits, rtol=1e-10, atol=1e-10
        )
for variant in {variants}:
    torch._dynamo.reset()
    other, row = variants.made(variant, torch.float64)
    found = torch.compile(other, fullgraph=True, backend="eager")(row)
    torch.testing.assert_close(found.logits, other(row).logits, rtol=1e-10, atol=1e-10)
torch._dynamo.reset()
other, row = adapted("causal rotary")
found = torch.compile(other, fullgraph=True, backend="eager")(row)
torch.testing.assert_close(found.logits, other(row).logits, rtol=1e-10, atol=1e-10)
torch._dynamo.reset()
try:
    with recording(Tape(model, ("*.q",))):
        compiled(batch)
    raise SystemExit("a tape over a compiled model said nothing")
except ConfigError as said:
    assert "or it is compiled" in str(said), said
"""


FEW = ["rotary"], ["both buckets"]
MORE = (
    ["learned", "relative"],
    ["encoder alibi", "window", "post-norm", "no scale, normalized", "patches", "mixture"],
)


@pytest.mark.parametrize(
    "names", [FEW, pytest.param(MORE, marks=pytest.mark.slow)], ids=["few", "more"]
)
def test_a_compiled_model_has_no_graph_break_and_no_taps(names):
    """In a process of its own: the tests' shape checks and the compiler do not go together."""
    paths = [str(Path(__file__).parents[2] / "src"), str(Path(__file__).parents[1])]
    code = COMPILED.format(paths=paths, positions=names[0], variants=names[1])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
