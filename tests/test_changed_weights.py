"""Weights are written in every way that there is, behind every form that is made of them; what is
computed next is what a new model with these weights computes, or is refused."""

import copy
import gc
from collections.abc import Callable

import pytest
import torch

import glassformer as gf
import tiny
from glassformer import finetune
from glassformer.core.batch import Batch
from glassformer.core.errors import ConfigError
from glassformer.inspect.ledger import ledger
from glassformer.inspect.lens import lens
from glassformer.inspect.look import look
from glassformer.layers import cpu_kernels
from glassformer.layers.lora import adapters, plain_parameters
from glassformer.models.transformer import Transformer
from glassformer.models.weights import load_weights, save_weights
from glassformer.native import Program, compiler
from glassformer.recipe.train import OptimizerConfig
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.decode import beam_search, decode, steps
from glassformer.runtime.engine import Engine
from glassformer.runtime.request import Request
from glassformer.runtime.speculative import Drafts
from glassformer.serve.explorer.handler import Explorer
from glassformer.serve.explorer.schema import LookRequest
from glassformer.training.loop.optimizer import Optimizer
from small_runs import go, recipe

CLOSE = 1e-4
"""float32, sums in other orders through two layers; the writes change numbers by some 0.1."""
SEARCH = GenerateConfig(beams=2, max_new_tokens=4)
GREEDY = GenerateConfig(temperature=0, max_new_tokens=4)
PROMPT = [1, 2, 3]


def model_of(tied: bool = True) -> Transformer:
    return copy.deepcopy(tiny.model(tied=tied, position="relative")).float()


def stepped(**how) -> Callable[[Transformer], None]:
    def write(model):
        with_gradients(model)
        torch.optim.AdamW(model.parameters(), lr=0.1, **how).step()

    return write


def with_gradients(model) -> None:
    for at, one in enumerate(model.parameters()):
        one.requires_grad_(True)
        one.grad = torch.randn(one.shape, generator=torch.Generator().manual_seed(at))


def by_muon(model) -> None:
    with_gradients(model)
    Optimizer(model, OptimizerConfig(kind="muon", learning_rate=0.1)).step(1.0)


def of_others(model) -> dict[str, torch.Tensor]:
    return tiny.stir(Transformer(model.config), std=0.3).state_dict()


def in_place(model) -> None:
    with torch.no_grad():
        for one in model.parameters():
            one.mul_(1.1)


def in_inference_mode(model) -> None:
    with torch.inference_mode():
        for one in model.parameters():
            one.mul_(1.1)


def data(model) -> None:
    for one in model.parameters():
        one.data.mul_(1.1)


def other_data(model) -> None:
    for one in model.parameters():
        one.data = one.data * 1.1


def by_numpy(model) -> None:
    for one in model.parameters():
        one.detach().numpy()[...] *= 1.1


def averaged(model) -> None:
    """As `Checkpoints.load_mean` and averages of weights do."""
    others = of_others(model)
    with torch.no_grad():
        for name, one in model.named_parameters():
            one.copy_((one + others[name]) / 2)


def adapted(model) -> None:
    finetune.add_adapters(model, rank=2, alpha=4, targets=["q_proj", "down_proj"])
    for one in adapters(model).values():
        one.lora_b.data.normal_(0, 0.3, generator=torch.Generator().manual_seed(3))


def folded(model) -> None:
    adapted(model)
    finetune.fold(model)


def integers(model) -> None:
    model.requires_grad_(False)
    finetune.adapters.quantize(model)


WAYS = {
    **{"in place": in_place, "in inference mode": in_inference_mode},
    **{"data": data, "other data": other_data, "numpy": by_numpy},
    "plain AdamW": stepped(foreach=False),
    "foreach AdamW": stepped(foreach=True),
    "fused AdamW": stepped(fused=True),
    "Muon": by_muon,
    "load_state_dict": lambda model: model.load_state_dict(of_others(model)),
    "assigned": lambda model: model.load_state_dict(of_others(model), assign=True),
    "averaged": averaged,
    **{"adapted": adapted, "folded": folded, "integers": integers},
}


def logits(model):
    with torch.inference_mode():
        return model(Batch(torch.tensor([PROMPT]))).logits.flatten().tolist()


def decoded(model):
    return [x for step in decode(model, [PROMPT, [4]], GREEDY) for x in step.log_probs]


def drafted(model):
    engine = Engine.of(model, [Drafts(model, 2).drafted(Request(PROMPT, GREEDY))])
    return [event.token.log_prob for events in steps(engine) for event in events]


def searched(model):
    return [x for [best] in beam_search(model, [PROMPT, [4]], SEARCH) for x in best.log_probs]


def compiled(model):
    model.compiled_step = Program(model)


FORMS = {
    "logits": (logits, None),
    "decoding": (decoded, None),
    "a draft": (drafted, None),
    "beams": (searched, None),
    "compiled decoding": (decoded, compiled),
    "compiled beams": (searched, compiled),
}


QUICK = [("logits", False), ("decoding", True), ("compiled decoding", True)]
"""With and without an engine and a compiled step; what searches and drafts has the same ones."""


def fresh(model) -> Transformer:
    """A new model with these weights."""
    made = Transformer(model.config, seed=None)
    own = dict(plain_parameters(model))
    if model.head.packed is not None:
        own["head.weight"] = model.head.packed.matrix
    with torch.no_grad():
        for name, one in made.named_parameters():
            one.copy_(own[name])
    return made.eval()


