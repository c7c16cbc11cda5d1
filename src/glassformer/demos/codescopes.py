"""Python's scopes: which names each binds, and so what a name stands for where it is read.

A name that one scope binds in several ways counts as the first of parameter, import, class,
function, variable.
"""

import ast
import builtins
from collections.abc import Iterable, Iterator

_STRENGTH = {"parameter": 0, "import": 1, "class": 2, "function": 3}  # a variable is weaker
_IMPLICIT = [
    "__name__",
    "__doc__",
    "__file__",
    "__path__",
    "__package__",
    "__spec__",
    "__loader__",
    "__builtins__",
]
_STAR = "*"
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Scope:
    """What names stand for in a "module", "class", "function" (lambda, comprehension) or, of type
    parameters, "types".

    `nodes` are what is run in it: the body, or the targets of a comprehension.
    """

    def __init__(
        self,
        kind: str,
        nodes: Iterable[ast.AST] = (),
        parent: "Scope | None" = None,
        parameters: Iterable[str] = (),
    ) -> None:
        self.kind, self.parent = kind, parent
        self.names = dict.fromkeys(parameters, "parameter")
        self.globals = set[str]()  # declared so
        self.variable = {"module": "global", "class": "attribute"}.get(kind, "local")
        if kind == "module":
            self.names |= dict.fromkeys(_IMPLICIT, "global")
        self._bind(nodes)

    def meaning(self, name: str) -> str:
        """The tag of a name that is read in this scope."""
        scope, direct = self, True
        while scope.parent is not None and name not in scope.globals:
            if name in scope.names and (direct or scope.kind != "class"):
                return scope.names[name]
            direct, scope = direct and scope.kind == "types", scope.parent
        declared = name in scope.globals
        while scope.parent is not None:
            scope = scope.parent
        if name in scope.names or declared:
            return scope.names.get(name, "global")
        if hasattr(builtins, name):
            return "builtin"
        return "import" if _STAR in scope.names else "global"

    def _bind(self, nodes: Iterable[ast.AST]) -> None:
        """Adds the names that nodes bind here, not those of scopes inside; := in a comprehension
        binds outside it."""
        todo, elsewhere = [(node, False) for node in nodes], set[str]()
        while todo:
            node, nested = todo.pop()
            if isinstance(node, ast.Global):
                self.globals.update(node.names)
            elif isinstance(node, ast.Nonlocal):
                elsewhere.update(node.names)
            elif isinstance(node, ast.NamedExpr):
                self._add(node.target.id, self.variable)
            elif not nested or not isinstance(node, ast.Name):
                for name, tag in _bound(node):
                    self._add(name, tag or self.variable)
            nested = nested or isinstance(node, _COMPREHENSIONS)
            todo += [(child, nested) for child in _read_here(node)]
        for name in elsewhere:
            self.names.pop(name, None)

    def _add(self, name: str, tag: str) -> None:
        if _STRENGTH.get(tag, 9) < _STRENGTH.get(self.names.get(name, ""), 10):
            self.names[name] = tag


def all_arguments(args: ast.arguments) -> list[ast.arg]:
    """The parameters of a signature."""
    return [
        each
        for each in (*args.posonlyargs, *args.args, args.vararg, *args.kwonlyargs, args.kwarg)
        if each
    ]


def read_outside(args: ast.arguments) -> list[ast.expr]:
    """What stands in a signature and is read outside the function: defaults and annotations."""
    annotations = (each.annotation for each in all_arguments(args))
    return [each for each in (*args.defaults, *args.kw_defaults, *annotations) if each]


def _bound(node: ast.AST) -> Iterator[tuple[str, str | None]]:
    """The names that a node itself binds, with a tag or None for a variable."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name, None
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name, "function"
        case ast.ClassDef(name=name):
            yield name, "class"
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            for alias in aliases:
                yield alias.asname or alias.name.split(".")[0], "import"
        case (
            ast.ExceptHandler(name=str(name))
            | ast.MatchAs(name=str(name))
            | ast.MatchStar(name=str(name))
        ):
            yield name, None
        case ast.MatchMapping(rest=str(name)):
            yield name, None


def _read_here(node: ast.AST) -> Iterable[ast.AST]:
    """The children of a node that belong to its scope."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return [
                *node.decorator_list,
                *read_outside(node.args),
                *([node.returns] if node.returns else []),
            ]
        case ast.ClassDef():
            return [*node.decorator_list, *node.bases, *node.keywords]
        case ast.Lambda():
            return read_outside(node.args)
    return ast.iter_child_nodes(node)
