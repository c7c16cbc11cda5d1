"""A text in the engine: its elements, how many of them have keys and values, and where.

elements   . . . [begin . . . . . . . . . . . ]
           left  | cached  | chunk  |           of the context
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

import numpy as np
import torch

from glassformer.batch import Part
from glassformer.data.collate import padded
from glassformer.data.example import Example
from glassformer.errors import ConfigError
from glassformer.layers.ragged import Sequences
from glassformer.models.transformer import Transformer
from glassformer.runtime.prompts import begin, examples_of, half, rooms, tokens_of
from glassformer.runtime.request import Request, Scored


@dataclass(frozen=True)
class Piece:
    """Elements of a text for a step: their ids, slots in the pool, patches, and the number of
    positions at the end whose logits are wanted."""

    ids: list[int]
    texts: list[Sequences]
    sources: list[Sequences]
    n_asked: int
    parts: tuple[Part, ...] = ()


@dataclass(eq=False)
class Running:
    """A waiting or running request.

    `limit`: most new tokens. `context`: most elements in the context, of which `begin` is the index
    of the first. `ids`: all elements so far, 0 for patches. `n_prompt`: how many are the prompt's;
    `before`: the tokens among these.
    """

    number: int
    request: Request
    limit: int
    context: int
    begin: int
    longest: int
    """Largest number of elements that may be in the context at the same time."""
    n_slots: int
    """Slots that it takes: for these elements, then for its source."""
    ids: list[int]
    n_prompt: int
    before: list[int]
    settings: str
    """How its tokens are chosen, but for the seed."""
    parts: tuple[Part, ...] = ()
    slots: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    """Those in the pool."""
    cached: int = 0
    blocks: list[bytes] = field(default_factory=list)
    """Keys of the prompt's whole blocks."""
    ahead: int = 0
    """Tokens that the draft may propose next: one more than were right the last time."""
    proposed: list[int] = field(default_factory=list)
    """Those of this step."""
    most: int = 1
    """Elements of a prompt for which attention is computed at once."""
    share: int = 1
    """Elements of it that a step may compute."""
    scores: list[Scored] = field(default_factory=list)

    @classmethod
    def of(cls, number: int, request: Request, model: Transformer) -> "Running":
        """The state before the first step; ConfigError: more tokens given than may come."""
        limits = None if request.limit is None else [request.limit]
        context, prompt, given = model.config.max_length, request.prompt, request.given
        limit = rooms([prompt], model, request.config, limits)[0]
        if len(given) > limit:
            raise ConfigError(
                f"The given beginning has {len(given)} tokens and {limit} may come; raise "
                "max_new_tokens."
            )
        patched = isinstance(prompt, Example)
        ids = prompt.ids.tolist() if patched else list(prompt)
        first = 0 if patched else begin(len(ids), len(given[:-1]), context)
        longest = min(context, len(ids) - first + limit - 1)
        return cls(
            number=number,
            request=request,
            limit=limit,
            context=context,
            begin=first,
            longest=longest,
            n_slots=longest + request.n_source,
            ids=[*ids, *given[:-1]],
            n_prompt=len(ids),
            before=tokens_of(prompt),
            settings=request.config.model_dump_json(exclude={"seed"}),
            parts=padded(examples_of([prompt])).parts if patched else (),
            ahead=request.ahead,
        )

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
        """Elements that are computed next: up to a multiple of `most`, or all."""
        return min(self.left, self.share - self.cached % self.most)

    @property
    def n_segments(self) -> int:
        """Parts of the chunk, of which each attends to those before it."""
        return -(-self.chunk // self.most)

    @property
    def pieces(self) -> list[Piece]:
        """The chunk, and the tokens proposed behind it, each of which attends alone."""
        at, end = self.begin + self.cached, self.cached + self.chunk
        starts = range(self.cached, end, self.most)
        own = [self._elements(at, min(self.most, end - at)) for at in starts]
        after = [self._elements(end + i, 1) for i in range(len(self.proposed))]
        asked = self.n_asked - len(after)
        ids, parts = self.ids[at : at + self.chunk], self._parts(end)
        pieces = [Piece(ids, own, self._sources(own), asked, parts)]
        if after:
            pieces.append(Piece(self.proposed, after, self._sources(after), len(after)))
        return pieces

    def _parts(self, end: int) -> tuple[Part, ...]:
        """The patches of the chunk."""
        if not self.parts or self.cached >= self.n_prompt:
            return ()
        slots = torch.arange(self.cached, min(end, self.n_prompt))
        return tuple(part.taken(slots, self.n_prompt) for part in self.parts)

    def _elements(self, start: int, length: int) -> Sequences:
        """Elements from number `start` of the context on, which are new."""
        return Sequences.single(self.slots[: self.longest], length, start + length)

    def _sources(self, texts: Sequence[Sequences]) -> list[Sequences]:
        """Return its source, for the new elements of each of these."""
        if not self.request.n_source:
            return []
        slots, end = self.slots[self.longest :], self.request.n_source
        return [Sequences.single(slots, one.length, end) for one in texts]

    @property
    def reads_scores(self) -> bool:
        """Whether the prompt's tokens are scored and not all read yet."""
        return self.request.scores_prompt and not self.new

    @property
    def is_ready(self) -> bool:
        """Whether the chunk is the last, so that its logits give the next token."""
        return self.chunk == self.left

    @property
    def known(self) -> Sequence[int]:
        """Tokens of the prompt that the chunk's logits score."""
        at = self.begin + self.cached + 1
        return self.ids[at : at + self.chunk] if self.reads_scores else ()

    @property
    def n_asked(self) -> int:
        """Positions at the end of the chunk, and of proposed tokens, whose logits are asked for."""
        own = self.chunk if self.reads_scores else int(self.is_ready)
        return own + len(self.proposed)

    @property
    def has_plain_prompt(self) -> bool:
        """True if its beginning may be shared: ids only, not scored, and never written again by a
        text that outgrows the context."""
        request, most = self.request, self.n_prompt - self.begin + self.limit - 1
        whole = not (self.parts or request.n_source or request.scores_prompt)
        return whole and most <= self.context

    @property
    def source_slots(self) -> np.ndarray:
        """Slots of its source."""
        return self.slots[self.longest : self.longest + self.request.n_source]

    def propose(self, vocab_size: int) -> None:
        """Ask the draft, if the next step gives a token; no more than fit the context, or are still
        to come."""
        self.proposed = []
        room = min(self.context - self.cached - self.chunk, self.limit - self.new - 1)
        n = min(self.ahead, room)
        if self.request.draft is None or not self.is_ready or n < 1:
            return
        guesses = self.request.draft.propose(self.seen, n)[:n]
        self.proposed = [*takewhile(lambda token: 0 <= token < vocab_size, guesses)]

    def append(self, token: int) -> None:
        """Append a new token; a full context moves on to its last half."""
        self.ids.append(token)
        if self.left + self.cached > self.context:
            self.n_read = half(self.context)
            self.begin, self.cached, self.blocks = len(self.ids) - self.n_read, 0, []
