"""Logits of a step of the engine to the next token of each text, and to the scores of prompts.

Texts of equal configurations, seeds aside, are chosen for together, row by row.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from glassformer.core.axes import Float, Tensor
from glassformer.runtime.advance import Scores
from glassformer.runtime.prompts import check_numbers
from glassformer.runtime.request import Scored
from glassformer.runtime.selectors.constraints import Rows
from glassformer.runtime.selectors.sampling import likeliest, limited, next_tokens, remaining
from glassformer.runtime.sequence import Running
from glassformer.runtime.trace import Choice, choice


class Read(NamedTuple):
    """What a step gives a text: scores of its prompt, and its next tokens if the prompt is over:
    one, and one more after each right guess of its draft; with their records."""

    scores: list[Scored]
    tokens: list[Scored]
    choices: list[Choice | None]


@dataclass
class Place:
    """A text in a step: the number of its first logits, and what is chosen by them so far."""

    text: Running
    begin: int
    tokens: list[int] = field(default_factory=list)
    choices: list[Choice | None] = field(default_factory=list)

    @property
    def at(self) -> int:
        """Number of the logits that give the next token."""
        return self.begin + len(self.wanted)

    @property
    def wanted(self) -> list[int]:
        """Tokens that are scored, each by the logits before it, from the first on."""
        return [*self.text.known, *self.tokens]

    @property
    def new(self) -> int:
        """Tokens generated so far."""
        return self.text.new + len(self.tokens)

    @property
    def continues(self) -> bool:
        """Whether the newest token was proposed here, so that there are logits after it."""
        guess = self.text.proposed[len(self.tokens) - 1 :][:1]
        over = self.tokens[-1] in self.text.request.ends or self.new == self.text.limit
        return guess == self.tokens[-1:] and not over

    def restrict(self, logits: Float[Tensor, "V"]) -> Float[Tensor, "V"]:
        """Return the logits of the tokens that may come."""
        text, request = self.text, self.text.request
        if request.allowed is None:
            return logits
        allowed = request.allowed([*text.ids[text.n_prompt :], *self.tokens])
        return logits.masked_fill(~allowed.to(logits.device), -torch.inf)


def read(texts: Sequence[Running], scores: Scores) -> list[Read]:
    """Return what scores give to each text; with a `top`, choices are recorded.

    GlassformerError: logits that are not numbers.
    """
    places, begin = list[Place](), 0
    for one in texts:
        places.append(Place(one, begin))
        begin += one.n_asked
    if not begin:
        return [Read([], [], []) for _ in texts]
    logits = scores.head(slice(0, begin))
    going = [one for one in places if one.text.is_ready]
    while going:
        groups = dict[tuple[object, ...], list[Place]]()
        for one in going:
            groups.setdefault(one.text.key, []).append(one)
        for group in groups.values():
            _choose(group, logits, scores)
        going = [one for one in going if one.continues]
    return _score(places, logits.log_softmax(-1))


def _choose(places: Sequence[Place], logits: Float[Tensor, "N V"], scores: Scores) -> None:
    """Add the next token of each of these places, which have one key, and its record."""
    request = places[0].text.request
    own = logits[[one.at for one in places]]
    left = own if request.only is None else limited(own, request.only)
    if any(one.text.request.allowed for one in places):
        left = torch.stack([one.restrict(row) for one, row in zip(places, left, strict=True)])
    rows = Rows(
        [[*one.text.seen, *one.tokens] if one.tokens else one.text.seen for one in places],
        [one.new for one in places],
        request.ends,
        [one.new + 1 == one.text.limit for one in places],
        [one.text.request.config.seed for one in places],
    )
    chosen = next_tokens(left, rows, request.config).tolist()
    after = remaining(left.cpu(), rows, request.config) if scores.top else None
    for row, (one, token) in enumerate(zip(places, chosen, strict=True)):
        given, record = one.text.request.given[one.new : one.new + 1], None
        token = given[0] if given else token
        if after is not None:
            attention = scores.rows(one.at, one.text.begin)
            record = choice(own[row], after[row], token, scores.top, attention)
        one.tokens.append(token)
        one.choices.append(record)


def _score(places: Sequence[Place], log_probs: Float[Tensor, "N V"]) -> list[Read]:
    """Return the wanted tokens of each place with log p; the first of a prompt has none."""
    ids = [token for one in places for token in one.wanted]
    at = [one.begin + i for one in places for i in range(len(one.wanted))]
    own = log_probs[at, ids]
    check_numbers(own)
    values, found = iter(own.tolist()), list[Read]()
    for one in places:
        text, known, wanted = one.text, len(one.text.known), one.wanted
        best = _likeliest(log_probs[one.begin : one.begin + len(wanted)], text.request.top)
        scored = [Scored(i, next(values), top) for i, top in zip(wanted, best, strict=True)]
        first = [Scored(text.ids[0], None)] * (text.is_scored and not text.cached)
        found.append(Read([*first, *scored[:known]], scored[known:], one.choices))
    return found


def _likeliest(log_probs: Float[Tensor, "N V"], k: int) -> list[tuple[tuple[int, float], ...]]:
    """Return the k likeliest tokens of each row with log p."""
    if not k:
        return [()] * len(log_probs)
    ids = likeliest(log_probs, k)
    values = log_probs.gather(-1, ids).tolist()
    return [tuple(zip(*row, strict=True)) for row in zip(ids.tolist(), values, strict=True)]
