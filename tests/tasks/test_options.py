"""One record of choices makes the flags of a command, the fields of a request and the keywords of a
method: what the record holds is in all three."""

import inspect
import re

import pytest

from glassformer.cli.predict import VERBS
from glassformer.core.errors import ConfigError
from glassformer.run import Run
from glassformer.runtime.config import GenerateConfig
from glassformer.serve.api.predict import ROUTES
from glassformer.serve.api.requests import ModelRequest
from glassformer.tasks.options import OPTIONS, is_local, plain_fields


@pytest.mark.parametrize("verb", VERBS)
def test_every_choice_is_a_flag_with_its_help(cli, verb):
    said = " ".join(cli(verb, "--help").out.split())
    for name, _, choice in plain_fields(OPTIONS[verb]):
        begin = (choice.description or "").split()[:3]
        assert re.search(
            rf"--{name.replace('_', '-')}\b.{{0,60}}?{re.escape(' '.join(begin))}", said
        )


@pytest.mark.parametrize("verb", ["tag", "classify", "fill", "embed"])
def test_every_choice_is_a_keyword_with_its_help(verb):
    method = getattr(Run, verb)
    own = list(inspect.signature(method).parameters)[2:]
    assert own == list(OPTIONS[verb].model_fields)
    assert all(f"`{name}`: " in inspect.getdoc(method) for name in own)


@pytest.mark.parametrize("verb", sorted(ROUTES.keys() & OPTIONS.keys()))
def test_every_choice_that_is_not_local_is_a_field(verb):
    choices = {name for name, _, choice in plain_fields(OPTIONS[verb]) if not is_local(choice)}
    fields = ROUTES[verb][0].model_fields.keys() - ModelRequest.model_fields.keys()
    assert fields == {"input", *choices}


@pytest.mark.parametrize("verb", ["generate", "chat", "translate", "draw"])
@pytest.mark.parametrize("wrong", [{"temperature": -1}, {"top_p": 2}, {"seed": "x"}, {"top_k": 0}])
def test_choices_about_texts_have_the_bounds_of_a_recipe(verb, wrong):
    with pytest.raises(ConfigError) as expected:
        GenerateConfig.parse(wrong)
    with pytest.raises(ConfigError) as found:
        OPTIONS[verb].parse(wrong)
    assert str(found.value) == str(expected.value)


def test_a_choice_that_nobody_made_is_none_and_not_a_default():
    made = OPTIONS["generate"].parse({"top_k": None, "stop": ["a"]})
    assert made.model_fields_set == {"top_k", "stop"}
    assert made.model_dump(exclude_none=True) == {"stop": ("a",)}
