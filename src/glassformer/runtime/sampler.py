"""Logits of a step of the engine to the next token of each text, and to the scores of prompts.

Texts of equal configurations, seeds aside, are chosen for together, row by row.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import torch

from glassformer.axes import Float, Int, Tensor
from glassformer.runtime.advance import Scores
from glassformer.runtime.constraints import Rows
from glassformer.runtime.prompts import check_numbers
from glassformer.runtime.request import Scored
from glassformer.runtime.sampling import likeliest, limited, next_tokens, remaining
from glassformer.runtime.sequence import Running
from glassformer.runtime.trace import AttentionRows, Choice, choices


class Read(NamedTuple):
    """What a step gives a text: scores of its prompt, and its next tokens if the prompt is over:
    one, and one more behind each right guess of its draft; with their records."""

    scores: list[Scored]
    tokens: list[Scored]
    choices: list[Choice | None]


@dataclass(frozen=True)
class Place:
    """Where a text chooses its next token: behind the tokens `more` of this step, from the logits
    at the index `at`, with `told` of its attention."""

    text: Running
    more: list[int]
    at: int
    told: AttentionRows | None = None

    @property
    def new(self) -> int:
        """Tokens generated so far."""
        return self.text.new + len(self.more)

    @property
    def is_last(self) -> bool:
        """Whether no token may come behind the next one."""
        return self.new + 1 == self.text.limit

    @property
    def key(self) -> tuple[object, ...]:
        """Places with the same one are chosen for together."""
        request = self.text.request
        return self.text.settings, request.ends, request.only

    def goes_on(self, token: int) -> bool:
        """Whether this token was proposed here, so that the next place has logits too."""
        right = self.text.proposed[len(self.more) :][:1] == [token]
        return right and token not in self.text.request.ends and not self.is_last

    def allowed(self, logits: Float[Tensor, "1 V"]) -> Float[Tensor, "1 V"]:
        """The logits of the tokens that may come."""
        text, request = self.text, self.text.request
        if request.allowed is None:
            return logits
        allowed = request.allowed([*text.ids[text.n_prompt :], *self.more])
        return logits.masked_fill(~allowed.to(logits.device), -torch.inf)


def read(texts: Sequence[Running], scores: Scores) -> list[Read]:
    """Return what scores give to each text; with a `top`, choices are recorded.

    GlassformerError: logits that are not numbers.
    """
    begins = [0, *accumulate(one.n_asked for one in texts)]
    if not begins[-1]:
        return [Read([], [], []) for _ in texts]
    logits = scores.head(slice(0, begins[-1]))
    log_probs = logits.log_softmax(-1)
    ends = accumulate(one.n_segments + len(one.proposed) for one in texts)
    last = [end - len(one.proposed) - 1 for one, end in zip(texts, ends, strict=True)]
    tokens: list[list[int]] = [[] for _ in texts]
    records: list[list[Choice | None]] = [[] for _ in texts]
    going = [i for i, one in enumerate(texts) if one.is_ready]
    while going:
        depth = len(tokens[going[0]])
        groups: dict[tuple[object, ...], list[tuple[int, Place]]] = {}
        for i in going:
            at = begins[i] + len(texts[i].known) + depth
            place = Place(texts[i], tokens[i], at, scores.told[last[i] + depth])
            groups.setdefault(place.key, []).append((i, place))
        going = []
        for group in groups.values():
            chosen = _chosen([place for _, place in group], logits, scores.top)
            for (i, place), token, record in zip(group, *chosen, strict=True):
                going += [i] * place.goes_on(token)
                tokens[i].append(token)
                records[i].append(record)
    wanted = [[*one.known, *own] for one, own in zip(texts, tokens, strict=True)]
    found = _scored(texts, log_probs, begins, wanted)
    return [
        Read(own[: len(own) - len(new)], own[len(own) - len(new) :], choices)
        for own, new, choices in zip(found, tokens, records, strict=True)
    ]


def _chosen(
    places: Sequence[Place], logits: Float[Tensor, "N V"], top: int
) -> tuple[list[int], Sequence[Choice | None]]:
    """The next tokens at places with one key, given or chosen; their records with a `top`."""
    request = places[0].text.request
    own = _rows(logits, [place.at for place in places])
    left = own if request.only is None else limited(own, request.only)
    if any(place.text.request.allowed for place in places):
        pairs = zip(places, left.split(1), strict=True)
        left = torch.cat([place.allowed(row) for place, row in pairs])
    seen = [[*place.text.seen, *place.more] if place.more else place.text.seen for place in places]
    new, last = [place.new for place in places], [place.is_last for place in places]
    seeds = [place.text.request.config.seed for place in places]
    rows = Rows(seen, new, request.ends, last, seeds)
    ids = next_tokens(left, rows, request.config).tolist()
    given = [place.text.request.given[place.new : place.new + 1] for place in places]
    ids = [one[0] if one else token for one, token in zip(given, ids, strict=True)]
    if not top:
        return ids, [None] * len(ids)
    after = remaining(left.cpu(), rows, request.config)
    return ids, choices(own, after, torch.tensor(ids), top, [place.told for place in places])


def _rows(logits: Float[Tensor, "N V"], at: Sequence[int]) -> Float[Tensor, "M V"]:
    """These rows; no copy if they are all."""
    if list(at) == list(range(len(logits))):
        return logits
    return logits[torch.tensor(at, dtype=torch.long, device=logits.device)]


def _scored(
    texts: Sequence[Running],
    log_probs: Float[Tensor, "N V"],
    begins: Sequence[int],
    wanted: Sequence[Sequence[int]],
) -> list[list[Scored]]:
    """The wanted tokens of each text, scored at its positions from its first on; the first of a
    prompt has no log-probability."""
    at = [begin + i for begin, own in zip(begins, wanted, strict=False) for i in range(len(own))]
    ids = torch.tensor([i for own in wanted for i in own], device=log_probs.device)
    own_log_probs = _rows(log_probs, at).gather(-1, ids[:, None])[:, 0]
    check_numbers(own_log_probs)
    values = iter(own_log_probs.tolist())
    found: list[list[Scored]] = []
    for one, begin, own in zip(texts, begins, wanted, strict=False):
        top = one.request.top if own else 0
        best = _likeliest(log_probs[begin : begin + len(own)], top) if top else [()] * len(own)
        scored = [Scored(i, next(values), others) for i, others in zip(own, best, strict=True)]
        first = one.is_scored and not one.cached
        found.append([Scored(one.ids[0], None), *scored] if first else scored)
    return found


def _likeliest(log_probs: Float[Tensor, "N V"], k: int) -> list[tuple[tuple[int, float], ...]]:
    ids: Int[Tensor, "N K"] = likeliest(log_probs, k)
    values = log_probs.gather(-1, ids).tolist()
    return [tuple(zip(*row, strict=True)) for row in zip(ids.tolist(), values, strict=True)]
