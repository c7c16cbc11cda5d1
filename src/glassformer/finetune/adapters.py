"""Adapters put into a model in the place of linear maps, merged, and what remains trainable."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from torch import nn

from glassformer.core.errors import ConfigError
from glassformer.finetune.config import FinetuneConfig
from glassformer.layers.init import Sizes, initialize
from glassformer.layers.linear.linear import Linear
from glassformer.layers.lora import FACTORS, LoRALinear, adapters, is_factor
from glassformer.models.packing import is_packed
from glassformer.models.transformer import Transformer

ALL = "all"


def add_adapters(
    model: Transformer,
    rank: int = 8,
    alpha: float = 16.0,
    dropout: float = 0.0,
    targets: Sequence[str] = ("q_proj", "v_proj"),
    seed: int = 0,
) -> list[str]:
    """Put an adapter into each linear map that `targets` chooses; returns their names.

    A target is a map's own name, a pattern of its path, or `all`: every map of the blocks. The
    adapters change no output; their A is a function of (seed, name). Only they need a gradient
    then: set `requires_grad` of what else is to be trained. ConfigError: a target that chooses
    nothing, or a model that is quantized for inference or compiled.
    """
    if is_packed(model):
        raise ConfigError(
            "The model is quantized or compiled, and its matrices can't be adapted; load it again."
        )
    values = {"rank": rank, "alpha": alpha, "dropout": dropout, "targets": list(targets)}
    config = FinetuneConfig.parse({"method": "lora", **values})
    names = choose(model, config.targets)
    for name in names:
        substitute(model, name, config.rank, config.alpha, config.dropout)
    sizes = Sizes(model.config.n_layers, model.config.head_width)
    new = {f"{name}.{factor}" for name in names for factor in FACTORS}
    initialize(model, model.config.init, sizes, seed, only=new.__contains__)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(is_factor(name))
    return names


def choose(model: Transformer, targets: Iterable[str]) -> list[str]:
    """Names of the linear maps, outside the head, that `targets` chooses."""
    maps = {
        name: name.rpartition(".")[2]
        for name, module in model.named_modules()
        if type(module) in (Linear, LoRALinear) and not name.startswith("head.")
    }
    found: set[str] = set()
    for target in targets:
        pattern = "*.blocks.*" if target == ALL else target
        own = {name for name, last in maps.items() if _fits(name, pattern) or last == target}
        if not own:
            raise ConfigError(
                f"train.finetune.targets: {target!r} is no linear map of this model; it has "
                f"{', '.join(sorted({*maps.values()}))}."
            )
        found |= own
    if there := sorted(found & adapters(model).keys()):
        raise ConfigError(f"{there[0]} has an adapter already; merge it by `fold` first.")
    return [name for name in maps if name in found]


def _fits(name: str, pattern: str) -> bool:
    """Whether a pattern is a name, or that of a module around it."""
    return fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}.*")


def substitute(
    model: nn.Module, name: str, rank: int, alpha: float, dropout: float = 0.0
) -> LoRALinear:
    """Put an adapter, its weights unset, into the linear map of this name."""
    base = model.get_submodule(name)
    assert isinstance(base, Linear)
    adapted = LoRALinear(base, rank, alpha, dropout)
    model.set_submodule(name, adapted)
    return adapted


def fold(model: nn.Module) -> None:
    """Add every adapter to its weight, in floating point: the model has plain linear maps again."""
    for name, adapted in adapters(model).items():
        plain = Linear(adapted.in_features, adapted.out_features, bias=False, device="meta")
        plain.weight, plain.bias = nn.Parameter(adapted.matrix.detach()), adapted.bias
        model.set_submodule(name, plain.train(adapted.training))
    for module in model.modules():
        if isinstance(module, Linear):
            module.dequantize()


def quantize(model: nn.Module) -> None:
    """Keep the weights of the linear maps of the blocks as 8-bit integers, except those that need a
    gradient; `layers.linear.quantized` has the formula."""
    for name, module in [*model.named_modules()]:
        if not isinstance(module, Linear) or ".blocks." not in name:
            continue
        if not module.frozen_matrix.requires_grad:
            module.quantize()


def adapt(model: Transformer, config: FinetuneConfig, seed: int) -> None:
    """Make a model ready to be trained by `config`: adapters in place, gradients where it is
    trained.

    ConfigError: a target or a pattern that fits nothing, or nothing is left to train.
    """
    if config.method == "lora":
        values = config.model_dump(include={"rank", "alpha", "dropout", "targets"})
        add_adapters(model, **values, seed=seed)
    names = dict(model.named_parameters())
    trained = {n for n in names if not config.partial or n.startswith("head.") or is_factor(n)}
    for pattern in config.train_also:
        if not (also := {name for name in names if _fits(name, pattern)}):
            tops = ", ".join(dict.fromkeys(name.partition(".")[0] for name in names))
            raise ConfigError(
                f"train.finetune.train_also: {pattern!r} fits no weight; give a name that begins "
                f"with one of {tops}, or a pattern such as *norm*."
            )
        trained |= also
    if not trained:
        raise ConfigError(
            f"train.finetune.method={config.method} leaves nothing to learn: the head is tied to "
            "the trunk's embedding; add train.finetune.train_also=[embed] or use method=lora."
        )
    for name, parameter in names.items():
        parameter.requires_grad_(name in trained)
    if config.quantize == "int8":
        quantize(model)
