"""Weights on disk: each once, whole, strict, readable by others."""

import json
import os
import stat

import pytest
import torch
from safetensors.torch import load_file

from bare_runs import write_config
from glassformer.core.errors import CheckpointError
from glassformer.models import ModelConfig, Transformer
from glassformer.models.weights import (
    config_json,
    load_model,
    load_tensors,
    load_weights,
    read_config,
    save_tensors,
    save_weights,
)


def small(**changes) -> Transformer:
    values = {
        "vocab_size": 11,
        "d_model": 8,
        "n_layers": 1,
        "n_heads": 2,
        "max_length": 8,
    } | changes
    return Transformer(ModelConfig.parse(values), seed=1)


@pytest.fixture
def folder(tmp_path):
    model = small()
    save_weights(model, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(config_json(model.config)))
    return tmp_path


@pytest.mark.parametrize(
    "changes", [{}, {"tied": False}, {"head": "masked_lm", "architecture": "encoder"}]
)
def test_a_model_comes_back_bit_for_bit(tmp_path, changes):
    model = small(**changes)
    save_weights(model, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(config_json(model.config)))
    again = load_model(tmp_path)
    assert not again.training
    assert again.config == model.config
    for (name, one), (other, two) in zip(
        model.named_parameters(), again.named_parameters(), strict=True
    ):
        assert name == other
        assert torch.equal(one, two)
    tokens = torch.tensor([[1, 2, 3]])
    assert torch.equal(model.eval()(tokens).logits, again(tokens).logits)


def test_a_tied_matrix_is_in_the_file_once_and_tied_after_loading(folder):
    assert not any(name.startswith("head") for name in load_file(folder / "model.safetensors"))
    again = load_model(folder)
    assert again.head.weight is again.embed.element.weight


def test_others_may_read_what_the_umask_allows(tmp_path):
    before = os.umask(0o022)
    try:
        save_tensors({"a": torch.ones(2)}, tmp_path / "open.safetensors")
        os.umask(0o077)
        save_tensors({"a": torch.ones(2)}, tmp_path / "closed.safetensors")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "open.safetensors").stat().st_mode) == 0o644
    assert stat.S_IMODE((tmp_path / "closed.safetensors").stat().st_mode) == 0o600


def test_equal_weights_are_equal_files(tmp_path):
    for name in ("a", "b"):
        save_weights(small(), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def changed(folder, change) -> None:
    tensors = load_tensors(folder / "model.safetensors")
    change(tensors)
    save_tensors(tensors, folder / "model.safetensors")


NAME = "decoder.blocks.0.attention.q_proj.weight"
CHANGES = {
    "dropped": (lambda t: t.pop(NAME), "lacks the parameter"),
    "extra": (lambda t: t.update(more=torch.ones(1)), "holds more"),
    "renamed": (lambda t: t.update(q=t.pop(NAME)), NAME),
    "reshaped": (lambda t: t.update({NAME: t[NAME][:-1]}), "shape"),
    "of integers": (lambda t: t.update({NAME: t[NAME].long()}), "int64"),
    "of halves": (
        lambda t: t.update({NAME: t[NAME].half()}),
        r"float16 and .* needs torch.float32",
    ),
}


@pytest.mark.parametrize("how", CHANGES)
def test_another_models_weights_are_refused_by_name_and_nothing_is_filled(folder, how):
    change, words = CHANGES[how]
    changed(folder, change)
    model = small()
    before = {name: p.clone() for name, p in model.named_parameters()}
    with torch.no_grad():
        for p in model.parameters():
            p.add_(1)
    with pytest.raises(CheckpointError, match=words):
        load_weights(model, folder / "model.safetensors")
    assert all(torch.equal(p, before[name] + 1) for name, p in model.named_parameters())


@pytest.mark.parametrize("keep", [0, 4, 50, 400, -1])
def test_a_cut_file_is_one_sentence(folder, keep):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CheckpointError, match="cut short"):
        load_model(folder)


@pytest.mark.parametrize(
    "content",
    [b"\xff" * 100, b"{}", b"\x02\0\0\0\0\0\0\0{}", b"\x10\0\0\0\0\0\0\0[[[[[[[[[[[[[[[["],
)
def test_a_file_of_something_else_is_one_sentence(folder, content):
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError):
        load_model(folder)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "no config.json"),
        ("", "not readable JSON"),
        ("[]", "does not describe"),
        ('{"model_type": "gpt2"}', "does not describe"),
        ('{"model_type": "glassformer", "format": 2}', "unknown format"),
        ('{"model_type": "glassformer", "format": 1, "n_heads": 3}', "divide"),
        ('{"model_type": "glassformer", "format": 1, "heads": 3}', "heads"),
        ("[" * 100_000, "not readable JSON"),
    ],
)
def test_a_config_that_is_none_is_one_sentence(folder, content, words):
    (folder / "config.json").unlink()
    if content is not None:
        (folder / "config.json").write_text(content)
    with pytest.raises(CheckpointError, match=words):
        read_config(folder)


def test_a_folder_without_weights_is_one_sentence(tmp_path):
    with pytest.raises(CheckpointError, match=r"holds no config\.json"):
        load_model(tmp_path)
    write_config(tmp_path, small().config)
    with pytest.raises(CheckpointError, match="does not exist"):
        load_model(tmp_path)
