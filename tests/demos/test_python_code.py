"""Python code as words and tags: labels right by construction, any text covered, held-out files are
never seen."""

import ast
import io
import json
import subprocess
import symtable
import sys
import sysconfig
import tokenize
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from glassformer.data.tagged import tagged
from glassformer.demos import python_code as pythoncode
from glassformer.demos import python_text as builtin
from glassformer.demos.codescopes import Scope, parameters_of
from glassformer.demos.codetags import TAGS, tag_code
from glassformer.demos.codewords import split_code
from glassformer.demos.python_code import CHUNK, SHORTEST, code_files, write_code
from glassformer.errors import DataError
from small_runs import data_config

MODULES = [
    "bisect",
    "calendar",
    "configparser",
    "dis",
    "enum",
    "functools",
    "json/encoder",
    "selectors",
    "shlex",
]
NAMES = {
    "function",
    "parameter",
    "class",
    "attribute",
    "import",
    "call",
    "local",
    "global",
    "builtin",
}

# Code, and after the arrow its names and soft keywords in order with their tags, decided by hand.
SNIPPETS = r"""
=== definition
def area(r, /, *, unit='m'):
    s = r * r
    return s, unit
-> area/function r/parameter unit/parameter s/local r/parameter r/parameter s/local unit/parameter

=== stars
def f(*args, **kw): return g(*args, **kw)
-> f/function args/parameter kw/parameter g/call args/parameter kw/parameter

=== annotations
def f(x: int, y: T = n) -> list: pass
T = 1
-> f/function x/parameter int/builtin y/parameter T/global n/global list/builtin T/global

=== keyword arguments
def f(key): return sorted(a, key=key)
-> f/function key/parameter sorted/call a/global key/parameter key/parameter

=== class
class A(B, metaclass=M):
    n: int = 3
    m = n
    def get(self): return self.n, A, n
A().get
-> A/class B/global metaclass/parameter M/global n/attribute int/builtin m/attribute n/attribute
-> get/function self/parameter self/parameter n/attribute A/class n/global A/call get/attribute

=== class of the file
class E(Exception): pass
def f():
    try: f()
    except E as e: raise E from e
map(f, E)
-> E/class Exception/builtin f/function f/call E/class e/local E/class e/local
-> map/call f/function E/class

=== imports
import os.path as p, sys
from . import a
from ..b.c import (d as e,  # why
  f)
p.join(sys.path, e, b)
-> os/import path/import p/import sys/import a/import b/import c/import d/import e/import f/import
-> p/import join/call sys/import path/attribute e/import b/global

=== a star import
from m import *
x = len
y = unknown
-> m/import x/global len/builtin y/global unknown/import

=== decorators
import functools
@functools.cache
@wrap(1)
async def f():
    await g()
    async with h as x: x
-> functools/import functools/import cache/attribute wrap/call f/function g/call
-> h/global x/local x/local

=== lambda
lambda a, *b, c=d, **e: a + b + c + d
-> a/parameter b/parameter c/parameter d/global e/parameter
-> a/parameter b/parameter c/parameter d/global

=== comprehensions
[x for x in y if x]
{k: v for k, v in x}
x
-> x/local x/local y/global x/local k/local v/local k/local v/local x/global x/global

=== first source of a comprehension
class A:
    n = 1
    m = [n for i in n]
-> A/class n/attribute m/attribute n/global i/local n/attribute

=== walrus
def f(a):
    return [y for x in a if (y := x)], y
if z := 1: z
-> f/function a/parameter y/local x/local a/parameter y/local x/local y/local z/global z/global

=== global and nonlocal
def f(x):
    n = 0
    def g():
        global x, len
        nonlocal n
        n = x, len
-> f/function x/parameter n/local g/function x/global len/global n/local n/local x/global len/global

=== nested functions
def f(a):
    def g(b): return a, b, g, h
    return g
-> f/function a/parameter g/function b/parameter a/parameter b/parameter g/function h/global
-> g/function

=== soft keywords
match = 1
case, type, _ = match
print(type(_))
-> match/global case/global type/global _/global match/global print/call type/call _/global

=== match
match x:
  case Point(x=0, y=(q)) as p: p, q
  case {'a': _, **rest}: rest
  case [1, *more] | more: 1
  case a.b: 1
-> match/keyword x/global
-> case/keyword Point/global x/attribute y/attribute q/global p/global p/global q/global
-> case/keyword _/keyword rest/global rest/global
-> case/keyword more/global more/global
-> case/keyword a/global b/attribute

=== calls
a.b(c)(d).e[f](g.h)
-> a/global b/call c/global d/global e/attribute f/global g/global h/attribute

=== module names
__name__, __file__, self
-> __name__/global __file__/global self/global

=== f-strings
def f(a, w):
    return f'{a!r:>{w}} {{no}} {a.b["k"]=} \N{EN DASH}' rf'''{
  f"{len(w)}"}''' 'no'
-> f/function a/parameter w/parameter a/parameter w/parameter a/parameter b/attribute
-> len/call w/parameter

=== f-string scopes
x = f'{(lambda y: y)(1)}{[z for z in x]!s}'
-> x/global y/parameter y/parameter z/local z/local x/global

=== letters beyond ASCII
größe = 'ä'; é = größe.µ(größe)
-> größe/global é/global größe/global µ/call größe/global

=== several bindings
try: import json
except ImportError: json = None
json
-> json/import ImportError/builtin json/import json/import

=== del and for
def f():
    for i, (j, *k) in m: del i
    with m as (n): n
-> f/function i/local j/local k/local m/global i/local m/global n/local n/local
"""
TYPE_PARAMETERS = """
=== type parameters
def f[T: int, *Ts, **P](x: T) -> T: y: Ts
class A[U](B[U]):
    C = 1
    def g[V](self, x: C): return U, C
type X[W] = list[W]
-> f/function T/parameter int/builtin Ts/parameter P/parameter x/parameter T/parameter T/parameter
-> y/local Ts/parameter
-> A/class U/parameter B/global U/parameter C/attribute g/function V/parameter self/parameter
-> x/parameter C/attribute U/parameter C/global
-> type/keyword X/global W/parameter list/builtin W/parameter
"""


