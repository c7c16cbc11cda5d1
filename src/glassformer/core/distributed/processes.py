"""The processes that compute a run together: which one this is, and what all of them agree on.

    one process          | nothing is sent, and no group is needed
    started by torchrun  | RANK, WORLD_SIZE and an address are in the environment

Values travel as JSON, numbers as tensors, by torch.distributed. Nothing is pickled.

sums of a step  | each process waits at most a minute for the others: `leaving_the_silent`
other values    | hours before training, when the first one may encode a text; then ten minutes
"""

import base64
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import distributed
from torch.distributed.distributed_c10d import _set_pg_timeout

from glassformer.core.axes import Float, Tensor
from glassformer.core.errors import (
    CheckpointError,
    ConfigError,
    DataError,
    ElsewhereError,
    GlassformerError,
    TrainingError,
)

T = TypeVar("T")
KINDS = (CheckpointError, ConfigError, DataError, TrainingError)
"""Errors that one process reports for another."""
PATIENCE = timedelta(hours=12)
"""Longest wait for the first process before training."""
STEP, WORK = timedelta(minutes=1), timedelta(minutes=10)
"""Longest wait for a process within a step, and for one that evaluates, writes text, or saves."""


@dataclass(frozen=True)
class Processes:
    """The processes of a run, as one of them sees them; 0 <= `rank` < `count`.

    `group`: of torch.distributed, for the sums of a step; `patient`: for everything else.
    """

    rank: int = 0
    count: int = 1
    group: Any = None
    patient: Any = None

    def __deepcopy__(self, memo: dict[int, object]) -> "Processes":
        """Return itself: a copy of what knows them knows the same processes."""
        return self

    @property
    def first(self) -> bool:
        """Whether this is the process that writes files and messages."""
        return self.rank == 0

    def gather(self, value: Any) -> list[Any]:
        """The value of each process, by rank; values are JSON or arrays."""
        if self.count == 1:
            return [value]
        own = json.dumps(value, default=_array_to_json).encode()
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.count)]
        distributed.all_gather(sizes, torch.tensor([len(own)]), self.patient)
        # JSON ends before spaces
        padded = bytearray(own.ljust(int(max(sizes))))
        found = [torch.empty(len(padded), dtype=torch.uint8) for _ in sizes]
        distributed.all_gather(found, torch.frombuffer(padded, dtype=torch.uint8), self.patient)
        return [json.loads(bytes(one.numpy()), object_hook=_array_of_json) for one in found]

    def from_first(self, compute: Callable[[], Any]) -> Any:
        """Return to all what `compute` returns in the first process (JSON); its error is raised
        there, and an ElsewhereError in the others."""
        return self.each(lambda: compute() if self.first else None)[0]

    def each(self, compute: Callable[[], Any]) -> list[Any]:
        """Return what `compute` returns in each process (JSON), by rank; an error of any is raised
        in the first process, and an ElsewhereError in the others."""
        value, failed = None, None
        try:
            value = compute()
        except GlassformerError as error:
            failed = error
        return self._agree(failed, value)

    def _agree(self, failed: GlassformerError | None, value: Any = None) -> list[Any]:
        """Return the value of each process, unless one of them has failed."""
        problem = failed and [type(failed).__name__, str(failed), failed.exit_code]
        found = self.gather([value, problem])
        for rank, (_, problem) in enumerate(found):
            if problem is not None:
                name, message, code = problem
                if not self.first:
                    raise ElsewhereError(code)
                kind = next((kind for kind in KINDS if kind.__name__ == name), TrainingError)
                raise failed or kind(f"In process {rank}: {message}")
        return [value for value, _ in found]

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        """Let the first process run the body, then the others; an error of any ends all."""
        if not self.first:
            self._agree(None)
        failed = None
        try:
            yield
        except GlassformerError as error:
            failed = error
        if self.first:
            self._agree(failed)
        self._agree(None if self.first else failed)

    @contextmanager
    def first_holds(self, enter: Callable[[], AbstractContextManager[Any]]) -> Iterator[None]:
        """Enter a context in the first process for the body; an error of `enter` ends all."""
        with ExitStack() as stack:
            self.from_first(lambda: bool(stack.enter_context(enter())))
            yield

    def apart(self) -> "Processes":
        """Return these processes with a new group, for another thread; all must call this."""
        if self.count == 1:
            return self
        return Processes(self.rank, self.count, patient=patient_group(WORK))

    def hurry(self) -> None:
        """Wait for other processes as during training."""
        if self.count > 1:
            _set_pg_timeout(WORK, self.patient)

    def spread(self, items: Iterable[T], compute: Callable[[T], Any]) -> Iterable[Any]:
        """Return what `compute` returns for each item (JSON or arrays), in order; each process
        computes every `count`-th of them."""
        if self.count == 1:
            return map(compute, items)
        own = [compute(item) for item in itertools.islice(items, self.rank, None, self.count)]
        found = self.gather(own)
        n = sum(map(len, found))
        return [found[at % self.count][at // self.count] for at in range(n)]

    def sums(self, values: Sequence[float]) -> list[float]:
        """The sum of each value over the processes, in float64, the same in all of them."""
        if self.count == 1:
            return [*values]
        total = torch.tensor(values, dtype=torch.float64)
        distributed.all_reduce(total, group=self.group)
        return total.tolist()

    def largest(self, value: float) -> float:
        """The largest value of all processes."""
        if self.count == 1:
            return value
        found = torch.tensor(value, dtype=torch.float64)
        distributed.all_reduce(found, distributed.ReduceOp.MAX, self.group)
        return float(found)

    def add(self, numbers: Float[Tensor, "*shape"]) -> None:
        """Replace the numbers by their sum over the processes."""
        distributed.all_reduce(numbers, group=self.group)

    def add_in_order(self, numbers: Float[Tensor, "*shape"]) -> None:
        """Replace the numbers by their sum over the processes, the same bits in all of them.

        They are added by a tree, rank r with r ^ 1, then r ^ 2, r ^ 4, ...; `count` is a power of
        two. A process that adds its own parts by the same tree (`Tree`) then gives the sum of all
        parts in an order that does not depend on `count`.
        """
        theirs = torch.empty_like(numbers)
        distance = 1
        while distance < self.count:
            peer = self.rank ^ distance
            both = [
                distributed.P2POp(how, what, group=self.group, group_peer=peer)
                for how, what in ((distributed.isend, numbers), (distributed.irecv, theirs))
            ]
            for one in distributed.batch_isend_irecv(both):  # one after the other, NCCL hangs
                one.wait()
            numbers += theirs
            distance *= 2


ALONE = Processes()


class Tree(Generic[T]):
    """Adds parts in the order of a binary tree as they come: ((0 + 1) + (2 + 3)) + ...

    It keeps at most log2(parts) + 1 sums. `add` adds its second argument to its first.
    """

    def __init__(self, add: Callable[[T, T], T]):
        self._add = add
        self._sums: list[tuple[int, T]] = []  # parts in each sum, and the sum

    def append(self, part: T) -> None:
        """Add the next part."""
        size = 1
        while self._sums and self._sums[-1][0] == size:
            part, size = self._add(self._sums.pop()[1], part), 2 * size
        self._sums.append((size, part))

    def total(self) -> T:
        """The sum of all parts."""
        _, total = self._sums.pop()
        while self._sums:
            total = self._add(self._sums.pop()[1], total)
        return total


def _array_to_json(array: np.ndarray) -> dict[str, Any]:
    numbers = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return {"dtype": array.dtype.str, "shape": array.shape, "array": numbers}


def _array_of_json(value: dict[str, Any]) -> Any:
    if value.keys() != {"dtype", "shape", "array"}:
        return value
    numbers = np.frombuffer(base64.b64decode(value["array"]), np.dtype(value["dtype"]))
    return numbers.reshape(value["shape"])


def patient_group(limit: timedelta) -> Any:
    """All processes as a group for values, each of which is waited for so long."""
    return distributed.new_group(backend="gloo", timeout=limit)
