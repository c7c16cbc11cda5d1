"""A text in the engine: its elements, how many of them have keys and values, and where.

elements   . . . [begin . . . . . . . . . . . ]
           left  | cached  | chunk  |           of the context
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

import numpy as np
import torch

from glassformer.core.axes import Int
from glassformer.core.batch import Part
from glassformer.core.errors import ConfigError
from glassformer.data.collate import padded
from glassformer.data.example import Example
from glassformer.layers.attention.sequences import Sequences
from glassformer.models.transformer import Transformer
from glassformer.runtime.prompts import begin, common, example_of, half, tokens_of
from glassformer.runtime.request import Request, Scored


@dataclass(frozen=True)
class Piece:
    """Elements for a step: their ids, where they and their sources stand in the pool, the numbers
    of those after which logits are wanted, and patches."""

    ids: Sequence[int] | Int[np.ndarray, "N"]
    texts: list[Sequences]
    sources: list[Sequences]
    asked: Int[np.ndarray, "M"]
    parts: tuple[Part, ...] = ()


class Running:
    """A waiting or running request.

    `limit`: most new tokens. `context`: most elements in the context, of which `begin` is the index
    of the first. `ids`: all elements so far, 0 for patches. `n_prompt`: how many are the prompt's;
    `before`: the tokens among these. `is_scored`: whether log-probabilities of the prompt's tokens
    are reported, before the first new token. ConfigError: more tokens given than may come.
    """

    def __init__(self, request: Request, model: Transformer):
        context, prompt, given = model.config.max_length, request.prompt, request.given
        limit = request.config.max_new_tokens
        limit = limit if request.limit is None else min(limit, request.limit)
        self.parts: tuple[Part, ...] = ()
        ids = prompt.ids.tolist() if isinstance(prompt, Example) else list(prompt)
        if isinstance(prompt, Example):  # never cut, so it must fit the context
            limit = min(limit, context + 1 - len(ids))
            self.parts = padded([example_of(prompt)]).parts
        self.begin = begin(len(ids), len(given[:-1]), context)
        if len(given) > limit:
            raise ConfigError(
                f"The given beginning has {len(given)} tokens and {limit} may come; raise "
                "max_new_tokens."
            )
        self.longest = len(ids) - self.begin
        """Slots for its elements: the largest number in the context at the same time, of a search
        those of the prompt."""
        if beams := request.config.beams:  # ends where the context does
            limit = min(limit, context + 1 - self.longest)
        else:
            self.longest = min(context, self.longest + limit - 1)
        self.number, self.request, self.limit, self.context = 0, request, limit, context
        self.n_branches = beams * limit
        """Slots that a search may take for its rows."""
        source = request.source
        self.n_source = 0 if source is None else len(source.ids) + model.config.n_prefix
        """Elements of its source."""
        self.source_width = self.n_source
        """Slots for these."""
        self.ids, self.n_prompt, self.before = [*ids, *given[:-1]], len(ids), tokens_of(prompt)
        settings = request.config.model_dump_json(exclude={"seed"})
        self.key = settings, request.ends, request.only
        """Texts with the same one are chosen for together."""
        self.is_scored, self.scores = request.scores, list[Scored]()
        self.slots, self.cached = np.zeros(0, np.int32), 0
        """Those in the pool, for its elements, then for its source; elements with keys there."""
        self.blocks = list[bytes]()
        """Keys of the prompt's whole blocks."""
        self.ahead, self.proposed = request.ahead, list[int]()
        """Tokens that the draft may propose next, one more than were right the last time; and those
        of this step."""
        self.most = self.share = 1
        """Numbers of a prompt's elements: in one call of attention, and in a step."""

    @property
    def width(self) -> int:
        """Largest number of its rows in a step."""
        return max(1, self.request.config.beams)

    @property
    def n_own(self) -> int:
        """Slots that it takes when it starts."""
        return self.longest + self.source_width

    @property
    def n_slots(self) -> int:
        """Slots that may be in use for it at the same time."""
        return self.n_own + self.n_branches

    @property
    def source_slots(self) -> np.ndarray:
        """Slots of its source, and of padding after it."""
        return self.slots[self.longest :]

    @property
    def left(self) -> int:
        """Elements in the context without keys and values."""
        return len(self.ids) - self.begin - self.cached

    @property
    def new(self) -> int:
        """Tokens generated so far."""
        return len(self.ids) - self.n_prompt

    @property
    def seen(self) -> list[int]:
        """The prompt's tokens and the new ones."""
        return [*self.before, *self.ids[self.n_prompt :]] if self.parts else self.ids

    @property
    def chunk(self) -> int:
        """Elements that are computed next: up to a multiple of `most`, or all; not the last one of
        a prompt of a search, which is its first row."""
        left = self.left - bool(self.request.config.beams)
        return min(left, self.share - self.cached % self.most)

    @property
    def piece(self) -> Piece:
        """The chunk, in sequences of which each attends to those before it, and the tokens proposed
        after it, each a sequence of one."""
        begin, end = self.cached, self.cached + self.chunk
        bounds = [*range(begin, end, self.most), *range(end, end + len(self.proposed) + 1)]
        slots, texts, sources = self.slots[: self.longest], list[Sequences](), list[Sequences]()
        for start, stop in pairwise(bounds):
            texts.append(Sequences.single(slots, stop - start, stop))
            if self.n_source:
                sources.append(Sequences.single(self.source_slots, stop - start, self.n_source))
        ids = [*self.ids[self.begin + begin : self.begin + end], *self.proposed]
        asked = np.arange(len(ids) - self.n_asked, len(ids))
        parts = self.parts_at(range(begin, min(end, self.n_prompt)))
        return Piece(ids, texts, sources, asked, parts)

    def parts_at(self, elements: range) -> tuple[Part, ...]:
        """Return the patches at elements of the prompt, numbered from the first of these."""
        if not elements:
            return ()
        slots = torch.tensor(elements)
        return tuple(part.taken(slots, self.n_prompt) for part in self.parts)

    @property
    def is_ready(self) -> bool:
        """Whether the chunk is the last, so that its logits give the next token."""
        return self.chunk == self.left

    @property
    def known(self) -> Sequence[int]:
        """Tokens that the chunk's logits score."""
        at = self.begin + self.cached + 1
        return self.ids[at : at + self.chunk] if self.is_scored else ()

    @property
    def n_asked(self) -> int:
        """Positions at the end of the chunk, and of proposed tokens, whose logits are wanted."""
        return len(self.known) + int(self.is_ready) + len(self.proposed)

    @property
    def has_plain_prompt(self) -> bool:
        """True if its beginning may be shared: ids only, and never written again by a text that
        outgrows the context."""
        most = self.n_prompt - self.begin + self.limit - 1
        return not (self.parts or self.request.source) and most <= self.context

    @property
    def n_shared(self) -> int:
        """Elements that others may have computed: not the last one before a logit is wanted."""
        return 0 if self.is_scored else self.left - 1

    def propose(self, vocab_size: int) -> None:
        """Call the draft, if the next step gives a token; no more than fit the context, or are
        still to come."""
        self.proposed = []
        room = self.context - self.cached - self.chunk
        n = min(self.ahead, room, self.limit - self.new - 1)
        if self.request.draft is None or not self.is_ready or n < 1:
            return
        guesses = self.request.draft.propose(self.seen, n)[:n]
        self.proposed = [*takewhile(lambda token: 0 <= token < vocab_size, guesses)]

    def append(self, token: int) -> None:
        """Append a new token; a full context moves on to its last half."""
        self.ids.append(token)
        self.is_scored = False
        if self.left + self.cached > self.context:
            self.begin, self.cached = len(self.ids) - half(self.context), 0
            self.blocks = []

    def rewind(self, ids: Sequence[int]) -> None:
        """Replace its elements, and forget the keys from the first one that differs."""
        same = common(self.ids, ids)
        first = begin(self.n_prompt, len(ids) - self.n_prompt, self.context)
        cached = self.cached if first == self.begin else 0
        self.ids, self.begin = list(ids), first
        self.cached = max(0, min(cached, same - first, len(ids) - first - 1))
