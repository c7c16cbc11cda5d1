"""The code is the house that docs/architecture.md draws. Reads source text only: nothing is
imported or run."""

import ast
import builtins
import re
import symtable
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "glassformer"
DOC = (ROOT / "docs" / "architecture.md").read_text()
FILES = sorted(PACKAGE.rglob("*.py"))
FRONT_DOOR = ("glassformer", "glassformer.__main__")  # above all floors


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


TREES = {module_name(path): ast.parse(path.read_text()) for path in FILES}
PATHS = {module_name(path): path for path in FILES}
every_module = pytest.mark.parametrize("name", TREES)


def floors(text: str) -> dict[str, tuple[int, int]]:
    """Name to (floor, place on it), from the picture."""
    picture = re.search(r"```floors\n(.*?)```", text, re.DOTALL)
    assert picture, "docs/architecture.md has no block ```floors"
    rows = [line.split() for line in picture[1].splitlines() if line.strip()]
    return {name: (int(row[0]), place) for row in rows for place, name in enumerate(row[1:])}


FLOORS = floors(DOC)
PLANNED = re.findall(r"`(\w+)`", re.search(r"Planned:(.*)", DOC)[1])

EXCEPTIONS = set(re.findall(r"^Exception: `(\w+)` may import `(\w+)`, because", DOC, re.MULTILINE))


def imports(tree: ast.AST, name: str, known: dict) -> Iterator[str]:
    """Modules of the package that `tree` imports, anywhere in it, also by
    `import_module("...")`."""
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                yield from (
                    alias.name for alias in node.names if alias.name.split(".")[0] == "glassformer"
                )
            case ast.ImportFrom(level=0, module=module) if (
                module and module.split(".")[0] == "glassformer"
            ):
                for alias in node.names:
                    if (module, alias.name) != ("glassformer", "__version__"):
                        submodule = f"{module}.{alias.name}"
                        yield submodule if submodule in known else module
            case ast.ImportFrom(level=level) if level:
                raise AssertionError(f"{name}: relative import; write the whole name")
            case ast.Call(
                func=ast.Name(id="import_module") | ast.Attribute(attr="import_module"),
                args=[first, *_],
            ):
                if (
                    isinstance(first, ast.Constant)
                    and str(first.value).split(".")[0] == "glassformer"
                ):
                    yield str(first.value)


def room(name: str) -> str:
    return name.split(".")[1]


def may_import(name: str, other: str) -> bool:
    """The rule of the house."""
    if other in FRONT_DOOR:
        return False
    if room(name) == room(other) or (room(name), room(other)) in EXCEPTIONS:
        return True
    (floor, place), (below, other_place) = FLOORS[room(name)], FLOORS[room(other)]
    return below < floor or (below == floor == 0 and other_place < place)


def test_every_room_is_in_the_picture_and_nothing_else():
    rooms = {room(name) for name in TREES if name not in FRONT_DOOR}
    assert rooms <= set(FLOORS), f"not in docs/architecture.md: {rooms - set(FLOORS)}"
    missing = set(FLOORS) - rooms - set(PLANNED)
    assert not missing, f"in docs/architecture.md but not in the package, nor planned: {missing}"
    assert set(PLANNED) <= set(FLOORS)
    jobs = re.findall(r"^\| `(\w+)` \| (.+) \|$", DOC, re.MULTILINE)
    assert sorted(name for name, _ in jobs) == sorted(FLOORS)  # one job each


@every_module
def test_imports_go_down(name):
    if name not in FRONT_DOOR:
        wrong = {
            other for other in imports(TREES[name], name, TREES) if not may_import(name, other)
        }
        assert not wrong, (
            f"{name} (floor {FLOORS[room(name)][0]}) imports {', '.join(sorted(wrong))}"
        )


def test_no_file_imports_itself_by_a_detour():
    graph = {
        name: {other for other in imports(tree, name, TREES) if other in TREES}
        for name, tree in TREES.items()
        if name not in FRONT_DOOR
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


@every_module
def test_a_module_has_a_docstring(name):
    assert ast.get_docstring(TREES[name]), f"{name} has no docstring"


@every_module
def test_house_rules(name):
    tree, path = TREES[name], PATHS[name]
    lines = path.read_text().splitlines()
    assert len(lines) <= 400, "too long"
    assert [line for line in lines if len(line) > 100] == []
    assert not re.search(r"utils?|common|helpers?|misc", path.stem), "a name that says nothing"
    for node in ast.walk(tree):
        where = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
        match node:
            case ast.FunctionDef(lineno=first, end_lineno=last) if last is not None:
                assert last - first < 50, where
            case ast.Import(names=aliases):
                taken = {alias.name.split(".")[0] for alias in aliases}
                assert not taken & {
                    "pickle",
                    "marshal",
                    "shelve",
                    "dill",
                    "joblib",
                    "cloudpickle",
                }, where
            case ast.ImportFrom(module=module, names=aliases):
                assert module not in (
                    "pickle",
                    "marshal",
                    "shelve",
                    "dill",
                    "joblib",
                    "cloudpickle",
                ), where
                assert module != "__future__" or all(a.name != "annotations" for a in aliases), (
                    where
                )
            case ast.Call(func=ast.Name(id=called)):
                assert called not in ("eval", "exec"), where
                assert called != "print" or room(f"{name}.") in ("cli", "demos"), where
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=called)):
                assert called not in ("load", "save"), where
            case ast.keyword(arg="allow_pickle", value=value):
                assert isinstance(value, ast.Constant), where
                assert value.value is False, where
            case ast.arguments(kwarg=extra):
                assert extra is None or not name.startswith("glassformer.layers"), where


def undefined(source: str) -> set[str]:
    """Names that are read as global ones and that nothing in the module defines."""
    top = symtable.symtable(source, "module", "exec")
    tables, read = [top], set[str]()
    while tables:
        table = tables.pop()
        tables += table.get_children()
        read |= {
            s.get_name()
            for s in table.get_symbols()
            if s.is_referenced() and (s.is_global() or table is top)
        }
    defined = {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported()}
    return read - defined - {*dir(builtins), "__file__"}


@every_module
def test_every_name_is_defined(name):
    """Linters cannot say it here: the axes of shapes are names in strings, which they would report
    too."""
    assert not undefined(PATHS[name].read_text())


def test_a_name_that_is_not_defined_is_found():
    assert undefined(
        "import os\ndef f(x):\n    return lambda: x + y + os.sep\nclass A:\n    z = w\n"
    ) == {"y", "w"}


WRONG = {
    "a floor too high": (
        "glassformer.layers.mask",
        "import glassformer.models",
        "glassformer.models",
    ),
    "inside a function": (
        "glassformer.layers.mask",
        "def f():\n    from glassformer.models import presets",
        "glassformer.models.presets",
    ),
    "a sibling": (
        "glassformer.tokenizers.text",
        "from glassformer.layers import mask",
        "glassformer.layers.mask",
    ),
    "the front door": ("glassformer.models.config", "from glassformer import models", None),
    "by name": (
        "glassformer.data.order",
        "import_module('glassformer.training.step')",
        "glassformer.training.step",
    ),
    "floor 0 upside down": (
        "glassformer.errors",
        "from glassformer.batch import Batch",
        "glassformer.batch",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_the_rule_sees_what_it_forbids(case):
    name, source, expected = WRONG[case]
    found = list(imports(ast.parse(source), name, TREES))
    if expected is None:  # the public name of a room is that room
        assert found == ["glassformer.models"]
        assert may_import(name, found[0])
        assert not may_import(name, "glassformer")
    else:
        assert found == [expected]
        assert not may_import(name, expected)
