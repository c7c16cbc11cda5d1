"""`translate` and, of parts, `generate`: text to text (Notes C, D, E).

An encoder-decoder reads the input as its source; a decoder generates after the input. A source that
is too long comes in pieces:

text ─ ids ─ cut if too long ─ sorted by length ─> batches ─ beams or samples ─> joined
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from glassformer.core.errors import ConfigError, one_line
from glassformer.data.example import Example
from glassformer.inspect.alignment import align_texts, pharaoh
from glassformer.processors.inputs import Inputs
from glassformer.processors.parts_inputs import part_of
from glassformer.processors.tokens.sequence_builder import TEXT
from glassformer.recipe.train import DECODED
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.prompts import example_of
from glassformer.runtime.request import Request
from glassformer.runtime.selectors.hypotheses import normalized
from glassformer.tasks.options import GenerateOptions, TranslateOptions
from glassformer.tasks.predictors.predictor import WHOLE, OfText, Parsed, check_text
from glassformer.tasks.predictors.text import Finish, StopStrings, Text, finish
from glassformer.tasks.predictors.writer import Writer


class Answer(Writer[GenerateOptions]):
    """An answer to a list of parts: text, images and audio."""

    name, routes, inputs = "generate", ("generate",), ("parts",)
    lines, metrics = False, ("exact_match",)
    greedy: ClassVar[dict[str, Any]] = {"temperature": 0}
    """Choices of texts for scores and samples."""

    def about(self, prompt: str, files: Mapping[str, Any]) -> Any:
        """See `Writer`: in the order of the training rows."""
        return self.processor.order_parts(prompt, files)

    def read(self, given: Any, how: GenerateConfig, number: int = 1) -> Parsed:
        """Read an input."""
        if given is None:
            return Parsed([], (), number=number)
        read = [one.example for one in self.processor.windows(given)]
        return Parsed(given, read, number=number, note=" ".join(map(self.unknown, read)))

    def requests(self, one: Parsed, how: GenerateConfig) -> list[Request]:
        """See `Writer`.

        The prompt and the answer of a decoder must fit the context, of an encoder-decoder each of
        them. ConfigError: a source that does not.
        """
        tokenizer, context = self.processor.parts, self.model.config.max_length
        ends, read = how.ends(tokenizer.text.specials.get("eos")), [*map(example_of, one.windows)]
        if not self.model.config.is_encoder_decoder:
            return [Request(each, how, ends) for each in read]
        longest = max((len(each.ids) for each in read), default=0)
        if longest > context:
            raise ConfigError(
                f"The prompt has {longest} elements, patches included, and the context {context}; "
                "shorten its text, or train with a larger model.max_length."
            )
        begin = [tokenizer.begin]
        return [Request(begin, how, ends, limit=context, source=each) for each in read]

    def decode(self, inputs: Inputs, numbers: Sequence[int], how: GenerateConfig) -> list[str]:
        """Return the texts of encoded inputs."""
        parsed = [Parsed(None, (one,)) for one in inputs.examples(numbers)]
        return [one.text for one in finish(self.write(parsed, how))]

    def values(self, given: Any) -> dict[str, Any]:
        """See `Predictor`: the text is the prompt, files by their kind."""
        return {
            "prompt" if kind == TEXT else kind: value
            for kind, value in sorted(map(part_of, given), key=lambda part: part[0] != TEXT)
        }


@dataclass(frozen=True)
class Translation(Text):
    """A target of a source.

    `line_number`: that of the source, from 0, if several targets are listed. `alignment`: the
    source word and the target word of each pair. `scored`: whether a line has the score.
    """

    is_blank: bool = False
    line_number: int | None = None
    alignment: Sequence[tuple[int, int]] | None = None
    scored: bool = False

    def line(self) -> str:
        """See `Prediction`: with the score before it, the alignment after it, or a line for each of
        several targets, in the format of Moses."""
        if self.line_number is not None:
            rows = (f"{one_line(one.text)} ||| {one.score:.4f}" for one in (self, *self.others))
            return "\n".join(f"{self.line_number} ||| {row}" for row in rows)
        if self.is_blank:
            return ""
        score = [f"{self.score:.4f}"] if self.scored else []
        alignment = [] if self.alignment is None else [pharaoh(self.alignment)]
        return "\t".join([*score, one_line(self.text), *alignment])

    def json(self) -> dict[str, Any]:
        """Return plain values."""
        also = {} if self.alignment is None else {"alignment": [[*two] for two in self.alignment]}
        return super().json() | also


class Translate(OfText[TranslateOptions], Writer[TranslateOptions]):
    """The best targets of a source, which do not depend on other sources.

    A target gets at most `max_new_tokens`, the model's context, and 20 tokens more than
    `length_ratio` times its source. Its ids have the end's, and are whole if a stop string cut the
    text. With `overflow` "window" a source longer than the context is cut into pieces of whole
    words, and its i-th best is the i-th best of each piece.
    """

    name, routes, inputs = "translate", ("translate",), ("pairs",)
    given, batch_size, metrics = "source", 32, DECODED
    greedy: ClassVar[dict[str, Any]] = {"beams": 1, "overflow": "window"}
    """See `Answer`."""

    def check(self, options: TranslateOptions) -> None:
        """Raise ConfigError for choices that do not fit together."""
        how = self.how(options)
        if (options.layer or options.head) and not options.alignments:
            raise ConfigError(
                "--layer and --head choose what --alignments reads; add --alignments or leave them "
                "out."
            )
        if "seed" in options.model_fields_set and how.beams:
            raise ConfigError(
                f"--seed is for sampling, and beams={how.beams} searches; add --temperature or "
                "leave it out."
            )

    def read(self, given: Any, how: GenerateConfig, number: int = 1) -> Parsed:
        """See `Writer`. ConfigError: a source longer than the context, without a window."""
        blank = not check_text(given).strip()
        pieces = () if blank else tuple(self._pieces(given, how.overflow, number))
        return Parsed(given, pieces, number=number)

    def decode(self, inputs: Inputs, numbers: Sequence[int], how: GenerateConfig) -> list[str]:
        """Return the texts of encoded inputs."""
        return self.complete([inputs.record(i).source for i in numbers], how, len(numbers))

    def _pieces(self, text: str, overflow: str, number: int) -> Iterator[Example]:
        """Yield a text, or pieces of one that is too long: halved between words, or inside a word
        that is too long itself."""
        ids, context = self.processor.pair.source_ids(text), self.model.config.max_length
        if len(ids) <= context:
            yield Example(ids)
            return
        if overflow == "refuse":
            raise ConfigError(
                f"Line {number} has {len(ids)} tokens and the context {context}; shorten it, or "
                f"cut it into pieces with --overflow window (overflow='window' in Python)."
            )
        words = text.split()
        if len(words) == 1 and len(words[0]) == 1:
            raise ConfigError(
                f"Line {number} holds {text.strip()!r}, of which one character has {len(ids)} "
                f"tokens, and the context is {context}; train with a larger model.max_length."
            )
        parts, glue = (words, " ") if len(words) > 1 else (list(words[0]), "")
        middle = len(parts) // 2
        for half in (parts[:middle], parts[middle:]):
            yield from self._pieces(glue.join(half), overflow, number)

    def requests(self, one: Parsed, how: GenerateConfig) -> list[Request]:
        """See `Writer`: the limit of a target depends on its own source only."""
        pair, context, ratio = self.processor.pair, self.model.config.max_length, how.length_ratio
        whole = how.model_copy(update={"stop": ()})  # what is cut is the text of all pieces
        ends = how.ends(pair.eos)

        def limit(source: Example) -> int:
            return context if ratio is None else min(context, int(ratio * len(source.ids)) + 20)

        return [
            Request([pair.bos], whole, ends, limit=limit(source), source=source)
            for source in one.windows
        ]

    def text(self, pieces: list[Text], how: GenerateConfig) -> Text:
        """See `Writer`: pieces that have fewer targets give their last."""
        if not pieces:
            return Text(finish="end", score=0.0)
        ranks = [[piece, *piece.others] for piece in pieces]
        best, *others = (
            _join([own[min(i, len(own) - 1)] for own in ranks], how)
            for i in range(max(map(len, ranks)))
        )
        return replace(best, others=others)

    def columns(self, options: TranslateOptions) -> tuple[str, ...]:
        """Return the new columns of a row."""
        return ("text", "score") if options.scores else ("text",)

    def predict(
        self, inputs: Iterable[Parsed], options: TranslateOptions, elements: int = WHOLE
    ) -> Iterator[Text | None]:
        """Yield the prediction of each input, and None after each step, such as an alignment."""
        for one in super().predict(inputs, options, elements):
            yield one
            if options.alignments:
                yield

    def show(self, one: Parsed, text: Text, options: TranslateOptions) -> Translation:
        """Return the text with its prompt."""
        alignment, listed = None, self.how(options).n_best > 1
        if options.alignments:
            heads = options.layer or None, options.head or None
            alignment = align_texts(self.model, self.processor.pair, one.given, text.text, *heads)
        return Translation(
            **vars(text),
            is_blank=not one.windows,
            line_number=one.number - 1 if listed else None,
            alignment=alignment,
            scored=options.scores,
        )


def _join(pieces: Sequence[Text], how: GenerateConfig) -> Text:
    """Return the target of a source from those of its pieces."""
    stops = StopStrings(how.stop)
    text = stops.push(" ".join(piece.text for piece in pieces)) + stops.flush()
    ids = [token for piece in pieces for token in piece.ids]
    log_probs = [log_prob for piece in pieces for log_prob in piece.log_probs]
    score = normalized(sum(log_probs), len(log_probs), how.length_penalty)
    finish: Finish = "end" if all(piece.finish == "end" for piece in pieces) else "length"
    return Text(text, ids, log_probs, "stop" if stops.stopped else finish, score=score)
