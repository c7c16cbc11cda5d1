"""Files of adapters: what peft writes is read here, what is written here peft reads, both compute the
same; a damaged file is one sentence."""

import copy
import json
from contextlib import suppress

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import tiny
import variants
from glassformer import finetune
from glassformer.core.errors import CheckpointError, ConfigError, GlassformerError
from glassformer.finetune.adapters import adapt
from glassformer.finetune.config import FinetuneConfig
from glassformer.layers.lora import adapters
from glassformer.models import Transformer
from glassformer.models.weights import load_tensors, save_tensors
from small_adapters import adapted, logits, stir

TAGGER = {"head": "tag", "n_classes": 3, "architecture": "encoder"}


def tuned(rank: int = 3, alpha: float = 6.0) -> Transformer:
    """A tagger whose head was trained too."""
    model = copy.deepcopy(tiny.model(**TAGGER))
    values = {"method": "lora", "rank": rank, "alpha": alpha, "targets": ["q_proj", "up_proj"]}
    adapt(model, FinetuneConfig.parse(values), seed=1)
    stir(model)
    model.head.proj.weight.data.add_(0.5)
    return model


def base() -> Transformer:
    return copy.deepcopy(tiny.model(**TAGGER))


def test_an_adapter_comes_back(tmp_path):
    model, ids = tuned(), tiny.tokens(2, 6)
    finetune.save_adapter(model, tmp_path / "new", "somewhere")
    again = base()
    finetune.load_adapter(again, tmp_path / "new")
    assert torch.equal(logits(again, ids), logits(model, ids))
    names = set(load_tensors(tmp_path / "new" / "adapter_model.safetensors"))
    assert "base_model.model.encoder.blocks.0.attention.q_proj.lora_A.weight" in names
    assert "base_model.model.head.proj.bias" in names
    assert len(names) == 2 * 4 + 2, "nothing of what was not trained"
    with pytest.raises(ConfigError, match="has adapters already"):
        finetune.load_adapter(again, tmp_path / "new")


@pytest.mark.parametrize("variant", ["causal rotary", "both learned", "patches", "mixture"])
def test_peft_reads_what_is_written_here(tmp_path, variant):
    peft = pytest.importorskip("peft")
    model, batch = adapted(variant)
    for name, p in model.named_parameters():
        p.requires_grad_("lora_" in name)
    finetune.save_adapter(model, tmp_path)
    plain, _ = variants.made(variant, torch.float64)
    theirs = peft.PeftModel.from_pretrained(plain, tmp_path)
    # the same products, added in another order
    torch.testing.assert_close(logits(theirs, batch), logits(model, batch), rtol=1e-12, atol=1e-12)


def test_peft_takes_over_a_head_that_was_trained(tmp_path):
    peft = pytest.importorskip("peft")
    model, ids = tuned(), tiny.tokens(2, 6)
    finetune.save_adapter(model, tmp_path)
    theirs = peft.PeftModel.from_pretrained(base(), tmp_path)
    torch.testing.assert_close(logits(theirs, ids), logits(model, ids), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"use_rslora": True}, {"modules_to_save": ["head"]}])
def test_what_peft_writes_is_read_here(tmp_path, options):
    peft = pytest.importorskip("peft")
    ids = tiny.tokens(2, 6)
    config = peft.LoraConfig(r=3, lora_alpha=5, target_modules=["v_proj", "down_proj"], **options)
    theirs = peft.get_peft_model(base(), config)
    draw = torch.Generator().manual_seed(0)
    for p in theirs.parameters():
        if p.requires_grad:
            p.data.normal_(0.0, 0.3, generator=draw)
    theirs.save_pretrained(tmp_path)
    mine = base()
    finetune.load_adapter(mine, tmp_path)
    assert len(adapters(mine)) == 4
    torch.testing.assert_close(logits(mine, ids), logits(theirs, ids), rtol=1e-12, atol=1e-12)


