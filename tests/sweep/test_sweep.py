"""A sweep: ordinary runs, kept and resumed, stopped where they fall behind, told where they fail."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from glassformer.core.errors import CheckpointError, ConfigError
from glassformer.core.progress import Progress
from glassformer.recipe.reading import read_recipe
from glassformer.sweep import sweep as sweep_module
from glassformer.sweep.study import as_json, as_text
from glassformer.sweep.sweep import sweep
from glassformer.training.loop.trainer import Trainer
from processes import started
from small_runs import Killed, go, hashes, losses, stopped_after, values

QUIET = Progress(quiet=True)
RATE = "train.optimizer.learning_rate"


@pytest.fixture
def recipe(tmp_path) -> str:
    """A recipe of 4 steps, each of them evaluated."""
    small = {"steps": 4, "evaluate.every": 1, "evaluate.batches": 1, "schedule.warmup_steps": 0}
    made = values(tmp_path, model={"n_layers": 1}, train={**small, "save.every": 2})
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(made))
    return str(tmp_path / "small.yaml")


def test_a_grid_of_ordinary_runs(recipe, tmp_path):
    done = sweep(recipe, ["model.n_heads=1,2", "train.seed=3"], tmp_path / "grid", progress=QUIET)
    last = {trial.run.name: trial for trial in done.trials}["n_heads=2"]
    result, _ = go(read_recipe(recipe, ["model.n_heads=2", "train.seed=3"]), tmp_path / "alone")
    assert hashes(last.run) == hashes(tmp_path / "alone")
    assert last.score == result.best
    assert done.best is not None
    assert done.best.score == min(trial.score for trial in done.trials)
    assert {path.name for path in (tmp_path / "grid").iterdir()} == {
        *("run.lock", "sweep.db", "sweep.html"),
        *("n_heads=1", "n_heads=2"),
    }


def test_the_table_and_the_page_have_every_trial_the_best_first(recipe, tmp_path):
    done = sweep(recipe, [f"{RATE}=0.0001,0.02"], tmp_path / "grid", progress=QUIET)
    assert done.best == done.trials[0]
    head, first, second = as_text(done).splitlines()
    assert head.split() == ["learning_rate", "loss", "step", "seconds", "status"]
    assert first.split()[:3] == ["0.02", f"{done.trials[0].score:.4f}", "4"]
    assert [first.split()[-1], second.split()[-1]] == ["best", "done"]
    told = as_json(done)
    assert told["best"] == str(tmp_path / "grid" / "learning_rate=0.02")
    assert [trial["changes"] for trial in told["trials"]] == [{RATE: "0.02"}, {RATE: "0.0001"}]
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    page = (tmp_path / "grid" / "sweep.html").read_text(encoding="utf-8")
    assert page.count("</title></polyline>") == 2
    assert page.count('stroke-width="2.4"') == 1
    for trial in done.trials:
        assert f'href="{trial.run.name.replace("=", "%3D")}/report.html"' in page
        assert (trial.run / "report.html").is_file()


def test_the_same_command_keeps_what_is_done_and_resumes_the_rest(recipe, tmp_path, monkeypatch):
    fields = [f"{RATE}=0.003,0.01"]
    whole = sweep(recipe, fields, tmp_path / "whole", progress=QUIET)
    with stopped_after(3):
        sweep(recipe, fields, tmp_path / "killed", progress=QUIET)
    trained = []
    real = sweep_module.train

    def train(made, run, resume, *rest, **more):
        trained.append((run.name, resume))
        if len(trained) == 2:
            raise Killed
        return real(made, run, resume, *rest, **more)

    monkeypatch.setattr(sweep_module, "train", train)
    with pytest.raises(Killed):
        sweep(recipe, fields, tmp_path / "killed", progress=QUIET)
    done = sweep(recipe, fields, tmp_path / "killed", progress=QUIET)
    assert [(name[-5:], resume) for name, resume in trained] == [
        *(("0.003", True), ("=0.01", False), ("=0.01", False)),
    ]
    scores = [trial.score for trial in whole.trials]
    assert [trial.score for trial in done.trials] == scores
    for one, other in zip(whole.trials, done.trials, strict=True):
        assert hashes(one.run) == hashes(other.run)
        assert losses(one.run) == losses(other.run)
    sweep(recipe, fields, tmp_path / "killed", progress=QUIET)
    assert len(trained) == 3


def test_a_trial_that_falls_behind_is_stopped_unless_all_are_kept(recipe, tmp_path):
    fields = [f"{RATE}=0.02,0.019,0.018,0.0000001"]
    done = sweep(recipe, fields, tmp_path / "grid", progress=QUIET)
    assert [trial.status for trial in done.trials] == ["done"] * 3 + ["stopped"]
    last = done.trials[3]
    assert last.step < 4
    assert last.score == min(score for _, score in last.curve)
    again = sweep(recipe, fields, tmp_path / "grid", progress=QUIET)
    assert again.trials == done.trials
    kept = sweep(recipe, fields, tmp_path / "kept", keep_all=True, progress=QUIET)
    assert [(trial.status, trial.step) for trial in kept.trials] == [("done", 4)] * 4


def test_a_trial_that_fails_is_told_and_tried_again_by_the_same_command(
    recipe, tmp_path, monkeypatch
):
    real, failing, fields = sweep_module.train, [True], ["train.seed=1,2", "train.steps=1"]

    def train(made, run, *rest, **more):
        if failing and made.train.seed == 1:
            raise RuntimeError("the device\nis gone")
        return real(made, run, *rest, **more)

    monkeypatch.setattr(sweep_module, "train", train)
    done = sweep(recipe, fields, tmp_path / "grid", progress=QUIET)
    assert [trial.status for trial in done.trials] == ["done", "failed"]
    assert done.trials[1].error == "the device is gone"
    assert as_json(done)["trials"][-1]["error"] == "the device is gone"
    failing.clear()
    again = sweep(recipe, fields, tmp_path / "grid", progress=QUIET)
    assert [trial.status for trial in again.trials] == ["done", "done"]


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (["model.d_modle=8,16"], "The trial model.d_modle=8 is invalid: Unknown key model.d_modle"),
        (["model.n_heads=1,3"], "The trial model.n_heads=3 is invalid: "),
        (["nonsense=1,2"], "'nonsense=1' is no override"),
        (["train.evaluate.best=accuracy,loss"], "would be compared by accuracy and loss"),
        (["train.seed=1,2", "data.validation.fraction=0"], "set data.validation.path or"),
        ([f"{RATE}=1e-4..1e-2"], f"{RATE} has a range, which is searched; add --trials N"),
    ],
)
def test_what_is_told_before_anything_is_trained(recipe, tmp_path, fields, sentence):
    with pytest.raises(ConfigError) as caught:
        sweep(recipe, fields, tmp_path / "grid", progress=QUIET)
    assert sentence in str(caught.value)
    assert not (tmp_path / "grid").exists()


def test_a_folder_of_something_else_is_refused(recipe, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.doc").write_text("years of work")
    with pytest.raises(ConfigError, match=r"already holds thesis\.doc, and a sweep has a folder"):
        sweep(recipe, ["train.seed=1,2"], tmp_path / "other", progress=QUIET)
    sweep(recipe, ["train.seed=1,2", "train.steps=1"], tmp_path / "grid", progress=QUIET)
    with pytest.raises(ConfigError, match="holds a sweep of another recipe or of other fields"):
        sweep(recipe, ["train.seed=1,2", "train.steps=2"], tmp_path / "grid", progress=QUIET)
    (tmp_path / "grid" / "sweep.db").write_bytes(b"no database" * 100)
    with pytest.raises(CheckpointError, match=r"sweep\.db cannot be read .*; choose another --run"):
        sweep(recipe, ["train.seed=1,2", "train.steps=1"], tmp_path / "grid", progress=QUIET)


def test_a_search_without_its_package_is_one_sentence(recipe, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ConfigError, match=r"need Optuna; run pip install 'glassformer\[sweep\]'"):
        sweep(recipe, [f"{RATE}=1e-4..1e-2"], tmp_path / "grid", trials=2, progress=QUIET)


def test_the_command_prints_a_table_and_its_code_tells_of_failures(
    recipe, tmp_path, cli, monkeypatch
):
    arguments = ["sweep", recipe, "train.seed=1,2", "train.steps=1", "--run", tmp_path / "grid"]
    said = cli(*arguments)
    assert said.code == 0
    assert said.out.splitlines()[0].split()[:2] == ["seed", "loss"]
    assert f"curves: {tmp_path / 'grid' / 'sweep.html'}" in said.out
    assert "seed=1" in said.err
    told = cli(*arguments, "--json").json
    assert len(told["trials"]) == 2
    monkeypatch.setattr(
        sweep_module, "train", lambda *_, **__: (_ for _ in ()).throw(RuntimeError("no"))
    )
    assert cli(*arguments[:-1], tmp_path / "other").code == 1


STATES = ["done", "done", "done", "stopped", "done"]


@pytest.mark.parametrize(
    ("trial", "step", "found"),
    [
        pytest.param(0, 1, ["running"], id="before the first score", marks=pytest.mark.slow),
        pytest.param(0, 4, STATES[:1], id="the last step of a trial"),
        pytest.param(3, 2, STATES[:4], id="a trial that falls behind", marks=pytest.mark.slow),
        pytest.param(4, 4, STATES, id="the last step of all"),
    ],
)
def test_a_signal_during_a_trial_stops_the_sweep_unless_it_is_over(
    recipe, tmp_path, monkeypatch, trial, step, found
):
    """What was complete stays so, nothing is told as failed, and the same command trains the
    others."""
    rates, real = ("0.01", "0.009", "0.008", "0.0000001", "0.03"), Trainer.advance
    fields = [f"{RATE}={','.join(rates)}", "train.evaluate.every=2"]

    def advance(self):
        real(self)
        if self.run.name == f"learning_rate={rates[trial]}" and self.state.step == step:
            signal.raise_signal(signal.SIGINT)

    def states(made):
        own = {one.run.name.partition("=")[2]: one.status for one in made.trials}
        return [own[rate] for rate in rates if rate in own]

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "advance", advance)
        stopped = sweep(recipe, fields, tmp_path / "grid", progress=QUIET)
    assert states(stopped) == found
    assert stopped.interrupted == (None if found == STATES else signal.SIGINT)
    assert states(sweep(recipe, fields, tmp_path / "grid", progress=QUIET)) == STATES


# A sweep that is sent a signal when a trial logs a step.
SIGNALLED = """
import os, sys
from glassformer.__main__ import main
from glassformer.training.folder.history import History
real, left, number = History.add, int(os.environ["LINES"]), int(os.environ["SIGNAL"])
def add(self, *arguments, **values):
    global left
    real(self, *arguments, **values)
    left -= 1
    if not left:
        os.kill(os.getpid(), number)
