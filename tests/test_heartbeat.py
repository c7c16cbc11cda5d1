"""Signs of life, by a store in this process, without threads or clocks."""

import os
import signal

import pytest
from torch.distributed import HashStore

from glassformer.heartbeat import GROUP, LIMIT, Heart, Silence


@pytest.fixture
def killed(monkeypatch):
    """What would be killed."""
    found = []
    monkeypatch.setattr(os, "kill", lambda pid, number: found.append((pid, number)))
    return found


def hearts(monkeypatch, agents):
    """Hearts of processes of these agents of torchrun, and what each said when it left."""
    store, left, made = HashStore(), {}, []
    for rank, agent in enumerate(agents):
        monkeypatch.setenv(GROUP, agent)

        def leave(said, rank=rank):
            left[rank] = said

        made.append(Heart(store, rank, len(agents), leave))
    return made, left


def beat(made, left, times=1, without=()):
    for _ in range(times):
        for rank, heart in enumerate(made):
            if rank not in (*without, *left):
                heart.beat()


@pytest.mark.parametrize("silent", range(4))
def test_a_silent_process_is_named_by_one_and_all_leave(monkeypatch, killed, silent):
    made, left = hearts(monkeypatch, "0011")
    beat(made, left, 100)
    assert not left
    beat(made, left, LIMIT - 1, without=[silent])
    assert not left
    beat(made, left, 3, without=[silent])
    assert {*left} == {*range(4)} - {silent}
    (said,) = filter(None, left.values())
    assert f"Process {silent} of this run (pid {os.getpid()} on " in said
    assert killed == [(os.getpid(), signal.SIGKILL)]  # by the other one of its agent


def test_a_process_that_stops_at_once_is_silent(monkeypatch, killed):
    """Before the first second is over."""
    made, left = hearts(monkeypatch, "01")
    beat(made, left, LIMIT + 1, without=[1])
    assert "Process 1 of this run" in left[0]


def test_one_of_several_silent_processes_is_named(monkeypatch, killed):
    """A machine that is gone."""
    made, left = hearts(monkeypatch, "00112")
    beat(made, left)
    beat(made, left, LIMIT + 2, without=[2, 3])
    assert {*left} == {0, 1, 4}
    (said,) = filter(None, left.values())
    assert "Process 2 of this run" in said
    assert killed == []


def test_a_process_that_is_slow_or_has_not_come_is_not_silent(monkeypatch, killed):
    left = []
    early = Heart(HashStore(), 0, 2, left.append)
    for _ in range(10 * LIMIT):
        early.beat()
    assert not left
    made, left = hearts(monkeypatch, "00")
    for _ in range(5):
        beat(made, left)
        beat(made, left, LIMIT - 1, without=[1])
    assert not left


def test_a_store_that_does_not_answer_is_left(monkeypatch):
    made, left = hearts(monkeypatch, "01")
    heart, silence = made[0], Silence()
    for _ in range(3 * LIMIT):
        beat(made, left)
        heart.check_store(silence)
    assert not left
    for _ in range(LIMIT - 1):
        heart.check_store(silence)
    assert not left
    heart.check_store(silence)
    assert "The store of this run has not answered process 0" in left[0]
