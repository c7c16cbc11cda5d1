"""The looks that were asked for: made once, kept while there is room, of the model itself or of its
checkpoints.

    desk.look(LookAsk(input="the cat", edits=[...]))      found again by its content, or made

Requests carry all of it, so going back in the browser costs nothing, and nobody's edits reach
another request. One lock for the model: two computations at once would be slower than one after the
other. Whoever has gone away in the meantime is not computed for: ops ask `check` between layers.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from glassformer.errors import ConfigError
from glassformer.inspect.edits import Edit, edit_from_json
from glassformer.inspect.look import Look
from glassformer.run import Run
from glassformer.serve.explorer.decode_input import Sensed, given
from glassformer.serve.explorer.examples import family, sensed
from glassformer.serve.explorer.requests import LookAsk, brief
from glassformer.serve.explorer.wire import text

ROOM = 1 << 30
"""Bytes of looks that are kept."""
MODELS = 3
"""Checkpoints that are kept open."""
NESTED = 3
"""How far looks may name looks as the sources of their edits."""


class Gone(Exception):
    """Whoever asked does not wait for the answer any more."""


@dataclass
class Looks:
    """The looks of one run, the latest last; at most `room` bytes of them, but always one."""

    run: Run
    room: int = ROOM
    lock: threading.RLock = field(default_factory=threading.RLock)
    _kept: OrderedDict[str, Look] = field(default_factory=OrderedDict)
    _runs: OrderedDict[int, Run] = field(default_factory=OrderedDict)
    _examples: Mapping[str, Sequence[Sensed]] | None = None

    def find(self, ask: LookAsk, nested: int = 0) -> tuple[Look, bool]:
        """The look, and whether it was there already; errors: those of looking. To be called under
        the lock."""
        name = content_of(ask)
        if name in self._kept:
            self._kept.move_to_end(name)
            return self._kept[name], True
        edits = [self._edit(edit, nested) for edit in ask.edits]
        if self._examples is None:
            self._examples = sensed(self.run)
        alone = family(self.run) if self.run.senses is not None else ""
        plain = ask.model_copy(update={"edits": []})
        # An input is read and cut into tokens once: the looks that only differ in edits follow from
        # it.
        base = self._kept.get(content_of(plain)) if edits else None
        made = (
            self.of(ask.checkpoint).look(given(ask.input, self._examples, alone), edits)
            if base is None
            else base.edited(edits)
        )
        self._kept[name] = made
        self._let_go()
        return made, False

    def of(self, checkpoint: int | None) -> Run:
        """The run, with the weights of a checkpoint if one is named; ConfigError: there is no such
        checkpoint."""
        if checkpoint is None:
            return self.run
        if checkpoint not in self._runs:
            self._runs[checkpoint] = self.run.at(checkpoint)
        self._runs.move_to_end(checkpoint)
        while len(self._runs) > MODELS:
            self._runs.popitem(last=False)
        return self._runs[checkpoint]

    def _edit(self, value: dict[str, Any], nested: int) -> Edit:
        """An edit of plain values, whose `source` is a look as requests have them."""
        source = value.get("source")
        if not isinstance(source, dict):
            return edit_from_json(value)
        if nested >= NESTED:
            raise ConfigError(
                f"The source of {brief(value.get('edit'))} is nested more than {NESTED} deep; "
                f"flatten it."
            )
        ask = LookAsk.parse(source)
        name = content_of(ask)
        return edit_from_json({**value, "source": name}, {name: self.find(ask, nested + 1)[0]})

    def _let_go(self) -> None:
        """Forget the oldest looks until the others fit; a look grows as it is asked for more."""
        sizes = {name: bytes_of(look) for name, look in self._kept.items()}
        total = sum(sizes.values())
        for name in list(self._kept)[:-1]:
            if total <= self.room:
                return
            del self._kept[name]
            total -= sizes[name]


@dataclass(frozen=True)
class Desk:
    """What an op works at: the looks of a run, and whether somebody still waits for the answer."""

    looks: Looks
    gone: Callable[[], bool] = lambda: False

    @property
    def run(self) -> Run:
        """The run."""
        return self.looks.run

    def look(self, ask: LookAsk) -> Look:
        """The look that is asked for."""
        self.check()
        return self.looks.find(ask)[0]

    def check(self) -> None:
        """Raise `Gone` if nobody waits for the answer."""
        if self.gone():
            raise Gone


def content_of(ask: LookAsk) -> str:
    """What a look is called: a digest of its input, edits and checkpoint."""
    return hashlib.sha256(text(ask.model_dump()).encode()).hexdigest()[:24]


def bytes_of(look: Look) -> int:
    """The memory that a look holds; tensors that share theirs count once."""
    tensors = [
        *look.tape.kept.values(),
        *look.tape.before.values(),
        look.output.logits,
        look.output.features.hidden,
    ]
    return sum(
        {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values()
    )