def snippets(text: str) -> dict[str, tuple[str, str]]:
    """Code and tags by the name of each snippet."""
    found = {}
    for block in text.split("=== ")[1:]:
        name, *lines = block.strip().split("\n")
        code = "\n".join(line for line in lines if not line.startswith("-> "))
        found[name] = (
            code,
            " ".join(line.removeprefix("-> ") for line in lines if line.startswith("-> ")),
        )
    return found


def source_of(module: str) -> str:
    return (Path(sysconfig.get_path("stdlib")) / f"{module}.py").read_text(encoding="utf-8")


def named(source: str) -> str:
    words, tags, _ = tag_code(source)
    pairs = zip(words, tags, strict=True)
    return " ".join(f"{word.text}/{tag}" for word, tag in pairs if word.kind == "name")


@pytest.mark.parametrize(
    ("source", "expected"), snippets(SNIPPETS).values(), ids=snippets(SNIPPETS)
)
def test_names_have_the_tags_that_a_reader_gives_them(source, expected):
    assert named(source) == expected


@pytest.mark.skipif(sys.version_info < (3, 12), reason="type parameters came with Python 3.12")
def test_type_parameters():
    source, expected = snippets(TYPE_PARAMETERS)["type parameters"]
    assert named(source) == expected


def test_what_is_no_name_has_the_tag_of_its_letters():
    source = (
        'def f():  # a comment\n    """One\n    two."""\n    return -1_0.5e-3j if b"x y" '
        "else None\n"
    )
    words, tags, ends = tag_code(source)
    assert " ".join(f"{word.text}/{tag[:3]}" for word, tag in zip(words, tags, strict=True)) == (
        '⏎0/lay def/key f/fun (/ope )/ope :/ope #/com a/com comment/com ⏎1/lay """One/str '
        'two."""/str ⏎1/lay '
        'return/key -/ope 1_0.5e-3j/num if/key b"x/str y"/str else/key None/key'
    )
    assert ends == [len(source) - 1]


