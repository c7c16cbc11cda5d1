"""Texts as they grow: ids to text, stop strings, and why each text ended.

A prompt is ids, or an `Example`: ids with patches of images and audio among them. A decoder
continues it. An encoder-decoder reads an `Example` as its source, and continues <bos>.
"""

from collections.abc import Collection, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from glassformer.core.errors import ConfigError, one_line
from glassformer.data.example import Example
from glassformer.models.transformer import Transformer
from glassformer.runtime.decode import steps
from glassformer.runtime.engine import Engine
from glassformer.runtime.prompts import tokens_of
from glassformer.runtime.request import Event, Request, Scored
from glassformer.runtime.selectors.hypotheses import Hypothesis
from glassformer.runtime.speculative import Drafts
from glassformer.runtime.trace import Choice, Watch
from glassformer.tasks.predictors.predictor import Prediction
from glassformer.tokenizers.stream import WINDOW, StreamDecoder
from glassformer.tokenizers.text import Tokenizer

Finish = Literal["end", "stop", "length"]


@dataclass(frozen=True)
class Delta:
    """New text of one row; `finish` says why the row ended, None while it continues."""

    row: int
    text: str
    finish: Finish | None = None


@dataclass(frozen=True)
class Text(Prediction):
    """A text that a model wrote, without its prompt: its token ids with their log-probabilities,
    and why it ended.

    `choices`: a record of each token, if the decoding was watched. `others`: the next best, if a
    search found them. `score`: that of a search; None: there was none.
    """

    text: str = ""
    ids: Sequence[int] = ()
    log_probs: Sequence[float] = ()
    finish: Finish = "length"
    choices: Sequence[Choice] = ()
    others: Sequence["Text"] = ()
    score: float | None = None

    @property
    def value(self) -> str:
        """Return the value that the verb of a run gives."""
        return self.text

    def line(self) -> str:
        """Return the prediction as a line."""
        return one_line(self.text)

    def json(self) -> dict[str, Any]:
        """See `Prediction`: of a search, with the score and the next best."""
        values = {"text": self.text, "finish": self.finish, "tokens": len(self.ids)}
        if self.score is None:
            return values
        others = [{"text": one.text, "score": one.score} for one in self.others]
        return values | {"score": self.score, "alternatives": others}


Found = TypeVar("Found")
Writing = Generator[list[Delta], None, list[Text]]
"""Steps that yield new text, and return whole texts."""


