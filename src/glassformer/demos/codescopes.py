"""Python's scopes: the names that each binds, and so the meaning of a name where it is read.

A name that one scope binds in several ways counts as the first of parameter, import, class,
function, variable.
"""

import ast
import builtins
from collections.abc import Iterable, Iterator
from typing import Any

from glassformer.demos.tables import constants

_TABLES = constants("code")
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Scope:
    """The meaning of names in a "module", "class", "function" (lambda, comprehension) or, of type
    parameters, "types".

    `nodes` are run in it: the body, or the targets of a comprehension.
    """

    def __init__(
        self,
        kind: str,
        nodes: Iterable[ast.AST] = (),
        parent: "Scope | None" = None,
        parameters: Iterable[str] = (),
    ) -> None:
        self.kind, self.parent = kind, parent
        self.module: Scope = parent.module if parent else self
        found = [*_bound(nodes), *((name, "parameter") for name in parameters)]
        if kind == "module":
            found += [(name, "variable") for name in _TABLES["module_names"]]
        self.globals = {name for name, tag in found if tag == "global"}
        elsewhere = {name for name, tag in found if tag == "nonlocal"}
        found.sort(key=lambda pair: _TABLES["strength"].index(pair[1]))
        variable = {"module": "global", "class": "attribute"}.get(kind, "local")
        self.names = {
            name: variable if tag == "variable" else tag
            for name, tag in found
            if tag != "global" and name not in elsewhere
        }

    def meaning(self, name: str, direct: bool = True) -> str:
        """The tag of a name that is read in this scope, or, if not `direct`, in one inside it."""
        if self.parent is not None and name not in self.globals:
            if name in self.names and (direct or self.kind != "class"):
                return self.names[name]
            return self.parent.meaning(name, direct and self.kind == "types")
        names = self.module.names
        if name in names or name in self.globals:
            return names.get(name, "global")
        if hasattr(builtins, name):
            return "builtin"
        return "import" if "*" in names else "global"


def parameters_of(node: Any) -> list[ast.arg]:
    """The parameters of a function or lambda; a class has none."""
    children = ast.iter_child_nodes(node.args) if hasattr(node, "args") else ()
    return [child for child in children if isinstance(child, ast.arg)]


def read_outside(node: Any) -> list[ast.AST]:
    """The parts of a definition read outside its scope, but for decorators: bases of a class,
    defaults and annotations of a function."""
    if isinstance(node, ast.ClassDef):
        return [*node.bases, *node.keywords]
    parts = [*ast.iter_child_nodes(node.args), getattr(node, "returns", None)]
    outside = (part.annotation if isinstance(part, ast.arg) else part for part in parts)
    return [part for part in outside if part is not None]


def _bound(nodes: Iterable[ast.AST], nested: bool = False) -> Iterator[tuple[str, str]]:
    """The names that nodes bind in their scope, and how; := in a comprehension (nested) binds
    outside it."""
    for node in nodes:
        match node:
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                yield from ((name, type(node).__name__.lower()) for name in names)
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) if not nested:
                yield name, "variable"
            case ast.NamedExpr(target=ast.Name(id=name)):
                yield name, "variable"
            case ast.alias():
                yield node.asname or node.name.split(".")[0], "import"
            case _ if binding := _TABLES["bindings"].get(type(node).__name__):
                field, tag = binding
                if name := getattr(node, field):
                    yield name, tag
        inner = nested or isinstance(node, _COMPREHENSIONS)
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield from _bound([*node.decorator_list, *read_outside(node)])
            case ast.Lambda():
                yield from _bound(read_outside(node))
            case _:
                yield from _bound(ast.iter_child_nodes(node), inner)
