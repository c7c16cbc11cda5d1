"""Properties of `bench/properties`, on fewer cases: what each counts as wrong is empty, and a fault
that is put in is found."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch

import glassformer as gf
from every import slow_but
from glassformer.data.records import parts
from glassformer.models import weights
from glassformer.serve.api.access import Rules
from glassformer.serve.explorer.handler import Explorer
from glassformer.serve.explorer.routes import EXPLORING
from properties import file_names as names
from properties import open_routes as routes
from properties.drain import drain
from properties.number_limits import number_limits, recipe_fields
from properties.pathological_texts import pathological_texts, patterns
from properties.poisoned_memory import poisoned_memory
from properties.resource_bombs import media_bombs
from properties.shared_folder import saved_over_its_source
from properties.strict_loading import strict_loading
from properties.templates import templates
from small_kinds import MAKERS, run_of


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Callable[[str], Path]:
    """A run of a kind, made once."""
    folder = tmp_path_factory.mktemp("properties")
    return cache(lambda kind: run_of(kind, folder / kind))


@pytest.fixture(scope="module")
def explorer(run) -> Explorer:
    return Explorer(gf.load(run("text")))


few_or_all = pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.slow)])
"""Of every so many cases, one."""


@pytest.mark.parametrize(
    "variant", slow_but(["both buckets", "mixture", "causal learned", "patches"], "mixture")
)
def test_a_file_with_one_wrong_tensor_is_refused_and_the_tensor_named(tmp_path, variant):
    cases, problems = strict_loading([variant], tmp_path, 3)
    assert cases > 80
    assert problems == []


def test_a_parameter_that_is_not_filled_is_found(tmp_path, monkeypatch):
    fill = weights._fill

    def forgetful(wanted, tensors, *others):
        name = min(wanted)
        fill({k: v for k, v in wanted.items() if k != name},
             {k: v for k, v in tensors.items() if k != name}, *others)  # fmt: skip

    monkeypatch.setattr(weights, "_fill", forgetful)
    _, problems = strict_loading(["causal learned"], tmp_path, 100)
    assert any("is not from the file" in problem for problem in problems)


@pytest.mark.parametrize("every", slow_but([60, 24], 60))
def test_names_that_lead_outside_open_nothing_there(run, tmp_path, monkeypatch, every):
    monkeypatch.setattr(names, "FORMS", names.FORMS[::every])
    cases, problems = names.file_names(run("text"), run("pictures"), tmp_path / "names")
    assert cases * every > 25 * 24
    assert problems == []


def test_a_name_that_is_followed_outside_is_found(run, tmp_path, monkeypatch):
    monkeypatch.setattr(names, "FORMS", ["../../OUT", "/etc/passwd"])
    monkeypatch.setattr(parts, "check_inside", lambda *arguments: None)
    _, problems = names.file_names(run("text"), run("pictures"), tmp_path / "names")
    assert {problem.partition(",")[0] for problem in problems} == {"rows in an archive"}


@pytest.mark.parametrize(
    "kinds", [("text", "parts"), pytest.param(tuple(MAKERS), marks=pytest.mark.slow)], ids=len
)
def test_no_answer_depends_on_uninitialized_memory(run, kinds):
    cases, problems = poisoned_memory({kind: run(kind) for kind in kinds})
    assert cases > 2 * len(kinds)
    assert problems == []


def test_a_value_that_is_not_initialized_is_found(run, monkeypatch):
    embed = gf.Run.embed
    monkeypatch.setattr(
        gf.Run, "embed", lambda self, given: embed(self, given) + torch.empty(1).item()
    )
    assert poisoned_memory({"text": run("text")})[1] == ["text, embed"]


@few_or_all
def test_numbers_out_of_their_limits_are_one_sentence(explorer, every):
    statuses, slowest, problems = number_limits(explorer, every)
    assert problems == []
    assert set(statuses) == {200, 400}
    assert statuses[400] * every > 1000
    assert slowest < 10  # 0.06 s on a quiet machine (bench/LOG.md)


@few_or_all
def test_recipe_fields_take_a_number_or_tell(every):
    found, problems = recipe_fields(every)
    assert problems == []
    assert min(found["told"], found["taken"]) * every > 500


def test_without_the_token_no_route_is_open(explorer):
    cases, problems = routes.open_routes(explorer)
    assert cases > 1000
    assert problems == []


def test_an_open_route_is_found(explorer, monkeypatch):
    every = routes.credentials
    monkeypatch.setattr(routes, "credentials", lambda server: dict([*every(server).items()][:2]))
    monkeypatch.setattr(Rules, "check", lambda self, request: b"")
    assert len(routes.open_routes(explorer)[1]) > 20


@few_or_all
def test_hard_texts_come_back(every):
    size = 20_000 if every == 1 else 5_000
    assert pathological_texts(patterns()[:: 2 * every], [size], 300) == []


def test_files_of_data_that_say_too_much_are_refused_at_once(tmp_path):
    cases, seconds, megabytes, problems = media_bombs(tmp_path)
    assert problems == []
    assert cases == 15
    assert seconds < 2  # the gzip file is unpacked up to its limit
    assert megabytes < 200


def test_templates_give_cells_and_nothing_else():
    cases, slowest, problems = templates()
    assert cases == 80
    assert problems == []
    assert slowest < 0.25


def test_weights_saved_over_their_source_stay(tmp_path):
    assert saved_over_its_source(tmp_path, 5) == (5, [])


@pytest.mark.slow  # quick: serve/api/test_process.py
def test_sigterm_lets_streams_finish(run):
    _, took, problems = drain(run("text"), 5)
    assert problems == []
    assert took < EXPLORING.drain + 1