def finish(steps: Generator[object, None, Found]) -> Found:
    """Return the result of steps."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def write(
    model: Transformer,
    tokenizer: Tokenizer,
    requests: Sequence[Request],
    continues: bool = False,
    batch_size: int = 64,
    watch: Watch | None = None,
    drafts: Drafts | None = None,
) -> Writing:
    """Yield the new text of all rows after each step; return the whole texts, in order.

    The deltas of a row, joined, are its text; none has a broken UTF-8 character or a part of a stop
    string. With `config.beams` the best hypothesis comes when its search is over. `continues`: the
    text belongs to that of the prompt, so that a space between them is not lost. `batch_size`:
    texts at the same time. Errors: those of `decode` and `beam_search`.
    """
    beams = max((one.config.beams for one in requests), default=0)
    _check_search(beams, watch, drafts)
    texts = [
        RowText(tokenizer, tokens_of(one.prompt) if continues else (), one.config.stop, one.ends)
        for one in requests
    ]
    order = sorted(range(len(texts)), key=lambda i: _length(requests[i]), reverse=beams > 0)
    # searches take the places of those that ended, the longest first; other texts keep step
    size = (len(order) or 1) if beams else batch_size
    for at in range(0, len(order), size):
        batch = order[at : at + size]
        own = [requests[i] if drafts is None else drafts.drafted(requests[i]) for i in batch]
        engine = Engine.of(model, own, watch, beams * min(batch_size, len(batch)) or None)
        yield from _deltas(engine, [(i, texts[i]) for i in batch])
    return [text.made for text in texts]


def _deltas(engine: Engine, texts: Sequence[tuple[int, "RowText"]]) -> Iterator[list[Delta]]:
    """Yield the new text of rows, with their numbers, after each step."""
    for events in steps(engine):
        new = list[Delta]()
        for event in events:
            row, text = texts[event.request - 1]
            shown, finish = text.read(event)
            if finish == "stop":
                engine.abort(event.request)
            if shown or finish:
                new.append(Delta(row, shown, finish))
        yield new


def _length(one: Request) -> int:
    """Return the number of elements that are read for a text."""
    read = one.source or one.prompt
    return len(read.ids if isinstance(read, Example) else read)


def _check_search(beams: int, watch: Watch | None, drafts: Drafts | None) -> None:
    """Raise ConfigError for what a beam search does not do."""
    if beams and watch is not None:
        raise ConfigError(
            f"A beam search is watched step by step, and beams={beams}; use Engine.of, or beams=0."
        )
    if beams and drafts is not None:
        raise ConfigError(
            f"A draft is for tokens one by one and beams={beams}; leave out one of them."
        )


class RowText:
    """The text of one row as its tokens come: what may be shown, and why it ended.

    The decoder has seen the ids `before`, so that a space between them and the first new word is
    not lost.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        before: Sequence[int],
        stops: Sequence[str],
        ends: Collection[int],
    ):
        self.own = tokenizer, before, stops, ends
        self.decoder, self.stops, self.ends = StreamDecoder(tokenizer), StopStrings(stops), ends
        self.text, self.ids, self.log_probs = "", list[int](), list[float]()
        self.finish: Finish = "length"
        self.choices, self.others = list[Choice](), list[Text]()
        self.added = ""
        """The text that the last token added, held back or not."""
        for index in before[-WINDOW:]:
            self.decoder.push(index)

    @property
    def made(self) -> Text:
        """The text so far."""
        own = self.text, self.ids, self.log_probs, self.finish, self.choices, self.others
        return Text(*own)

    def push(self, new: Scored, last: bool) -> tuple[str, Finish | None]:
        """Return the text that a token makes safe to show, and why it ended; `last`: no room for
        more."""
        token = new.id
        finish: Finish | None = "end" if token in self.ends else "length" if last else None
        self.added = "" if token in self.ends else self.decoder.push(token)
        self.added += self.decoder.flush() if finish else ""
        shown = self.stops.push(self.added) + (self.stops.flush() if finish else "")
        finish = "stop" if self.stops.stopped else finish
        self.ids.append(token)
        self.log_probs.append(new.log_prob or 0.0)
        self.text, self.finish = self.text + shown, finish or self.finish
        return shown, finish

    def read(self, event: Event) -> tuple[str, Finish | None]:
        """Return the text that an event makes safe to show, and why it ended; tokens after a stop
        string, of the same step, add nothing."""
        if event.token is not None:
            if self.stops.stopped:
                return "", None
            self.choices += [event.choice] if event.choice else []
            return self.push(event.token, event.finish is not None)
        best, *others = event.hypotheses
        self.others = [RowText(*self.own).whole(one) for one in others]
        self.whole(best)
        return self.text, self.finish

    def whole(self, one: Hypothesis) -> Text:
        """Return the text of a hypothesis, up to a stop string."""
        tokenizer, before, stops, _ = self.own
        if not (before or stops):  # many times as fast as token by token
            self.text = tokenizer.decode(one.ids[:-1] if one.finished else one.ids)
            self.ids, self.log_probs = one.ids, one.log_probs
            self.finish = "end" if one.finished else "length"
            return self.made
        for at, new in enumerate(map(Scored, one.ids, one.log_probs), 1):
            if self.push(new, at == len(one.ids))[1]:
                break
        return self.made


class StopStrings:
    """Text that arrives in pieces, without the longest tail that may still become one of `stops`.

    The stop that is complete first counts (of several that end at one place the longest), so that
    the result does not depend on how the text was cut into pieces.
    """

    def __init__(self, stops: Sequence[str]):
        self.stops = tuple(stop for stop in stops if stop)
        self.held = ""
        self.stopped = False

    def push(self, text: str) -> str:
        """Return the text that may be shown after `text` arrived; "" after the first stop."""
        if self.stopped:
            return ""
        self.held += text
        found = [(at + len(stop), at) for stop in self.stops if (at := self.held.find(stop)) >= 0]
        if found:
            self.stopped = True
            shown, self.held = self.held[: min(found)[1]], ""
            return shown
        keep = max((_overlap(self.held, stop) for stop in self.stops), default=0)
        cut = len(self.held) - keep
        shown, self.held = self.held[:cut], self.held[cut:]
        return shown

    def flush(self) -> str:
        """Return the rest, when no more text will come."""
        shown, self.held = self.held, ""
        return shown


def _overlap(text: str, stop: str) -> int:
    """Return the length of the longest tail of `text` that is a proper beginning of `stop`."""
    return next(
        (n for n in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:n])), 0
    )
