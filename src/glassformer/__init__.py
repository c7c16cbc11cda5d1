"""glassformer: a complete Transformer toolkit.

    import glassformer as gf
    run = gf.load("runs/demo-lm")
    run.generate("The", max_new_tokens=50)

Names are loaded when they are first used, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from glassformer import finetune as finetune
    from glassformer import models as models
    from glassformer.core.errors import GlassformerError as GlassformerError
    from glassformer.inspect import edits as edits
    from glassformer.run import Run as Run
    from glassformer.run import load as load
    from glassformer.run import train as train
    from glassformer.run.export import export_run as export_run
    from glassformer.run.folder import import_published as import_published
    from glassformer.run.folder import look as look
    from glassformer.serve.explorer.notebook import view as view

_PUBLIC = {
    "finetune": "glassformer.finetune",
    "models": "glassformer.models",
    "train": "glassformer.run:train",
    "load": "glassformer.run:load",
    "look": "glassformer.run.folder:look",
    "import_published": "glassformer.run.folder:import_published",
    "export_run": "glassformer.run.export:export_run",
    "view": "glassformer.serve.explorer.notebook:view",
    "edits": "glassformer.inspect.edits",
    "Run": "glassformer.run:Run",
    "GlassformerError": "glassformer.core.errors:GlassformerError",
}
__all__ = [
    "GlassformerError",
    "Run",
    "__version__",
    "edits",
    "export_run",
    "finetune",
    "import_published",
    "load",
    "look",
    "models",
    "train",
    "view",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'glassformer' has no attribute {name!r}")
    module, _, attribute = _PUBLIC[name].partition(":")
    found = import_module(module)
    return getattr(found, attribute) if attribute else found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
