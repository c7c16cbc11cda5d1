"""A weight that a form of a model does not know, here a learned temperature, is refused by its name:
by the compiled step, converted matrices, exports, a plan and the reference of `verify`."""

from pathlib import Path

import pytest
import torch
from torch import nn

import tiny
from glassformer.core.errors import ConfigError
from glassformer.interop.targets import ctranslate2, gguf, transformers
from glassformer.layers.attention.multi_head import Attention
from glassformer.layers.feedforward import FeedForward
from glassformer.layers.heads import LanguageModelHead
from glassformer.layers.norm import LayerNorm, RMSNorm
from glassformer.layers.position.score_bias import RelativeBias
from glassformer.layers.position.vectors import LearnedPosition
from glassformer.models import Transformer
from glassformer.models.account import Account, weights_of
from glassformer.models.cost import matrices
from glassformer.models.packing import is_packed, pack, quantize
from glassformer.native import Program, compiler
from glassformer.verify.rows_model import pair
from variants import VARIANTS

TASK = "text-generation"
GPT2 = {"activation": "gelu_tanh", "tied": False}
PLACES: dict[type[nn.Module], str] = {
    Attention: "decoder.blocks.0.attention",
    LayerNorm: "decoder.blocks.1.feedforward_norm",
    FeedForward: "decoder.blocks.0.feedforward",
    LearnedPosition: "embed.position",
    LanguageModelHead: "head",
}
OTHERS = {
    RMSNorm: ("decoder.blocks.0.attention.q_norm", {"qk_norm": True}),
    RelativeBias: ("decoder.bias", {"position": "relative"}),
    Attention: ("decoder.blocks.0.cross", {"architecture": "encoder_decoder"}),
}


def compiled(model: Transformer, folder: Path) -> None:
    try:
        Program(model)
    finally:
        assert not is_packed(model)  # what is refused is left as it was


def compiled_later(model: Transformer, folder: Path) -> None:
    """The step's own account, which follows that of the conversion."""
    kept = {
        (path, name): one._parameters.pop(name)
        for path, one in model.named_modules()
        for name in ["temperature"]
        if name in one._parameters
    }
    pack(model, "fp32")
    for (path, name), one in kept.items():
        model.get_submodule(path).register_parameter(name, one)
    Program(model)


EVERYWHERE = {
    "quantized": lambda model, folder: quantize(model, "int8"),
    "verify": lambda model, folder: pair(model),
    "plan": lambda model, folder: matrices(model.config),
}
if compiler() is not None:
    EVERYWHERE |= {"compiled": compiled, "compiled later": compiled_later}
PUBLISHED = {
    "transformers": lambda model, folder: transformers.save_model(
        transformers.fitting(model.config, TASK), model, folder
    ),
    "gguf": lambda model, folder: gguf.tensors(gguf.fitting(model.config, TASK), model),
    "ctranslate2": lambda model, folder: transformers.save_model(
        ctranslate2.fitting(model.config, TASK), model, folder
    ),
}


def with_temperature(module: nn.Module) -> None:
    module.register_parameter("temperature", nn.Parameter(torch.ones(1)))


def of_its_class(kind: type[nn.Module], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each new module of a class have the weight, as after a change of its code."""
    begun = kind.__init__

    def begin(self, *given, **named):
        begun(self, *given, **named)
        with_temperature(self)

    monkeypatch.setattr(kind, "__init__", begin)


def made(**changes) -> Transformer:
    return tiny.stir(Transformer(tiny.config(**changes), seed=None)).eval()


@pytest.mark.parametrize("form", sorted({*EVERYWHERE, *PUBLISHED} - {"plan"}))
@pytest.mark.parametrize("kind", PLACES)
def test_a_weight_of_one_module_is_refused_by_name(kind, form, tmp_path):
    model, place = made(**GPT2), PLACES[kind]
    with_temperature(model.get_submodule(place))
    with pytest.raises(ConfigError, match=rf"{place}\.temperature"):
        (EVERYWHERE | PUBLISHED)[form](model, tmp_path)
    assert not [*tmp_path.rglob("*.safetensors")]


@pytest.mark.parametrize("form", [*EVERYWHERE, *PUBLISHED])
@pytest.mark.parametrize("kind", PLACES)
def test_a_weight_of_a_class_is_refused_by_name(kind, form, tmp_path, monkeypatch):
    of_its_class(kind, monkeypatch)
    with pytest.raises(ConfigError, match=r"\b(decoder|embed|head)\b\S*\.temperature"):
        (EVERYWHERE | PUBLISHED)[form](made(**GPT2), tmp_path)


@pytest.mark.parametrize("form", EVERYWHERE)
@pytest.mark.parametrize("kind", OTHERS)
def test_also_in_the_rarer_parts(kind, form, tmp_path, monkeypatch):
    place, changes = OTHERS[kind]
    if form == "plan":
        of_its_class(kind, monkeypatch)
    model = made(**changes)
    if form != "plan":
        with_temperature(model.get_submodule(place))
        place = rf"{place}\.temperature"
    with pytest.raises(ConfigError, match=place):
        EVERYWHERE[form](model, tmp_path)


@pytest.mark.parametrize("name", VARIANTS)
def test_every_weight_of_every_kind_of_model_is_known(name):
    account = Account("It", weights_of(tiny.model(**VARIANTS[name][0])))
    account.take_known()
    account.finish()


def test_what_is_left_is_named_once_and_shortened():
    account = Account("It", {f"embed.new_{i}": object() for i in range(6)})
    named = "embed.new_0, embed.new_1, embed.new_2, embed.new_3 and 2 more"
    with pytest.raises(ConfigError, match=rf"^It would ignore the weight {named} of this model; "):
        account.finish()
