"""Text in, text out: prompts to ids, ids to text as it grows, stop strings, and why each text
ended."""

from collections.abc import Collection, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from glassformer.batch import Batch
from glassformer.errors import ConfigError
from glassformer.generate.advance import Prompts, rooms
from glassformer.generate.beam import Hypothesis, beam_search
from glassformer.generate.config import GenerateConfig
from glassformer.generate.decode import Step, decode
from glassformer.generate.stop import StopStrings
from glassformer.generate.watch import Choice, Watch
from glassformer.models.transformer import Transformer
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

    `choices`: what else is known of each token, if somebody watched.
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
    results: list[Generated] | None = None,
    watch: Watch | None = None,
) -> Iterator[Delta]:
    """Yield the text of every prompt as it grows, never a broken UTF-8 character nor any part of a
    stop string.

    The concatenated deltas of a row are its text, and the prompt followed by it is the whole;
    `results`, if given, gathers ids and log-probabilities beside it. With `config.beams` the best
    hypothesis comes when its search is over. Errors: those of `decode` and `beam_search`, and text
    that the tokenizer refuses.
    """
    gathered = [Generated() for _ in prompts] if results is None else results
    begins = [_ids(tokenizer, prompt, tokenizer.specials.get("eos")) for prompt in prompts]
    yield from deltas(model, tokenizer, begins, config, gathered, begins, watch=watch)


def deltas(
    model: Transformer,
    tokenizer: Tokenizer,
    prompts: Prompts,
    config: GenerateConfig,
    gathered: Sequence[Generated],
    before: Sequence[Sequence[int]],
    source: Batch | None = None,
    watch: Watch | None = None,
) -> Iterator[Delta]:
    """The same for prompts of any kind; each row's text follows the ids `before` it, which are not
    shown."""
    if config.beams and watch is not None:
        raise ConfigError(
            f"A beam search is watched step by step, and beams={config.beams}; use beam_steps, "
            f"or beams=0."
        )
    end = tokenizer.specials.get("eos")
    texts = [_RowText(_after(tokenizer, ids), StopStrings(config.stop), end) for ids in before]
    ends = () if end is None else (end,)
    if config.beams:  # nothing is known of the best before the whole search is done
        best = [found[0] for found in beam_search(model, prompts, config, ends, source)]
        limits, steps = [len(one.ids) for one in best], _replayed(best)
    else:
        limits = rooms(prompts, model, config)
        steps = decode(model, prompts, config, ends, source, watch=watch)
    finished: set[int] = set()
    step = next(steps, None)
    while step is not None:
        for row, choice in zip(step.rows, step.choices):  # noqa: B905 (none, if nobody watches)
            gathered[row].choices.append(choice)
        for row, token, log_prob in zip(step.rows, step.ids, step.log_probs, strict=True):
            result = gathered[row]
            result.ids.append(token)
            result.log_probs.append(log_prob)
            shown, finish = texts[row].push(token, len(result.ids) == limits[row])
            result.text += shown
            if finish:
                result.finish = finish
                finished.add(row)
            if shown or finish:
                yield Delta(row, shown, finish)
        try:
            step = steps.send(frozenset(finished))
        except StopIteration:
            return


@dataclass
class _RowText:
    """The text of one row as its tokens come: what may be shown, and why it ended."""

    decoder: StreamDecoder
    stops: StopStrings
    end: int | None

    def push(self, token: int, last: bool) -> tuple[str, Finish | None]:
        """The text that a token makes safe to show; `last`: no room for more."""
        finish: Finish | None = "end" if token == self.end else "length" if last else None
        shown = "" if token == self.end else self.stops.push(self.decoder.push(token))
        if finish:
            shown += self.stops.push(self.decoder.flush()) + self.stops.flush()
        return shown, "stop" if self.stops.stopped else finish


def _replayed(found: Sequence[Hypothesis]) -> Generator[Step, Collection[int] | None, None]:
    """Hypotheses as the steps in which `decode` would have given them."""
    done: set[int] = set()
    for at in range(max((len(one.ids) for one in found), default=0)):
        rows = tuple(row for row, one in enumerate(found) if at < len(one.ids) and row not in done)
        ids, log_probs = (
            tuple(found[row].ids[at] for row in rows),
            tuple(found[row].log_probs[at] for row in rows),
        )
        done.update((yield Step(rows, ids, log_probs)) or ())


def _ids(tokenizer: Tokenizer, prompt: str, end: int | None) -> list[int]:
    """The ids of a prompt; spaces alone may have none of their own, and then stand for the
    beginning of a text."""
    ids = tokenizer.encode(prompt).tolist()
    return [end] if prompt and not ids and end is not None else ids


def _after(tokenizer: Tokenizer, ids: Sequence[int]) -> StreamDecoder:
    """A decoder that has seen the prompt, so that a space between it and the first new word is not
    lost."""
    decoder = StreamDecoder(tokenizer)
    for index in ids[-WINDOW:]:
        decoder.push(index)
    return decoder


def generate(
    model: Transformer,
    tokenizer: Tokenizer,
    prompts: Sequence[str],
    config: GenerateConfig,
    watch: Watch | None = None,
) -> list[Generated]:
    """The whole text for each prompt, in order."""
    results = [Generated() for _ in prompts]
    for _ in stream(model, tokenizer, prompts, config, results, watch):
        pass
    return results
