"""Runs that a job of torchrun begins, and goes on with when it starts its processes again."""

import json
import os

import pytest

from glassformer.errors import ConfigError, TrainingError
from small_runs import go, recipe
from training.test_resume import losses_that_are_not_finite


def test_only_the_job_of_a_run_goes_on_without_being_asked(tmp_path, monkeypatch):
    run, made = tmp_path / "x", recipe(tmp_path)
    more = recipe(tmp_path, train={"steps": 10})
    go(made, run)
    assert not (run / "job.json").exists()
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "mine")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")  # of a start that was refused
    with pytest.raises(ConfigError, match="already holds a run at step 8; add --resume"):
        go(more, run)
    go(more, run, resume=True)
    result, said = go(recipe(tmp_path, train={"steps": 12}), run)
    assert "resuming at step 10" in said
    assert result.steps == 12
    (run / "job.json").write_text("[")
    with pytest.raises(ConfigError, match="already holds a run at step 12"):
        go(recipe(tmp_path, train={"steps": 14}), run)


def test_a_job_without_a_name_is_its_launcher(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    go(recipe(tmp_path), tmp_path / "x")
    go(recipe(tmp_path, train={"steps": 10}), tmp_path / "x")
    parent = os.getppid()
    monkeypatch.setattr("os.getppid", lambda: parent + 1)
    with pytest.raises(ConfigError, match="already holds a run at step 10"):
        go(recipe(tmp_path, train={"steps": 12}), tmp_path / "x")


def test_an_error_that_comes_again_is_the_last(tmp_path, monkeypatch):
    """A loss of step 5 that is never finite: the third start ends before it computes."""
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "mine")
    computed = losses_that_are_not_finite(monkeypatch, {5})
    for _ in range(2):
        with pytest.raises(TrainingError, match=r"^At step 5 the loss is nan"):
            go(recipe(tmp_path), tmp_path / "x")
    computed.clear()
    with pytest.raises(TrainingError, match=r"^At step 5 .* It came 2 times; the job ends\.$"):
        go(recipe(tmp_path), tmp_path / "x")
    assert not computed
    assert json.loads((tmp_path / "x" / "job.json").read_text())["times"] == 2
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "another")
    with pytest.raises(TrainingError, match=r"Try a lower [a-z._]+learning_rate[^;]*\.$"):
        go(recipe(tmp_path), tmp_path / "x", resume=True)
    assert computed
