"""The meaning of each word of a Python file, from its syntax tree.

A word that is no name has the tag of its letters: keyword, string, comment, number, operator,
layout. A name has the first of these tags that applies:

    keyword     match, case, type and the pattern _ where they are keywords
    function    the name after def
    class       the name after class
    import      every name in an import statement
    parameter   the name of an argument in a call or class statement: f(name=1)
    call        a name or attribute that is called: f(1), x.f(1)
    attribute   after a dot, or in a class pattern: Point(x=0)
    otherwise   the meaning of the name where it is looked up by Python's rules of scope: a
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
from collections.abc import Iterable
from typing import Any

from glassformer.demos.codescopes import Scope, parameters_of, read_outside
from glassformer.demos.codewords import Word, read_code
from glassformer.demos.tables import constants

TAGS: tuple[str, ...] = tuple(constants("code")["tags"])
"""Every tag; the names' come first."""


def tag_code(source: str) -> tuple[list[Word], list[str], list[int]]:
    """The words of a file, a tag for each, and the characters at which its top-level statements
    end.

    SyntaxError, ValueError, RecursionError: what `ast.parse` raises for text that is no Python.
    """
    words, fields = read_code(source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a file's own invalid escapes
        tree = ast.parse(source)
        tagger = _Tagger(source, words, fields, tree)
        tagger.visit(tree)
    return words, tagger.tags, [tagger.end(statement) for statement in tree.body]


class _Tagger:
    def __init__(
        self, source: str, words: list[Word], fields: list[tuple[int, int]], tree: ast.Module
    ) -> None:
        self.source, self.words, self.fields = source, words, fields
        self.tags = ["" if word.kind == "name" else word.kind for word in words]
        self.names = [i for i, word in enumerate(words) if word.kind == "name"]
        self.starts = [words[i].start for i in self.names]
        self.lines = _Lines(source)
        self.scope = Scope("module", tree.body)

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

    def visit(self, node: Any) -> None:
        """Tag the names of a node."""
        match type(node).__name__:
            case "FunctionDef" | "AsyncFunctionDef" | "ClassDef" as name:
                kind = "class" if name == "ClassDef" else "function"
                self.visit_all(node.decorator_list)
                self.tag_at(self.start(node), kind)
                self.define(node, kind, read_outside(node), node.body)
            case "Lambda":
                self.define(node, "function", read_outside(node), [node.body])
            case "TypeAlias":
                self.tag_at(self.start(node), "keyword")
                self.visit(node.name)
                self.define(node, "types", [node.value], [])
            case "ListComp" | "SetComp" | "DictComp" | "GeneratorExp":
                outer, targets = self.scope, [part.target for part in node.generators]
                self.scope = Scope("function", targets, outer)
                self.visit_all(ast.iter_child_nodes(node))
                self.scope = outer
                self.visit(node.generators[0].iter)  # again, since it is read outside
            case "JoinedStr" | "TemplateStr":
                self.visit_fields(node)
            case _:
                self.visit_all(ast.iter_child_nodes(node))
                self.tag(node)

    def visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    def define(
        self, node: ast.AST, kind: str, outside: Iterable[ast.AST], body: list[ast.AST]
    ) -> None:
        """Tag the type parameters of a definition (Python 3.12), the parts read outside its scope,
        its parameters and its body."""
        outer, types, parameters = self.scope, getattr(node, "type_params", []), parameters_of(node)
        self.scope = Scope("types", parent=outer, parameters=[each.name for each in types])
        for each in types:
            self.tag_at(self.start(each), "parameter")
            self.visit_all(ast.iter_child_nodes(each))
        self.visit_all(outside)
        self.scope = Scope(kind, body, self.scope, (each.arg for each in parameters))
        for each in parameters:
            self.tag(each)
        self.visit_all(body)
        self.scope = outer

    def tag(self, node: Any) -> None:
        """Tag the names that a node itself holds."""
        match type(node).__name__:
            case "Name":
                self.tag_at(self.start(node), self.scope.meaning(node.id))
            case "Attribute":
                self.tag_before(self.end(node), "attribute")
            case "Call" if isinstance(node.func, ast.Name | ast.Attribute):
                self.tag_before(self.end(node.func), "call")
            case "arg" | "keyword" if node.arg is not None:
                self.tag_at(self.start(node), "parameter")
            case "Import" | "ImportFrom":
                for i in self.inside(node):
                    self.tags[i] = "import"
            case "Global" | "Nonlocal":
                for i in self.inside(node):
                    self.tags[i] = self.scope.meaning(self.words[i].text)
            case "ExceptHandler" if node.name is not None:
                self.tag_at(self.end(node.type), self.scope.meaning(node.name))
            case _:
                self.tag_pattern(node)

    def tag_pattern(self, node: Any) -> None:
        """Tag the names that a match statement or one of its patterns itself holds."""
        match type(node).__name__:
            case "Match":
                self.tag_at(self.start(node), "keyword")
                for case in node.cases:
                    self.tag_before(self.start(case.pattern), "keyword")
            case "MatchAs" | "MatchStar":
                meaning = self.scope.meaning(node.name) if node.name else "keyword"
                self.tag_before(self.end(node), meaning)
            case "MatchMapping" if node.rest is not None:
                self.tag_before(self.end(node), self.scope.meaning(node.rest))
            case "MatchClass":
                for pattern in node.kwd_patterns:
                    self.tag_before(self.start(pattern), "attribute")

    def visit_fields(self, node: ast.AST) -> None:
        """Parse each field of an f-string by itself, since Python 3.11 does not know where in the
        file its names stand."""
        at, end, outer = self.start(node), self.end(node), self.lines
        for start, stop in self.fields[bisect_left(self.fields, (at + 1, 0)) :]:
            if start >= end:
                break
            if start >= at:  # fields of strings inside a field are read with it
                self.lines = _Lines(f"({self.source[start:stop]}\n)", start - 1)
                self.visit(ast.parse(self.lines.text, mode="eval").body)
                at = stop
        self.lines = outer


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
