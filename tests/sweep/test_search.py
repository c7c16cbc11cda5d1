"""The trials of a search: within their ranges, by the scores, the same after a kill."""

import pytest
import yaml

from every import slow_but
from glassformer.core.progress import Progress
from glassformer.sweep import sweep as sweep_module
from glassformer.sweep.sweep import sweep
from small_runs import stopped_after, values

pytest.importorskip("optuna")
QUIET = Progress(quiet=True)


@pytest.fixture
def recipe(tmp_path) -> str:
    made = values(tmp_path, train={"evaluate.every": 4, "save.every": 2})
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(made))
    return str(tmp_path / "small.yaml")


@pytest.mark.parametrize("higher", slow_but([False, True], True))
def test_a_search_stays_in_its_ranges_and_follows_the_scores(recipe, tmp_path, monkeypatch, higher):
    """Scores are best at a rate of 0.001 with a width of 16."""

    class Ended:
        interrupted, steps = None, 4

        def __init__(self, made):
            rate = made.train.optimizer.learning_rate
            away = abs(rate - 0.001) / 0.001 + 9 * (made.model.d_model == 8)
            self.best = -away if higher else away

    monkeypatch.setattr(sweep_module, "train", lambda made, *_, **__: Ended(made))
    fields = ["train.optimizer.learning_rate=1e-4..1e-2", "model.d_model=8,16", "train.seed=1..6"]
    fields += ["train.evaluate.best=accuracy"] * higher
    done = sweep(recipe, fields, tmp_path / "search", trials=20, progress=QUIET).study.trials
    assert all(1e-4 <= trial.params["train.optimizer.learning_rate"] <= 1e-2 for trial in done)
    assert {trial.params["train.seed"] for trial in done} <= {1, 2, 3, 4, 5, 6}
    late = [trial.params["model.d_model"] for trial in done[12:]]
    assert late.count("16") > 1.5 * late.count("8")  # against scores: far fewer
    other = sweep(recipe, fields, tmp_path / "other", trials=3, seed=1, progress=QUIET).study.trials
    assert [trial.params for trial in other] != [trial.params for trial in done[:3]]


@pytest.mark.slow  # quick: test_sweep.py
def test_a_killed_search_continues_as_if_it_had_not_been(recipe, tmp_path):
    fields = ["train.optimizer.learning_rate=1e-4..1e-1", "model.dropout=0.0,0.1"]
    whole = sweep(recipe, fields, tmp_path / "whole", trials=3, progress=QUIET)
    sweep(recipe, fields, tmp_path / "killed", trials=1, progress=QUIET)
    with stopped_after(3):
        sweep(recipe, fields, tmp_path / "killed", trials=3, progress=QUIET)
    done = sweep(recipe, fields, tmp_path / "killed", trials=3, progress=QUIET)
    assert [(t.changes, t.score) for t in done.trials] == [
        (t.changes, t.score) for t in whole.trials
    ]
