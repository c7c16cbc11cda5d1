"""Prompts to text as it grows: prompts to ids, ids to text, stop strings, and why each text ended.

A prompt is a text, or a sequence of text, images and audio (an `Example`):

    a decoder continues         <bos> [patches] what is this <eos>
    an encoder-decoder reads it as its source, and continues <bos>
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from glassformer.batch import Batch
from glassformer.data.collate import padded
from glassformer.data.example import Example
from glassformer.errors import ConfigError
from glassformer.models.transformer import Transformer
from glassformer.processors.parts_tokenizer import PartsTokenizer
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.decode import Step, beam_steps, decode
from glassformer.runtime.hypotheses import Hypothesis
from glassformer.runtime.prompts import Prompts, rooms
from glassformer.runtime.speculative import Drafts
from glassformer.runtime.trace import Choice, Watch
from glassformer.tasks.predict.gradually import Steps, by_length, finish
from glassformer.tasks.predict.scores import prompt_ids
from glassformer.tasks.predict.stop import StopStrings
from glassformer.tokenizers.stream import WINDOW, StreamDecoder
from glassformer.tokenizers.text import Tokenizer

Finish = Literal["end", "stop", "length"]


@dataclass(frozen=True)
class Delta:
    """New text of one row; `finish` says why the row ended, None while it goes on."""

    row: int
    text: str
    finish: Finish | None = None


@dataclass
class Generated:
    """One finished text: the new text without the prompt, its token ids and log-probabilities, and
    why it ended.

    `choices`: a record of each token, if the decoding was watched.
    """

    text: str = ""
    ids: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    finish: Finish = "length"
    choices: list[Choice] = field(default_factory=list)


def stream(
    model: Transformer,
    tokenizer: Tokenizer,
    prompts: Sequence[str],
    config: GenerateConfig,
    drafts: Drafts | None = None,
) -> Iterator[Delta]:
    """Yield the text of every prompt as it grows, never a broken UTF-8 character nor any part of a
    stop string.

    The concatenated deltas of a row are its text, and the prompt followed by it is the whole. With
    `config.beams` the best hypothesis comes when its search is over. Errors: those of `decode` and
    `beam_search`, and text that the tokenizer refuses.
    """
    begins, results = _prompts(tokenizer, prompts), [Generated() for _ in prompts]
    for new in _progress(model, tokenizer, begins, config, results, begins, drafts=drafts):
        yield from new


def deltas(
    model: Transformer,
    tokenizer: Tokenizer,
    prompts: Sequence[Sequence[int]],
    config: GenerateConfig,
    ends: Collection[int],
    drafts: Drafts | None = None,
) -> Iterator[Delta]:
    """The same for prompts of ids: a text of its own behind each, until a symbol of `ends`."""
    nothing = [()] * len(prompts)
    results = [Generated() for _ in prompts]
    how: dict[str, Any] = {"ends": ends, "drafts": drafts}
    for new in _progress(model, tokenizer, prompts, config, results, nothing, **how):
        yield from new


def continued(
    model: Transformer,
    tokenizer: Tokenizer,
    prompts: Sequence[Sequence[int]],
    config: GenerateConfig,
    ends: Collection[int],
    limits: Sequence[int],
    batch_size: int = 64,
    watch: Watch | None = None,
    drafts: Drafts | None = None,
) -> list[Generated]:
    """The whole text behind each prompt of ids, in order, each of at most its own of `limits`
    tokens. Errors: those of `stream`."""

    def written(batch: list[tuple[Sequence[int], int]]) -> Steps[list[Generated]]:
        rows, most, nothing = [ids for ids, _ in batch], [n for _, n in batch], [()] * len(batch)
        how: dict[str, Any] = {"watch": watch, "ends": ends, "most": most, "drafts": drafts}
        return _whole(model, tokenizer, rows, config, nothing, **how)

    pairs = [*zip(prompts, limits, strict=True)]
    return finish(by_length(pairs, lambda pair: len(pair[0]), batch_size, written))


def generate(
    model: Transformer,
    tokenizer: Tokenizer,
    prompts: Sequence[str],
    config: GenerateConfig,
    watch: Watch | None = None,
    longest: int | None = None,
    drafts: Drafts | None = None,
) -> list[Generated]:
    """The whole text for each prompt, or for its last `longest` tokens, in order. Errors: those of
    `stream`."""
    begins = [ids[-longest if longest else 0 :] for ids in _prompts(tokenizer, prompts)]
    how: dict[str, Any] = {"watch": watch, "drafts": drafts}
    return finish(_whole(model, tokenizer, begins, config, begins, **how))


def answer(
    model: Transformer,
    tokenizer: PartsTokenizer,
    examples: Sequence[Example],
    config: GenerateConfig,
    batch_size: int = 64,
    watch: Watch | None = None,
) -> list[Generated]:
    """The text for each example, in order; an answer that an example has already is not read.

    A decoder's answer ends at the latest where it and the prompt fill the context, that of an
    encoder-decoder after as many tokens as the context has. Errors: those of `decode` and
    `beam_search`, a source longer than the context.
    """
    return finish(answer_steps(model, tokenizer, examples, config, batch_size, watch))


def answer_steps(
    model: Transformer,
    tokenizer: PartsTokenizer,
    examples: Sequence[Example],
    config: GenerateConfig,
    batch_size: int = 64,
    watch: Watch | None = None,
    drafts: Drafts | None = None,
) -> Steps[list[Generated]]:
    """The same step by step."""
    context = model.config.max_length
    crossed = model.config.architecture == "encoder_decoder"
    if crossed:
        longest = max((len(example.ids) for example in examples), default=0)
        if longest > context:
            raise ConfigError(
                f"The prompt has {longest} elements, patches included, and the context {context}; "
                "shorten its text, or train with a larger model.max_length."
            )
        most = min(config.max_new_tokens, context)
        config = config.model_copy(update={"max_new_tokens": most})

    def written(batch: list[Example]) -> Steps[list[Generated]]:
        prompts, source = batch, None
        if crossed:
            prompts, source = [[tokenizer.begin]] * len(batch), padded(batch)
        nothing = [()] * len(batch)
        how: dict[str, Any] = {"source": source, "watch": watch, "drafts": drafts}
        return _whole(model, tokenizer.text, prompts, config, nothing, **how)

    asked = [replace(example, answer=None, targets=None) for example in examples]
    return (yield from by_length(asked, lambda example: len(example.ids), batch_size, written))


def _whole(
    model: Transformer,
    tokenizer: Tokenizer,
    prompts: Prompts,
    config: GenerateConfig,
    before: Sequence[Sequence[int]],
    **how: Any,
) -> Steps[list[Generated]]:
    results = [Generated() for _ in prompts]
    for _ in _progress(model, tokenizer, prompts, config, results, before, **how):
        yield
    return results


def _progress(
    model: Transformer,
    tokenizer: Tokenizer,
    prompts: Prompts,
    config: GenerateConfig,
    results: Sequence[Generated],
    before: Sequence[Sequence[int]],
    source: Batch | None = None,
    watch: Watch | None = None,
    ends: Collection[int] | None = None,
    most: Sequence[int] | None = None,
    drafts: Drafts | None = None,
) -> Iterator[list[Delta]]:
    """New text of all rows, step by step, also gathered in `results`; it follows the ids `before`
    it, which are not shown. `ends`: what ends a text; None: the tokenizer's end of text. `most`:
    tokens of each row."""
    _check_search(config, watch, drafts)
    finished = set[int]()
    if ends is None:
        ends = config.ends(tokenizer.specials.get("eos"))
    texts = [RowText(tokenizer, ids, config.stop, ends) for ids in before]
    if config.beams:  # the best is known when the whole search is done
        ended: dict[int, Hypothesis] = {}
        for events in beam_steps(model, prompts, config, [*ends], source):
            ended |= {event.request: event.hypotheses[0] for event in events if event.finish}
            yield []
        best = [ended[row] for row in range(len(prompts))]
        limits, steps = [len(one.ids) for one in best], _replayed(best, finished)
    else:
        limits = rooms(prompts, model, config, most)
        own: dict[str, Any] = {"limits": most, "finished": finished, "drafts": drafts}
        steps = decode(model, prompts, config, [*ends], source, watch=watch, **own)
    for step in steps:
        new = list[Delta]()
        for at, row in enumerate(step.rows):
            result = results[row]
            result.ids.append(step.ids[at])
            result.log_probs.append(step.log_probs[at])
            result.choices += step.choices[at : at + 1]
            shown, finish = texts[row].push(step.ids[at], len(result.ids) == limits[row])
            result.text += shown
            if finish:
                result.finish = finish
                finished.add(row)
            if shown or finish:
                new.append(Delta(row, shown, finish))
        yield new


def _check_search(config: GenerateConfig, watch: Watch | None, drafts: Drafts | None) -> None:
    """Raise ConfigError for what a beam search does not do."""
    if config.beams and watch is not None:
        raise ConfigError(
            f"A beam search is watched step by step, and beams={config.beams}; use beam_steps, or "
            "beams=0."
        )
    if config.beams and drafts is not None:
        raise ConfigError(
            f"A draft is for tokens one by one and beams={config.beams}; leave out one of them."
        )


def _replayed(found: Sequence[Hypothesis], finished: Collection[int]) -> Iterator[Step]:
    """Hypotheses as the steps in which `decode` would have given them."""
    for at in range(max((len(one.ids) for one in found), default=0)):
        rows = [i for i, one in enumerate(found) if at < len(one.ids) and i not in finished]
        ids, log_probs = [found[i].ids[at] for i in rows], [found[i].log_probs[at] for i in rows]
        yield Step(tuple(rows), tuple(ids), tuple(log_probs))


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
        self.decoder, self.stops, self.ends = StreamDecoder(tokenizer), StopStrings(stops), ends
        self.added = ""
        """The text that the last token added, held back or not."""
        for index in before[-WINDOW:]:
            self.decoder.push(index)

    def push(self, token: int, last: bool) -> tuple[str, Finish | None]:
        """The text that a token makes safe to show; `last`: no room for more."""
        finish: Finish | None = "end" if token in self.ends else "length" if last else None
        self.added = "" if token in self.ends else self.decoder.push(token)
        self.added += self.decoder.flush() if finish else ""
        shown = self.stops.push(self.added) + (self.stops.flush() if finish else "")
        return shown, "stop" if self.stops.stopped else finish


def _prompts(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    return [[*prompt_ids(tokenizer, text)[0]] for text in texts]