def test_fields_of_f_strings_are_code_and_their_text_is_string():
    words, tags = (lambda words, tags, _: ([word.text for word in words], tags))(
        *tag_code("f'a {x+1!r:>{w}} {{b}}'; rb'{x}'")
    )
    assert words == [
        "⏎0",
        "f'",
        "a",
        "{",
        "x",
        "+",
        "1",
        "!r",
        ":",
        ">",
        "{",
        "w",
        "}",
        "}",
        "{{b}}'",
        ";",
        "rb'{x}'",
    ]
    assert [tags[i] for i in (1, 2, 3, 4, 7, 9, 14, 16)] == [
        *("string", "string", "operator", "global", "operator", "string", "string", "string")
    ]


@pytest.mark.parametrize("module", MODULES)
def test_words_are_the_tokens_that_python_finds(module):
    source = source_of(module)
    words, spans = split_code(source)
    tokens = [
        token
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.string.strip()
    ]
    visible = [word for word in words if word[0] != "⏎" and word != "\\"]
    assert "".join(visible) == "".join("".join(token.string.split()) for token in tokens)
    f_string = {
        i for i, token in enumerate(tokens) if token.string[:2].lower() in ("f'", 'f"', "rf", "fr")
    }
    if not f_string:
        assert visible == [piece for token in tokens for piece in token.string.split()]
    depths, depth, fresh = {}, 0, True
    for token in tokenize.generate_tokens(
        io.StringIO(source).readline
    ):  # of every line of code, by its number
        depth += {tokenize.INDENT: 1, tokenize.DEDENT: -1}.get(token.type, 0)
        if fresh and token.string.strip() and token.type not in (tokenize.COMMENT, tokenize.INDENT):
            depths[token.start[0]], fresh = f"⏎{depth}", False
        fresh = fresh or token.type == tokenize.NEWLINE
    lines = {
        source.count("\n", 0, end) + 1: word
        for word, (_, end) in zip(words, spans, strict=True)
        if word[0] == "⏎"
    }
    assert {line: lines[line] for line in depths} == depths
    assert len(depths) > 30


@pytest.mark.parametrize("module", MODULES)
def test_scopes_are_those_of_the_compiler(module):
    source = source_of(module)
    tables = defaultdict(list)
    todo = [symtable.symtable(source, module, "exec")]
    while todo:
        table = todo.pop()
        todo += table.get_children()
        tables[table.get_name(), table.get_lineno()].append(table)
    compared = 0
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef):
            continue
        (table,) = tables[node.name, node.lineno]
        scope = Scope(
            "function", node.body, Scope("module"), [each.arg for each in parameters_of(node)]
        )
        inner = {name.id for part in ast.walk(node) if isinstance(part, ast.comprehension)
                 for name in ast.walk(part.target) if isinstance(name, ast.Name)}  # fmt: skip
        symbols = {
            symbol.get_name(): symbol
            for symbol in table.get_symbols()
            if "__" not in symbol.get_name()
        }
        local = {
            name for name, symbol in symbols.items() if symbol.is_local() and symbol.is_assigned()
        }
        local |= {
            name
            for name, symbol in symbols.items()
            if symbol.is_parameter() or symbol.is_imported()
        }
        names = {name for name in scope.names if "__" not in name and name not in scope.globals}
        assert names <= {name for name in symbols if not symbols[name].is_global()}
        assert (
            local - names <= inner
        )  # Python 3.12 counts a comprehension's variables among the function's
        assert {name for name in names if scope.names[name] == "parameter"} == {
            name for name, symbol in symbols.items() if symbol.is_parameter()
        }
        assert {name for name in names if scope.names[name] == "import"} <= {
            name for name, symbol in symbols.items() if symbol.is_imported()
        }
        assert scope.globals == {
            name for name, symbol in symbols.items() if symbol.is_declared_global()
        }
        compared += len(names)
    assert compared > 15


