"""The code is the house that docs/architecture.md draws. Reads source text only: nothing is
imported or run."""

import ast
import builtins
import re
import symtable
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from every import of_every

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "glassformer"
DOC = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
FILES = sorted(PACKAGE.rglob("*.py"))
FRONT_DOOR = ("glassformer", "glassformer.__main__")  # above all floors


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATHS = {module_name(path): path for path in FILES}
every_module = of_every(PATHS)


@cache
def tree_of(name: str) -> ast.Module:
    return ast.parse(PATHS[name].read_text(encoding="utf-8"))


@cache
def nodes_of(name: str) -> list[ast.AST]:
    return [*ast.walk(tree_of(name))]


def floors(text: str) -> dict[str, int]:
    """Name to floor, from the picture."""
    picture = re.search(r"```floors\n(.*?)```", text, re.DOTALL)
    assert picture, "docs/architecture.md has no block ```floors"
    rows = [line.split() for line in picture[1].splitlines() if line.strip()]
    return {name: int(row[0]) for row in rows for name in row[1:]}


FLOORS = floors(DOC)


def walls(text: str) -> dict[str, set[str]]:
    """Folder to the folders that its files may import."""
    table = re.search(r"```walls\n(.*?)```", text, re.DOTALL)
    assert table, "docs/architecture.md has no block ```walls"
    rows = [line.split() for line in table[1].splitlines()]
    return {name: set(others) for name, *others in rows}


WALLS = walls(DOC)
LONG: dict[str, int] = {}
"""Files of more than 300 lines, with their numbers, which only shrink."""
FULL: dict[str, int] = {}
"""Folders of more than 15 files, with their numbers, which only shrink."""


@cache
def imports_of(name: str) -> list[str]:
    return [*imports(nodes_of(name), name, PATHS)]


def imports(nodes: Iterable[ast.AST], name: str, known: dict) -> Iterator[str]:
    """Modules of the package that are imported by nodes, also by `import_module("...")`."""
    for node in nodes:
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


def folder(name: str) -> str:
    """The folder of the table of walls in which a module stands."""
    place = "/".join(name.split(".")[1:3])
    return place if place in WALLS else room(name)


def may_import(name: str, other: str) -> bool:
    """The rule of the house."""
    if other in FRONT_DOOR:
        return False
    here, there = folder(name), folder(other)
    return here == there or there in WALLS[here]


def test_every_room_is_in_the_picture_and_nothing_else():
    rooms = {room(name) for name in PATHS if name not in FRONT_DOOR}
    assert rooms <= set(FLOORS), f"not in docs/architecture.md: {rooms - set(FLOORS)}"
    missing = set(FLOORS) - rooms
    assert not missing, f"in docs/architecture.md but not in the package: {missing}"
    jobs = re.findall(r"^\| `(\w+)` \| (.+) \|$", DOC, re.MULTILINE)
    assert sorted(name for name, _ in jobs) == sorted(FLOORS)  # one job each


@every_module
def test_imports_stay_within_the_walls(name):
    if name not in FRONT_DOOR:
        found = set(imports_of(name))
        wrong = sorted(other for other in found if not may_import(name, other))
        assert not wrong, f"{name} imports {', '.join(wrong)}"
        assert found <= PATHS.keys(), f"{name} imports a file that does not exist"


def test_every_arrow_goes_down_and_is_used():
    assert {name.split("/")[0] for name in WALLS} == set(FLOORS)
    arrows = {(name, other) for name, others in WALLS.items() for other in others}
    up = {
        (name, other)
        for name, other in arrows
        if name.split("/")[0] != other and FLOORS[other.split("/")[0]] >= FLOORS[name.split("/")[0]]
    }
    assert not up
    used = {
        (folder(name), folder(other))
        for name in PATHS.keys() - set(FRONT_DOOR)
        for other in imports_of(name)
        if other not in FRONT_DOOR
    }
    assert not arrows - used, "nothing needs these arrows of docs/architecture.md any more"


def test_files_have_300_lines_and_folders_15_files():
    lengths = {
        path.relative_to(PACKAGE).as_posix(): len(path.read_text("utf-8").splitlines())
        for path in FILES
    }
    counts = Counter(path.parent for path in FILES if path.name != "__init__.py")
    sizes = {path.relative_to(PACKAGE).as_posix(): count for path, count in counts.items()}
    for found, most, known in ((lengths, 300, LONG), (sizes, 15, FULL)):
        large = {name for name, size in found.items() if size > known.get(name, most)}
        assert not large, f"larger than {most}, or than before"
        assert all(found[name] > most for name in known), "a line that is not needed"


ROOMS = {
    name: ranks
    for line in re.findall(r"```rooms\n(.*?)```", DOC, re.DOTALL)
    for name, *ranks in [line.split()]
}
"""The sub-folders of a folder; each imports only those before it."""


@every_module
def test_sub_folders_import_those_before_them(name):
    own = name.split(".")[1:]
    if own and own[0] in ROOMS and len(own) > 2:
        ranks = ROOMS[own[0]]
        for other in imports_of(name):
            theirs = other.split(".")[1:]
            if theirs[:1] == own[:1] and len(theirs) > 1:
                assert ranks.index(theirs[1]) <= ranks.index(own[1]), f"{name} imports {other}"


def test_no_file_imports_itself_by_a_detour():
    graph = {
        name: {other for other in imports_of(name) if other in PATHS}
        for name in PATHS
        if name not in FRONT_DOOR
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


@every_module
def test_a_module_has_a_docstring(name):
    assert ast.get_docstring(tree_of(name)), f"{name} has no docstring"


@every_module
def test_house_rules(name):
    path = PATHS[name]
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if len(line) > 100] == []
    assert not re.search(r"utils?|common|helpers?|misc", path.stem), "a name that says nothing"
    for node in nodes_of(name):
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


