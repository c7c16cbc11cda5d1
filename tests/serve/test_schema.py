"""The explorer's schema against the functions, modules and requests that it describes."""

import inspect

import pytest

from glassformer.core.errors import ConfigError
from glassformer.inspect.attribution import METHODS
from glassformer.serve.explorer.handler import OPS
from glassformer.serve.explorer.page import modules
from glassformer.serve.explorer.schema import (
    ARGUMENTS,
    CONTROLS,
    PAGES,
    REQUESTS,
    SCHEMA,
    STATIC,
    arguments,
)
from serve.asking import first, model_of
from serve.test_static import SOURCES, imports


@pytest.mark.parametrize("op", OPS)
def test_an_op_takes_the_arguments_of_the_schema(op):
    own = inspect.signature(OPS[op]).parameters
    named = {name for name, one in own.items() if one.kind != one.VAR_KEYWORD} - {"context"}
    assert named <= {*arguments(op)}
    assert len(named) < len(own) - 1 or named == {*arguments(op)}


def test_every_argument_belongs_to_an_op():
    used = {f"{op}.{name}" for op in SCHEMA["ops"] for name in arguments(op)}
    plain = {name.partition(".")[2] for name in used}
    assert {name for name in ARGUMENTS if name not in used | plain} == set()
    assert {*OPS} == {*SCHEMA["ops"]} - {"document"}
    assert CONTROLS["method"] is None
    assert ARGUMENTS["method"]["default"] in METHODS


def test_pages_are_modules():
    assert [page["id"] for page in SCHEMA["pages"]] == list(PAGES)
    for page in PAGES.values():
        assert (STATIC / page["module"]).is_file()
        assert f'from "./{page["module"]}";' in SOURCES["contents.js"]


@pytest.mark.parametrize("op", REQUESTS)
def test_a_value_out_of_bounds_is_refused(op, lm):
    good = {"look": {"input": first(lm)}}
    for name, spec in arguments(op).items():
        for bound, beyond in (("minimum", -1), ("maximum", 1), ("exclusiveMinimum", 0)):
            if bound in spec:
                with pytest.raises(ConfigError, match=rf"^request\.({name}|\w+: field required)"):
                    REQUESTS[op].parse(
                        {**good, name: spec[bound] + beyond}
                        if "look" in arguments(op)
                        else {name: spec[bound] + beyond},
                    )
    with pytest.raises(ConfigError, match=r"Unknown key request\.nothing"):
        REQUESTS[op].parse({"nothing": 1})


@pytest.mark.parametrize("name", [*SOURCES])
def test_the_linker_finds_the_real_imports(name):
    found = modules(name)
    linked = {list(found)[part] for part in found[name] if isinstance(part, int)}
    assert linked == {*imports(name)}


def test_a_saved_page_has_the_modules_of_its_pages(lm):
    assert model_of(lm)
    others = {"main.js", "framed.js", "widget.js"}
    assert {*modules("saved.js")} == {*SOURCES, "schema.json"} - others