def assert_covered(text: str) -> None:
    words, spans = split_code(text)
    last = 0
    for word, (start, end) in zip(words, spans, strict=True):
        assert last <= start <= end
        assert not text[last:start].strip()
        assert not any(letter.isspace() for letter in word)
        assert word
        if text[start:end] != word:
            assert word[0] == "⏎"
            assert word[1:].isdigit()
            assert not text[start:end].strip()
        last = end
    assert not text[last:].strip()


PIECES = st.sampled_from([
    "def f", "(", ")", "{", "}", "[", ":", "=", "!", "!r", "f'", 'f"""', '"""', "'", '"', "\\",
    "\\N{", "é", "rb'", "²", "\n", "\n    ", "\r\n", "\t", "\f", "#", "x", "0x", "1_000.5e-3",
    "return ",
])  # fmt: skip


@given(st.one_of(st.text(), st.lists(PIECES, max_size=40).map("".join)))
@example("")
@example("  \n\n\t")
@example("\ufeff\x00\ud800")
@example("'" + "x" * 5000)
@example("9" * 5000 + "f'{" * 500)
def test_any_text_is_covered_in_order(text):
    assert_covered(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "def f(a:\n    x = [1\ndef g(b): pass",
            "⏎0 def f ( a : x = [ 1 ⏎0 def g ( b ) : pass",
        ),  # brackets never closed
        ("s = 'open\ndef g(): pass", "⏎0 s = 'open ⏎0 def g ( ) : pass"),
        ("s = f'{a + \ndef g(): f'{b}'", "⏎0 s = f' { a + ⏎0 def g ( ) : f' { b } '"),
        ("s = f'a}b{x:{y:'\ny", "⏎0 s = f' a } b { x : { y : ' ⏎0 y"),
        ("x = ) ) 1\ny", "⏎0 x = ) ) 1 ⏎0 y"),
        ("if x:\n        a\n    b\n  c\nd", "⏎0 if x : ⏎1 a ⏎1 b ⏎1 c ⏎0 d"),
        ("a = [1, # b\n  2,\n 3]\\\n + 4", "⏎0 a = [ 1 , # b ⏎1 2 , 3 ] \\ + 4"),
        ("\n\n# x\n\n\n  # y\nz", "⏎0 # x ⏎1 # y ⏎0 z"),
        ("wait, what?! it's $5", "⏎0 wait , what ? ! it 's $5"),
    ],
)
def test_broken_code_is_read_as_far_as_it_goes(text, expected):
    assert " ".join(split_code(text)[0]) == expected
    assert_covered(text)


@pytest.fixture(scope="module")
def files():
    """Those of some files: here every call is checked, which takes ten times as long."""
    some = [(file, name) for file, name in builtin.python_sources() if name < "asyncio.s"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pythoncode, "python_sources", lambda: iter(some))
        patch.setattr(pythoncode, "TRAINING_WORDS", 10_000)
        return list(code_files())


def test_a_file_is_in_one_split_and_its_chunks_are_all_its_words(files):
    assert len({name for _, name, _, _ in files}) == len(files) > 8
    assert not [name for _, name, _, _ in files if name.startswith(("encodings.", "test"))]
    assert {split for split, *_ in files} == {"train", "validation", "test"}
    trained = [
        sum(len(words) for words, _ in chunks) for split, _, _, chunks in files if split == "train"
    ]
    assert sum(trained[:-1]) < 10_000 <= sum(trained)
    paths = {name: path for path, name in builtin.python_sources()}
    for _, name, source, chunks in files:
        assert source == paths[name].read_text(encoding="utf-8")
        assert [word for words, _ in chunks for word in words] == split_code(source)[0]
        for words, tags in chunks:
            assert len(words) == len(tags) > 0
            assert set(tags) <= set(TAGS)
        for (before, _), (words, _) in pairwise(chunks):
            assert words[0] == "⏎0"
            assert min(len(words), len(before)) >= SHORTEST
        assert all(
            len(a[0]) + len(b[0]) > CHUNK for a, b in pairwise(chunks[:-1])
        )  # or they are one


