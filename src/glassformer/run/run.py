"""A trained model, opened for use: one folder, one object, the same verbs as the command line.

run = gf.load("runs/demo-lm")
run.generate("The", max_new_tokens=50)          a decoder
run.recorded("The").choices[0].alternatives     what else it might have written, step by step
run.translate(["A dog runs."], beams=5)         an encoder-decoder
run.tag("A dog runs .")                         a model with a tag head
run.classify("What a film!")                    a model with a classify head
run.generate("What is it?", image="dog.png")    one of sequences of parts
run.answer([{"image": "dog.png"}, "What is it?"])
run.draw("a red star")                          one that draws
run.look("The cat sat").pattern(layer=0, head=1)    any model, from inside
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np

from glassformer.data.collate import padded
from glassformer.data.example import Example
from glassformer.errors import ConfigError
from glassformer.generate import (
    GenerateConfig,
    Generated,
    Transduction,
    Watch,
    answer,
    draw,
    generate,
    score,
    score_pairs,
    stream,
    transduce,
)
from glassformer.generate.classify import Text, classify, classify_batches, classify_patches
from glassformer.generate.embed import Texts, embed, trained_reader
from glassformer.generate.tag import Tags, tag
from glassformer.generate.text import Delta
from glassformer.inspect.alignment import CrossAttention, cross_attention
from glassformer.inspect.contextual import Contexts, contexts
from glassformer.inspect.edit import Edit
from glassformer.inspect.look import Look, look
from glassformer.media.palette import Palette
from glassformer.processors.parts import PartsTokenizer, check_order
from glassformer.processors.text_reader import TextReader
from glassformer.run.encode_input import fed
from glassformer.run.media_inputs import Given, Sensed, example_of, part_of, patches_of
from glassformer.run.naming import outcomes
from glassformer.run.scored import Scored


@dataclass(frozen=True)
class TokenScore:
    """One token of a scored text: its piece and log p in nats (None for the first, which nothing
    predicts)."""

    piece: str
    log_prob: float | None


def _rows(parts: Any) -> tuple[bool, list[Sequence[Given]]]:
    """Whether one list of parts was given and not a list of such lists; all of them."""
    single = isinstance(parts, str) or (bool(parts) and isinstance(parts[0], str | Mapping))
    return single, [[parts] if isinstance(parts, str) else parts] if single else list(parts)


@dataclass
class Run(Scored):
    """A trained model with everything that can be asked of it."""

    def translate(self, text: str | Sequence[str], **changes: Any) -> Any:
        """What becomes of a source (str to str), or of each of a list of sources (list to list)."""
        texts = [text] if isinstance(text, str) else list(text)
        found = [best[0].text for best in self.transduced(texts, self.options(**changes))]
        return found[0] if isinstance(text, str) else found

    def transduced(
        self, texts: Sequence[str], config: GenerateConfig, batch_size: int = 32, first: int = 1
    ) -> list[list[Transduction]]:
        """The `n_best` results for each source with ids, log-probabilities and scores; errors count
        from `first`."""
        return transduce(self.model, self._pair(), texts, config, batch_size, first)

    def score_pairs(self, pairs: Sequence[tuple[str, str]], first: int = 1) -> list[list[float]]:
        """log p of each token of each target, the end included, given its source (forced
        decoding)."""
        return score_pairs(self.model, self._pair(), pairs, first=first)

    def cross_attention(self, source: str, target: str) -> CrossAttention:
        """What every cross-attention head looked at in a pair: word alignments, and what pictures
        are made from."""
        return cross_attention(self.model, self._pair(), source, target)

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in the order of the model's logits: numbers where it has no
        names."""
        config = self.model.config
        return config.classes or tuple(str(i) for i in range(config.class_count))

    def tag(self, text: str | Sequence[str] | Sequence[Sequence[str]]) -> Any:
        """Each word with its tag: of a text cut at spaces, of a list of words, or of a list of such
        lists."""
        words = text.split() if isinstance(text, str) else list(text)
        several = bool(words) and not isinstance(words[0], str)
        sentences = cast(list[Sequence[str]], words if several else [words])
        tags = self.tagged(sentences)
        found = [
            [
                (word, self.classes[i])
                for word, i in zip(sentence, own.classes[:, 0].tolist(), strict=True)
            ]
            for sentence, own in zip(sentences, tags, strict=True)
        ]
        return found if several else found[0]

    def tagged(self, sentences: Iterable[Sequence[str]], top: int = 1) -> Iterator[Tags]:
        """The `top` likeliest classes of each word of each sentence with their probabilities, as
        sentences come."""
        self._has_head("tag", "glassformer tag")
        return tag(self.model, self.words, sentences, top)

    def classify(
        self,
        what: Text
        | Sensed
        | Sequence[Text]
        | Sequence[Sensed]
        | Sequence[Given]
        | Sequence[Sequence[Given]],
        threshold: float = 0.5,
    ) -> Any:
        """The class of a text, of a pair (a tuple of two texts), or of each of a list of these.

        Of a model of pictures or recordings: the class of a file, of pixels uint8 [H, W, C], of
        (samples, rate); of one of sequences of parts, that of a list of parts, as in `answer`. One
        with `multi_label` gives a list: every class whose probability reaches `threshold`.
        """
        if self.readers:
            single, lists = _rows(what)
            rows = self.chosen(lists)
        else:
            single = isinstance(what, str | tuple | Path | np.ndarray)
            several = cast(list[Any], [what] if single else list(cast(Any, what)))
            rows = self.classified(several) if self.senses is None else self.perceived(several)
        if self.model.config.multi_label:
            found: list[Any] = [
                [name for name, p in zip(self.classes, row, strict=True) if p >= threshold]
                for row in rows
            ]
        else:
            found = [self.classes[i] for i in rows.argmax(1)]
        return found[0] if single else found

    def classified(self, texts: Sequence[Text]) -> np.ndarray:
        """The probability of every class for each text or pair, float32 [N, C]; long ones are read
        by windows."""
        self._has_head("classify", "glassformer classify")
        return classify(self.model, self.sequences, texts)

    def perceived(self, things: Sequence[Sensed], batch_size: int = 64) -> np.ndarray:
        """The probability of every class for each picture or recording, float32 [N, C]; see
        `classify`.

        DataError: a file that cannot be read, named.
        """
        self._has_head("classify", "glassformer classify")
        reader = self.senses
        if reader is None:
            raise ConfigError(
                f"{self.folder} reads text, not files of pictures or sound; give it lines of text."
            )
        groups = (things[i : i + batch_size] for i in range(0, len(things), batch_size))
        return classify_patches(self.model, (patches_of(reader, group) for group in groups))

    def chosen(self, rows: Sequence[Sequence[Given]], batch_size: int = 64) -> np.ndarray:
        """The probability of every class for each list of parts, float32 [N, C]; see `answer`."""
        self._has_head("classify", "glassformer classify")
        groups = (rows[i : i + batch_size] for i in range(0, len(rows), batch_size))
        return classify_batches(
            self.model, (padded([self._example(row) for row in group]) for group in groups)
        )

    def _example(self, row: Sequence[Given]) -> Example:
        """A list of parts as a sequence; DataError: in an order that the model has not learned."""
        check_order(
            [kind for kind, _ in map(part_of, row)],
            self.model.config.modality_order,
            "What was given",
        )
        return example_of(self.parts, self.readers, row)

    def embed(
        self, text: Texts, pool: str = "mean", normalize: bool = True, layer: int | None = None
    ) -> np.ndarray:
        """The vector of a text, float32 [D], or of each of a list of texts, [N, D]; see
        `generate.embed`."""
        vectors = embed(
            self.model,
            self.reader,
            [text] if isinstance(text, str) else text,
            pool,
            layer,
            normalize,
        )
        return vectors[0] if isinstance(text, str) else vectors

    def contexts(self, word: str, sentences: Sequence[str], first: int = 1) -> Contexts:
        """A word's vectors in several sentences, layer by layer; errors count the sentences from
        `first`."""
        return contexts(self.model, self.reader, word, sentences, first)

    def look(self, given: Any, edits: Sequence[Edit] = ()) -> Look:
        """One forward pass of one input, to be looked into and edited; see `inspect.look`.

        Given is what the model reads: a text, a pair of texts, a list of words or of token ids;
        (source, target) of an encoder-decoder; a file, pixels or (samples, rate); a list of parts,
        or (parts, answer). DataError, ConfigError: an input of another kind, or longer than the
        model: nothing is cut.
        """
        sequence = fed(self, given)
        return look(
            self.model, sequence.batch, sequence.elements, sequence.source, self._outcomes, edits
        )

    @cached_property
    def _outcomes(self) -> tuple[str, ...]:
        return outcomes(self)

    @cached_property
    def reader(self) -> TextReader:
        """What the trunk reads of a text, as it was trained to."""
        return trained_reader(self.model.config.head, self._windows[0], self.tokenizer, self.pair)

    def _goes_on(self) -> None:
        """Raise ConfigError for a model that does not go on from a prompt."""
        if self.model.config.head != "lm" or self.model.config.architecture == "encoder":
            self._has_head("lm", "writing")
        if self.palette is not None:
            raise ConfigError(
                f"{self.folder} draws pictures; use `glassformer generate --to-image`, draw in "
                f"Python."
            )
        if self.readers:
            raise ConfigError(
                f"{self.folder} answers to sequences of parts as a whole; use generate or answer."
            )
        if self.pair is not None:
            raise ConfigError(
                f"{self.folder} is an encoder-decoder, which writes a target for a source; use "
                f"`glassformer translate`."
            )

    def generate(self, prompt: str | Sequence[str] = "", **changes: Any) -> Any:
        """The new text for a prompt (str to str), or for each of a list of prompts (list to list).

        A model of sequences of parts also takes `image` and `audio`, files or arrays, for all
        prompts.
        """
        prompts = [prompt] if isinstance(prompt, str) else list(prompt)
        things = {
            kind: changes.pop(kind) for kind in ("image", "audio") if changes.get(kind) is not None
        }
        if self.readers or things:
            found = self.answer([self.ordered(one, things) for one in prompts], **changes)
            return found[0] if isinstance(prompt, str) else found
        texts = [result.text for result in self.generated(prompts, self.options(**changes))]
        return texts[0] if isinstance(prompt, str) else texts

    def generated(self, prompts: Sequence[str], config: GenerateConfig) -> list[Generated]:
        """Texts with token ids, log-probabilities and why each ended."""
        self._goes_on()
        return generate(self.model, self.tokenizer, prompts, config)

    def recorded(self, prompt: str, watch: Watch = Watch(), **changes: Any) -> Generated:  # noqa: B008 (it is frozen)
        """The new text for a prompt with a record of each step: `choices` of token, probability,
        rank, alternatives.

        `watch` says how many alternatives, and whether the attention behind each choice is kept.
        Errors: those of `generate`; ConfigError: a beam search, which chooses no token by itself,
        or a head that there is not.
        """
        self._goes_on()
        return generate(self.model, self.tokenizer, [prompt], self.options(**changes), watch)[0]

    def ordered(self, prompt: str, things: Mapping[str, Sensed]) -> list[Given]:
        """The parts of a row with these files and a prompt, in the order of the rows that the model
        was trained on."""
        kinds = dict.fromkeys((*self.model.config.modality_order, "image", "audio", "text"))
        given: dict[str, Sensed] = {**things, **({"text": prompt} if prompt else {})}
        return [{kind: given[kind]} for kind in kinds if kind in given]

    def answer(self, parts: Sequence[Given] | Sequence[Sequence[Given]], **changes: Any) -> Any:
        """What is written of a list of parts, or of each of a list of such lists.

        A part is a text, or {"image": FILE or pixels}, {"audio": FILE or (samples, rate)}, {"text":
        TEXT}. DataError: a part that cannot be read, or another order of parts than the model has
        learned.
        """
        single, rows = _rows(parts)
        texts = [found.text for found in self.answered(rows, self.options(**changes))]
        return texts[0] if single else texts

    def answered(self, rows: Sequence[Sequence[Given]], config: GenerateConfig) -> list[Generated]:
        """The same with token ids, log-probabilities and why each ended."""
        self._has_head("lm", "answering")
        return answer(self.model, self.parts, [self._example(row) for row in rows], config)

    def draw(self, prompt: str | Sequence[str], **changes: Any) -> np.ndarray:
        """The picture for a prompt, uint8 [H, W, 3], or for each of a list of prompts, [N, H, W,
        3]."""
        ids, palette = self.drawn([prompt] if isinstance(prompt, str) else prompt, **changes)
        pixels = palette.pixels(ids)
        return pixels[0] if isinstance(prompt, str) else pixels

    def drawn(self, prompts: Sequence[str], **changes: Any) -> tuple[np.ndarray, Palette]:
        """The same as colours in reading order, int64 [N, H * W], and the palette that they are
        numbers of."""
        if self.palette is None:
            raise ConfigError(
                f"{self.folder} draws no pictures; train a model by a recipe with a section "
                f"palette."
            )
        if name := min({"max_new_tokens", "stop", "overflow"} & changes.keys(), default=""):
            raise ConfigError(
                f"generate.{name} is for text, and a picture always has the same size; leave "
                f"it out."
            )
        ids = draw(
            self.model,
            PartsTokenizer(self.tokenizer),
            self.palette,
            prompts,
            self.options(**changes),
        )
        return ids, self.palette

    def stream(self, prompt: str, **changes: Any) -> Iterator[Delta]:
        """The new text for a prompt as it grows."""
        self._goes_on()
        return stream(self.model, self.tokenizer, [prompt], self.options(**changes))

    def score(self, text: str) -> list[TokenScore]:
        """The log-probability of each token of a text, given those before it."""
        self._goes_on()
        ids = self.tokenizer.encode(text).tolist()
        log_probs = [None, *score(self.model, ids)]
        return [TokenScore(self.tokenizer.piece(i), p) for i, p in zip(ids, log_probs, strict=True)]
