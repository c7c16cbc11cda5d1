"""Stop strings over text that arrives in pieces: no part of a stop is shown, nothing before it is
lost."""

from collections.abc import Sequence


class StopStrings:
    """Passes text through, holding back the longest tail that could still become one of `stops`.

    The stop that is complete first counts (of several that end at one place the longest), so that
    the result does not depend on how the text was cut into pieces.
    """

    def __init__(self, stops: Sequence[str]):
        self.stops = tuple(stop for stop in stops if stop)
        self.held = ""
        self.stopped = False

    def push(self, text: str) -> str:
        """The text that may be shown after `text` arrived; "" after the first stop."""
        if self.stopped:
            return ""
        self.held += text
        found = [(at + len(stop), at) for stop in self.stops if (at := self.held.find(stop)) >= 0]
        if found:
            self.stopped = True
            shown, self.held = self.held[: min(found)[1]], ""
            return shown
        keep = max((_overlap(self.held, stop) for stop in self.stops), default=0)
        cut = len(self.held) - keep
        shown, self.held = self.held[:cut], self.held[cut:]
        return shown

    def flush(self) -> str:
        """The rest, when no more text will come."""
        shown, self.held = self.held, ""
        return shown


def _overlap(text: str, stop: str) -> int:
    """Length of the longest tail of `text` that is a proper beginning of `stop`."""
    return next(
        (n for n in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:n])), 0
    )