def test_what_is_written_is_read_as_tagged_words(files, tmp_path, monkeypatch):
    monkeypatch.setattr(pythoncode, "code_files", lambda: iter(files))
    write_code(tmp_path)
    paths = {"train.path": "train", "validation.path": "validation", "test.path": "test"}
    named = {name: f"{tmp_path}/{split}.conll" for name, split in paths.items()}
    found = [(row.split, row.words, row.tags) for row in tagged(data_config(named))]
    assert found == [
        (split, tuple(words), tuple(tags))
        for wanted in ("train", "validation", "test")
        for split, _, _, chunks in files
        for words, tags in chunks
        if split == wanted
    ]
    (shown,) = tmp_path.glob("*.py")
    assert shown.read_text(encoding="utf-8") in {
        source for split, _, source, _ in files if split == "test"
    }


def test_each_tag_is_that_of_some_word_that_has_others_too(files):
    tags = defaultdict(Counter)
    for words, of_words in (chunk for *_, chunks in files for chunk in chunks):
        for word, tag in zip(words, of_words, strict=True):
            tags[word][tag] += 1
    assert {tag for of_word in tags.values() if len(of_word) > 1 for tag in of_word} >= NAMES
    assert set(tags["def"]) <= {"keyword", "string", "comment"}
    assert tags["self"]["parameter"] > 100
    assert set(tags["⏎1"]) == {"layout"}


SCRIPT = """
import json, time
from collections import Counter
from glassformer.demos.python_code import code_files
start, words, tags, files = time.process_time(), Counter(), Counter(), {}
for split, name, source, chunks in code_files():
    words[split] += sum(len(of_chunk) for of_chunk, _ in chunks)
    tags.update(tag for _, of_chunk in chunks for tag in of_chunk)
    files.setdefault(split, []).append(name)
print(json.dumps([words, tags, files, time.process_time() - start]))
"""


@pytest.mark.slow
def test_the_whole_library_is_enough_to_learn_from():
    # in processes of their own, where no call is checked
    first, second = (
        json.loads(
            subprocess.run(
                [sys.executable, "-c", SCRIPT], check=True, capture_output=True, text=True
            ).stdout
        )
        for _ in range(2)
    )
    assert first[:3] == second[:3]
    words, tags, files, seconds = first
    assert 400_000 < words["train"] < 800_000
    assert min(words["validation"], words["test"]) > 25_000
    assert set(tags) == set(TAGS)
    assert min(tags.values()) > 1500
    assert min(len(files["validation"]), len(files["test"])) >= 8
    assert not set(files["validation"]) & set(files["test"])
    assert not set(files["train"]) & {*files["validation"], *files["test"]}
    assert seconds < 15


COOKIE = ["layout", *["comment"] * 3, "layout", "global", "operator", "string"]


def test_files_that_are_no_python_are_left_out(monkeypatch, tmp_path):
    (tmp_path / "good.py").write_text("# été\nx = 1\n" * 30, encoding="latin-1")
    (tmp_path / "cookie.py").write_bytes("# coding: latin-1\nx = 'é'\n".encode("latin-1"))
    (tmp_path / "template.py").write_text("def {name}(: pass")
    (tmp_path / "empty.py").write_text("")
    monkeypatch.setattr(builtin.sysconfig, "get_path", lambda _: str(tmp_path))
    assert [(name, chunks) for _, name, _, chunks in code_files() if chunks] == [
        ("cookie", [(["⏎0", "#", "coding:", "latin-1", "⏎0", "x", "=", "'é'"], COOKIE)])
    ]


def test_without_sources_one_sentence_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(builtin.sysconfig, "get_path", lambda _: str(tmp_path / "python311.zip"))
    with pytest.raises(DataError, match="no sources of its standard library"):
        write_code(tmp_path)
