"""The looks of a run or its checkpoints: computed once, kept while there is room.

Each request carries the whole look, so that edits of one client never reach another. One lock for
the model: two computations at the same time would be slower than one after the other. Ops call
`check` between layers, and stop when the client has disconnected.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from glassformer.inspect.edits import Edit, edit_from_json
from glassformer.inspect.look import Look
from glassformer.layers.block import Block
from glassformer.models.transformer import Transformer
from glassformer.run import Run
from glassformer.run.checkpoints import seal
from glassformer.serve.explorer.schema import LookRequest
from glassformer.serve.explorer.wire import text
from glassformer.serve.inputs import RunInputs

ROOM = 1 << 30
"""Bytes of looks that are kept."""
MODELS, LATEST = 3, 6
"""Checkpoints that are kept open; looks that may be those of one request."""


class ClientDisconnected(Exception):
    """The client does not wait for the answer any more."""


class Looks:
    """The looks of one run, the latest last; at most `room` bytes of them, but always one."""

    def __init__(self, run: Run, room: int = ROOM):
        self.run, self.room, self.inputs = run, room, RunInputs(run)
        self.lock = threading.RLock()
        self._kept: OrderedDict[str, Look] = OrderedDict()
        self._sizes: dict[str, int] = {}
        self._at = lru_cache(MODELS)(lambda step, _: run.at(step))

    def find(self, request: LookRequest) -> Look:
        """The look of a request; hold the lock. Errors: those of `Run.look`."""
        name = self._name(request)
        if name not in self._kept:
            self._kept[name] = self._make(request)
        self._kept.move_to_end(name)
        self._evict()
        return self._kept[name]

    def _make(self, request: LookRequest) -> Look:
        edits = [self._edit(edit) for edit in request.edits]
        step, given = request.checkpoint, self.inputs.decode(request.input)
        run = self.run if step is None else self._at(step, seal(self.run, step))
        return run.look(given, edits)

    def _edit(self, value: dict[str, Any]) -> Edit:
        """An edit of plain values; its `source` is a look request."""
        source = value.get("source")
        if not isinstance(source, dict):
            return edit_from_json(value)
        request = LookRequest.parse(source)
        name = self._name(request)
        return edit_from_json({**value, "source": name}, {name: self.find(request)})

    def _name(self, request: LookRequest) -> str:
        """Key of a look: digests of its request and of its checkpoints."""
        values = request.model_dump()
        digest = hashlib.sha256(text(values).encode()).hexdigest()[:24]
        return digest + "".join(seal(self.run, step) for step in _checkpoints(values))

    def _evict(self) -> None:
        """Forget the oldest looks until the others fit.

        Only the latest are measured again: those of a request may grow, since they fetch points on
        demand.
        """
        for name in list(self._kept)[-LATEST:]:
            self._sizes[name] = bytes_of(self._kept[name])
        total = sum(self._sizes.values())
        while total > self.room and len(self._kept) > 1:
            oldest, _ = self._kept.popitem(last=False)
            total -= self._sizes.pop(oldest)


@dataclass
class OpContext:
    """The looks of a run for one request, and whether its client is still connected."""

    looks: Looks
    gone: Callable[[], bool]

    @property
    def run(self) -> Run:
        """The run."""
        return self.looks.run

    def look(self, request: LookRequest) -> Look:
        """The look of a request."""
        self.check()
        return self.looks.find(request)

    def check(self) -> None:
        """Raise `ClientDisconnected` if nobody waits for the answer."""
        if self.gone():
            raise ClientDisconnected

    @contextmanager
    def checking(self, model: Transformer) -> Iterator[None]:
        """Check before each block of the model in the body."""
        blocks = [one for one in model.modules() if isinstance(one, Block)]
        hooks = [one.register_forward_pre_hook(lambda *_: self.check()) for one in blocks]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()


def _checkpoints(value: Any) -> Iterator[int]:
    """The checkpoints of a request and of the looks that its edits take values from."""
    if isinstance(value, dict):
        if isinstance(step := value.get("checkpoint"), int):
            yield step
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from _checkpoints(one)


def bytes_of(look: Look) -> int:
    """Bytes of a look; shared storage counts once."""
    kept, before = look.tape.kept.values(), look.tape.before.values()
    tensors = [*kept, *before, look.output.logits, look.output.features.hidden]
    storages = (tensor.untyped_storage() for tensor in tensors)
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())
