"""MPS is treated like CUDA: a run on a stand-in for it, which has no float64, learns what one on the
CPU does."""

import math

import pytest
import torch

from fake_mps import fake_mps
from glassformer import devices
from glassformer.batch import Batch
from glassformer.errors import ConfigError
from glassformer.generate.config import GenerateConfig
from glassformer.generate.constraints import Rows
from glassformer.generate.logits import next_tokens
from glassformer.inspect.attribution import METHODS, attribute
from glassformer.inspect.ledger import ledger
from glassformer.models import ModelConfig, Transformer
from glassformer.run import load
from glassformer.training.machine import choose_machine, find_device, platform
from small_runs import go, pair_recipe, recipe

MPS = torch.device("mps")
DROPOUT = {"dropout": 0.2}


@pytest.fixture
def mps(monkeypatch):
    with fake_mps(monkeypatch) as device:
        yield device


def test_the_stand_in_refuses_what_the_device_refuses(mps):
    x = torch.ones(2, device="mps")
    assert (x.device.type, (x + 1).device.type, x.cpu().device.type) == ("mps", "mps", "cpu")
    with pytest.raises(TypeError, match="float64"):
        x.double()
    with pytest.raises(TypeError, match="float64"):
        torch.arange(2, dtype=torch.float64, device=MPS)
    with pytest.raises(AssertionError, match="on mps and on the CPU"):
        x + torch.ones(2)


def test_it_is_taken_before_the_cpu_and_after_cuda(mps, monkeypatch):
    assert find_device("auto").type == "mps"
    assert platform(MPS) == f"torch {torch.__version__}, mps, Apple M0"
    machine = choose_machine("auto", "auto")
    assert (machine.device.type, machine.precision_name) == ("mps", "float32")
    with pytest.raises(ConfigError, match="not on this machine"):
        find_device("mps:1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert find_device("auto").type == "cuda"


def test_bfloat16_is_a_choice_there_as_everywhere(mps, monkeypatch):
    faster = {torch.float32: 1e12, torch.bfloat16: 2e12}
    monkeypatch.setattr(
        "glassformer.training.machine.measured_peak", lambda where, dtype, threads: faster[dtype]
    )
    assert choose_machine("mps", "auto").precision_name == "bfloat16"
    with torch.autocast("mps", torch.bfloat16):  # torch does not warn that it lacks it
        assert torch.is_autocast_enabled("mps")


POSITIONS = ["none", "learned", "sinusoidal", "sinusoidal_printed", "relative", "buckets", "alibi"]


@pytest.mark.parametrize("position", [*POSITIONS, "rotary"])
def test_every_position_gives_the_numbers_of_the_cpu(monkeypatch, position):
    sizes = {"d_model": 16, "n_layers": 2, "n_heads": 2, "vocab_size": 50, "max_length": 32}
    config = ModelConfig.parse({"architecture": "decoder", "position": position, **sizes})
    batch = Batch(torch.arange(16).view(2, 8))
    expected = Transformer(config, seed=1)(batch).logits
    with fake_mps(monkeypatch) as device:
        logits = Transformer(config, seed=1, device=MPS)(batch.to(MPS)).logits
        assert logits.device.type == "mps"
        torch.testing.assert_close(logits.cpu(), expected)
    assert device.calls > 100


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_a_run_learns_is_resumed_and_writes_there(tmp_path, monkeypatch, kind):
    train = {"optimizer.kind": kind, "steps": 4}
    result, _ = go(recipe(tmp_path, train=train), tmp_path / "cpu")
    # torch's own answer for the device: it has no kernels for many tensors at once
    monkeypatch.setattr("torch.nn.utils.clip_grad._device_has_foreach_support", lambda where: False)
    monkeypatch.setattr("torch.nn.utils.clip_grad._has_foreach_support", lambda *given: False)
    with fake_mps(monkeypatch):
        half = {**train, "device": "mps", "steps": 2}
        go(recipe(tmp_path, train=half), tmp_path / "mps")
        again = recipe(tmp_path, train={**half, "steps": 4})
        found, said = go(again, tmp_path / "mps", resume=True)
        assert "computing on mps" in said
        assert found.scores["loss"] == pytest.approx(result.scores["loss"], abs=1e-4)
        opened = load(tmp_path / "mps", "mps")
        assert next(opened.model.parameters()).device.type == "mps"
        here = {"max_new_tokens": 4, "temperature": 0.7, "top_p": 0.9, "seed": 1}
        text = opened.generate("the", **here)
        opened.evaluate()
    assert text == load(tmp_path / "mps").generate("the", **here)


def test_dropout_there_leaves_the_generator_as_it_was(tmp_path, monkeypatch):
    with fake_mps(monkeypatch):
        own = devices.generator(MPS)
        before = own.get_state()
        train = {"device": "mps", "steps": 2}
        go(recipe(tmp_path, model=DROPOUT, train=train), tmp_path / "mps")
        assert torch.equal(own.get_state(), before)


def test_pairs_are_translated_by_beams(tmp_path, monkeypatch):
    with fake_mps(monkeypatch):
        go(pair_recipe(tmp_path, train={"device": "mps", "steps": 2}), tmp_path / "mps")
        found = load(tmp_path / "mps", "mps").translate(["a b"], beams=2)
    assert found == load(tmp_path / "mps").translate(["a b"], beams=2)


def test_looks_add_up_there(tmp_path, monkeypatch):
    go(recipe(tmp_path, train={"steps": 2}), tmp_path / "run")

    def numbers(place: str) -> list[float]:
        opened = load(tmp_path / "run", place)
        look = opened.look("the cat")
        sums = ledger(look, 3)
        assert sums.gap < 1e-5
        shares = [one for name in METHODS for one in attribute(look, name, 3).scores.tolist()]
        assert all(map(math.isfinite, shares))
        vectors = opened.embed(["the cat"]), opened.contexts("cat", ["the cat", "a cat"]).vectors
        return [sums.total, *shares, *(float(one.sum()) for one in vectors)]

    expected = numbers("cpu")
    with fake_mps(monkeypatch):
        assert numbers("mps") == pytest.approx(expected, abs=1e-4)


def test_a_sampled_token_is_that_of_the_cpu(monkeypatch):
    logits = torch.randn(3, 40)
    config = GenerateConfig.parse({"temperature": 0.8, "top_k": 20, "min_p": 0.01})
    expected = next_tokens(logits, Rows([[], [], []]), config)
    with fake_mps(monkeypatch):
        found = next_tokens(logits.to(MPS), Rows([[], [], []]), config)
        assert found.device.type == "mps"
        assert torch.equal(found.cpu(), expected)
