"""What each word of a Python file means, from its syntax tree.

What is no name has the tag that its letters give it: keyword, string, comment, number, operator,
layout. A name has the first of these tags that applies:

    keyword     match, case, type and the pattern _ where they are keywords
    function    the name after def
    class       the name after class
    import      every name in an import statement
    parameter   the name of an argument in a call or class statement: f(name=1)
    call        a name or attribute that is called: f(1), x.f(1)
    attribute   after a dot, or in a class pattern: Point(x=0)
    otherwise   what the name stands for where it is looked up by Python's rules of scope: a
                parameter (also of a lambda or a type), an import, a class or a function of this
                file; else a variable, which is a
                local    in a function, lambda or comprehension,
                attribute  in the body of a class,
                global   in the module, or where nothing in the file binds it, unless it is a
                builtin  like len
"""

import ast
import warnings
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from glassformer.demos.codescopes import Scope, parameters_of, read_outside
from glassformer.demos.codewords import Code, read_code
from glassformer.demos.tables import constants

TAGS: tuple[str, ...] = tuple(constants("code")["tags"])
"""Every tag; the names' come first."""


def tag_code(source: str) -> tuple[Code, list[str], list[int]]:
    """The words of a file, a tag for each, and the characters at which its top-level statements
    end.

    SyntaxError, ValueError, RecursionError: what `ast.parse` raises for text that is no Python.
    """
    code = read_code(source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a file's own invalid escapes
        tree = ast.parse(source)
        tagger = _Tagger(source, code, tree)
        tagger.visit(tree)
    return code, tagger.tags, [tagger.end(statement) for statement in tree.body]


class _Tagger(ast.NodeVisitor):
    def __init__(self, source: str, code: Code, tree: ast.Module) -> None:
        self.source, self.code = source, code
        self.tags = ["" if kind == "name" else kind for kind in code.kinds]
        self.names = [i for i, kind in enumerate(code.kinds) if kind == "name"]
        self.starts = [code.spans[i][0] for i in self.names]
        self.lines = _Lines(source)
        self.scope = Scope("module", tree.body)

    # places

    def start(self, node: Any) -> int:
        return self.lines.offset(node.lineno, node.col_offset)

    def end(self, node: Any) -> int:
        return self.lines.offset(node.end_lineno, node.end_col_offset)

    def tag_at(self, place: int, tag: str) -> None:
        """Tag the first name or soft keyword that begins at or after a place."""
        self.tags[self.names[bisect_left(self.starts, place)]] = tag

    def tag_before(self, place: int, tag: str) -> None:
        """Tag the last name or soft keyword that begins before a place."""
        self.tags[self.names[bisect_left(self.starts, place) - 1]] = tag

    def inside(self, node: ast.AST) -> list[int]:
        """The names and soft keywords of a node."""
        places = (bisect_left(self.starts, place) for place in (self.start(node), self.end(node)))
        return self.names[slice(*places)]

    # scopes

    @contextmanager
    def scoped(
        self, kind: str, nodes: Iterable[ast.AST] = (), parameters: Iterable[str] = ()
    ) -> Iterator[None]:
        """A block in a new scope, in which `nodes` bind names."""
        outer, self.scope = self.scope, Scope(kind, nodes, self.scope, parameters)
        yield
        self.scope = outer

    def visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    # names

    def visit_Name(self, node: ast.Name) -> None:
        self.tag_at(self.start(node), self.scope.meaning(node.id))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.visit(node.value)
        self.tag_before(self.end(node), "attribute")

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name | ast.Attribute):
            self.tag_before(self.end(node.func), "call")

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg is not None:
            self.tag_at(self.start(node), "parameter")
        self.visit(node.value)

    def visit_arg(self, node: ast.arg) -> None:
        self.tag_at(self.start(node), "parameter")

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        for i in self.inside(node):
            self.tags[i] = "import"

    visit_ImportFrom = visit_Import

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> None:
        for i in self.inside(node):
            self.tags[i] = self.scope.meaning(self.code.words[i])

    visit_Nonlocal = visit_Global

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.type is not None and node.name is not None:
            self.tag_at(self.end(node.type), self.scope.meaning(node.name))
        self.generic_visit(node)

    # definitions

    def visit_FunctionDef(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    ) -> None:
        kind = "class" if isinstance(node, ast.ClassDef) else "function"
        self.visit_all(node.decorator_list)
        self.tag_at(self.start(node), kind)
        with self.type_parameters(node):
            self.define(node, kind, node.body)

    visit_AsyncFunctionDef = visit_ClassDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.define(node, "function", [node.body])

    def define(self, node: ast.AST, kind: str, body: Iterable[ast.AST]) -> None:
        self.visit_all(read_outside(node))
        parameters = parameters_of(node)
        with self.scoped(kind, body, (each.arg for each in parameters)):
            self.visit_all([*parameters, *body])

    def visit_ListComp(
        self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
    ) -> None:
        with self.scoped("function", [generator.target for generator in node.generators]):
            self.generic_visit(node)
        self.visit(node.generators[0].iter)  # again, since it is read outside

    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ListComp

    @contextmanager
    def type_parameters(self, node: ast.AST) -> Iterator[None]:
        """A block in the scope of a definition's type parameters (Python 3.12), with their
        tags."""
        found = getattr(node, "type_params", [])
        with self.scoped("types", parameters=[each.name for each in found]):
            for each in found:
                self.tag_at(self.start(each), "parameter")
                self.generic_visit(each)
            yield

    def visit_TypeAlias(self, node: Any) -> None:
        self.tag_at(self.start(node), "keyword")
        self.visit(node.name)
        with self.type_parameters(node):
            self.visit(node.value)

    # patterns

    def visit_Match(self, node: ast.Match) -> None:
        self.tag_at(self.start(node), "keyword")
        for case in node.cases:
            self.tag_before(self.start(case.pattern), "keyword")
        self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs | ast.MatchStar) -> None:
        meaning = self.scope.meaning(node.name) if node.name else "keyword"
        self.tag_before(self.end(node), meaning)
        self.generic_visit(node)

    visit_MatchStar = visit_MatchAs

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        if node.rest is not None:
            self.tag_before(self.end(node), self.scope.meaning(node.rest))
        self.generic_visit(node)

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        for pattern in node.kwd_patterns:
            self.tag_before(self.start(pattern), "attribute")
        self.generic_visit(node)

    # f-strings

    def visit_JoinedStr(self, node: ast.AST) -> None:
        """Parse each field by itself, since Python 3.11 does not know where in the file its names
        stand."""
        at, end, outer = self.start(node), self.end(node), self.lines
        for start, stop in self.code.fields[bisect_left(self.code.fields, (at + 1, 0)) :]:
            if start >= end:
                break
            if start >= at:  # fields of strings inside a field are read with it
                self.lines = _Lines(f"({self.source[start:stop]}\n)", start - 1)
                self.visit(ast.parse(self.lines.text, mode="eval").body)
                at = stop
        self.lines = outer

    visit_TemplateStr = visit_JoinedStr


class _Lines:
    """Offsets of a syntax tree's lines and columns (which count bytes) in a text that is part of
    another."""

    def __init__(self, text: str, begin: int = 0) -> None:
        self.text, self.lines, self.starts = text, text.split("\n"), [begin]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line) + 1)

    def offset(self, number: int, column: int) -> int:
        line = self.lines[number - 1]
        before = column if line.isascii() else len(line.encode()[:column].decode())
        return self.starts[number - 1] + before
