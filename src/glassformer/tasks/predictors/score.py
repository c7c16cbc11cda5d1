"""`score`: log p of each token of a text given those before it, or of a target given its source."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from glassformer.core.errors import ConfigError
from glassformer.data.example import Example
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.scoring import Likelihood
from glassformer.tasks.options import ScoreOptions
from glassformer.tasks.predictors.answer import Translate
from glassformer.tasks.predictors.generate import Generate
from glassformer.tasks.predictors.likelihood import (
    Pair,
    beginning,
    cut,
    likelihoods,
    prompt_ids,
    rolling,
    score,
    split_answer,
)
from glassformer.tasks.predictors.predictor import WHOLE, OfText, Parsed, Prediction, check_text
from glassformer.tasks.predictors.text import finish


@dataclass(frozen=True)
class TokenScore:
    """One token of a scored text: its piece and log p in nats (None for the first, unless the
    tokenizer begins a text with a symbol)."""

    piece: str
    log_prob: float | None


@dataclass(frozen=True)
class TokenScores(Prediction):
    """The tokens of a text, or of a target with its end, and their log-probabilities."""

    tokens: Sequence[TokenScore]
    target: str | None = None

    @property
    def value(self) -> list[TokenScore]:
        """Return the value that the verb of a run gives."""
        return [*self.tokens]

    @property
    def log_probs(self) -> list[float]:
        """log p of each token that has one."""
        return [one.log_prob for one in self.tokens if one.log_prob is not None]

    def line(self) -> str:
        """See `Prediction`: log p of a target, its mean, and the target; of a text a line for each
        token, and their sum."""
        total, n = math.fsum(self.log_probs), len(self.log_probs)
        if self.target is not None:
            return f"{total:.4f}\t{total / n:.4f}\t{self.target}"
        rows = [("piece", "log p")]
        for one in self.tokens:
            shown = "-" if one.log_prob is None else f"{one.log_prob:.4f}"
            rows.append((f"'{one.piece}'", shown))
        last = f"{'sum':16} {total:9.4f}  ({-total / n:.4f} nats a token, {n} predicted)"
        return "\n".join([*(f"{piece:16} {shown:>9}" for piece, shown in rows), last])

    def json(self) -> dict[str, Any]:
        """Return plain values."""
        if self.target is not None:
            return {"log_prob": sum(self.log_probs), "log_probs": self.log_probs}
        tokens = [vars(one) for one in self.tokens]
        return {"tokens": tokens, "log_prob": math.fsum(self.log_probs)}


class Score(OfText[ScoreOptions]):
    """log p of the tokens of texts; and of answers to prompts, for labels and harnesses."""

    name, routes = "score", ("score",)
    lines, first = False, "\n"
    reply: ClassVar = {"log_prob": {"type": "number", "description": "log p in nats"}}

    def parse(
        self, given: Any, options: ScoreOptions, where: str = "The input", number: int = 1
    ) -> Parsed:
        """Read an input."""
        one = Example(self.processor.tokenizer.encode(check_text(given)))
        return Parsed(given, (one,), number=number)

    def predict(
        self, inputs: Iterable[Parsed], options: ScoreOptions, elements: int = WHOLE
    ) -> Iterator[TokenScores | None]:
        """Yield the prediction of each input, and None after each step."""
        tokenizer = self.processor.tokenizer
        first = tokenizer.frame_or("", "").begin
        for one in inputs:
            ids = one.windows[0].ids.tolist()
            log_probs = score(self.model, ids, prefix=first)
            yield
            own = log_probs if first else [None, *log_probs]
            yield TokenScores([*map(TokenScore, map(tokenizer.piece, ids), own)])

    @property
    def begin(self) -> int | None:
        """The symbol that begins a target; None: an answer continues its prompt."""
        return None

    def ids_of(self, prompt: str, answer: str, fit: bool = False) -> Pair:
        """Ids of a prompt and its answer; `fit`: a prompt that is too long loses its beginning."""
        pair = split_answer(self.processor.tokenizer, prompt, answer)
        return cut(pair, self.model.config.max_length) if fit else pair

    def room(self, prompt: str, answer: str) -> int:
        """Tokens that are left beside a prompt and its answer; below 0: too many."""
        return self.model.config.max_length + 1 - sum(map(len, self.ids_of(prompt, answer)))

    def likelihoods(self, pairs: Iterable[tuple[str, str]], fit: bool = False) -> list[Likelihood]:
        """log p of the answer in each (prompt, answer)."""
        return likelihoods(self.model, [self.ids_of(*pair, fit) for pair in pairs], self.begin)

    def roll(self, texts: Sequence[str]) -> list[float]:
        """log p of whole texts, read in windows that predict each token once.

        ConfigError: no symbol begins a text.
        """
        tokenizer, longest = self.processor.tokenizer, self.model.config.max_length
        first, frame = beginning(tokenizer), tokenizer.frame_or("", "").begin
        if texts and not first:
            raise ConfigError(
                f"{self.task.folder} has no symbol after which a text's first token is predicted; "
                "use `glassformer evaluate`."
            )
        windows = [
            rolling([*frame, *tokenizer.encode(text).tolist()], first[0], longest) for text in texts
        ]
        found = iter(likelihoods(self.model, [*chain.from_iterable(windows)]))
        return [sum(next(found).log_prob for _ in own) for own in windows]

    def complete(self, prompts: Sequence[str], how: GenerateConfig) -> list[str]:
        """Return the new text after prompts, whose beginning is left out where it is too long."""
        longest = self.model.config.max_length
        kept, tokenizer = max(longest - how.max_new_tokens, longest // 2), self.processor.tokenizer
        read = (np.array(prompt_ids(tokenizer, text)[0][-kept:], np.int32) for text in prompts)
        parsed = [Parsed("", (Example(ids),)) for ids in read]
        return [one.text for one in finish(Generate(self.model, self.task).write(parsed, how))]


class ScoreTargets(Score):
    """log p of the tokens of targets, of which each has its source."""

    lines, inputs = True, ("pairs",)

    def several(self, given: Any) -> tuple[bool, list[Any]]:
        """See `Predictor`: a tuple of a source and a target, or a list of them."""
        return (True, [given]) if isinstance(given, tuple) else super().several(given)

    def parse(
        self, given: Any, options: ScoreOptions, where: str = "The input", number: int = 1
    ) -> Parsed:
        """See `Predictor`. ConfigError: a side longer than the context."""
        if not isinstance(given, tuple | list) or [*map(type, given)] != [str, str]:
            raise ConfigError(f"A source and its target are needed, not {str(given)[:60]!r}.")
        sides, context = self.ids_of(*given), self.model.config.max_length
        source, target = map(len, sides)
        if max(source, target) > context:
            raise ConfigError(
                f"Pair {number} has {source} source and {target} target tokens and the context "
                f"{context}; shorten it, or leave it out."
            )
        return Parsed(given, (), sides, number)

    def predict(
        self, inputs: Iterable[Parsed], options: ScoreOptions, elements: int = WHOLE
    ) -> Iterator[TokenScores | None]:
        """Yield the prediction of each input, and None after each step."""
        inputs, piece = list(inputs), self.processor.pair.target.piece
        found = likelihoods(self.model, [one.about for one in inputs], self.begin)
        yield
        for one, own in zip(inputs, found, strict=True):
            tokens = [*map(TokenScore, map(piece, one.about[1]), own.log_probs)]
            yield TokenScores(tokens, one.given[1])

    @property
    def begin(self) -> int:
        """Return the symbol that begins a target."""
        return self.processor.pair.bos

    def ids_of(self, prompt: str, answer: str, fit: bool = False) -> Pair:
        """See `Score`: of a source and a target with its end."""
        pair, longest = self.processor.pair, self.model.config.max_length if fit else 0
        source, target = pair.source_ids(prompt).tolist(), pair.target_ids(answer).tolist()
        return tuple(source[-longest:]), tuple(target)

    def room(self, prompt: str, answer: str) -> int:
        """See `Score`: beside the longer of both."""
        return self.model.config.max_length - max(map(len, self.ids_of(prompt, answer)))

    def roll(self, texts: Sequence[str]) -> list[float]:
        """Refused."""
        raise self.task.refusal("scoring running text")

    def complete(self, prompts: Sequence[str], how: GenerateConfig) -> list[str]:
        """See `Score`: the targets of sources."""
        return Translate(self.model, self.task).complete(prompts, how)

    def values(self, given: Any) -> dict[str, Any]:
        """Return the input as plain values."""
        return dict(zip(("source", "target"), given, strict=True))
