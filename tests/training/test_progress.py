"""A live line on a terminal, plain lines when piped."""

import io
import os
from types import SimpleNamespace

import pytest

from glassformer.core import progress
from glassformer.core.errors import printable
from glassformer.core.progress import Progress, bar, clock
from glassformer.training.loop.trainer import Trainer


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def moment(step: int, steps: int = 100) -> tuple[int, int, str]:
    return step, steps, f"step {step}/{steps}  loss 2.5000  12,346 tokens/s  1:01 left"


@pytest.fixture
def time(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize(
    ("peak", "scores", "text"),
    [
        (100.0, {}, "step 3/100  loss 2.5000  7 tokens/s  42% of peak  1:37 left"),
        (10.0, {}, "step 3/100  loss 2.5000  7 tokens/s  1:37 left"),
        (10.0, {"loss": 2}, "step 3/100  loss 2.5000  validation 2.0000  7 tokens/s  1:37 left"),
    ],
)
def test_a_line_says_step_loss_speed_share_and_time_left(peak, scores, text):
    shown, run = [], object.__new__(Trainer)
    run.state, run.config = SimpleNamespace(step=3), SimpleNamespace(steps=100)
    run.machine, run.flops = SimpleNamespace(peak=peak), 6.0
    run.objective = SimpleNamespace(pace=lambda speed: f"{speed} tokens/s")
    run.validation = SimpleNamespace(scores=scores)
    run.per_step, run.progress = 1.0, SimpleNamespace(show=lambda *given: shown.append(given))
    run._show(2.5, 7)
    assert shown == [(3, 100, text)]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0:00"), (59.6, "1:00"), (3599.0, "59:59"), (3723.0, "1:02:03"), (-5.0, "0:00")],
)
def test_clock(seconds, text):
    assert clock(seconds) == text


@pytest.mark.parametrize("done", range(0, 101, 5))
def test_a_bar_has_its_width_and_grows(done):
    assert len(bar(done, 100)) == 20
    assert bar(done, 100).count("█") == done // 5


def test_a_bar_of_odd_numbers():
    assert bar(0, 0) == "·" * 20
    assert bar(1, 160)[0] == "▏"
    assert bar(7, 3) == "█" * 20


def test_piped_there_is_a_line_at_first_every_ten_seconds_and_at_the_end(time):
    stream = io.StringIO()
    shown = Progress(stream)
    for step in range(1, 101):
        time[0] += 0.5
        shown.show(*moment(step))
    shown.close()
    steps = [int(text.split()[1].split("/")[0]) for text in stream.getvalue().splitlines()]
    assert steps == [1, 21, 41, 61, 81, 100]
    assert "\r" not in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


def test_on_a_terminal_one_line_is_redrawn_and_left_behind(time, monkeypatch):
    monkeypatch.setattr(os, "get_terminal_size", lambda handle: os.terminal_size((60, 20)))
    stream = Terminal()
    monkeypatch.setattr(stream, "fileno", lambda: 2)
    shown = Progress(stream)
    for step in range(1, 101):
        time[0] += 0.06
        shown.show(*moment(step))
    shown.message("a message")
    shown.show(*moment(100))
    shown.close()
    drawn = stream.getvalue()
    pieces = drawn.split("\r")
    assert 50 <= len(pieces) <= 56, "at most ten times a second, and at the end"
    assert all(len(piece.rstrip("\n")) < 60 for piece in pieces), (
        "a line that wraps cannot be redrawn"
    )
    assert "\ra message\n" in drawn
    assert drawn.endswith("\n")
    assert "step 100/100" in pieces[-1]
    shown.close()
    assert stream.getvalue() == drawn


def test_a_stream_without_a_size_is_eighty_wide():
    stream = Terminal()
    Progress(stream).show(*moment(100))
    assert 60 < len(stream.getvalue()) <= 80


def test_quiet_says_nothing():
    stream = io.StringIO()
    shown = Progress(stream, quiet=True)
    shown.message("x")
    shown.show(*moment(100))
    shown.close()
    assert stream.getvalue() == ""


def test_what_a_model_writes_cannot_command_a_terminal():
    assert printable("a\x1b[2J\r\nb\tü\x9b\x00") == "a␛[2J␍\nb\tü\N{REPLACEMENT CHARACTER}␀"
