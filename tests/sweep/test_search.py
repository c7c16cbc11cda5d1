"""The next trial of a search: within its ranges, and a function of seed, number and trials."""

import pytest
import yaml

from glassformer.sweep.search import proposed
from glassformer.sweep.space import read_space
from glassformer.sweep.state import Sweep, Trial
from glassformer.sweep.sweep import sweep
from glassformer.training.progress import Progress
from small_runs import stopped_after, values

pytest.importorskip("optuna")
SPACE = read_space(["a.rate=1e-4..1e-2", "a.n=1..6", "a.kind=x,y"])


def searched(folder, n, higher=False, seed=0):
    """Trials whose score is best at rate 0.001 with kind y."""
    made = Sweep(folder, "loss", higher, {})
    for number in range(n):
        changes = proposed(SPACE, made, number, seed)
        away = abs(float(changes["a.rate"]) - 0.001) / 0.001 + 9 * (changes["a.kind"] == "x")
        status = "stopped" if number % 5 == 4 else "done"
        made.trials.append(Trial(number, changes, status, -away if higher else away, 10))
    return made.trials


@pytest.mark.parametrize("higher", [False, True])
def test_a_search_stays_in_its_ranges_and_follows_the_scores(tmp_path, higher):
    trials = searched(tmp_path, 30, higher)
    assert all(1e-4 <= float(trial.changes["a.rate"]) <= 1e-2 for trial in trials)
    assert {int(trial.changes["a.n"]) for trial in trials} <= {1, 2, 3, 4, 5, 6}
    late = [trial.changes["a.kind"] for trial in trials[10:]]
    assert late.count("y") > 1.5 * late.count("x")  # against scores: far fewer


def test_a_trial_is_a_function_of_seed_number_and_those_before(tmp_path):
    trials = searched(tmp_path, 14)
    assert searched(tmp_path, 14) == trials
    assert searched(tmp_path, 14, seed=1) != trials
    made = Sweep(tmp_path, "loss", False, {}, trials[:12])
    assert proposed(SPACE, made, 12, 0) == trials[12].changes


def test_a_killed_search_goes_on_as_if_it_had_not_been(tmp_path):
    made = values(tmp_path, train={"evaluate.every": 4, "save.every": 2})
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(made))
    recipe, quiet = str(tmp_path / "small.yaml"), Progress(quiet=True)
    fields = ["train.optimizer.learning_rate=1e-4..1e-1", "model.dropout=0.0,0.1"]
    whole = sweep(recipe, fields, tmp_path / "whole", trials=3, progress=quiet)
    sweep(recipe, fields, tmp_path / "killed", trials=1, progress=quiet)
    with stopped_after(3):
        sweep(recipe, fields, tmp_path / "killed", trials=3, progress=quiet)
    done = sweep(recipe, fields, tmp_path / "killed", trials=3, progress=quiet)
    assert [(t.changes, t.score) for t in done.trials] == [
        (t.changes, t.score) for t in whole.trials
    ]
