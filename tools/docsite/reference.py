"""The API reference: a page of the public names, then a page for each folder of the package, by
floors."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDERS = """
Shapes in signatures have [one letter for each axis](#glassformer.core.axes).

```{{eval-rst}}
{directives}
```

## The package

```{{toctree}}
:maxdepth: 1

{folders}
```
"""
DIRECTIVES = """
.. py:currentmodule:: glassformer

.. autofunction:: glassformer.train
.. autofunction:: glassformer.load
.. autofunction:: glassformer.look
.. autofunction:: glassformer.view
.. autoclass:: glassformer.Run
   :members:
   :inherited-members:
.. autoexception:: glassformer.GlassformerError

``gf.edits`` is :py:mod:`glassformer.inspect.edits`, ``gf.models`` is :py:mod:`glassformer.models`.
"""
MODULE = """
## {name}

```{{eval-rst}}
.. automodule:: {name}
   :members:
   :show-inheritance:
```
"""


def modules(source: Path) -> Iterator[str]:
    """The dotted names of all modules below a package's folder, packages before what they hold."""
    for file in sorted(source.rglob("*.py"), key=_packages_first):
        parts = (source.name, *file.relative_to(source).with_suffix("").parts)
        if parts[-1] != "__main__" and parts[1] != "cli":  # the commands have a page of their own
            yield ".".join(parts).removesuffix(".__init__")


def _packages_first(file: Path) -> tuple[Path, bool, str]:
    return file.parent, file.name != "__init__.py", file.name


def floors(architecture: str) -> list[str]:
    """The folders and files of the package, the lowest floor first."""
    (block,) = re.findall(r"^```floors\n(.*?)^```", architecture, re.DOTALL | re.MULTILINE)
    return [name for line in reversed(block.splitlines()) for name in line.split()[1:]]


def room(module: str, source: Path) -> str:
    """The page that a module stands on: its folder, or the package for a file of it."""
    parts = module.split(".")[1:]
    folder = source.joinpath(*parts).is_dir()
    kept = parts if folder else parts[:-1]
    return ".".join(("glassformer", *kept)) if kept else "glassformer"


def reference(source: Path, architecture: str) -> tuple[str, dict[str, str]]:
    """What the page of the public names goes on with, and the page of each folder by its path."""
    rooms: dict[str, list[str]] = {}
    for module in modules(source):
        rooms.setdefault(room(module, source), []).append(module)
    order = {name: i for i, name in enumerate(floors(architecture))}
    place = lambda name: order.get(name.partition(".")[2].partition(".")[0], -1)
    names = sorted(rooms, key=lambda name: (place(name), name))
    pages = {f"api/{name}.md": _page(name, rooms[name], source) for name in names}
    folders = "\n".join(f"api/{name}" for name in names)
    return FOLDERS.format(directives=DIRECTIVES.strip(), folders=folders), pages


def _page(name: str, held: list[str], source: Path) -> str:
    title = "Files of the package itself" if name == "glassformer" else name
    text = [f"# {title}\n"]
    for module in held:
        if module == name == "glassformer":
            continue
        text.append(MODULE.format(name=module))
    return "".join(text)


def commands() -> str:
    """The help of every command."""
    from typer.main import get_command

    from glassformer.cli.main import app

    return "".join(_help(get_command(app), "glassformer"))


def _help(command: Any, name: str) -> Iterator[str]:
    """The help of a command, then of those that it has."""
    with command.make_context(name, [], resilient_parsing=True) as context:
        context.terminal_width = 100
        yield f"\n## {name}\n\n```text\n{command.get_help(context)}\n```\n"
        for each in getattr(command, "commands", {}):
            _, inner, _ = command.resolve_command(context, [each])
            yield from _help(inner, f"{name} {each}")
