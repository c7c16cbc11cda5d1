"""metrics.jsonl is strict JSON, survives a torn end, and is taken back to where a run goes on."""

import errno
import json
import math
import sys

import pytest

from glassformer.core.errors import CheckpointError, ConfigError
from glassformer.training.folder.history import History, evaluations, of_model, read_metrics
from small_runs import go, losses, recipe


def test_lines_come_back(tmp_path):
    history = History(tmp_path, 0)
    history.add(1, train_loss=2.5)
    history.add(2, sample="ü\u2028\nx")
    assert read_metrics(tmp_path) == [
        {"step": 1, "train_loss": 2.5},
        {"step": 2, "sample": "ü\u2028\nx"},
    ]
    history.close()


@pytest.mark.parametrize(
    "end",
    [b'{"step": 3, "train', b"\xff\xfe", b"\n\n", b"[1]", b"null", b'{"step": "x"}', b'{"a": 1}'],
)
def test_a_torn_or_foreign_line_is_left_out(tmp_path, end):
    history = History(tmp_path, 0)
    history.add(1, train_loss=2.5)
    history.close()
    with (tmp_path / "metrics.jsonl").open("ab") as file:
        file.write(end)
    assert read_metrics(tmp_path) == [{"step": 1, "train_loss": 2.5}]
    again = History(tmp_path, 1)
    again.add(2, train_loss=2.0)
    again.close()
    assert [
        json.loads(line)["step"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()
    ] == [1, 2]


def test_lines_after_the_resumed_step_are_taken_back(tmp_path):
    history = History(tmp_path, 0)
    for step in range(1, 6):
        history.add(step, train_loss=float(step))
    history.close()
    again = History(tmp_path, 3)
    again.close()
    assert [line["step"] for line in read_metrics(tmp_path)] == [1, 2, 3]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_not_a_number_never_reaches_the_file(tmp_path, value):
    history = History(tmp_path, 0)
    with pytest.raises(ValueError):
        history.add(1, train_loss=value)
    history.close()
    assert read_metrics(tmp_path) == []
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "train_loss": NaN}\n')
    assert read_metrics(tmp_path) == []


def test_scores_are_those_of_a_step(tmp_path):
    history = History(tmp_path, 0)
    assert evaluations(history.lines) == []
    assert of_model(history.lines, None).scores == {}
    history.add(1, validation_loss=2.0, validation_tokens=3, seconds=1.0)
    history.add(2, validation_loss=1.0)
    history.close()
    assert evaluations(history.lines)[-1] == (2, {"loss": 1.0}, False)
    assert of_model(history.lines, 1).scores == {"loss": 2.0, "tokens": 3}


class Full:
    """A file on a full disk."""

    def write(self, text):
        raise OSError(errno.ENOSPC, "No space left on device")

    close = flush = lambda self: self.write("")


def test_a_line_that_a_full_disk_refuses_is_written_when_it_is_needed(tmp_path, monkeypatch):
    history, told = History(tmp_path, 0, [lambda line: told.append(line["step"])]), []
    history.add(1, train_loss=3.0)
    history._file.close()
    history._file = Full()
    history.add(2, train_loss=2.0)
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", lambda handle: Full().write(""))
        with pytest.raises(CheckpointError, match="No space left on device; free some space"):
            history.sync()
    history.sync()
    history.add(3, train_loss=1.0)
    history.close()
    assert [line["step"] for line in read_metrics(tmp_path)] == told == [1, 2, 3]


def test_tensorboard_is_written_if_asked(tmp_path):
    go(recipe(tmp_path, train={"tensorboard": True, "steps": 4}), tmp_path / "x")
    [events] = (tmp_path / "x" / "tensorboard").glob("events.*")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(events.parent)).Reload()
    own = [line for line in losses(tmp_path / "x") if "train_loss" in line]
    shown = [(one.step, pytest.approx(one.value)) for one in found.Scalars("train/loss")]
    assert shown == [(line["step"], line["train_loss"]) for line in own]
    assert "validation/loss" in found.Tags()["scalars"]
    go(recipe(tmp_path, train={"steps": 4}), tmp_path / "y")
    assert not (tmp_path / "y" / "tensorboard").exists()
    assert losses(tmp_path / "x") == losses(tmp_path / "y")


def test_without_tensorboard_the_remedy_is_named_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ConfigError, match=r"pip install 'glassformer\[track\]'"):
        go(recipe(tmp_path, train={"tensorboard": True}), tmp_path / "x")
    assert not (tmp_path / "x").exists()