History.add = add
main()
"""


@pytest.mark.slow
@pytest.mark.reliability
def test_signals_in_a_sweep(recipe, tmp_path, table):
    """SIGKILL and SIGINT at any line of any trial; the same command ends in the same bits."""
    fields = [f"{RATE}=0.02,0.018,0.016,0.0000001"]
    whole = sweep(recipe, fields, tmp_path / "whole", progress=QUIET)
    command = ["sweep", recipe, *fields, "--run", str(tmp_path / "grid")]
    ends = []
    for lines, number in ((3, 9), (7, 2), (5, 9), (2, 2), (4, 9)):
        environment = {"LINES": str(lines), "SIGNAL": str(number)}
        code = [sys.executable, "-c", SIGNALLED, *command]
        with started(code, env={**os.environ, **environment}) as process:
            _, said = process.communicate()
            ends.append(process.returncode)
        if number == signal.SIGINT:
            assert b"stopped; the same command continues it" in said, said
    assert ends == [-9, 130, -9, 130, -9]
    code = [sys.executable, "-m", "glassformer", *command, "--json"]
    told = json.loads(subprocess.run(code, check=True, capture_output=True).stdout)
    own = {Path(trial["run"]).name: trial for trial in told["trials"]}
    for trial in whole.trials:
        other = own[trial.run.name]
        assert (other["loss"], other["status"]) == (trial.score, trial.status)
        assert losses(Path(other["run"])) == losses(trial.run)
        if trial.status == "done":
            assert hashes(Path(other["run"])) == hashes(trial.run)
    table("G2", f"{len(ends)} signals in a sweep of {len(own)} trials: same scores, same bits")
