"""The processor of rows of parts: text, images and audio in one sequence (Note D: multimodal)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from glassformer.core.batch import Batch
from glassformer.core.errors import ConfigError, DataError
from glassformer.data.collate import pad_examples, shared_prefix
from glassformer.data.config import DataConfig
from glassformer.data.example import Example
from glassformer.data.order import length_order
from glassformer.data.records.parts import Mixed, read_parts
from glassformer.models.config import ModelConfig
from glassformer.processors.config import Augmentations, ModelFacts, ProcessorConfig
from glassformer.processors.inputs import Inputs, Records, Rows, Sizes, split_of
from glassformer.processors.parts_given import GivenParts
from glassformer.processors.parts_inputs import (
    READERS,
    PartsInputs,
    check_kinds,
    check_order,
    common_order,
    files_of,
    kinds_of,
)
from glassformer.processors.processor import Window, check_length, ids_of
from glassformer.processors.stored import load_tokenizer
from glassformer.processors.tokens.elements import Content, EncodedInput, token_elements
from glassformer.processors.tokens.sequence_builder import TEXT, Part, SequenceBuilder
from glassformer.tokenizers.train import train_tokenizer


@dataclass(eq=False)
class PartsProcessor(GivenParts):
    """Parts in their order, each encoded by its own processor."""

    name, noun, unit = "parts", "row", "element"
    records = staticmethod(read_parts)

    def __post_init__(self) -> None:
        if self.how.image is not None and self.how.image.mixes:
            raise ConfigError(
                "augment.image.mixup and cutmix mix two images, which have no one answer; leave "
                "them out."
            )
        self.parts = SequenceBuilder(self.tokenizer, word_at=self.facts.word_at or "last")
        if self.readers:
            self.capabilities = ("parts",)
            self.summary = "reads images, audio and text in one sequence"

    @property
    def begin(self) -> int:
        """The symbol that begins an encoder-decoder's answer; ConfigError: there is none."""
        return self.parts.begin

    def answer(self, text: str) -> np.ndarray:
        """Return the ids of an answer and its end; ConfigError: there is no end symbol."""
        return self.parts.answer(text)

    @property
    def prefix(self) -> str:
        """A space before a text, if its words are encoded one by one."""
        return self.tokenizer.word_space if self.facts.word_at else ""

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
        readers = {kind: reader.for_training(facts, how) for kind, reader in self.readers.items()}
        return replace(self, facts=facts, how=how, readers=readers)

    def longest(self, records: Records) -> int:
        """See `Processor`."""
        rows = chain.from_iterable(records.values())
        return max(len(self.unfilled(row).ids) for row in rows)

    def check(self, records: Records) -> None:
        """See `Processor`: lengths, kinds, and the order of parts."""
        for row in chain.from_iterable(records.values()):
            check_kinds(kinds_of(row), self.readers, f"{row.where}: a part")
            check_order(kinds_of(row), self.modality_order, row.where)
            check_row(row, len(self.unfilled(row).ids), self.facts.context)

    def save(self, folder: Path) -> None:
        """See `Processor`."""
        super().save(folder)
        for reader in self.readers.values():
            reader.save(folder)

    def unfilled(self, row: Mixed) -> Example:
        """Return a row as a sequence, with zeros for its patches."""
        zeros = {
            kind: np.broadcast_to(np.float32(0), (of.reader.n_patches, of.reader.patch_width))
            for kind, of in self.readers.items()
        }
        return self.parts.example(self._contents(row.parts, zeros))

    def example(self, parts: Sequence[tuple[str, Any]]) -> Example:
        """Return the sequence of parts; DataError: a file, pixels or samples that cannot be
        read."""
        return self.parts.example(self._contents(parts))

    def _contents(
        self, parts: Sequence[tuple[str, Any]], zeros: Mapping[str, np.ndarray] | None = None
    ) -> list[tuple[str, Part]]:
        """Return texts or their words, and patches or zeros for them."""

        def content(kind: str, thing: Any) -> Part:
            if kind != TEXT:
                return zeros[kind] if zeros else self.readers[kind].given_patches(thing)
            return self.parts.words(thing.split()) if self.facts.word_at else thing

        return [(kind, content(kind, thing)) for kind, thing in parts]

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

    def load_stored(self, data: DataConfig, folder: Path) -> dict[str, PartsInputs] | None:
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
        return pad_examples([example for row in rows for example in row])

    def windows(self, given: Any) -> list[Window]:
        """See `Processor`."""
        parts = self.named_parts(given)
        check_order([kind for kind, _ in parts], self.modality_order, "What was given")
        return [Window(self.example(parts))]

    def prompt(self, given: Any, crossed: bool = False) -> EncodedInput:
        """See `Processor`: parts, or a tuple of parts and the answer generated so far."""
        if ids_of(given) is None:
            given, written = given if _is_answered(given) else (given, "")
            return self.encode_given(given, written, crossed)
        if crossed:
            raise ConfigError(
                "Token ids are of one sequence, and an encoder-decoder reads a source and writes "
                "another; give parts."
            )
        return self.encode(given)

    def encode_given(
        self, given: Any, written: str | None = None, crossed: bool = False
    ) -> EncodedInput:
        """See `TokenProcessor`; `written`: the answer so far, beside a source if `crossed`."""
        if written is None and _is_answered(given):
            raise ConfigError("An answer was given, and this model writes none; leave it out.")
        builder, parts = self.parts, self._contents(self.named_parts(given))
        example = builder.example(parts)
        answer = builder.answer(written)[:-1] if written else np.zeros(0, np.int32)
        what = "The source" if crossed else "The sequence of parts"
        sizes = len(example.ids), len(answer)
        check_length(sizes[0] if crossed else sum(sizes), self.facts.context, what)
        contents = [content for _, content in parts]
        if crossed:
            check_length(1 + sizes[1], self.facts.context)
            begin = np.array([builder.begin], np.int32)
            read = self.name_elements(example, [builder.bos, *contents])
            ids = torch.tensor(np.append(begin, answer), dtype=torch.long)
            batch = Batch(ids[None], source=read.batch)
            elements = token_elements(self.tokenizer, ids.tolist(), [begin, written or ""])
            return EncodedInput(batch, elements, read.elements)
        example = replace(example, ids=np.append(example.ids, answer))
        return self.name_elements(example, [builder.bos, *contents, builder.eos, written or ""])

    def name_elements(self, example: Example, contents: Sequence[Content] = ()) -> EncodedInput:
        """Return one sequence whose elements have names, patches among them."""
        found = super().name_elements(example, contents)
        elements = [*found.elements]
        for one in example.patches:
            places = slice(one.begin, one.begin + len(one.values))
            elements[places] = self.readers[one.kind].patch_elements()
        return replace(found, elements=tuple(elements))

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


def check_row(row: Mixed, length: int, longest: int) -> None:
    """Raise DataError for a row longer than the model."""
    if length > longest:
        raise DataError(
            f"{row.where} has {length} elements and the model {longest}; raise model.max_length"
        )


def _is_answered(given: Any) -> bool:
    """Whether parts come with the answer written so far."""
    return isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], str)
