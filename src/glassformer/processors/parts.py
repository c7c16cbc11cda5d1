"""The processor of rows of parts: text, images and audio in one sequence (Note D: multimodal)."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from glassformer.core.batch import Batch
from glassformer.core.errors import ConfigError, DataError, suggest
from glassformer.data.collate import padded, shared_prefix
from glassformer.data.config import DataConfig
from glassformer.data.example import Example
from glassformer.data.order import length_order
from glassformer.data.records.parts import Mixed, mixed, parts_of
from glassformer.models.config import ModelConfig
from glassformer.processors.config import Augmentations, ProcessorConfig
from glassformer.processors.elements import Element, next_word, token_elements, words_of
from glassformer.processors.inputs import Inputs, Records, Rows, Sizes, split_of
from glassformer.processors.media import EXAMPLE, MediaProcessor
from glassformer.processors.parts_inputs import (
    READERS,
    PartsInputs,
    common_order,
    files_of,
    kinds_of,
    part_of,
)
from glassformer.processors.parts_tokenizer import TEXT, PartsTokenizer, check_order
from glassformer.processors.processor import (
    EncodedInput,
    ModelFacts,
    Window,
    check_length,
    ids_of,
)
from glassformer.processors.tokenized import TokenProcessor, known_text, load_tokenizer
from glassformer.tokenizers.text import Tokenizer
from glassformer.tokenizers.train import train_tokenizer

QUESTION = "What is it?"
Given = str | Mapping[str, Any]
"""A part: a text, or {"text": TEXT}, {"image": FILE or pixels}, or
{"audio": FILE or (samples, rate)}."""


class PartsProcessor(TokenProcessor):
    """Parts in their order, each encoded by its own processor."""

    name, noun, unit = "parts", "row", "element"
    records = staticmethod(mixed)

    def __init__(
        self,
        tokenizer: Tokenizer,
        facts: ModelFacts,
        readers: Mapping[str, MediaProcessor],
        modality_order: Sequence[str] = (),
    ):
        super().__init__(tokenizer, facts)
        self.readers, self.modality_order = dict(readers), tuple(modality_order)
        self.capabilities = frozenset({"parts", *readers} if readers else ())
        self.summary = "reads images, audio and text in one sequence" if readers else ""
        self.parts = PartsTokenizer(tokenizer)
        self.prefix = tokenizer.word_space if facts.per_word else ""

    @classmethod
    def fit(
        cls, config: ProcessorConfig, data: DataConfig, records: Records, facts: ModelFacts
    ) -> Self:
        """See `Processor`: the training rows tell the tokenizer, sizes and the order of parts."""
        train = split_of(records, "train")
        for row in train:
            for kind, _ in row.parts:
                if kind != TEXT and getattr(config, kind) is None:
                    raise ConfigError(
                        f"{row.where} has the part {kind}, and the recipe no section "
                        f"processor.{kind}; add one ({kind}: {{}} takes all defaults)."
                    )
        readers = {
            kind: READERS[kind].fit(config, data, files, facts)
            for kind, files in files_of(records).items()
        }
        tokenizer = train_tokenizer(config.tokenizer, cls.texts_to_fit(data, records))
        return cls(tokenizer, facts, readers, facts.modality_order or common_order(train))

    @staticmethod
    def read_texts(record: Mixed) -> Sequence[str]:
        """See `Processor`."""
        return [value for kind, value in record.parts if kind == TEXT]

    @staticmethod
    def texts(record: Mixed) -> Iterator[str]:
        """See `TokenProcessor`: the target too."""
        yield from PartsProcessor.read_texts(record)
        if record.target is not None:
            yield record.target

    @classmethod
    def load(cls, folder: Path, data: DataConfig, model: ModelConfig, facts: ModelFacts) -> Self:
        """See `Processor`."""
        readers = {kind: READERS[kind].load(folder, data, model, facts) for kind in model.parts}
        return cls(load_tokenizer(folder, model), facts, readers, model.modality_order)

    def for_training(self, facts: ModelFacts, how: Augmentations) -> Self:
        """See `Processor`."""
        if how.image is not None and how.image.mixes:
            raise ConfigError(
                "augment.image.mixup and cutmix mix two images, which have no one answer; leave "
                "them out."
            )
        readers = {kind: reader.for_training(facts, how) for kind, reader in self.readers.items()}
        return type(self)(self.tokenizer, facts, readers, self.modality_order)

    @property
    def input_columns(self) -> tuple[str, ...]:
        """See `Processor`."""
        return ("input_field",)

    def from_values(self, values: Sequence[Any], where: str) -> list[Given] | None:
        """See `Processor`: a list of parts, also as JSON."""
        (given,) = values
        if isinstance(given, str) and given.strip():
            try:
                given = json.loads(given)
            except (ValueError, RecursionError) as problem:
                raise DataError(
                    f"{where} is not JSON ({problem}); write a list of parts."
                ) from None
        elif isinstance(given, str) or not given:
            return None
        return [{kind: value} for kind, value in parts_of(given, where)]

    def to_values(self, given: Any) -> dict[str, Any]:
        """See `Processor`."""
        return {"parts": given}

    def one_or_several(self, given: Any) -> tuple[bool, list[Any]]:
        """See `Processor`: a list of parts, or a list of such lists."""
        listed = self._listed(given)
        single = listed is not given or (bool(given) and isinstance(given[0], str | Mapping))
        return single, [listed] if single else list(given)

    def _listed(self, given: Any) -> Sequence[Any]:
        """Return a list of parts unchanged; a text, {KIND: VALUE}, a path, pixels or (samples,
        rate) as a list."""
        if isinstance(given, Path):
            given = {min(self.readers, default=TEXT): given}
        elif isinstance(given, np.ndarray):
            given = {"image": given}
        elif isinstance(given, tuple) and given and isinstance(given[0], np.ndarray):
            given = {"audio": given}
        return given if isinstance(given, Sequence) and not isinstance(given, str) else [given]

    def _length(self, row: Mixed) -> int:
        """Elements of a row, its answer among them."""
        n = len(self.unfilled(row).ids)
        if not self.facts.answers or row.target is None:
            return n
        answer = len(self.parts.answer(row.target))
        return max(n, answer) if self.facts.encoder_decoder else n + answer - 1

    def longest(self, records: Records) -> int:
        """See `Processor`."""
        return max(self._length(row) for rows in records.values() for row in rows)

    def check(self, records: Records) -> None:
        """See `Processor`: lengths, kinds, and the order of parts."""
        for row in (row for rows in records.values() for row in rows):
            self._check_kinds(kinds_of(row), f"{row.where}: a part")
            check_order(kinds_of(row), self.modality_order, row.where)
            if (n := self._length(row)) > (most := self.facts.context):
                raise DataError(
                    f"{row.where} has {n} elements and the model {most}; raise model.max_length"
                )

    def save(self, folder: Path) -> None:
        """See `Processor`."""
        super().save(folder)
        for reader in self.readers.values():
            reader.save(folder)

    def unfilled(self, row: Mixed) -> Example:
        """A row as a sequence, with zeros for its patches."""
        shapes = {
            kind: (of.reader.n_patches, of.reader.patch_width) for kind, of in self.readers.items()
        }
        parts = [
            (kind, value if kind == TEXT else np.broadcast_to(np.float32(0), shapes[kind]))
            for kind, value in row.parts
        ]
        return self._sequence(parts)

    def _sequence(self, parts: Sequence[tuple[str, str | np.ndarray]]) -> Example:
        return self.parts.example(parts, self.facts.per_word, self.facts.tag_piece)

    def open(
        self, records: Records, folder: Path, splits: Sequence[str] | None = None
    ) -> dict[str, PartsInputs]:
        """See `Processor`."""
        chosen = {name: split_of(records, name) for name in splits or records}
        media = {
            kind: self.readers[kind].open(files, folder, None if splits is None else list(files))
            for kind, files in files_of(chosen).items()
        }
        found = {name: PartsInputs(self.unfilled, rows, media) for name, rows in chosen.items()}
        for name, inputs in found.items():
            if not inputs.records:
                raise DataError(f"no {name} row has files that can all be read; see data.bad_files")
            own = [of[name] for of in media.values() if name in of]
            inputs.skipped = tuple(chain.from_iterable(one.skipped for one in own))
            inputs.clipped = sum(one.clipped for one in own)
        return found

    def stored(self, data: DataConfig, folder: Path) -> dict[str, PartsInputs] | None:
        """See `Processor`."""
        records = self.read(data)
        files = files_of(records).items()
        held = all(self.readers[kind].holds(own, folder) for kind, own in files)
        return self.open(records, folder) if held else None

    def order(self, inputs: Inputs, lengths: np.ndarray, sizes: Sizes) -> Rows:
        """See `Processor`: rows of like length together."""
        assert isinstance(inputs, PartsInputs)
        bundles = inputs.bundles(sizes.share_prefix)
        long = np.array([inputs.bundle_length(own, lengths) for own in bundles])
        size = max(1, round(sizes.batch_size * len(bundles) / len(lengths)))
        return Rows(length_order(long, size, sizes.batch_tokens, sizes.seed), bundles)

    def collate(self, rows: Sequence[Sequence[Example]]) -> Batch:
        """See `Processor`."""
        if max(map(len, rows)) > 1:
            return shared_prefix(rows)
        return padded([example for row in rows for example in row])

    def windows(self, given: Any) -> list[Window]:
        """See `Processor`."""
        parts = self.named_parts(given)
        check_order([kind for kind, _ in parts], self.modality_order, "What was given")
        return [Window(self.example(parts))]

    def named_parts(self, given: Any) -> list[tuple[str, Any]]:
        """Kind and content of each part; DataError: a part that the model does not read."""
        parts = [part_of(part) for part in self._listed(given)]
        self._check_kinds((kind for kind, _ in parts), "a part")
        return parts

    def _check_kinds(self, kinds: Iterable[str], what: str) -> None:
        known = (TEXT, *self.readers)
        for kind in kinds:
            if kind not in known:
                raise DataError(f"{what} was given as {kind}; {suggest(kind, known)}")

    def example(self, parts: Sequence[tuple[str, Any]]) -> Example:
        """The sequence of parts; DataError: a file, pixels or samples that cannot be read."""
        read = [
            (kind, thing if kind == TEXT else self.readers[kind].given_patches(thing))
            for kind, thing in parts
        ]
        return self._sequence(read)

    def encode(self, given: Any) -> EncodedInput:
        """See `Processor`: parts, or a tuple of parts and the answer generated so far."""
        if (ids := ids_of(given)) is not None:
            if self.facts.encoder_decoder:
                raise ConfigError(
                    "Token ids are of one sequence, and an encoder-decoder reads a source and "
                    "writes another; give parts."
                )
            return self.encoded_ids(ids)
        parts, answer = self._parts_and_answer(given)
        crossed, longest = self.facts.encoder_decoder, self.facts.context
        what = "The source" if crossed else "The sequence of parts"
        example = self.example(parts)
        written = [] if answer is None else self.parts.answer(answer)[:-1].tolist()
        check_length(len(example.ids) + (0 if crossed else len(written)), longest, what)
        if crossed:
            check_length(1 + len(written), longest)
        elements = self._elements(parts, example.ids.tolist())
        first = 0 if crossed else next_word([element.word for element in elements])
        own = words_of(self.tokenizer, answer or "", first)
        if crossed:
            target = [self.parts.begin, *written]
            batch = Batch(torch.tensor([target]), source=padded([replace(example, at=None)]))
            said = token_elements(self.tokenizer, target, [None, *own])
            return EncodedInput(batch, said, tuple(elements))
        ids = np.append(example.ids, np.array(written, np.int32))
        batch = padded([replace(example, ids=ids, at=None)])
        return EncodedInput(batch, (*elements, *token_elements(self.tokenizer, written, own)))

    def _parts_and_answer(self, given: Any) -> tuple[list[tuple[str, Any]], str | None]:
        answer = None
        if isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], str):
            given, answer = given
        if answer is not None and not self.facts.answers:
            raise ConfigError("An answer was given, and this model writes none; leave it out.")
        return self.named_parts(given), answer

    def _elements(self, parts: Sequence[tuple[str, Any]], ids: Sequence[int]) -> list[Element]:
        elements = list(token_elements(self.tokenizer, self.parts.bos.tolist()))
        for kind, thing in parts:
            if kind != TEXT:
                elements += self.readers[kind].patch_elements()
                continue
            first = next_word([element.word for element in elements])
            if self.facts.per_word:
                words = self.parts.words(thing)
                own = [first + n for n, word in enumerate(words) for _ in word]
            else:
                own = words_of(self.tokenizer, thing, first)
            at = len(elements)
            elements += token_elements(self.tokenizer, ids[at : at + len(own)], own)
        return [*elements, *token_elements(self.tokenizer, ids[len(elements) :])]

    def words(self, given: Any) -> list[str]:
        """See `Processor`: those of the texts."""
        texts = [thing for kind, thing in map(part_of, given) if kind == TEXT]
        return [word for text in texts for word in text.split()]

    @staticmethod
    def given(record: Mixed) -> list[Given]:
        """The input of a record, as `windows` takes it."""
        return [{kind: value} for kind, value in record.parts]

    def ordered(self, prompt: str, things: Mapping[str, Any]) -> list[Given]:
        """A prompt and files of several kinds in the order of the training rows."""
        kinds = dict.fromkeys((*self.modality_order, *READERS, TEXT))
        given = {**things, **({TEXT: prompt} if prompt or not things else {})}
        return [
            given[TEXT] if kind == TEXT else {kind: given[kind]} for kind in kinds if kind in given
        ]

    def model_fields(self) -> dict[str, Any]:
        """See `Processor`."""
        readers = {kind: processor.reader for kind, processor in self.readers.items()}
        return {
            "parts": {kind: reader.patch_width for kind, reader in readers.items()},
            "part_patches": {kind: reader.n_patches for kind, reader in readers.items()},
            "modality_order": self.modality_order,
        }

    def description(self) -> list[str]:
        """See `Processor`."""
        read = [sentence for reader in self.readers.values() for sentence in reader.description()]
        return [*super().description(), *read]

    def schema(self) -> dict[str, Any]:
        """See `Processor`."""
        part = [{"type": "string"}, *(reader.schema() for reader in self.readers.values())]
        return {"type": "array", "items": {"anyOf": part}, "description": "parts in their order"}

    def media(self) -> Mapping[str, Any]:
        """See `Processor`."""
        return self.readers

    def request_of(self, record: Mixed) -> list[Any]:
        """See `Processor`: the texts of a row."""
        return [" ".join(value for kind, value in record.parts if kind == TEXT)]

    def neutral_inputs(self) -> list[Any]:
        """See `Processor`."""
        blank = {kind: reader.neutral_inputs()[0] for kind, reader in self.readers.items()}
        return [self.ordered(text, blank) for text in (QUESTION, "a", known_text(self.tokenizer))]

    def example_inputs(self, folder: Path, sampled: Sequence[Any] = ()) -> list[Any]:
        """See `Processor`: files that the run keeps, with the texts of samples."""
        n = min((len(r.kept_inputs(folder)) for r in self.readers.values()), default=0)
        texts = [text for text in sampled if isinstance(text, str) and text] or [QUESTION]
        return [
            self.ordered(texts[i % len(texts)], {kind: f"{EXAMPLE}{i}" for kind in self.readers})
            for i in range(n)
        ]

    def kept_inputs(self, folder: Path) -> list[Any]:
        """See `Processor`."""
        kept = {kind: reader.kept_inputs(folder) for kind, reader in self.readers.items()}
        rows = zip(*kept.values(), strict=False) if kept else ()
        return [self.ordered(QUESTION, dict(zip(kept, row, strict=True))) for row in rows]
