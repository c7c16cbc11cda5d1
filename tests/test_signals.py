"""Signals are handled where the system and the thread allow it, and put back."""

import signal
import threading
from types import SimpleNamespace

from glassformer.core import signals


def test_a_signal_that_the_system_lacks_is_left_out(monkeypatch):
    """Windows has no SIGHUP, and SIGBREAK instead; by a stand-in for its module."""
    set_to = {}

    def change(number, handler):
        before, set_to[number] = set_to.get(number, "before"), handler
        return before

    windows = SimpleNamespace(
        SIGINT=2, SIGTERM=15, SIGBREAK=21, SIG_IGN=1, signal=change, getsignal=lambda number: 0
    )
    monkeypatch.setattr(signals, "signal", windows)
    stop = signals.Stop()
    with signals.interruptions(stop):
        assert sorted(set_to) == [2, 15, 21]
        set_to[21](21, None)
        assert stop.signal == 21
    assert set(set_to.values()) == {"before"}


def test_outside_the_main_thread_nothing_is_handled():
    before, seen = signal.getsignal(signal.SIGINT), []

    def work():
        with signals.interruptions(signals.Stop()):
            seen.append(signal.getsignal(signal.SIGINT))
        signals.end_at_second_interrupt()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
    assert signal.getsignal(signal.SIGINT) is before
