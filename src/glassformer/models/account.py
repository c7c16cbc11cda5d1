"""An account of a model's weights: each form of the model takes every weight, or refuses it by
name.

account = Account("ONNX", weights_of(model))
account.take(layer.weight, layer.bias)
account.finish()
"""

import re
from collections.abc import Mapping

from torch import nn

from glassformer.core.errors import ConfigError
from glassformer.layers.heads import LanguageModelHead
from glassformer.layers.linear.linear import Linear

_MAP = r"(weight|bias)"
_ELEMENT = rf"element\.(weight|class_token|registers|proj\.{_MAP}|stem\.convolutions\.\d+\.{_MAP})"
_PART = r"parts\.[^.]+\.(proj\.weight|kind|position\.weight)"
_BLOCK = (
    rf"(attention|cross)\.(([qkv]|out)_proj\.{_MAP}|[qk]_norm\.weight)"
    rf"|feedforward\.(up|gate|down)_proj\.{_MAP}|(attention|cross|feedforward)_norm\.{_MAP}"
)
KNOWN = re.compile(
    rf"(source_)?embed\.({_ELEMENT}|{_PART}|(position|kind)\.weight|norm\.{_MAP})"
    rf"|(en|de)coder\.(blocks\.\d+\.({_BLOCK})|bias\.weight|norm\.{_MAP})"
    rf"|head\.((dense|norm|unembed|proj|distilled_proj)\.)?{_MAP}"
)
"""The weights whose part in the formula is known to all forms of a model."""
SHOWN = 4
"""Weights that are named in an error."""


class Account:
    """Weights by name, each of which a `form` of the model must take."""

    def __init__(self, form: str, weights: Mapping[str, object]):
        self._form, self._weights = form, dict(weights)
        self._names = {id(one): name for name, one in self._weights.items()}
        self._left = dict.fromkeys(self._weights)

    def take(self, *weights: object) -> None:
        """Take these objects; None, and what is no weight of the model, is passed over."""
        for one in weights:
            self._left.pop(self._names.get(id(one), ""), None)

    def take_known(self, *prefixes: str) -> None:
        """Take the known names with one of these prefixes, or all of them."""
        for name in [*self._left]:
            if name.startswith(prefixes or "") and KNOWN.fullmatch(name):
                del self._left[name]

    def finish(self, *others: "Account") -> None:
        """Raise a ConfigError that names what neither this account nor the others took."""
        left = [name for name in self._left if all(name in other._left for other in others)]
        if left:
            more = f" and {len(left) - SHOWN} more" if len(left) > SHOWN else ""
            raise ConfigError(
                f"{self._form} would ignore the weight {', '.join(left[:SHOWN])}{more} of this "
                "model; compute the model as it is, or teach this form what the weight does."
            )


def weights_of(model: nn.Module) -> dict[str, object]:
    """Every parameter of a model, and every packed matrix by the name of its weight."""
    packed = {
        f"{name}.weight": one.packed
        for name, one in model.named_modules()
        if isinstance(one, Linear | LanguageModelHead) and one.packed is not None
    }
    return {**dict(model.named_parameters()), **packed}