def test_the_loss_curve_is_that_of_peft():
    """50 steps of AdamW from the same weights on the same rows, in float32 as people train."""
    peft = pytest.importorskip("peft")
    mine = base().float()
    names = finetune.add_adapters(mine, rank=2, alpha=4, targets=["q_proj", "v_proj"])
    theirs = peft.get_peft_model(
        base().float(), peft.LoraConfig(r=2, lora_alpha=4, target_modules=names)
    )
    for name in names:
        own = theirs.base_model.model.get_submodule(name).lora_A["default"].weight
        own.data.copy_(mine.get_submodule(name).lora_a)
    for name, p in mine.named_parameters():
        p.requires_grad_("lora_" in name)

    def curve(model: nn.Module) -> list[float]:
        trained = [p for p in model.parameters() if p.requires_grad]
        optimizer, losses = torch.optim.AdamW(trained, lr=0.01), []
        for step in range(50):
            ids = tiny.tokens(4, 6, seed=step)
            out = model(ids).logits.flatten(0, 1)
            loss = nn.functional.cross_entropy(out, (ids * 7 % 3).flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        return losses

    ours, others = curve(mine), curve(theirs)
    assert max(abs(a - b) for a, b in zip(ours, others, strict=True)) <= 1e-5
    assert sum(ours[-10:]) < sum(ours[:10]) - 1


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("adapter")
    finetune.save_adapter(tuned(), folder)
    return folder


def changed(folder, tmp_path, values=None, tensors=None):
    """A copy of the files with other values and tensors."""
    own = json.loads((folder / "adapter_config.json").read_text()) | (values or {})
    (tmp_path / "adapter_config.json").write_text(json.dumps(own))
    had = load_tensors(folder / "adapter_model.safetensors") | (tensors or {})
    save_tensors(
        {k: t for k, t in had.items() if t is not None}, tmp_path / "adapter_model.safetensors"
    )
    return tmp_path


Q = "base_model.model.encoder.blocks.0.attention.q_proj.lora_"


@pytest.mark.parametrize(
    ("values", "tensors", "sentence"),
    [
        ({"peft_type": "IA3"}, {}, "does not describe LoRA adapters"),
        ({"use_dora": True}, {}, "use_dora=True is not known here"),
        ({"init_lora_weights": "pissa"}, {}, "init_lora_weights: .* got 'pissa'"),
        ({"alpha_pattern": {"q_proj": "x"}}, {}, "alpha_pattern: .* valid number.* got 'x'"),
        ({"bias": "all"}, {}, "bias: input should be 'none', got 'all'"),
        ({"lora_alpha": "x"}, {}, "lora_alpha: .* valid number.* got 'x'"),
        ({"lora_alpha": None}, {}, "lora_alpha: field required"),
        ({"lora_dropout": 1.5}, {}, "lora_dropout: input should be less than 1, got 1.5"),
        ({}, {f"{Q}A.weight": None}, r"q_proj has the shapes {'B': \(8, 3\)}, not"),
        ({}, {f"{Q}B.weight": torch.zeros(8, 2)}, "q_proj has factors of the shapes"),
        ({}, {f"{Q}B.weight": torch.full((8, 3), torch.inf)}, "values that are not finite"),
        ({}, {"base_model.model.x.lora_A.weight": torch.zeros(1)}, "x has the shapes"),
        ({}, {"base_model.model.head.x": torch.zeros(1)}, r"holds head.x of shape \(1,\)"),
    ],
)
def test_a_file_that_does_not_fit_is_one_sentence(tmp_path, written, values, tensors, sentence):
    folder, model = changed(written, tmp_path, values, tensors), base()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    with pytest.raises(CheckpointError, match=sentence):
        finetune.load_adapter(model, folder)
    assert not adapters(model)
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())


def test_missing_files_and_models_without_adapters_are_told(tmp_path):
    with pytest.raises(CheckpointError, match=r"adapter_config.json does not exist; give a folder"):
        finetune.load_adapter(base(), tmp_path)
    with pytest.raises(CheckpointError, match="has no adapters"):
        finetune.save_adapter(base(), tmp_path)
    model = base()
    finetune.add_adapters(model, rank=2, targets=["q_proj"])
    finetune.add_adapters(model, rank=3, targets=["k_proj"])
    with pytest.raises(CheckpointError, match="adapters of several kinds"):
        finetune.save_adapter(model, tmp_path)


@settings(max_examples=60)
@given(data=st.data(), file=st.sampled_from(["adapter_config.json", "adapter_model.safetensors"]))
def test_damaged_files_raise_our_errors_alone(written, tmp_path_factory, data, file):
    folder = tmp_path_factory.mktemp("damaged")
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        raw = bytearray((written / name).read_bytes())
        if name == file:
            for _ in range(data.draw(st.integers(1, 4))):
                raw[data.draw(st.integers(0, min(len(raw), 900) - 1))] = data.draw(
                    st.integers(0, 255)
                )
            raw = raw[: data.draw(st.integers(0, len(raw)))]
        (folder / name).write_bytes(raw)
    with suppress(GlassformerError):
        finetune.load_adapter(base(), folder)
