"""glassformer: the whole Transformer as one tool.

    import glassformer as gf
    run = gf.load("runs/demo-lm")
    run.generate("The", max_new_tokens=50)

Names are loaded when they are first used, so that importing the package costs nothing.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from glassformer import models as models
    from glassformer.errors import GlassformerError as GlassformerError
    from glassformer.inspect import edits as edits
    from glassformer.run import Run as Run
    from glassformer.run import load as load
    from glassformer.run import train as train
    from glassformer.run.looked import look as look
    from glassformer.serve.explorer.notebook import view as view

_PUBLIC = {
    "models": "glassformer.models",
    "train": "glassformer.train",
    "load": "glassformer.run:load",
    "look": "glassformer.run.looked:look",
    "view": "glassformer.serve.explorer.notebook:view",
    "edits": "glassformer.inspect.edits",
    "Run": "glassformer.run:Run",
    "GlassformerError": "glassformer.errors:GlassformerError",
}
__all__ = [
    "GlassformerError",
    "Run",
    "__version__",
    "edits",
    "load",
    "look",
    "models",
    "train",
    "view",
]


class _TrainPackage(ModuleType):
    """The package `glassformer.train`, which is also the function `gf.train`."""

    def __call__(self, *arguments: Any, **named: Any) -> "Run":
        """See `glassformer.run.train`."""
        from glassformer.run import train as function

        return function(*arguments, **named)


class _Package(ModuleType):
    """This package. Importing `glassformer.train` binds that name here, over any function: so it is
    made callable."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "train" and isinstance(value, ModuleType):
            value.__class__ = _TrainPackage
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'glassformer' has no attribute {name!r}")
    module, _, attribute = _PUBLIC[name].partition(":")
    found = import_module(module)
    return getattr(found, attribute) if attribute else found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
