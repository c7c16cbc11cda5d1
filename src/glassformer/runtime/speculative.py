"""Speculative decoding: cheap guesses at the next tokens, which the model checks in one step.

    text          . . . a b
    proposed              c d e                by a draft
    chosen                c d f                by the model in one step: all three are the text's

Random numbers depend on (seed, step), so the model's choice at each place is a function of its
logits there, and a guess is right if it equals that choice. A draft changes no token and no
probability, greedy or sampled, only the time. (Leviathan et al. 2023 accept guesses at random, with
the same law.)
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from glassformer.core.errors import ConfigError
from glassformer.models.transformer import Transformer
from glassformer.runtime.engine import Engine
from glassformer.runtime.prompts import tokens_of
from glassformer.runtime.request import AHEAD, Request
from glassformer.runtime.sequence import Running

SIZES = 4, 3, 2
"""Lengths of the endings that are looked up, the longest first."""


@dataclass
class Counts:
    """How many tokens were proposed, and how many of them were right."""

    proposed: int = 0
    right: int = 0

    def learn(self, proposed: int, right: int) -> None:
        """Add those of a step."""
        self.proposed, self.right = self.proposed + proposed, self.right + right


@dataclass(frozen=True)
class Drafts:
    """How texts are drafted: by a small model of the same vocabulary, or (None) by looking up where
    their last tokens stood before.

    `ahead`: tokens that are proposed for a step, at most. `counts`: of all texts. ConfigError:
    `ahead` below 1, or a model that is no decoder.
    """

    model: Transformer | None = None
    ahead: int = AHEAD
    counts: Counts = field(default_factory=Counts)

    def __post_init__(self) -> None:
        if self.ahead < 1:
            raise ConfigError(
                f"A draft proposes at least 1 token, and draft_tokens={self.ahead}; raise it."
            )
        if self.model is not None and not self.model.config.is_decoder_only:
            raise ConfigError(
                f"A draft continues a text, and this model has "
                f"architecture={self.model.config.architecture!r}; use a decoder, or ngram."
            )

    def drafted(self, request: Request) -> Request:
        """The request with a draft of its own."""
        model, counts = self.model, self.counts
        draft = Lookup(counts) if model is None else ModelDraft(model, request, counts)
        return replace(request, draft=draft, ahead=self.ahead)


class Lookup:
    """Proposes what followed the last tokens of a text where they stood the last time."""

    def __init__(self, counts: Counts):
        self.learn, self.read = counts.learn, 0
        self.places: dict[tuple[int, ...], int] = {}
        """Where the text went on behind each sequence."""

    def propose(self, ids: Sequence[int], n: int) -> Sequence[int]:
        """See `Draft`; what followed is repeated if it reaches the end of the text."""
        for end in range(self.read + 1, len(ids)):
            for size in (size for size in SIZES if size <= end):
                self.places[tuple(ids[end - size : end])] = end
        self.read = max(self.read, len(ids) - 1)
        for size in SIZES:
            if (at := self.places.get(tuple(ids[-size:]))) is not None:
                return [ids[at + i % (len(ids) - at)] for i in range(n)]
        return ()


class ModelDraft:
    """Proposes what a small model would write with the same settings and random numbers.

    Its cache follows the text: where the text took another token than proposed, the rest of the
    cache is forgotten.
    """

    def __init__(self, model: Transformer, request: Request, counts: Counts):
        self.learn, self.model = counts.learn, model
        prompt = tuple(tokens_of(request.prompt))
        config = request.config.model_copy(update={"overflow": "window"})
        self.request = Request(prompt, config, only=request.only, limit=request.limit)

    @cached_property
    def engine(self) -> Engine:
        """An engine of its own, made when the text begins."""
        return Engine.of(self.model, [self.request])

    @cached_property
    def text(self) -> Running:
        """The text in that engine."""
        return self.engine.queue.waiting[0]

    def propose(self, ids: Sequence[int], n: int) -> Sequence[int]:
        """See `Draft`; nothing if the model failed before, say with logits that are no numbers."""
        self.text.rewind(ids)
        found: list[int] = []
        while len(found) < n and not self.engine.idle:
            found += [event.token.id for event in self.engine.step() if event.token is not None]
        return found
