"""Requests to the engine, and the events of a step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from glassformer.core.axes import Bool, Tensor
from glassformer.data.example import Example
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.prompts import Prompt
from glassformer.runtime.selectors.hypotheses import Hypothesis
from glassformer.runtime.trace import Candidate, Choice

AHEAD = 4
"""Tokens that a draft proposes for a step, at most."""


class Draft(Protocol):
    """Guesses at what comes next in one text; see `drafts`."""

    def propose(self, ids: Sequence[int], n: int) -> Sequence[int]:
        """At most n tokens that may follow these ids of the text; any may be wrong."""
        ...

    def learn(self, proposed: int, right: int) -> None:
        """Learn how many of the tokens proposed last were right."""
        ...


@dataclass(frozen=True)
class Request:
    """A text to be continued.

    `ends`: ids that end it. `top`: number of the likeliest tokens that are reported with each.
    `scores`: whether the log-probabilities of the prompt's tokens are reported too. `salt`:
    prefixes are shared only among requests of one salt. `allowed`: called with the new tokens so
    far (in each step, perhaps twice with the same, and with fewer after a step with a draft that
    failed); returns those that may come next, at least one, as bool [V]. `only`: the range of those
    that may ever come. `given`: the first new tokens, as if chosen; the first event has the last of
    them. `limit`: at most this many new tokens, if fewer than the configuration's. `source`: of an
    encoder-decoder, what its encoder reads. `draft`: proposes at most `ahead` tokens for a step,
    which changes only the time. `selector`: the `Search` among `config.beams` sequences, made of
    the pool, `config` and `ends`; None: a beam search.
    """

    prompt: Prompt
    config: GenerateConfig
    ends: tuple[int, ...] = ()
    top: int = 0
    scores: bool = False
    salt: bytes = b""
    allowed: Callable[[Sequence[int]], Bool[Tensor, "V"]] | None = None
    only: range | None = None
    given: tuple[int, ...] = ()
    limit: int | None = None
    source: Example | None = None
    draft: Draft | None = None
    ahead: int = AHEAD
    selector: Callable[..., Any] | None = None


@dataclass(frozen=True)
class Scored:
    """A token, its log-probability under the model in nats (None: the first of a prompt), and the
    likeliest tokens in its place with theirs."""

    id: int
    log_prob: float | None
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class Event:
    """News of a request: its next `token`, its best `hypotheses`, or the `error` that ended it.

    `finish`: why the text ended; None: it continues. `scored`: the scored tokens of the prompt.
    `choice`: the record of the token in an engine with a watch; `candidates`: of a step of a beam
    search, of each live hypothesis in turn, its likeliest first.
    """

    request: int
    token: Scored | None = None
    finish: Literal["end", "length"] | None = None
    scored: tuple[Scored, ...] = ()
    hypotheses: tuple[Hypothesis, ...] = ()
    error: Exception | None = None
    choice: Choice | None = None
    candidates: tuple[Candidate, ...] = ()
