"""Limits of the server: what is refused instead of being waited for."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Sizes, counts and seconds."""

    body: int = 1 << 20
    """Bytes of a request."""
    remedy: str = "send less, or start the server with a larger --max-body"
    """Advice for a larger one."""
    queue: int = 256
    """Sequences and micro-batches that are accepted and not finished."""
    characters: int = 1 << 18
    """Characters of all texts of a request for a model that reads long texts in windows."""
    deadline: float = 300.0
    """Seconds of a request."""
    begin: float = 60.0
    """Seconds in which a new text is expected to begin, or else is refused at once."""
    send: int = 30
    """Seconds in which a client must read something of its reply."""
    ping: float = 10.0
    """Seconds of silence after which a stream gets a comment."""
    drain: float = 30.0
    """Seconds that running requests have after SIGTERM."""
    connections: int = 1024
    """Connections; a request on one more is refused with 503."""
    keep_alive: int = 5
    """Seconds that an idle connection stays open."""

    @property
    def too_large(self) -> str:
        """The sentence for a request with more than `body` bytes."""
        return f"The request is larger than {self.body:,} bytes; {self.remedy}."
