"""Named points at which a scoped tape can read or edit a tensor; nothing at all when nobody looks.

    q = tap(self, "q", q, "batch head query dim")

returns `q` itself unless a `Tape` is active in this thread; then the tape sees (module, name, tensor, axes) and
returns the tensor to go on with. There are no module hooks and no global state, so two threads that run one model
never see each other's tapes, and a compiled model contains no trace of a tap.

Knows: modules, names, axes. Does not know: which points exist (they are discovered by executing).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn

from glassformer.errors import ConfigError, suggest

Edit = Callable[[Tensor], Tensor]


class Tape:
    """What one look at a model keeps: `kept[point]` tensors, `axes[point]` their axis names, `points` in firing order.

    `keep` are patterns such as `"*.attention.pattern"`; `edits` maps patterns to pure functions of the tensor.
    """

    def __init__(self, model: nn.Module, keep: tuple[str, ...] = (), edits: dict[str, Edit] | None = None):
        self._paths = {id(module): path for path, module in model.named_modules()}
        self._wanted: dict[str, int] = dict.fromkeys((*keep, *(edits or {})), 0)
        self._asked: set[str] = set()
        self._keep, self._edits = keep, edits or {}
        self.points: list[str] = []
        self.axes: dict[str, tuple[str, ...]] = {}
        self.kept: dict[str, Tensor] = {}

    def path(self, module: nn.Module, name: str) -> str:
        """The full name of a point: module path and local name."""
        prefix = self._paths.get(id(module), type(module).__name__.lower())
        return f"{prefix}.{name}" if prefix else name

    def wants(self, point: str) -> bool:
        """True if something is kept or edited at this point, which the model computes only if so."""
        self._asked.add(point)
        return any(fnmatchcase(point, pattern) for pattern in self._wanted)

    def fire(self, module: nn.Module, name: str, tensor: Tensor, axes: str) -> Tensor:
        """A point was reached: apply the edits, keep what was asked for, return the tensor to go on with."""
        point = self.path(module, name)
        if point not in self.axes:
            self.points.append(point)
            self.axes[point] = tuple(axes.split())
        for pattern in self._wanted:
            if not fnmatchcase(point, pattern):
                continue
            self._wanted[pattern] += 1
            if pattern in self._edits:
                edited = self._edits[pattern](tensor)
                if edited.shape != tensor.shape:
                    raise ConfigError(
                        f"The edit of {point} returned shape {tuple(edited.shape)}; {tuple(tensor.shape)} is needed."
                    )
                tensor = edited
        if any(fnmatchcase(point, pattern) for pattern in self._keep):
            self.kept[point] = tensor
        return tensor

    def check(self) -> None:
        """Raise ConfigError for a pattern at which nothing ever fired, naming close ones."""
        points = {*self.points, *self._asked}
        for pattern, fired in self._wanted.items():
            if not fired:
                known = {f"*.{tail}" for point in points for tail in _tails(point)} if "*" in pattern else points
                raise ConfigError(f"The point {pattern!r} never fired in this run; {suggest(pattern, known)}")


def _tails(point: str) -> list[str]:
    """The last one and the last two parts of a point's name: what people write behind a star."""
    parts = point.split(".")
    return [parts[-1], ".".join(parts[-2:])]


_TAPE: ContextVar[Tape | None] = ContextVar("glassformer_tape", default=None)


def tap(module: nn.Module, name: str, tensor: Tensor, axes: str) -> Tensor:
    """Mark `tensor` as the point `name` of `module`, its axes named by the words of `axes`; returns the tensor."""
    if torch.compiler.is_compiling() or (tape := _TAPE.get()) is None:
        return tensor
    return tape.fire(module, name, tensor, axes)


def watching(module: nn.Module, *names: str) -> bool:
    """True if the active tape keeps or edits one of these points, so that they must be computed explicitly."""
    if torch.compiler.is_compiling() or (tape := _TAPE.get()) is None:
        return False
    return any(tape.wants(tape.path(module, name)) for name in names)


def recorded() -> bool:
    """True if a tape is active in this thread, so that every element of the stream is to be computed."""
    return not torch.compiler.is_compiling() and _TAPE.get() is not None


@contextmanager
def recording(tape: Tape) -> Iterator[Tape]:
    """Make `tape` active in this thread (or task) for the body; a pattern that never fired raises at the end."""
    token = _TAPE.set(tape)
    try:
        yield tape
    finally:
        _TAPE.reset(token)
    tape.check()
