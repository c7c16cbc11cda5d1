"""A run that stopped and went on is bit for bit the run that did not stop."""

import json
import multiprocessing
import os
import signal
import subprocess
from copy import deepcopy
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from command_line import tree
from every import slow_but
from glassformer.core.errors import CheckpointError, ConfigError, DataError, TrainingError
from glassformer.models.weights import load_tensors
from glassformer.tasks.objectives.next_token import NextToken
from glassformer.training.folder import saving
from glassformer.training.folder.checkpoints import State
from glassformer.training.folder.history import read_metrics
from glassformer.training.folder.run_folder import is_own
from glassformer.training.loop import validation
from glassformer.training.loop.step import TrainingStep
from glassformer.training.loop.trainer import Trainer
from glassformer.training.loop.validation import Validation
from small_drawings import recipe as drawing_recipe
from small_parts import parts_recipe
from small_runs import (
    flat,
    go,
    hashes,
    losses,
    pair_recipe,
    recipe,
    stopped_after,
    text_file,
    values,
)
from small_senses import picture_folder, picture_recipe, sound_recipe
from small_tasks import class_file, class_recipe, masked_recipe, tag_recipe, two_labels

CONFIGS = {
    "dropout": {"model": {"dropout": 0.2, "attention_dropout": 0.1}},
    "at once": {
        "model": {"dropout": 0.2, "attention_dropout": 0.1},
        "train": {"micro_batches": 4, "parallel_micro_batches": 3, "consistency": 0.5},
    },
    "muon, not validated": {
        "train": {"optimizer.kind": "muon", "schedule.kind": "wsd", "micro_batches": 4},
        "data": {"validation.fraction": 0.0},
    },
    "documents, smoothed, short": {
        "data": {"documents": "separate", "train.path": "documents"},
        "train": {
            "label_smoothing": 0.1,
            "length": 7,
            "schedule.kind": "linear",
            "optimizer.max_grad_norm": 0.1,
        },
    },
    "bfloat16": {"train": {"precision": "bfloat16"}},
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a text and of a run of it that is done; a test leaves both as they are."""
    folder = tmp_path_factory.mktemp("finished")
    go(recipe(folder), folder / "whole")
    return folder


def configured(tmp_path, name: str, **train):
    changes = {section: dict(content) for section, content in CONFIGS[name].items()}
    if changes.get("data", {}).get("train.path") == "documents":
        lines = [{"text": "the cat " * n} for n in range(1, 60)]
        (tmp_path / "d.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        changes["data"]["train.path"] = str(tmp_path / "d.jsonl")
    changes["train"] = changes.get("train", {}) | train
    return recipe(tmp_path, **changes)


@pytest.mark.parametrize("name", slow_but(CONFIGS, "at once", "muon, not validated"))
def test_killed_and_resumed_is_uninterrupted(tmp_path, name):
    made = configured(tmp_path, name, **{"save.every": 3})
    go(made, tmp_path / "whole")
    for step in (5, 7):
        with stopped_after(step):
            go(made, tmp_path / "cut", resume=step > 5)
    go(made, tmp_path / "cut", resume=True)
    assert hashes(tmp_path / "cut") == hashes(tmp_path / "whole")
    assert losses(tmp_path / "cut") == losses(tmp_path / "whole")


def tagged_parts(folder, **changes):
    """Images with words to tag."""
    picture_folder(folder, 8)
    rows = [
        {"input": [{"image": str(path)}, {"text": "the dog runs"[: 3 + 4 * (i % 2)]}]}
        | {"tags": ["O", "DOG"][: 1 + i % 2]}
        for i, path in enumerate(sorted(folder.glob("pictures/*/*.png")) * 3)
    ]
    (folder / "tagged.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = {"train.path": str(folder / "tagged.jsonl")}
    return parts_recipe(folder, **changes | {"data": data})


TASKS = {
    "tags": (tag_recipe, {"train": {"class_weights": "balanced", "batch_tokens": 64}}),
    "other pieces": (
        tag_recipe,
        {
            "augment": {"piece_dropout": 0.3},
            "processor.tokenizer": {"kind": "bpe", "vocab_size": 300},
        },
    ),
    "classes": (
        class_recipe,
        {"train": {"micro_batches": 2, "optimizer.layer_decay": 0.5, "evaluate.best": "macro_f1"}},
    ),
    "several classes": (
        class_recipe,
        {
            "model": {"multi_label": True, "dropout": 0.1},
            "train": {"label_smoothing": 0.1, "consistency": 1.0},
        },
    ),
    "hidden tokens": (masked_recipe, {"train": {"micro_batches": 2}}),
    "hidden words": (
        masked_recipe,
        {"train": {"whole_words": True, "length": 10}, "processor.tokenizer": {"kind": "byte"}},
    ),
    "targets of sources": (pair_recipe, {"train": {"evaluate.decode_lines": 3}}),
    "images": (picture_recipe, {"augment.image": {"crop": 1, "mixup": 0.4}}),
    "recordings": (sound_recipe, {"augment.audio": {"noise": 0.5}}),
    "answers to images": (parts_recipe, {"train": {"micro_batches": 2}}),
    "answers of an encoder-decoder": (
        parts_recipe,
        {"model": {"architecture": "encoder_decoder"}},
    ),
    "classes of parts": (
        parts_recipe,
        {
            "task": "image-text-classification",
            "model": {"architecture": "encoder", "head": "classify"},
            "data": {"label_field": "target"},
        },
    ),
    "tags of parts": (
        tagged_parts,
        {"task": "token-classification", "processor.input": "parts", "model": {"head": "tag"}},
    ),
    "drawings": (drawing_recipe, {"augment": {"piece_dropout": 0.0}}),
}


QUICK = ("several classes", "targets of sources", "images")
"""Dropout that is drawn twice, decoded lines, augmented pictures."""


@pytest.mark.parametrize("name", slow_but(TASKS, *QUICK))
def test_other_tasks_too(tmp_path, name):
    """12 steps are more than an epoch of tags and classes."""
    make, changes = TASKS[name]
    changes = deepcopy(changes)
    changes["model"] = {"dropout": 0.2, "attention_dropout": 0.1} | changes.get("model", {})
    changes["train"] = {
        "steps": 12,
        "batch_size": 8,
        "save.every": 3,
        "evaluate.every": 6,
    } | changes.get("train", {})
    if name == "several classes":
        changes["data"] = {"train.path": class_file(tmp_path, label=two_labels)}
    made = make(tmp_path, **changes)
    go(made, tmp_path / "whole")
    for step in (5, 10):
        with stopped_after(step):
            go(made, tmp_path / "cut", resume=step > 5)
    go(made, tmp_path / "cut", resume=True)
    assert hashes(tmp_path / "cut") == hashes(tmp_path / "whole")
    assert losses(tmp_path / "cut") == losses(tmp_path / "whole")
    assert all(is_own(entry.name) for entry in (tmp_path / "cut").iterdir())


@pytest.mark.parametrize("make", slow_but([tag_recipe, class_recipe], tag_recipe))
def test_other_sentences_in_the_same_file_are_refused(tmp_path, make):
    made = make(tmp_path)
    go(made, tmp_path / "x")
    path = tmp_path / ("tags.txt" if make is tag_recipe else "classes.jsonl")
    text = path.read_text()
    path.write_text(text.replace("a", "h", 1))
    before = tree(tmp_path / "x")
    with pytest.raises(ConfigError, match=r"data\.train\.path is not what"):
        go(made, tmp_path / "x", resume=True)
    assert tree(tmp_path / "x") == before
    path.write_text(text)
    assert go(made, tmp_path / "x", resume=True)[0].steps == 8


def test_the_same_run_twice_is_the_same_bits(tmp_path):
    for run in ("a", "b"):
        torch.rand(3)  # nothing depends on what was drawn before
        go(configured(tmp_path, "dropout"), tmp_path / run)
    assert hashes(tmp_path / "a") == hashes(tmp_path / "b")
    assert losses(tmp_path / "a") == losses(tmp_path / "b")


def test_micro_batches_do_not_change_the_data(tmp_path):
    for n in (1, 4):
        go(recipe(tmp_path, train={"micro_batches": n}), tmp_path / str(n))
    one, four = (
        [line["train_loss"] for line in losses(tmp_path / n) if "train_loss" in line]
        for n in ("1", "4")
    )
    assert one == pytest.approx(four, rel=1e-4)  # float32 sums in another order


def test_a_finished_run_does_nothing_and_says_so(finished):
    run = finished / "whole"
    before = {p: p.read_bytes() for p in run.rglob("*") if p.is_file()}
    other = recipe(finished, train={"optimizer.learning_rate": 0.5})  # that it never used
    again, said = go(other, run, resume=True)
    assert "nothing to do: the run stands at step 8 of 8" in said
    scores = {
        line["step"]: line["validation_loss"]
        for line in read_metrics(run)
        if "validation_loss" in line
    }
    assert (again.steps, again.scores["loss"], again.best, again.interrupted) == (
        8,
        scores[8],
        min(scores.values()),
        None,
    )
    assert {p: p.read_bytes() for p in run.rglob("*") if p.is_file()} == before


def test_more_steps_are_allowed_and_go_on(tmp_path):
    run = tmp_path / "x"
    go(recipe(tmp_path, train={"schedule.kind": "constant"}), run)
    result, said = go(
        recipe(tmp_path, train={"schedule.kind": "constant", "steps": 11}), run, resume=True
    )
    go(recipe(tmp_path, train={"schedule.kind": "constant", "steps": 11}), tmp_path / "whole")
    assert result.steps == 11
    assert "resuming at step 8" in said
    assert hashes(run)["0 model.safetensors"] == hashes(tmp_path / "whole")["0 model.safetensors"]
    assert [line["step"] for line in read_metrics(run) if "train_loss" in line] == list(
        range(1, 12)
    )


@pytest.mark.parametrize(
    ("section", "field", "value"),
    [
        ("model", "d_model", 32),
        ("model", "n_heads", 4),
        ("processor.tokenizer", "kind", "byte"),
        ("data.validation", "fraction", 0.2),
        ("data", "documents", "separate"),
        ("train", "seed", 1),
        ("train.optimizer", "kind", "muon"),
    ],
)
def test_another_model_data_or_tokenizer_is_refused_by_name(finished, section, field, value):
    run = finished / "whole"
    before = {p: p.read_bytes() for p in run.rglob("*") if p.is_file()}
    with pytest.raises(ConfigError, match=rf"{section}\.{field}="):
        go(recipe(finished, **{f"{section}.{field}": value}), run, resume=True)
    assert {p: p.read_bytes() for p in run.rglob("*") if p.is_file()} == before


def test_in_order_the_number_of_sums_is_kept(tmp_path):
    made, values = tmp_path / "x", {"distributed.deterministic": True, "micro_batches": 4}
    go(recipe(tmp_path, train=values), made)
    with pytest.raises(ConfigError, match=r"train\.micro_batches=4, not 2;"):
        go(recipe(tmp_path, train=values | {"micro_batches": 2}), made, resume=True)
    with pytest.raises(ConfigError, match=r"train\.threads=\d+, not 7;"):
        go(recipe(tmp_path, train=values | {"threads": 7}), made, resume=True)


def test_another_text_in_the_same_file_is_refused(tmp_path):
    run = tmp_path / "x"
    go(recipe(tmp_path), run)
    text = (tmp_path / "text.txt").read_bytes()
    text_file(tmp_path, seed=5)
    before = tree(run)
    with pytest.raises(ConfigError, match=r"data\.train\.path is not what"):
        go(recipe(tmp_path, train={"steps": 9}), run, resume=True)
    assert tree(run) == before
    (tmp_path / "text.txt").write_bytes(text)
    assert go(recipe(tmp_path, train={"steps": 9}), run, resume=True)[0].steps == 9


@pytest.mark.parametrize("made_before", [False, True])
def test_a_refused_beginning_leaves_nothing(tmp_path, made_before):
    """Refused after the text was encoded and a tokenizer was trained."""
    run, made = tmp_path / "x", recipe(tmp_path, model={"max_length": 100_000})
    if made_before:
        run.mkdir()
    with pytest.raises(DataError, match="a training sequence needs"):
        go(made, run)
    assert (list(run.iterdir()) == []) if made_before else not run.exists()


def test_a_touched_file_is_the_same_text(tmp_path):
    go(recipe(tmp_path), tmp_path / "x")
    os.utime(tmp_path / "text.txt", (1, 1))
    result, _ = go(recipe(tmp_path, train={"steps": 9}), tmp_path / "x", resume=True)
    assert result.steps == 9


def test_a_run_that_never_began_begins(tmp_path):
    run = tmp_path / "x"
    with pytest.raises(ConfigError, match="holds no run to resume"):
        go(recipe(tmp_path), run, resume=True)
    assert not run.exists()
    run.mkdir()
    (run / "run.lock").touch()
    result, said = go(recipe(tmp_path), run, resume=True)
    assert result.steps == 8
    assert "no run has begun here" in said


def test_torchrun_begins_or_continues_a_run(tmp_path, monkeypatch):
    """A machine that joins is started with --resume; processes that are started again are not."""
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    go(recipe(tmp_path), tmp_path / "x", resume=True)
    more = recipe(tmp_path, train={"steps": 10})
    with pytest.raises(ConfigError, match="already holds a run at step 8; add --resume"):
        go(more, tmp_path / "x")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    result, said = go(more, tmp_path / "x")
    assert "resuming at step 8" in said
    assert result.steps == 10


def test_the_precision_is_measured_once_and_may_be_changed_by_name(tmp_path, monkeypatch):
    from glassformer.core import devices

    faster = torch.bfloat16

    def peak(where, dtype, threads):
        return 9e9 if dtype == faster else 1e9

    monkeypatch.setattr(devices, "measured_peak", peak)
    auto = recipe(tmp_path, train={"precision": "auto", "steps": 2})
    go(auto, tmp_path / "x")
    assert "precision: bfloat16" in (tmp_path / "x" / "recipe.yaml").read_text()
    faster = torch.float32
    _, said = go(
        recipe(tmp_path, train={"precision": "auto", "steps": 4}), tmp_path / "x", resume=True
    )
    assert "bfloat16" in said
    _, said = go(
        recipe(tmp_path, train={"precision": "float32", "steps": 6}), tmp_path / "x", resume=True
    )
    assert "float32" in said
    assert "bfloat16" not in said


@pytest.mark.parametrize(
    "kind", slow_but([signal.SIGTERM, signal.SIGINT, signal.SIGHUP], signal.SIGINT)
)
def test_a_signal_ends_the_step_saves_and_says_which(tmp_path, monkeypatch, kind):
    """Also one that its loading processes get too."""
    made, run = recipe(tmp_path, train={"save.every": 100, "evaluate.every": 100}), tmp_path / "x"
    loading = recipe(tmp_path, train={"save.every": 100, "evaluate.every": 100, "workers": 2})
    go(made, tmp_path / "whole")
    real = Trainer.advance

    def advance(self):
        real(self)
        if self.state.step == 3:
            loaders = [str(process.pid) for process in multiprocessing.active_children()]
            subprocess.run(["kill", f"-{int(kind)}", *loaders], check=True)
            signal.raise_signal(kind)  # in this thread: another one may take it a step later

    before = signal.signal(kind, signal.default_int_handler)  # also where nohup ignores it
    try:
        with monkeypatch.context() as patch:
            patch.setattr(Trainer, "advance", advance)
            result, _ = go(loading, run)
        assert signal.getsignal(kind) is signal.default_int_handler
    finally:
        signal.signal(kind, before)
    assert (result.steps, result.interrupted) == (3, kind)
    assert (run / "checkpoints" / "step-00000003").is_dir()
    go(made, run, resume=True)
    assert hashes(run) == hashes(tmp_path / "whole")


def test_a_signal_in_the_last_step_is_no_interruption(tmp_path, monkeypatch):
    real = Trainer.advance

    def advance(self):
        real(self)
        if self.state.step == 8:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Trainer, "advance", advance)
    assert go(recipe(tmp_path), tmp_path / "x")[0].interrupted is None


def test_a_second_ctrl_c_does_not_wait():
    from glassformer.core.signals import Stop, interruptions

    with interruptions(stop := Stop()):
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.signal == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_a_hangup_that_was_ignored_stays_so():
    from glassformer.core.signals import Stop, interruptions

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as by nohup
    try:
        with interruptions(stop := Stop()):
            os.kill(os.getpid(), signal.SIGHUP)
        assert stop.signal is None
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_training_works_outside_the_main_thread(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        assert (
            pool.submit(go, recipe(tmp_path, train={"steps": 2}), tmp_path / "x").result()[0].steps
            == 2
        )


@pytest.mark.parametrize("where", ["loss", "weights", "validation"])
def test_what_is_not_finite_stops_the_run_and_leaves_the_last_good_checkpoint(
    tmp_path, monkeypatch, where
):
    run, made = tmp_path / "x", recipe(tmp_path, train={"evaluate.every": 6, "save.every": 2})
    real = Trainer.advance

    def advance(self):
        poison = {"loss": 4, "weights": 5, "validation": 5}[where]
        if where == "loss" and self.state.step == poison:
            with torch.no_grad():
                self.optimizer.parameters[0].fill_(torch.nan)
        real(self)
        if where != "loss" and self.state.step == poison + 1:
            with torch.no_grad():
                self.optimizer.parameters[0].fill_(torch.inf)
            if where == "weights":
                self.validation.evaluate = lambda state: (state, False)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "advance", advance)
        with pytest.raises(TrainingError) as caught:
            go(made, run)
    sentence = str(caught.value)
    assert {"loss": "step 4", "weights": "step 6", "validation": "step 6"}[where] in sentence
    assert "step-00000004" in sentence
    assert where != "loss" or "batch of this step begins with" in sentence
    steps = [p.name for p in (run / "checkpoints").glob("step-*")]
    assert max(steps) == "step-00000004"
    for line in (run / "metrics.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    go(made, tmp_path / "whole")
    go(made, run, resume=True)
    assert hashes(run) == hashes(tmp_path / "whole")


def losses_that_are_not_finite(monkeypatch, bad: set[int]) -> list[int]:
    """Make the loss of these steps nan; the steps that are computed from now on."""
    computed, real = list[int](), TrainingStep.__call__

    def poisoned(self, share, step, factor):
        def loss(*of):
            found = self.loss(*of)
            return type(found)(found.total * (float("nan") if step in bad else 1.0), found.count)

        computed.append(step)
        return real(replace(self, loss=loss), share, step, factor)

    monkeypatch.setattr(TrainingStep, "__call__", poisoned)
    return computed


def test_steps_that_are_not_finite_are_skipped_so_many_in_a_row(tmp_path, monkeypatch):
    bad = set[int]()
    losses_that_are_not_finite(monkeypatch, bad)
    made = recipe(tmp_path, train={"skip_not_finite": 2, "optimizer.weight_decay": 0.0})
    bad |= {2, 3, 5}
    _, said = go(made, tmp_path / "skips")
    lines = losses(tmp_path / "skips")
    assert [line["step"] for line in lines if "skipped" in line] == [3, 4, 6]
    assert "the step is skipped (2 of 2 in a row)" in said
    before, behind = (
        load_tensors(tmp_path / "skips" / "checkpoints" / name / "model.safetensors")
        for name in ("step-00000006", "step-00000008")
    )
    assert all(tensor.isfinite().all() for tensor in [*before.values(), *behind.values()])
    bad |= {4}
    with pytest.raises(TrainingError, match=r"At step 4 .*2 steps before it were skipped"):
        go(made, tmp_path / "stops")


def test_before_the_first_checkpoint_none_is_named(tmp_path, monkeypatch):
    def poisoned(self):
        with torch.no_grad():
            self.optimizer.parameters[0].fill_(torch.nan)
        real(self)

    real = Trainer.advance
    monkeypatch.setattr(Trainer, "advance", poisoned)
    with pytest.raises(TrainingError, match="none was saved before"):
        go(recipe(tmp_path), tmp_path / "x")


def test_a_run_killed_between_checkpoint_and_export_gets_its_best_model(
    tmp_path, finished, monkeypatch
):
    made, run = recipe(finished), tmp_path / "x"
    real = saving.export

    def killed_at(step: int):
        def export(*arguments):
            if arguments[3] == step:
                raise KeyboardInterrupt
            real(*arguments)

        return export

    for step, resume in ((4, False), (8, True)):
        with monkeypatch.context() as patch:
            patch.setattr(saving, "export", killed_at(step))
            with pytest.raises(KeyboardInterrupt):
                go(made, run, resume)
        newest = run / "checkpoints" / f"step-{step:08d}" / "model.safetensors"
        assert newest.is_file()
        with stopped_after(step):
            go(made, run, resume=True)  # nothing is trained
        assert (run / "model.safetensors").read_bytes() == newest.read_bytes()
    for name in ("model.safetensors", "config.json", "generation_config.json"):
        assert (run / name).read_bytes() == (finished / "whole" / name).read_bytes()
    card = (run / "README.md").read_text()
    assert card.replace(str(run), "R").replace("# x", "#") == (
        finished / "whole" / "README.md"
    ).read_text().replace(str(finished / "whole"), "R").replace("# whole", "#")


def test_the_model_in_the_run_folder_is_the_best_not_the_last(tmp_path, monkeypatch):
    scores = iter([3.0, 1.0, 2.0, 1.5])
    monkeypatch.setattr(NextToken, "scores", lambda *arguments: {"loss": next(scores)})
    run = tmp_path / "x"
    result, _ = go(recipe(tmp_path, train={"evaluate.every": 2, "save.keep_last": 1}), run)
    assert (result.best, result.scores["loss"]) == (1.0, 1.5)
    assert sorted(p.name for p in (run / "checkpoints").glob("step-*")) == [
        "step-00000004",
        "step-00000008",
    ]
    kept, last = (run / "checkpoints" / f"step-{step:08d}" / "model.safetensors" for step in (4, 8))
    assert (run / "model.safetensors").read_bytes() == kept.read_bytes() != last.read_bytes()
    assert "step 4 of 8" in (run / "README.md").read_text()
    assert "| loss | 1.0000 |" in (run / "README.md").read_text()
    assert json.loads((run / "checkpoints" / "best.json").read_text())["step"] == 4


def test_a_failing_sample_does_not_end_a_run(tmp_path, monkeypatch):
    def fails(*arguments):
        raise ConfigError("no.")

    monkeypatch.setattr(NextToken, "sample", fails)
    result, said = go(recipe(tmp_path, train={"sample.tokens": 5}), tmp_path / "x")
    assert result.steps == 8
    assert "no sample at step 8: no." in said


def test_words_have_no_newline_to_begin_a_sample_with(tmp_path):
    made = recipe(
        tmp_path,
        processor={"tokenizer": {"kind": "word"}},
        train={"sample.tokens": 5, "sample.every": 4},
    )
    go(made, tmp_path / "x")
    assert [line["step"] for line in read_metrics(tmp_path / "x") if "sample" in line] == [4, 8]


def test_a_trainer_at_work_refuses_a_second_one(tmp_path, finished, monkeypatch):
    made, run = recipe(finished), tmp_path / "x"
    real, refused = Trainer.advance, []

    def advance(self):
        if self.state.step == 2 and not refused:
            for resume in (True, False):
                with pytest.raises(ConfigError) as caught:
                    go(made, run, resume)
                refused.append(str(caught.value))
        real(self)

    monkeypatch.setattr(Trainer, "advance", advance)
    go(made, run)
    assert "Another process is training" in refused[0]
    assert hashes(run) == hashes(finished / "whole")


def test_torch_compile_is_used_for_training_alone(tmp_path, finished, monkeypatch):
    compiled = []
    monkeypatch.setattr(torch, "compile", lambda model: compiled.append(model) or model)
    go(recipe(finished, train={"compile": True}), tmp_path / "x")
    assert len(compiled) == 1
    assert hashes(tmp_path / "x") == hashes(finished / "whole")


def test_a_full_disk_in_a_save_leaves_the_checkpoint_before(tmp_path, monkeypatch):
    import errno

    made, run = recipe(tmp_path, train={"evaluate.every": 100}), tmp_path / "x"
    fsync, count = os.fsync, 0
    go(recipe(tmp_path, train={"steps": 4, "evaluate.every": 100}), run)
    before = {p: p.read_bytes() for p in (run / "checkpoints" / "step-00000004").iterdir()}

    def full(handle):
        nonlocal count
        if "optimizer" in os.readlink(f"/proc/self/fd/{handle}"):
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(CheckpointError, match="No space left on device; free some space"):
            go(made, run, resume=True)
    assert {p: p.read_bytes() for p in (run / "checkpoints" / "step-00000004").iterdir()} == before
    assert not [p for p in run.rglob(".*")]
    assert go(made, run, resume=True)[0].steps == 8


def test_values_are_those_of_the_recipe(finished):
    import yaml

    kept = yaml.safe_load((finished / "whole" / "recipe.yaml").read_text())
    given = values(finished)
    assert (kept["task"], kept["processor"]["input"]) == (given.pop("task"), "documents")
    fields = flat(kept)
    for name, value in flat(given).items():
        assert fields[name] == value
    assert kept["model"]["vocab_size"] > 0


class Told:
    """The processes of a run for one that is not the first, which told this."""

    def __init__(self, value: list[int]):
        self.from_first = lambda compute: value
        self.each = lambda compute: [compute()]


def test_all_processes_average_what_the_first_one_chooses(monkeypatch):
    """Another one may see other files, and asks for none."""
    loaded, other = list[list[int]](), object.__new__(Validation)
    other.machine = SimpleNamespace(device="cpu")

    def fill_mean(checkpoints, steps, mean):
        loaded.append(steps)
        raise KeyboardInterrupt

    other.checkpoints, state = None, State(6, "")
    other.history = SimpleNamespace(lines=[])
    other.config = SimpleNamespace(save=SimpleNamespace(average_checkpoints=2))
    other.task, other.saving = SimpleNamespace(recipe=None), SimpleNamespace(run=None)
    monkeypatch.setattr(validation, "model_to_fill", lambda *given: None)
    monkeypatch.setattr(validation, "fill_mean", fill_mean)
    other.processes = Told([])
    other.average(state, None)
    assert loaded == []
    other.processes = Told([4, 6])
    with pytest.raises(KeyboardInterrupt):
        other.average(state, None)
    assert loaded == [[4, 6]]