@pytest.mark.parametrize(
    ("form", "tied"),
    [
        (form, tied) if (form, tied) in QUICK else pytest.param(form, tied, marks=pytest.mark.slow)
        for form in FORMS
        for tied in (True, False)
    ],
)
def test_what_is_computed_next_is_of_the_new_weights(form, tied, monkeypatch):
    compute, prepare = FORMS[form]
    if prepare is compiled and compiler() is None:
        pytest.skip("no C compiler")
    monkeypatch.setattr(cpu_kernels, "LARGE_WEIGHT", 0)  # every matrix takes the way of large ones
    refused, unchanged = [], []
    for name, write in WAYS.items():
        model = model_of(tied)
        if prepare is not None:
            prepare(model)
        before = compute(model)
        assert compute(model) == before
        try:
            write(model)
        except (RuntimeError, ConfigError):
            refused.append(name)
            continue
        model.eval()
        found = compute(model)
        assert found == pytest.approx(compute(fresh(model)), abs=CLOSE), name
        if found == pytest.approx(before, abs=10 * CLOSE):
            unchanged.append(name)
    # The matrices of a model with a compiled step are no parameters that could be written.
    writing = ["load_state_dict", "assigned", "adapted", "folded"]
    assert refused == (writing if prepare is compiled else [])
    assert unchanged == (["integers"] if prepare is compiled else [])


@pytest.mark.parametrize("position", ["relative", "buckets", "rotary"])
def test_a_look_is_of_one_set_of_weights(position):
    """What it computes later is of the weights that it saw, or refused."""
    model = copy.deepcopy(tiny.model(position=position))
    seen, same = (look(model, Batch(torch.tensor([PROMPT]))) for _ in range(2))
    data(model)
    assert torch.equal(seen.pattern(1, 2), look(fresh_of(seen), seen.batch).pattern(1, 2))
    with pytest.raises(ConfigError, match="weights have changed since this look"):
        seen["decoder.blocks.0.feedforward.post"]
    with pytest.raises(ConfigError, match="weights have changed since this look"):
        lens(seen)
    with pytest.raises(ConfigError, match="weights have changed since this look"):
        ledger(seen, 1)
    for one in model.parameters():
        one.data.div_(1.1)  # the same but for rounding
    assert same["decoder.blocks.0.feedforward.post"].tensor.shape == (3, 12)


def fresh_of(seen):
    """The model of a look as it was."""
    return copy.deepcopy(tiny.model(**{"position": seen.model.config.position}))


def test_nothing_made_of_weights_outlives_its_use(monkeypatch):
    """After each use there are the tensors that were there before; another model warms up."""
    model = model_of()
    monkeypatch.setattr(cpu_kernels, "LARGE_WEIGHT", 0)
    gc.collect()
    gc.freeze()  # what other tests left is not looked at
    for use in (logits, decoded, drafted, searched, served):
        use(copy.deepcopy(model))
        before = tensors()
        use(model)
        assert tensors() == before, use.__name__


def served(model) -> None:
    """An engine that keeps prefixes while it is there."""
    before, engine = tensors(), Engine(model)
    engine.add(Request(tuple(PROMPT), GREEDY))
    while not engine.idle:
        engine.step()
    assert tensors() > before


def tensors() -> int:
    gc.collect()
    return sum(issubclass(type(one), torch.Tensor) for one in gc.get_objects())


def test_a_compiled_model_is_saved_whole(tmp_path):
    if compiler() is None:
        pytest.skip("no C compiler")
    for tied in (True, False):
        model, same = model_of(tied), model_of(tied)
        compiled(model)
        save_weights(model, tmp_path / "model.safetensors")
        loaded = Transformer(model.config, seed=None)
        load_weights(loaded, tmp_path / "model.safetensors")
        assert logits(loaded.eval()) == logits(same)


def test_a_view_is_of_the_weights_that_it_was_made_with(lm):
    run = gf.load(lm)
    before, view = run.look("the cat sat").logits, gf.view(run, "a dog ran")
    data(run.model)
    view.select(input="the cat sat")
    assert torch.equal(view.look().logits, before)
    assert not torch.equal(gf.view(run, "the cat sat").look().logits, before)


def test_the_explorer_sees_that_a_step_was_trained_again(tmp_path):
    train = {"steps": 4, "save.every": 2, "evaluate.every": 2}
    run = tmp_path / "run"
    go(recipe(tmp_path, train=train), run)
    looks, request = Explorer(gf.load(run)).looks, LookRequest(input="the cat", checkpoint=4)
    first = looks.find(request)
    assert looks.find(request) is first
    point = "decoder.blocks.0.resid_post"
    patch = {"edit": "Patch", "point": point, "source": {"input": "a mat r", "checkpoint": 4}}
    patched = LookRequest(input="the cat", edits=[patch])
    other = looks.find(patched)
    changed = recipe(tmp_path, train=train | {"optimizer.learning_rate": 0.05})
    go(changed, run, resume=True, checkpoint=2)
    assert looks.find(patched) is not other
    assert not torch.equal(looks.find(request).logits, first.logits)


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lm")
    go(recipe(folder, train={"steps": 2, "save.every": 2}), folder / "run")
    return folder / "run"