PLATFORM = {
    "fcntl": {"core.locks"},
    "msvcrt": {"core.locks"},
    "signal": {"core.signals", "core.workers"},
    "ctypes": {"core.cpu", "native.library", "native.program"},
    "resource": {"core.workers"},
    "subprocess": {"core.workers", "native.library"},
    "multiprocessing": {"core.workers"},
    **{name: set() for name in ("pwd", "termios")},
}
"""Modules that not every system has, or that differ, and the only files that may import them."""


@every_module
def test_what_differs_between_systems_is_in_one_place(name):
    """Imports, and text that would be read or written in the system's own encoding or newlines."""
    for node in nodes_of(name):
        where = f"{PATHS[name].relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Import | ast.ImportFrom):
            own = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
            allowed = PLATFORM.get((own or "").split(".")[0])
            assert allowed is None or name.removeprefix("glassformer.") in allowed, where
        elif isinstance(node, ast.Call):
            assert not system_text(node), f"{where}: say encoding= (and newline= when writing)"


def system_text(call: ast.Call) -> bool:
    """Whether a call reads or writes text as the system does by default."""
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    given = {keyword.arg for keyword in call.keywords}
    if method == "read_text":
        return "encoding" not in given and not call.args
    if method == "write_text":
        return not {"encoding", "newline"} <= given
    plain = isinstance(call.func, ast.Name) and call.func.id == "open"
    if not plain and method not in ("open", "fdopen"):
        return False
    modes = [a.value for a in call.args if isinstance(a, ast.Constant)]
    mode = next((m for m in modes if isinstance(m, str) and re.fullmatch("[rwax+bt]+", m)), "")
    if "b" in mode or (not plain and not mode):
        return False
    return "encoding" not in given or (bool(set(mode) & set("wax+")) and "newline" not in given)


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("open(p)", True),
        ("open(p, 'rb')", False),
        ("open(p, 'w', encoding='utf-8')", True),
        ("p.open('a', encoding='utf-8', newline='')", False),
        ("p.open('w')", True),
        ("zip.open(info)", False),
        ("p.read_text()", True),
        ("p.read_text('utf-8')", False),
        ("p.write_text(t, encoding='utf-8')", True),
    ],
)
def test_text_of_the_system_is_seen(source, wrong):
    assert system_text(ast.parse(source, mode="eval").body) is wrong


def test_every_file_can_be_checked_out_on_every_system():
    """Windows lacks some names and characters, and two names that differ in case are one there."""
    names = [path.relative_to(ROOT).as_posix() for path in PACKAGE.rglob("*")]
    assert len({name.lower() for name in names}) == len(names)
    reserved = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
    for part in {part for name in names for part in name.split("/")}:
        assert not reserved.fullmatch(part)
        assert not re.search(r'[<>:"|?*\\]|[ .]$', part), part


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
    assert not undefined(PATHS[name].read_text(encoding="utf-8"))


def test_a_name_that_is_not_defined_is_found():
    assert undefined(
        "import os\ndef f(x):\n    return lambda: x + y + os.sep\nclass A:\n    z = w\n"
    ) == {"y", "w"}


WRONG = {
    "a floor too high": (
        "glassformer.layers.attention.mask",
        "import glassformer.models",
        "glassformer.models",
    ),
    "inside a function": (
        "glassformer.layers.attention.mask",
        "def f():\n    from glassformer.models import presets",
        "glassformer.models.presets",
    ),
    "a sibling": (
        "glassformer.tokenizers.text",
        "from glassformer.layers.attention import mask",
        "glassformer.layers.attention.mask",
    ),
    "the front door": ("glassformer.models.config", "from glassformer import models", None),
    "by name": (
        "glassformer.data.order",
        "import_module('glassformer.training.loop.step')",
        "glassformer.training.loop.step",
    ),
    "out of the core": (
        "glassformer.core.errors",
        "from glassformer.layers.attention.mask import Mask",
        "glassformer.layers.attention.mask",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_the_rule_sees_what_it_forbids(case):
    name, source, expected = WRONG[case]
    found = list(imports(ast.walk(ast.parse(source)), name, PATHS))
    if expected is None:  # the public name of a room is that room
        assert found == ["glassformer.models"]
        assert may_import(name, found[0])
        assert not may_import(name, "glassformer")
    else:
        assert found == [expected]
        assert not may_import(name, expected)


WALKS = re.findall(r"```walk (\d+)\n(.*?)```", DOC, re.DOTALL)


def test_walks_have_files_up_to_their_limit_and_lines_that_are_right():
    assert len(WALKS) == 4
    for most, walk in WALKS:
        stops = re.findall(r"^\d+\. `([\w/]+\.py):(\d+)` `([\w.]+)`: ", walk, re.MULTILINE)
        assert len(stops) == len(walk.splitlines())
        assert len({path for path, *_ in stops}) <= int(most)
        wrong = [
            f"{path}:{at} is not {name}, which is at {found}"
            for path, at, name in stops
            if int(at) != (found := line_of(path, name))
        ]
        assert not wrong


def line_of(path: str, name: str) -> int:
    """Line of a function, class or method of the package."""
    nodes = ast.parse((PACKAGE / path).read_text(encoding="utf-8")).body
    found = 0
    for part in name.split("."):
        kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        (node,) = (one for one in nodes if isinstance(one, kinds) and one.name == part)
        found, nodes = node.lineno, node.body
    return found
