"""A question about a kind of input or output is asked of a processor or a task: no other code
compares their names, asks which class they have, or reads an attribute that stands for a kind."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "glassformer"
INSIDE = ("tasks", "processors")
NAMES = ("task", "input", "head", "architecture")
"""Attributes that are such a kind; of a model's configuration, also `elements`."""
PROXIES = ("medium", "capabilities", "multi_label")
"""Attributes from which a kind follows; processors, tasks and models have them for themselves."""
OWNERS = (*INSIDE, "models", "layers")
ALLOWED = {
    "models/config.py": "which fields of a model its head takes from data",
    "models/fields.py": "what follows from the head and the architecture of a model",
    "models/misfits.py": "which fields of a model fit its head and its architecture",
    "models/cost.py": "operations and matrices of each head",
    "models/build.py": "the stacks and the head are built",
    "verify/reference_model.py": "the equations of each head",
}
"""Files in which a model's head or architecture is compared because the model is built by it."""


def literals(node: ast.AST) -> set[str]:
    """The strings that a comparison is with: a constant, or a tuple, list or set of them."""
    return {
        one.value
        for one in ast.walk(node)
        if isinstance(one, ast.Constant) and isinstance(one.value, str)
    }


def named(node: ast.AST) -> bool:
    """Whether this is a task, an input or a head, or the name of a processor."""
    match node:
        case ast.Attribute(attr=attribute):
            of_processor = "processor" in ast.unparse(node.value)
            kind = attribute == "elements" and not of_processor
            return (
                kind or attribute in NAMES or (attribute == "name" and named_processor(node.value))
            )
        case ast.Name(id=name):
            return name in NAMES
    return False


def named_processor(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute | ast.Name) and "processor" in ast.unparse(node)


def classes(tree: ast.AST) -> set[str]:
    """Names that the file imports from rooms of tasks and processors."""
    return {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
        if node.module.startswith(tuple(f"glassformer.{room}" for room in INSIDE))
    }


def dispatches(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of each comparison, match and isinstance on a kind of input or output."""
    kinds = classes(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, comparators=others):
                sides = [left, *others]
                texts = set().union(*(literals(side) for side in sides))
                if texts and any(map(named, sides)):
                    yield node.lineno, ast.unparse(node)
            case ast.Match(subject=subject) if named(subject):
                yield node.lineno, f"match {ast.unparse(subject)}"
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, wanted]):
                found = {one.id for one in ast.walk(wanted) if isinstance(one, ast.Name)}
                if found & kinds:
                    yield node.lineno, ast.unparse(node)
            case ast.Subscript(value=ast.Dict(keys=keys), slice=key) if named(key):
                yield node.lineno, f"a table of {ast.unparse(key)}: {len(keys)} entries"


def proxies(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of each proxy of a kind, and of each `hasattr`, unless it is about a module of
    the standard library: what a system has is no kind."""
    system = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name in sys.stdlib_module_names
    }
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="hasattr"), args=[ast.Name(id=name), _]) if (
                name in system
            ):
                continue
            case ast.Call(func=ast.Name(id="hasattr")):
                yield node.lineno, ast.unparse(node)
            case ast.Attribute(attr=name) if name in PROXIES:
                yield node.lineno, ast.unparse(node)
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=name), *_]):
                if name in (*PROXIES, "tokenizer"):
                    yield node.lineno, ast.unparse(node)
            case ast.MatchClass(kwd_attrs=names) if {*names} & {*PROXIES}:
                yield node.lineno, ast.unparse(node)


def test_each_form_is_found():
    source = """
from glassformer.tasks.objectives.classes import InputClasses
recipe.task == "fill-mask"
config.head in ("lm", "tag")
run.processor.name != "image"
match given.input:
    case "text": pass
isinstance(objective, InputClasses)
config.elements == "patches"
task.processor.elements == "patches"
"""
    assert sorted(line for line, _ in dispatches(ast.parse(source))) == [3, 4, 5, 6, 8, 9]


def test_no_other_code_asks_for_a_kind():
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE)
        if place.parts[0] not in INSIDE:
            for line, text in dispatches(ast.parse(path.read_text())):
                found.setdefault(str(place), []).append(f"{line}: {text}")
    assert {place: lines for place, lines in found.items() if place not in ALLOWED} == {}
    assert found.keys() >= ALLOWED.keys(), "an exception that is not needed"


def test_each_proxy_is_found():
    source = """
import os
from signal import SIGTERM
model.multi_label = True
hasattr(run.processor, "tokenizer")
hasattr(os, "fork")
hasattr(SIGTERM, "name")
"parts" in self.run.task.capabilities
getattr(processor, "medium", "") or getattr(processor, "tokenizer", None)
fields["multi_label"] = getattr(os, "fork", None)
match processor:
    case object(medium="image"): pass
"""
    found = sorted(line for line, _ in proxies(ast.parse(source)))
    assert found == [4, 5, 7, 8, 9, 9, 12]


def test_no_other_code_reads_a_proxy_of_a_kind():
    found = {
        str(place): [f"{line}: {text}" for line, text in own]
        for path in sorted(PACKAGE.rglob("*.py"))
        if (place := path.relative_to(PACKAGE)).parts[0] not in OWNERS
        and (own := [*proxies(ast.parse(path.read_text()))])
    }
    assert found == {}
