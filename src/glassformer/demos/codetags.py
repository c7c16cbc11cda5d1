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

from glassformer.demos.codescopes import Scope, all_arguments, read_outside
from glassformer.demos.codewords import Code, read_code

TAGS = tuple(
    [
        "function",
        "parameter",
        "class",
        "attribute",
        "import",
        "call",
        "local",
        "global",
        "builtin",
        "keyword",
        "string",
        "comment",
        "number",
        "operator",
        "layout",
    ]
)
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
        named = [i for i, kind in enumerate(code.kinds) if kind == "name"]
        self.starts = {code.spans[i][0]: i for i in named}
        self.ends = {code.spans[i][1]: i for i in named}
        self.positions = [start for start, _ in code.spans]
        self.lines = _Lines(source)
        self.scope = Scope("module", tree.body)

    # where things are

    def start(self, node: ast.AST) -> int:
        return self.lines.offset(getattr(node, "lineno"), getattr(node, "col_offset"))  # noqa: B009

    def end(self, node: ast.AST) -> int:
        return self.lines.offset(getattr(node, "end_lineno"), getattr(node, "end_col_offset"))  # noqa: B009

    def between(self, start: int, end: int) -> Iterator[int]:
        """The names and soft keywords that begin in [start, end)."""
        for i in range(bisect_left(self.positions, start), bisect_left(self.positions, end)):
            if self.code.kinds[i] == "name":
                yield i

    def tag_first(self, start: int, tag: str) -> None:
        """Tags the first name at or after a place."""
        self.tags[next(self.between(start, len(self.source)))] = tag

    def tag_last(self, before: int, tag: str, word: str) -> None:
        """Tags the last occurrence of a word before a place."""
        at = bisect_left(self.positions, before) - 1
        while self.code.words[at] != word:
            at -= 1
        self.tags[at] = tag

    # scopes

    @contextmanager
    def inside(
        self, kind: str, nodes: Iterable[ast.AST] = (), parameters: Iterable[str] = ()
    ) -> Iterator[None]:
        """A block in a new scope, in which `nodes` bind names."""
        outer, self.scope = self.scope, Scope(kind, nodes, self.scope, parameters)
        yield
        self.scope = outer

    def visit_all(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    # names

    def visit_Name(self, node: ast.Name, tag: str | None = None) -> None:
        self.tags[self.starts[self.start(node)]] = tag or self.scope.meaning(node.id)

    def visit_Attribute(self, node: ast.Attribute, tag: str = "attribute") -> None:
        self.visit(node.value)
        self.tags[self.ends[self.end(node)]] = tag

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name):
            self.visit_Name(node.func, "call")
        elif isinstance(node.func, ast.Attribute):
            self.visit_Attribute(node.func, "call")
        else:
            self.visit(node.func)
        self.visit_all([*node.args, *node.keywords])

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg is not None:
            self.tag_first(self.start(node), "parameter")
        self.visit(node.value)

    def visit_arg(self, node: ast.arg) -> None:
        self.tag_first(self.start(node), "parameter")

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        for i in self.between(self.start(node), self.end(node)):
            self.tags[i] = "import"

    visit_ImportFrom = visit_Import

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> None:
        for i in self.between(self.start(node), self.end(node)):
            self.tags[i] = self.scope.meaning(self.code.words[i])

    visit_Nonlocal = visit_Global

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.type is not None and node.name is not None:
            self.tag_first(self.end(node.type), self.scope.meaning(node.name))
        self.generic_visit(node)

    # scopes

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.visit_all(node.decorator_list)
        self.tag_first(self.start(node), "function")
        with self.type_parameters(node):
            self.visit_all([*read_outside(node.args), node.returns])
            with self.inside(
                "function", node.body, (each.arg for each in all_arguments(node.args))
            ):
                self.visit_all([*all_arguments(node.args), *node.body])

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.visit_all(read_outside(node.args))
        with self.inside("function", [node.body], (each.arg for each in all_arguments(node.args))):
            self.visit_all([*all_arguments(node.args), node.body])

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.visit_all(node.decorator_list)
        self.tag_first(self.start(node), "class")
        with self.type_parameters(node):
            self.visit_all([*node.bases, *node.keywords])
            with self.inside("class", node.body):
                self.visit_all(node.body)

    def visit_ListComp(
        self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
    ) -> None:
        first = node.generators[0]
        self.visit(first.iter)  # is read outside
        with self.inside("function", [generator.target for generator in node.generators]):
            for generator in node.generators:
                self.visit_all(
                    [
                        generator.target,
                        generator.iter if generator is not first else None,
                        *generator.ifs,
                    ]
                )
            self.visit_all([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt])

    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ListComp

    @contextmanager
    def type_parameters(self, node: ast.AST) -> Iterator[None]:
        """A block in which the type parameters of a definition (Python 3.12) are known, and they
        themselves."""
        found = getattr(node, "type_params", [])
        with self.inside("types", parameters=[each.name for each in found]):
            for each in found:
                self.tag_first(self.start(each), "parameter")
                self.generic_visit(each)
            yield

    def visit_TypeAlias(self, node: ast.AST) -> None:
        self.tag_first(self.start(node), "keyword")
        self.visit(getattr(node, "name"))  # noqa: B009
        with self.type_parameters(node):
            self.visit(getattr(node, "value"))  # noqa: B009

    # patterns

    def visit_Match(self, node: ast.Match) -> None:
        self.tag_first(self.start(node), "keyword")
        for case in node.cases:
            self.tag_last(self.start(case.pattern), "keyword", "case")
        self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs | ast.MatchStar) -> None:
        self.tags[self.ends[self.end(node)]] = (
            "keyword" if node.name is None else self.scope.meaning(node.name)
        )
        self.generic_visit(node)

    visit_MatchStar = visit_MatchAs

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        if node.rest is not None:
            *_, last = self.between(self.start(node), self.end(node))
            self.tags[last] = self.scope.meaning(node.rest)
        self.generic_visit(node)

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        for name, pattern in zip(node.kwd_attrs, node.kwd_patterns, strict=True):
            self.tag_last(self.start(pattern), "attribute", name)
        self.generic_visit(node)

    # f-strings

    def visit_JoinedStr(self, node: ast.AST) -> None:
        """Each field is parsed by itself, since Python 3.11 does not know where in the file its
        names stand."""
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
    """Where the syntax tree's lines and columns (which count bytes) are in a text that is part of
    another."""

    def __init__(self, text: str, begin: int = 0) -> None:
        self.text, self.lines, self.starts = text, text.split("\n"), [begin]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line) + 1)

    def offset(self, number: int, column: int) -> int:
        line = self.lines[number - 1]
        return self.starts[number - 1] + (
            column if line.isascii() else len(line.encode()[:column].decode())
        )
