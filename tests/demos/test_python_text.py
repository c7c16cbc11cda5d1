"""The text of `demo lm`: found, clean, the same every time."""

import argparse
import ast
import inspect
import json.decoder
import time

import pytest

from glassformer.data.formats.documents import read
from glassformer.data.sources import resolve
from glassformer.demos import lm as builtin
from small_runs import data_config


def parsed(source: str) -> set[str]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, kinds)]
    return {doc for node in nodes if (doc := ast.get_docstring(node))}


@pytest.mark.parametrize("module", [json.decoder, inspect, argparse])
def test_docstrings_are_those_that_python_finds(module):
    source = inspect.getsource(module)
    plain = {doc for doc in parsed(source) if "\\" not in doc and '\\"""' not in source}
    missing = plain - set(builtin.docstrings(source))
    assert not [
        doc for doc in missing if f'"""{doc.splitlines()[0]}' in source
    ]  # triple-quoted ones are all found
    assert len(missing) <= len(plain) / 20
    assert len(plain) > 5


def test_docstrings_of_a_small_module():
    source = '''#!/usr/bin/python
# comment
"""Module."""
x = """no"""
class A:  # note
    r\'\'\'Class \\d.\'\'\'
    async def f(self, a={"k": 1}) -> None:

        """Function

            indented
        end."""
'''
    assert builtin.docstrings(source) == ["Module.", "Class \\d.", "Function\n\n    indented\nend."]


def test_the_text_is_large_clean_and_found_quickly():
    start = time.process_time()
    documents = builtin.python_documents()
    assert time.process_time() - start < 4
    assert 1_000_000 < sum(len(text) for _, text in documents) < 6_000_000
    names = [name for name, _ in documents]
    assert len(set(names)) == len(names)
    assert {"topic-assert", "module-json.decoder", "module-asyncio.queues"} <= set(names)
    assert not [
        name
        for name in names
        if "test" in name.partition("-")[2].split(".") or "site-packages" in name
    ]
    tail = {name.partition("-")[0] for name in names[-len(names) // 10 :]}
    assert tail == {"topic", "module"}  # validation text is like the training text


def test_files_hold_the_documents_in_their_order(tmp_path):
    builtin.write_documents(tmp_path)
    config = data_config({"train.path": str(tmp_path / "documents")})
    found = [document.text for document in read(resolve(config.train.path, config))]
    assert found == [text for _, text in builtin.python_documents()]


def test_without_sources_the_topics_are_left(monkeypatch, tmp_path):
    monkeypatch.setattr(builtin.sysconfig, "get_path", lambda _: str(tmp_path / "python311.zip"))
    documents = builtin.python_documents()
    assert {name.partition("-")[0] for name, _ in documents} == {"topic"}
