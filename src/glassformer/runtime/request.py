"""What is asked of the engine, and what it reports of a step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from glassformer.axes import Bool, Tensor
from glassformer.layers.cache import Layers
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.prompts import Prompt
from glassformer.runtime.trace import Choice

AHEAD = 4
"""Tokens that a draft proposes for a step, at most."""


class Draft(Protocol):
    """Guesses at what comes next in one text; see `drafts`."""

    def propose(self, ids: Sequence[int], n: int) -> Sequence[int]:
        """At most n tokens that may follow these ids of the text; any may be wrong."""
        ...

    def told(self, proposed: int, right: int) -> None:
        """Learn how many of the tokens proposed last were right."""
        ...


@dataclass(frozen=True)
class Request:
    """A text to be continued.

    `ends`: ids that end it. `top`: how many of the likeliest tokens are reported beside each.
    `scores_prompt`: the log-probabilities of the prompt's tokens are reported too. `salt`: prefixes
    are shared among requests of one salt alone. `allowed`: called with the new tokens so far (in
    each step, perhaps twice with the same, and with fewer after a step with a draft that failed);
    gives those that may come next, one at least, as bool [V]. `only`: the range of those that may
    ever come. `given`: the first new tokens, as if chosen; the first event has the last of them.
    `limit`: at most this many new tokens, if fewer than the configuration's. `source`: of an
    encoder-decoder, the keys and values of its source at each layer, [1, G, S, K] without padding.
    `draft`: proposes at most `ahead` tokens for a step, which changes nothing but the time.
    """

    prompt: Prompt
    config: GenerateConfig
    ends: tuple[int, ...] = ()
    top: int = 0
    scores_prompt: bool = False
    salt: bytes = b""
    allowed: Callable[[Sequence[int]], Bool[Tensor, "V"]] | None = None
    only: range | None = None
    given: tuple[int, ...] = ()
    limit: int | None = None
    source: Layers = field(default_factory=dict)
    draft: Draft | None = None
    ahead: int = AHEAD

    @property
    def n_source(self) -> int:
        """Elements of the source."""
        return self.source[0][0].shape[2] if self.source else 0


@dataclass(frozen=True)
class Scored:
    """A token, its log-probability under the model in nats (None: the first of a prompt), and the
    likeliest tokens in its place with theirs."""

    id: int
    log_prob: float | None
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class Event:
    """News of a request: the scored `prompt`, or its next `token`, or the `error` that ended it.

    `finish`: why the text ended with this token; None: it goes on. `choice`: what an engine with a
    watch tells of the token.
    """

    request: int
    token: Scored | None = None
    finish: Literal["end", "length"] | None = None
    prompt: tuple[Scored, ...] = ()
    error: Exception | None = None
    choice: Choice | None = None
