"""Logits of a step of the engine to the next token of each text, and to the scores of prompts.

Texts of one configuration at the same step are chosen for together, row by row.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import torch

from glassformer.axes import Float, Int, Tensor
from glassformer.generate.advance import check_numbers
from glassformer.generate.config import GenerateConfig
from glassformer.generate.constraints import Rows
from glassformer.generate.logits import likeliest, limited, next_tokens, remaining
from glassformer.generate.request import Scored
from glassformer.generate.running import Running
from glassformer.generate.watch import AttentionRows, Choice, choices

Told = Sequence[AttentionRows | None]


@dataclass(frozen=True)
class Read:
    """What a step gives a text: scores of its prompt, and its next token if the prompt is over."""

    scores: list[Scored] = field(default_factory=list)
    token: Scored | None = None
    choice: Choice | None = None


@dataclass(frozen=True)
class Group:
    """Texts of one configuration at the same step: their indices, their logits, those that are left
    to tokens that may come, and what the transforms read."""

    at: list[int]
    logits: Float[Tensor, "B V"]
    left: Float[Tensor, "B V"]
    rows: Rows
    config: GenerateConfig

    def choices(self, ids: Sequence[int], top: int, attention: Told) -> Sequence[Choice]:
        """Records of these choices, each with its rows of attention."""
        left = remaining(self.left.cpu(), self.rows, self.config)
        own = [attention[i] for i in self.at]
        return choices(self.logits, left, torch.tensor(ids), top, own)


def read(
    texts: Sequence[Running],
    logits: Float[Tensor, "N V"],
    top: int = 0,
    attention: Told = (),
) -> list[Read]:
    """What each text gets from the logits at its positions; with a `top`, choices are recorded,
    each with its rows of `attention`.

    GlassformerError: logits that are not numbers.
    """
    if not len(logits):
        return [Read() for _ in texts]
    log_probs = logits.log_softmax(-1)
    check_numbers(log_probs)
    bounds = [0, *accumulate(one.n_asked for one in texts)]
    ready = [i for i, one in enumerate(texts) if one.is_ready]
    tokens: dict[int, int] = {}
    records: dict[int, Choice] = {}
    own = _rows(logits, [bounds[i + 1] - 1 for i in ready])
    for group in groups([texts[i] for i in ready], own):
        ids = _chosen([texts[ready[i]] for i in group.at], group)
        tokens |= zip((ready[i] for i in group.at), ids, strict=True)
        if top:
            of = [ready[i] for i in group.at]
            records |= zip(of, group.choices(ids, top, attention), strict=True)
    wanted = [[*one.known, *([tokens[i]] if i in tokens else [])] for i, one in enumerate(texts)]
    scored = _scored(texts, log_probs, wanted)
    return [
        Read(own[:-1], own[-1], records.get(i)) if i in tokens else Read(own)
        for i, own in enumerate(scored)
    ]


def groups(texts: Sequence[Running], logits: Float[Tensor, "N V"]) -> Iterator[Group]:
    """The texts by configuration and step, with the logits of each."""
    found: dict[tuple[object, ...], list[int]] = {}
    for at, one in enumerate(texts):
        key = id(one.request.config), one.request.ends, one.request.only, one.new
        found.setdefault(key, []).append(at)
    for at in found.values():
        texts_here, request = [texts[i] for i in at], texts[at[0]].request
        own = _rows(logits, at)
        left = own if request.only is None else limited(own, request.only)
        if any(one.request.allowed for one in texts_here):
            pairs = zip(texts_here, left.split(1), strict=True)
            left = torch.cat([_allowed(one, row) for one, row in pairs])
        last = [one.new + 1 == one.limit for one in texts_here]
        rows = Rows([one.seen for one in texts_here], texts_here[0].new, request.ends, last)
        yield Group(at, own, left, rows, request.config)


def _allowed(one: Running, logits: Float[Tensor, "1 V"]) -> Float[Tensor, "1 V"]:
    if one.request.allowed is None:
        return logits
    allowed = one.request.allowed(one.ids[one.n_prompt :])
    return logits.masked_fill(~allowed.to(logits.device), -torch.inf)


def _chosen(texts: Sequence[Running], group: Group) -> list[int]:
    """The next token of each text: the one that is given, or the chosen one."""
    ids = next_tokens(group.left, group.rows, group.config).tolist()
    new = group.rows.new
    given = [one.request.given[new : new + 1] for one in texts]
    return [own[0] if own else token for own, token in zip(given, ids, strict=True)]


def _rows(logits: Float[Tensor, "N V"], at: Sequence[int]) -> Float[Tensor, "M V"]:
    """These rows; no copy if they are all."""
    if list(at) == list(range(len(logits))):
        return logits
    return logits[torch.tensor(at, dtype=torch.long, device=logits.device)]


def _scored(
    texts: Sequence[Running], log_probs: Float[Tensor, "N V"], wanted: Sequence[Sequence[int]]
) -> list[list[Scored]]:
    """The wanted token at each position of each text, scored; the first of a prompt has no
    log-probability."""
    ids = torch.tensor([i for own in wanted for i in own], device=log_probs.device)
    values = iter(log_probs.gather(-1, ids[:, None])[:, 0].tolist())
    found: list[list[Scored]] = []
    end = 0
    for one, own in zip(texts, wanted, strict=True):
        begin, end = end, end + len(own)
        top = one.request.top if own else 0
        best = _likeliest(log_probs[begin:end], top) if top else None
        scored = [
            Scored(token, next(values), best[at] if best else ()) for at, token in enumerate(own)
        ]
        first = one.reads_scores and not one.cached
        found.append([Scored(one.ids[0], None), *scored] if first else scored)
    return found


def _likeliest(log_probs: Float[Tensor, "N V"], k: int) -> list[tuple[tuple[int, float], ...]]:
    ids: Int[Tensor, "N K"] = likeliest(log_probs, k)
    values = log_probs.gather(-1, ids).tolist()
    return [tuple(zip(*row, strict=True)) for row in zip(ids.tolist(), values, strict=True)]
