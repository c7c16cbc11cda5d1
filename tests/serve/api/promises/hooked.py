"""`glassformer serve` with faults: python hooked.py JSON serve RUN ...

JSON: {"limits": {...}} other defaults of Limits. A prompt with three times token 1 raises
ValueError in the model, with three times token 2 MemoryError, with three times token 3 what is no
Exception. Every token is a piece of its stream. SIGUSR1 ends the thread that computes, SIGUSR2 lets it stand still.
"""

import json
import signal
import sys
import threading

from glassformer.cli.main import main
from glassformer.layers.embed import TokenEmbedding
from glassformer.serve.api.admission import Limits
from glassformer.serve.api.engine_thread import EngineThread


class Panic(BaseException):
    """As libraries in other languages raise it."""


FAULTS = {1: ValueError, 2: MemoryError, 3: Panic}


def _poison() -> None:
    inside = TokenEmbedding.forward

    def forward(self: TokenEmbedding, elements):
        ids = elements.flatten().tolist()
        for index, fault in FAULTS.items():
            if any(ids[at : at + 3] == [index] * 3 for at in range(len(ids) - 2)):
                raise fault("poison")
        return inside(self, elements)

    TokenEmbedding.forward = forward


def _noted() -> list[EngineThread]:
    """The threads that are made from now on."""
    inside, found = EngineThread.__init__, []

    def init(self: EngineThread, *arguments) -> None:
        inside(self, *arguments, pace=0.0)
        found.append(self)

    EngineThread.__init__ = init
    return found


def _end() -> None:
    raise SystemExit


if __name__ == "__main__":
    given = json.loads(sys.argv.pop(1))
    fields = Limits.__dataclass_fields__
    values = {name: field.default for name, field in fields.items()} | given.get("limits", {})
    Limits.__init__.__defaults__ = tuple(values[name] for name in fields)
    _poison()
    threads = _noted()
    signal.signal(signal.SIGUSR1, lambda *_: threads[0]._commands.put(_end))
    signal.signal(signal.SIGUSR2, lambda *_: threads[0]._commands.put(threading.Event().wait))
    sys.argv[0] = "glassformer"
    main()
