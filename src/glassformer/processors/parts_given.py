"""Rows of parts in tables and requests, and as examples of a run."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from glassformer.core.batch import Batch
from glassformer.core.errors import DataError
from glassformer.data.records.parts import Mixed, parts_of
from glassformer.processors.media.processor import EXAMPLE, MediaProcessor
from glassformer.processors.parts_inputs import (
    READERS,
    as_list,
    check_kinds,
    part_of,
)
from glassformer.processors.requests import Files
from glassformer.processors.tokenized import TokenProcessor, known_text
from glassformer.processors.tokens.sequence_builder import TEXT

QUESTION = "What is it?"
Given = str | Mapping[str, Any]
"""A part: a text, or {"text": TEXT}, {"image": FILE or pixels}, or
{"audio": FILE or (samples, rate)}."""


@dataclass(eq=False)
class GivenParts(TokenProcessor):
    """Parts in their order: texts, images and audio."""

    readers: Mapping[str, MediaProcessor] = field(default_factory=dict)
    modality_order: tuple[str, ...] = ()

    @property
    def input_columns(self) -> tuple[str, ...]:
        """The setting that names the column of parts."""
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
        """Return parts as a value beside their prediction."""
        return {"parts": given}

    def one_or_several(self, given: Any) -> tuple[bool, list[Any]]:
        """See `Processor`: a list of parts, or a list of such lists."""
        whole = as_list(given, self.readers)
        single = whole is not given or (bool(given) and isinstance(given[0], str | Mapping))
        return single, [whole] if single else list(given)

    def named_parts(self, given: Any) -> list[tuple[str, Any]]:
        """Kind and content of each part; DataError: a part that the model does not read."""
        parts = [part_of(part) for part in as_list(given, self.readers)]
        check_kinds((kind for kind, _ in parts), self.readers, "a part")
        return parts

    def words(self, given: Any) -> list[str]:
        """See `Processor`: those of the texts."""
        parts = map(part_of, given)
        return [word for kind, thing in parts if kind == TEXT for word in thing.split()]

    @staticmethod
    def given(record: Mixed) -> list[Given]:
        """The input of a record, as `windows` takes it."""
        return [{kind: value} for kind, value in record.parts]

    def order_parts(self, prompt: str, things: Mapping[str, Any]) -> list[Given]:
        """A prompt and files of several kinds in the order of the training rows."""
        kinds = dict.fromkeys((*self.modality_order, *READERS, TEXT))
        given = {**things, **({TEXT: prompt} if prompt or not things else {})}
        return [
            given[TEXT] if kind == TEXT else {kind: given[kind]} for kind in kinds if kind in given
        ]

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of a list of parts."""
        part = [{"type": "string"}, *(reader.schema() for reader in self.readers.values())]
        return {"type": "array", "items": {"anyOf": part}, "description": "parts in their order"}

    def to_request(self, given: Any, write: Files) -> Any:
        """See `Processor`: two texts are parts, as a tuple a part and the answer so far."""
        match given:
            case [str() as first, str() as second] if self.readers:
                given = [[first], second] if isinstance(given, tuple) else [{TEXT: first}, second]
        return super().to_request(given, write)

    def media(self) -> Mapping[str, Any]:
        """Return the processors of images and audio."""
        return self.readers

    def pictures(self, batch: Batch, row: int = 0) -> dict[int, Any]:
        """See `Processor`: in the order of the sequence."""
        length, found = batch.elements.shape[1], dict[int, Any]()
        for one in batch.parts:
            reader = self.readers[one.name]
            here, n = one.at.div(length, rounding_mode="floor") == row, reader.reader.n_patches
            places = (one.at[here] % length)[::n].tolist()
            own = ((reader, patches) for patches in one.values[here].split(n))
            found |= zip(places, own, strict=True)
        return dict(sorted(found.items()))

    def request_of(self, record: Mixed) -> list[Any]:
        """See `Processor`: the texts of a row."""
        return [" ".join(self.read_texts(record))]

    def neutral_inputs(self) -> list[Any]:
        """Return questions about nothing: black images, silence."""
        blank = {kind: reader.neutral_inputs()[0] for kind, reader in self.readers.items()}
        return [
            self.order_parts(text, blank) for text in (QUESTION, "a", known_text(self.tokenizer))
        ]

    def kept_inputs(self, folder: Path) -> list[Any]:
        """Return a question about each of the files that the run keeps."""
        kept = [reader.kept_inputs(folder) for reader in self.readers.values()]
        rows = zip(*kept, strict=False)
        return [
            self.order_parts(QUESTION, dict(zip(self.readers, row, strict=True))) for row in rows
        ]

    def example_inputs(self, folder: Path, sampled: Sequence[Any] = ()) -> list[Any]:
        """See `Processor`: files that the run keeps, with the texts of samples."""
        texts = [text for text in sampled if isinstance(text, str) and text] or [QUESTION]
        return [
            self.order_parts(
                texts[i % len(texts)], {kind: f"{EXAMPLE}{i}" for kind in self.readers}
            )
            for i in range(len(self.kept_inputs(folder)))
        ]
