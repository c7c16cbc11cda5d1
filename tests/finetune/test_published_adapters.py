"""Adapters of published models: what peft trained on the class opens here, on the folder and on an
imported run, and ours open in peft on the class and on an export. Both compute the same."""

import copy
import json

import pytest
import torch
from torch.testing import assert_close

import glassformer as gf
import published_families as families
from every import slow_but
from glassformer.core.errors import CheckpointError
from glassformer.interop.targets.transformers import _inputs
from glassformer.models.weights import load_tensors
from glassformer.run.export import export_run
from glassformer.run.folder import import_published
from small_adapters import stir

peft = pytest.importorskip("peft", reason="the oracle of these tests")
pytestmark = [
    pytest.mark.usefixtures("no_grad"),
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore:fan_in_fan_out is set to False:UserWarning"),
]
CLOSE = {"rtol": 0.0, "atol": 1e-4}  # float32, sums in another order
KINDS = {
    "gpt2": ("c_attn", "c_proj", "c_fc"),
    "gpt2-tags": ("c_attn",),
    "llama-3": ("q_proj", "o_proj", "down_proj"),
    "qwen3-bias": ("k_proj", "gate_proj"),
    "gemma": ("v_proj", "up_proj"),
    "bert-classes": ("query", "dense"),
    "distilbert-masked": ("q_lin", "lin1"),
    "t5": ("q", "o", "wi"),
    "bart": ("q_proj", "fc1"),
    "vit": ("q_proj", "fc1"),
}
"""The maps of the class that have an adapter; whole words of the published names."""
HEADS = {"gpt2-tags": "classifier", "bert-classes": "classifier", "vit": "classifier"}


@pytest.fixture(params=slow_but(KINDS, "gpt2", "bert-classes", "t5"))
def place(request, tmp_path):
    return request.param, families.complete(request.param, tmp_path / request.param)


def outputs_of(model, run):
    """Outputs of a published class on the first input of a run."""
    batch = run.encode(run.task.first_input()).batch
    found = model.eval()(**_inputs(batch, run.model.config))
    return found.logits


def ours(run, model=None):
    batch = run.encode(run.task.first_input()).batch
    return (model or run.model)(batch).logits


def test_what_peft_trained_opens_on_the_folder_and_on_the_run(place, tmp_path):
    name, folder = place
    head = HEADS.get(name)
    config = peft.LoraConfig(
        r=3,
        lora_alpha=5,
        target_modules=[*KINDS[name]] if name != "bert-classes" else ["query", "output.dense"],
        init_lora_weights=False,
        modules_to_save=[head] if head else None,
    )
    theirs = peft.get_peft_model(families.oracle(name, folder), config)
    if head:
        for parameter in theirs.get_submodule(f"base_model.model.{head}").parameters():
            parameter.data.add_(0.5)
    theirs.save_pretrained(tmp_path / "adapter")
    for run in (gf.load(folder), import_published(folder, tmp_path / "run")):
        plain = ours(run)
        gf.finetune.load_adapter(run.model, tmp_path / "adapter")
        expected = outputs_of(theirs, run)
        assert_close(ours(run), expected, **CLOSE)
        assert not torch.allclose(plain, expected, atol=1e-2)
        gf.finetune.fold(run.model)
        assert_close(ours(run), expected, **CLOSE)


def test_ours_opens_in_peft_on_the_class_and_on_the_export(place, tmp_path):
    name, folder = place
    run = import_published(folder, tmp_path / "run")
    export_run(tmp_path / "run", out=tmp_path / "exported", check=False)
    model = copy.deepcopy(run.model)
    gf.finetune.add_adapters(model, rank=2, alpha=6, targets=["q_proj", "v_proj", "down_proj"])
    stir(model)
    for own, parameter in model.named_parameters():
        whole = name in HEADS and own.startswith("head.")
        parameter.requires_grad_("lora_" in own or whole)
        parameter.data.add_(0.5 if whole else 0.0)
    gf.finetune.save_adapter(model, tmp_path / "adapter", "somewhere")
    values = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert values["fan_in_fan_out"] is name.startswith("gpt2")
    for base in (folder, tmp_path / "exported"):
        theirs = peft.PeftModel.from_pretrained(families.oracle(name, base), tmp_path / "adapter")
        assert_close(outputs_of(theirs, run), ours(run, model), **CLOSE)
    gf.finetune.load_adapter(run.model, tmp_path / "adapter")
    assert_close(ours(run), ours(run, model), **CLOSE)


def test_an_adapter_of_another_published_model_changes_nothing(tmp_path):
    folder = families.complete("llama-3", tmp_path / "llama")
    other = families.complete("gpt2", tmp_path / "gpt2")
    config = peft.LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=False)
    peft.get_peft_model(families.oracle("llama-3", folder), config).save_pretrained(tmp_path / "a")
    for place, sentence in ((other, "which is no linear map of this model"), (folder, None)):
        model = gf.load(place).model
        before = {name: p.clone() for name, p in model.named_parameters()}
        if sentence is None:
            values = json.loads((tmp_path / "a" / "adapter_config.json").read_text())
            patterns = {"alpha_pattern": {".*q_proj": 2}}
            (tmp_path / "a" / "adapter_config.json").write_text(json.dumps(values | patterns))
            sentence = r"alpha_pattern: string should match pattern"
        with pytest.raises(CheckpointError, match=sentence):
            gf.finetune.load_adapter(model, tmp_path / "a")
        assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())


def test_names_are_those_of_the_class(tmp_path):
    run = gf.load(families.complete("llama-3", tmp_path / "llama"))
    gf.finetune.add_adapters(run.model, rank=2, alpha=6, targets=["q_proj"])
    gf.finetune.save_adapter(run.model, tmp_path / "adapter")
    names = load_tensors(tmp_path / "adapter" / "adapter_model.safetensors")
    assert "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight" in names
