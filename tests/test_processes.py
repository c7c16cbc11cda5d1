"""The shares of processes, and sums that do not depend on their number."""

import json
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.distributed import HashStore

from glassformer.core.distributed.processes import (
    ALONE,
    Processes,
    Tree,
    _array_of_json,
    _array_to_json,
)
from glassformer.core.distributed.torchrun import _agreed_name
from glassformer.core.errors import ConfigError, ElsewhereError
from glassformer.data.collate import micro_batches
from small_runs import go, hashes, losses, recipe
from small_tasks import masked_recipe
from torchrun import train_together


@given(st.integers(1, 40), st.integers(1, 16), st.integers(1, 6))
def test_the_shares_of_all_processes_are_the_batch(rows, parts, count):
    whole, first, idle = micro_batches(np.arange(rows), parts)
    assert first == idle == 0
    assert np.array_equal(np.concatenate(whole), np.arange(rows))
    assert all(len(piece) for piece in whole)
    shares = [micro_batches(np.arange(rows), parts, rank, count) for rank in range(count)]
    numbered = {
        one.first + i: piece.tolist()
        for one in shares
        for i, piece in enumerate(one.rows[: len(one.rows) - one.idle])
    }
    assert [numbered[i] for i in sorted(numbered)] == [piece.tolist() for piece in whole]
    assert sum(len(one.rows) - one.idle for one in shares) == len(whole)
    assert all(len(one.rows) >= parts // count for one in shares if count > 1)


def tree(parts):
    sums = Tree[str](lambda a, b: f"({a}+{b})")
    for part in parts:
        sums.append(part)
    return sums.total()


@given(st.integers(0, 5), st.integers(0, 5))
def test_a_tree_of_the_sums_of_processes_is_the_tree_of_all_parts(parts, processes):
    """As `Processes.add_in_order` adds them: rank r with r ^ 1, then with r ^ 2, ..."""
    names = [str(i) for i in range(1 << max(parts, processes))]
    size = len(names) >> processes
    sums = [tree(names[i : i + size]) for i in range(0, len(names), size)]
    while len(sums) > 1:
        sums = [f"({a}+{b})" for a, b in zip(sums[::2], sums[1::2], strict=True)]
    assert sums[0] == tree(names)


def test_one_process_has_what_it_gives():
    assert ALONE.first
    assert ALONE.gather({"a": 1}) == [{"a": 1}]
    assert ALONE.sums([1.5, 2.0]) == [1.5, 2.0]
    assert list(ALONE.spread([1, 2, 3], lambda n: n * n)) == [1, 4, 9]
    with pytest.raises(ConfigError, match="no"):
        ALONE.from_first(lambda: refuse(ConfigError("no")))


def square(number: int) -> np.ndarray:
    return np.full((2, 3), number**2, np.float32)


@pytest.fixture
def by_threads(monkeypatch):
    """Call a function as each of several processes: threads in place of them."""

    def call(count, of):
        meeting, given = Barrier(count), [""] * count

        def gather(self, value):
            given[self.rank] = json.dumps(value, default=_array_to_json)
            meeting.wait()
            found = [json.loads(one, object_hook=_array_of_json) for one in given]
            meeting.wait()
            return found

        monkeypatch.setattr(Processes, "gather", gather)
        with ThreadPoolExecutor(count) as threads:
            return [*threads.map(lambda rank: of(Processes(rank, count)), range(count))]

    return call


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("items", [0, 1, 2, 5, 33])
def test_results_of_all_processes_come_in_the_order_of_items(by_threads, count, items):
    for found in by_threads(count, lambda own: [*own.spread(range(items), square)]):
        assert [one.tolist() for one in found] == [square(i).tolist() for i in range(items)]
        assert all(one.dtype == np.float32 for one in found)


@pytest.mark.parametrize("failing", [None, 0, 2])
def test_the_first_process_has_its_turn_before_the_others(by_threads, failing):
    began = []

    def work(own):
        try:
            with own.in_turn():
                began.append(own.rank)
                if own.rank == failing:
                    raise ConfigError("no")
        except ConfigError as error:
            return str(error)
        except ElsewhereError as error:
            return error.exit_code
        return None

    ends = by_threads(3, work)
    assert began[0] == 0
    assert sorted(began) == ([0] if failing == 0 else [0, 1, 2])
    told = {None: None, 0: "no", 2: "In process 2: no"}[failing]
    assert ends == [told, *[None if failing is None else ConfigError.exit_code] * 2]


def refuse(error):
    raise error


def test_an_error_of_the_first_ends_the_others_with_its_code(monkeypatch):
    refusal = ["ConfigError", "no", 2]
    monkeypatch.setattr(Processes, "gather", lambda self, value: [[None, refusal], value])
    with pytest.raises(ElsewhereError) as caught:
        Processes(1, 2).from_first(lambda: refuse(AssertionError))
    assert caught.value.exit_code == 2


def test_an_error_of_another_is_told_by_the_first(monkeypatch):
    told = ["ConfigError", "gpu is not there.", 2]
    monkeypatch.setattr(Processes, "gather", lambda self, value: [[None, None], [None, told]])
    with pytest.raises(ConfigError, match=r"^In process 1: gpu is not there\.$"):
        Processes(0, 2).each(lambda: None)
    with pytest.raises(ElsewhereError) as caught:
        Processes(1, 2).each(lambda: refuse(ConfigError("gpu is not there.")))
    assert caught.value.exit_code == 2


def test_a_recipe_that_processes_cannot_share_is_refused(tmp_path):
    in_order = recipe(tmp_path, train={"distributed.deterministic": True, "micro_batches": 2})
    with pytest.raises(ConfigError, match="micro_batches=2 with 4 processes"):
        in_order.for_processes(4)
    with pytest.raises(ConfigError, match=r"shard=3 times tensor=1 does not divide the 8 proc"):
        recipe(tmp_path, train={"distributed.shard": 3}).for_processes(8)
    with pytest.raises(ConfigError, match="batch_size=4 cannot be divided among 5"):
        recipe(tmp_path).for_processes(5)
    assert recipe(tmp_path).for_processes(3).train.micro_batches == 3
    assert in_order.for_processes(2).train.micro_batches == 2


def test_two_processes_end_in_the_bits_of_one_whatever_stops_them(tmp_path):
    """The quick version of A3 (`reliability/test_processes.py`), A8 and F2 (`test_ends.py` there):
    a process is killed in the first run, and all are started again; the second is stopped by a
    signal."""
    own = {
        "train": {"distributed.deterministic": True, "micro_batches": 2, "threads": 1, "steps": 4}
    }
    made = {
        "text": recipe(tmp_path, model={"dropout": 0.1}, **own),
        "masked": masked_recipe(tmp_path, **own),
    }
    for name, one in made.items():
        go(one, tmp_path / f"{name} 1")
    text, masked = (tmp_path / f"{name} 2" for name in made)
    stopped, resumed = (masked, made["masked"], False, 1), (masked, made["masked"], True, None)
    train_together(2, [(text, made["text"], False, None), stopped, resumed], tmp_path, killed=3)
    for name in made:
        assert hashes(tmp_path / f"{name} 2") == hashes(tmp_path / f"{name} 1")
        assert losses(tmp_path / f"{name} 2") == losses(tmp_path / f"{name} 1")


def test_processes_agree_on_a_name_that_earlier_ones_did_not_have():
    """By a store that still holds what earlier ones wrote."""
    store, names = HashStore(), list[set[str]]()
    with ThreadPoolExecutor(3) as threads:
        for _ in range(5):
            names.append({*threads.map(lambda rank: _agreed_name(store, rank, 3), range(3))})
    assert [len(name) for name in names] == [1] * 5
    assert len(set.union(*names)) == 5
