"""Named points at which a scoped tape can read or edit a tensor; without a tape they do nothing.

    q = tap(self, "q", q, "batch head query dim")

returns `q` itself unless a `Tape` is active in this thread; then the tape gets (module, name,
tensor, axes) and returns the tensor to continue with. There are no module hooks and no global
state: threads that run one model do not share tapes, and a compiled model has no trace of a tap.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from fnmatch import fnmatchcase
from typing import Protocol

import torch
from torch import Tensor, nn

from glassformer.core.errors import ConfigError, suggest


class Change(Protocol):
    """An edit of the tensors at `point`, a name or a pattern such as `"*.z"`."""

    @property
    def point(self) -> str:
        """The name or the pattern."""
        ...

    def __call__(self, tensor: Tensor, axes: tuple[str, ...], point: str) -> Tensor:
        """The tensor to continue with, of the same shape; the given one is not changed."""
        ...


def changed(tensor: Tensor, edits: Sequence[Change], axes: tuple[str, ...], point: str) -> Tensor:
    """The tensor after all edits of this point in order; ConfigError: one changes its shape."""
    for edit in edits:
        if fnmatchcase(point, edit.point):
            new = edit(tensor, axes, point)
            if new.shape != tensor.shape:
                raise ConfigError(
                    f"The edit of {point} returned shape {tuple(new.shape)}; "
                    f"{tuple(tensor.shape)} is needed."
                )
            tensor = new
    return tensor


class Tape:
    """Record of a forward pass: `kept[point]` tensors, `axes[point]` their axis names, `points` in
    firing order.

    `keep` are patterns such as `"*.attention.pattern"`; `edits` apply in order. For a kept point
    that was edited, `before[point]` is the tensor before the edits and `kept[point]` that after
    them. A point that fires several times (an embedding shared by both sides) is edited each time
    and kept the last time.
    """

    def __init__(self, model: nn.Module, keep: Sequence[str] = (), edits: Sequence[Change] = ()):
        self._paths = {id(module): path for path, module in model.named_modules()}
        self._keep, self._edits = tuple(keep), tuple(edits)
        self._wanted = tuple(dict.fromkeys((*keep, *(edit.point for edit in edits))))
        self._silent = self._wanted
        self.on_demand: dict[str, None] = {}
        """Points that are computed only on demand, in the order in which they were offered."""
        self.points: list[str] = []
        self.axes: dict[str, tuple[str, ...]] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.kept: dict[str, Tensor] = {}
        self.before: dict[str, Tensor] = {}
        self.step = 0
        """Number of completed steps of a generation; see `taken`."""

    def path(self, module: nn.Module, name: str) -> str:
        """Full name of a point: module path and local name."""
        prefix = self._paths.get(id(module), type(module).__name__.lower())
        return f"{prefix}.{name}" if prefix else name

    def wants(self, point: str) -> bool:
        """True if this point, computed only on demand, is kept or edited."""
        self.on_demand[point] = None
        return any(fnmatchcase(point, pattern) for pattern in self._wanted)

    def fire(self, module: nn.Module, name: str, tensor: Tensor, axes: str) -> Tensor:
        """Apply the edits of a point, keep it if asked to, and return the tensor to go on with."""
        point = self.path(module, name)
        if point not in self.axes:
            self.points.append(point)
            self.axes[point] = tuple(axes.split())
        self.shapes[point] = tuple(tensor.shape)
        self._silent = tuple(pattern for pattern in self._silent if not fnmatchcase(point, pattern))
        new = changed(tensor, self._edits, self.axes[point], point)
        if any(fnmatchcase(point, pattern) for pattern in self._keep):
            self.kept[point] = new
            if new is not tensor:
                self.before[point] = tensor
        return new

    def taken(self) -> dict[str, Tensor]:
        """Tensors kept in this step of a generation; the tape is emptied for the next step."""
        kept, self.kept, self.before = self.kept, {}, {}
        self.step += 1
        return kept

    def check(self) -> None:
        """Raise ConfigError for a pattern that matched no point, naming close ones."""
        if not self._silent:
            return
        pattern = self._silent[0]
        if not self.points:
            raise ConfigError(
                f"No point fired, {pattern!r} neither: the model was not run under this tape, "
                f"or it is compiled, and a compiled model has no points; look at the model that "
                f"was given to torch.compile."
            )
        points = {*self.points, *self.on_demand}
        known = (
            {f"*.{tail}" for point in points for tail in _tails(point)}
            if "*" in pattern
            else points
        )
        raise ConfigError(
            f"The point {pattern!r} never fired in this run; {suggest(pattern, known)}"
        )


def _tails(point: str) -> list[str]:
    """The last part and the last two parts of a point's name, as written after a star."""
    parts = point.split(".")
    return [parts[-1], ".".join(parts[-2:])]


_TAPE: ContextVar[Tape | None] = ContextVar("glassformer_tape", default=None)


def tap(module: nn.Module, name: str, tensor: Tensor, axes: str) -> Tensor:
    """Mark `tensor` as point `name` of `module`, with axes named by the words of `axes`; returns
    the tensor."""
    if torch.compiler.is_compiling() or (tape := _TAPE.get()) is None:
        return tensor
    return tape.fire(module, name, tensor, axes)


def watching(module: nn.Module, *names: str) -> bool:
    """True if the active tape keeps or edits one of these points, which are computed on demand."""
    if torch.compiler.is_compiling() or (tape := _TAPE.get()) is None:
        return False
    # A list: every point is offered, so that the tape knows its name.
    return any([tape.wants(tape.path(module, name)) for name in names])


def recorded() -> bool:
    """True if a tape is active in this thread."""
    return not torch.compiler.is_compiling() and _TAPE.get() is not None


@contextmanager
def recording(tape: Tape) -> Iterator[Tape]:
    """Make `tape` active in this thread (or task) for the body; at the end, a pattern that matched
    nothing raises ConfigError."""
    token = _TAPE.set(tape)
    try:
        yield tape
    finally:
        _TAPE.reset(token)
    tape.check()
