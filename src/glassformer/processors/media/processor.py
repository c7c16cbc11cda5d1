"""Base of the processors of images and audio: files are decoded once, stored, cut into patches.

images   uint8 [N, H, W, C]  ── augmented, mixed ──> normalized ──> patches [N, T, P]
audio    float32 [N, T]      ── augmented ──> spectrograms ── masked ──> patches [N, T, P]
"""

import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
import torch

from glassformer.core.axes import Float, Tensor
from glassformer.core.batch import Batch
from glassformer.core.errors import CheckpointError, ConfigError, DataError
from glassformer.data.arrays import KIND, arrays_of, request_of, store_arrays
from glassformer.data.config import DataConfig, SplitName
from glassformer.data.example import Example, Patches
from glassformer.data.formats.contents import content
from glassformer.data.order import ShuffledOrder
from glassformer.data.records.labelled_files import LabelledFile
from glassformer.data.sources import Source, source_at
from glassformer.data.store import Store
from glassformer.media.audio import AudioReader
from glassformer.media.image import ImageReader
from glassformer.models.config import ModelConfig
from glassformer.processors.config import UNCHANGED, Augmentations, ModelFacts, ProcessorConfig
from glassformer.processors.init_from import readers_of
from glassformer.processors.inputs import Inputs, Records, Rows, Sizes, split_of
from glassformer.processors.media.inputs import MediaInputs
from glassformer.processors.processor import Processor, Window
from glassformer.processors.requests import Files
from glassformer.processors.tokens.elements import Element, EncodedInput, prefix_elements

NOTHING = np.zeros(0, np.int32)
ROWS, EXAMPLES = 256, 6
EXAMPLE = "example:"
"""Prefix, in a request, of the number of an example that the run folder keeps."""
ReaderKind = TypeVar("ReaderKind", ImageReader, AudioReader)


@dataclass(eq=False)
class MediaProcessor(Processor, Generic[ReaderKind]):
    """Images, or audio clips, as patches."""

    reader: ReaderKind
    facts: ModelFacts
    skip: bool = False
    """Whether unreadable files are left out."""
    how: Augmentations = UNCHANGED
    unit, elements, batch_rows = "patch", "patches", ROWS
    columns, tokenizer = ("file_field", "label_field"), None
    record: ClassVar[type[LabelledFile]]
    kind: ClassVar[Any]
    """The class of the reader."""
    array: ClassVar[str]
    """The folder of the stored arrays."""
    dtype: ClassVar[str]
    stored_fields: ClassVar[frozenset[str]]
    """Fields of the reader's configuration that the stored arrays depend on."""
    accept: ClassVar[str]
    """Media types of files, the first that of `to_file`, as `accept` of an HTML input."""
    clipped = 0
    """Records that were longer than what is decoded of them."""

    @classmethod
    def fit(
        cls, config: ProcessorConfig, data: DataConfig, records: Records, facts: ModelFacts
    ) -> Self:
        """See `Processor`; ConfigError: the recipe has no section for these inputs."""
        section, skip = getattr(config, cls.name), data.skips_bad_files
        if section is None:
            raise ConfigError(
                f"The recipe has no section processor.{cls.name}, which says how its input is cut; "
                f"add it ({cls.name}: {{}} takes all defaults)."
            )
        return cls(cls.kind(cls.complete(section, records, skip)), facts, skip)

    @classmethod
    def complete(cls, config: Any, records: Records, skip: bool) -> Any:
        """Return the section with what the training records say."""
        return config

    @classmethod
    def load(cls, folder: Path, data: DataConfig, model: ModelConfig, facts: ModelFacts) -> Self:
        """See `Processor`. CheckpointError: the model reads other patches."""
        reader = cls.kind.load(folder)
        made, own = (reader.n_patches, reader.patch_width), (model.max_length, model.patch_width)
        if cls.name in model.parts:
            own = model.part_patches.get(cls.name, made[0]), model.parts[cls.name]
        if own != made:
            raise CheckpointError(
                f"{folder / f'{cls.name}.json'} makes {made[0]} patches of {made[1]} numbers and "
                f"its model reads {own[0]} of {own[1]}; they are of different runs."
            )
        return cls(reader, facts, data.skips_bad_files)

    @classmethod
    def take_over(
        cls,
        config: ProcessorConfig,
        trunk: ModelConfig,
        folder: Path,
        begun: ProcessorConfig | None,
    ) -> ProcessorConfig:
        """See `Processor`: the image size may differ."""
        return config.model_copy(update=readers_of(config, {cls.name}, folder, begun, resized=True))

    @classmethod
    def record_at(cls, path: str, split: SplitName) -> Any:
        """The record of a file without classes."""
        return cls.record(source_at(path), (), split)

    @abstractmethod
    def row(self, thing: Any, where: str) -> np.ndarray:
        """Return a record, or what `from_file` gives, as a row of the store."""

    @abstractmethod
    def patches(
        self, array: np.ndarray, numbers: np.ndarray, step: int | None
    ) -> Float[Tensor, "N T P"]:
        """Patches of stored rows with these numbers."""

    @abstractmethod
    def label(self, row: int, column: int) -> str:
        """Name of a patch."""

    @abstractmethod
    def restored(self, patches: Float[Tensor, "T P"]) -> np.ndarray:
        """The content of patches as an array to look at."""

    def picture(self, row: np.ndarray) -> np.ndarray:
        """A stored row to look at: pixels uint8 [H, W, C], or a spectrogram [frames, mels]."""
        return row

    def request(self, row: np.ndarray) -> Any:
        """A stored row as `windows` takes it."""
        return row

    @abstractmethod
    def from_file(self, content: bytes, where: str = "the file") -> Any:
        """Return pixels, or samples and their rate; DataError: they cannot be decoded."""

    @abstractmethod
    def to_file(self, given: Any) -> bytes | None:
        """The file of pixels, or of (samples, rate), the inverse of `from_file`; None: neither."""

    def examples(self, patches: Float[Tensor, "N T P"]) -> list[Example]:
        """An example for each row of patches."""
        return [Example(NOTHING, patches=(Patches(self.name, 0, row),)) for row in patches.numpy()]

    def save(self, folder: Path) -> None:
        """See `Processor`."""
        self.reader.save(folder)

    def open(
        self, records: Records, folder: Path, splits: Sequence[str] | None = None
    ) -> dict[str, MediaInputs]:
        """See `Processor`: each file is decoded once."""
        chosen = {name: split_of(records, name) for name in splits or records}
        form = self.decode, self.reader.record_shape, self.dtype, lambda: self.clipped
        stored = store_arrays(folder / self.array, self._request(chosen), chosen, *form)
        found = dict[str, MediaInputs]()
        for name, rows in stored.items():
            kept = [chosen[name][i] for i in rows.kept.tolist()]
            if rows.skipped and not kept:
                of = "training" if name == "train" else name
                raise DataError(f"no {of} {self.noun} could be read, the first: {rows.skipped[0]}")
            found[name] = MediaInputs(self, kept, rows)
        if "train" in found:  # whose mean and deviation the reader has
            self.reader = self.reader.resolve(found["train"].array)
        return found

    def _request(self, records: Records) -> dict[str, Any]:
        settings = self.reader.config.model_dump(mode="json", include=set(self.stored_fields))
        return request_of(records, settings, self.skip)

    def holds(self, records: Records, folder: Path) -> bool:
        """Whether a run folder holds the decoded files of these records, unchanged since."""
        with suppress(DataError):
            store = Store.open(folder / self.array, KIND)
            return store.request.items() >= self._request(records).items()
        return False

    def load_stored(self, data: DataConfig, folder: Path) -> dict[str, MediaInputs] | None:
        """See `Processor`."""
        return self.open(of, folder) if self.holds(of := self.read(data), folder) else None

    def order(self, inputs: Inputs, lengths: np.ndarray, sizes: Sizes) -> Rows:
        """See `Processor`."""
        fitting = max(1, (sizes.batch_tokens or 0) // self.reader.n_patches)
        size = sizes.batch_size if sizes.batch_tokens is None else fitting
        return Rows(ShuffledOrder(len(lengths), size, sizes.seed))

    def collate(self, rows: Sequence[Sequence[Example]]) -> Batch:
        """See `Processor`."""
        examples = [example for row in rows for example in row]
        patches = torch.from_numpy(np.stack([example.patches[0].values for example in examples]))
        own = [example.targets for example in examples if example.targets is not None]
        return Batch(patches, targets=torch.from_numpy(np.concatenate(own)) if own else None)

    def given_patches(self, given: Any) -> np.ndarray:
        """Patches, float32 [T, P], of a file, of pixels, or of (samples, rate)."""
        return self.patches(self.decode(given)[None], np.zeros(1, np.int64), None)[0].numpy()

    def decode(self, thing: Any) -> np.ndarray:
        """Return a record, a file, its content, pixels or (samples, rate) as a row of the store."""
        where = f"the {self.name}"
        if isinstance(thing, str | Path):
            where, thing = str(thing), content(source_at(str(Path(thing).expanduser().absolute())))
        if isinstance(thing, bytes):
            thing = self.from_file(thing, where)
        return self.row(thing, where)

    def windows(self, given: Any) -> list[Window]:
        """See `Processor`."""
        patches = torch.from_numpy(self.given_patches(given)[None])
        return [*map(Window, self.examples(patches))]

    def patch_elements(self) -> list[Element]:
        """Elements of the patches, row by row of their grid."""
        places = np.ndindex(*self.reader.grid)
        return [Element(self.label(r, c), None, self.name, row=r, column=c) for r, c in places]

    def encode(self, given: Any) -> EncodedInput:
        """See `Processor`."""
        (window,) = self.windows(given)
        elements = prefix_elements(self.facts.class_token, self.facts.n_registers)
        return EncodedInput(self.collate([[window.example]]), (*elements, *self.patch_elements()))

    def model_fields(self) -> dict[str, Any]:
        """See `Processor`."""
        size = {"patch_width": self.reader.patch_width, "patch": self.reader.config.patch_size}
        return size | {"max_length": self.reader.n_patches, "grid": self.reader.grid}

    def schema(self) -> dict[str, Any]:
        """See `Processor`."""
        address = {"type": "string", "description": "a data: address, or example:N"}
        return {
            "type": "object",
            "properties": {self.name: address},
            "required": [self.name],
            "additionalProperties": False,
        }

    def from_values(self, values: Sequence[Any], where: str) -> Any:
        """See `Processor`: the name of a file, or its bytes in a table."""
        if isinstance(value := values[0], Source):
            return content(value)
        if value is not None and not isinstance(value, str):
            raise DataError(f"{where} has {value!r:.40} where a file is read; give its name")
        return value or None

    def within(self, given: Any, folder: str) -> Any:
        """See `Processor`: a name is a path from there."""
        return os.path.join(folder, os.path.expanduser(given)) if isinstance(given, str) else given

    def to_values(self, given: Any) -> dict[str, Any]:
        """See `Processor`."""
        return {"file": given}

    def from_request(self, value: Any, read: Files) -> Any:
        """See `Processor`: one file."""
        return self.part_from_request(value, read)[self.name]

    def to_request(self, given: Any, write: Files) -> Any:
        """See `Processor`: a file is of this kind if none is named."""
        return super().to_request(
            given if isinstance(given, Mapping) else {self.name: given}, write
        )

    def kept_inputs(self, folder: Path) -> list[Any]:
        """See `Processor`: stored validation rows, else training rows."""
        for name in ("validation", "train"):
            with suppress(DataError, KeyError):
                array = arrays_of(Store.open(folder / self.array, KIND), name).array
                if len(array):
                    return [self.request(np.array(row)) for row in array[:EXAMPLES]]
        return []

    def media(self) -> Mapping[str, Any]:
        """See `Processor`."""
        return {self.name: self}

    def pictures(self, batch: Batch, row: int = 0) -> dict[int, Any]:
        """See `Processor`: one."""
        return {0: (self, batch.elements[row])}

    def neutral_inputs(self) -> list[Any]:
        """See `Processor`: a black image, or silence."""
        return [self.request(np.zeros(self.reader.record_shape, self.dtype))]

    def example_inputs(self, folder: Path, sampled: Sequence[Any] = ()) -> list[Any]:
        """See `Processor`."""
        return [{self.name: f"{EXAMPLE}{i}"} for i in range(len(self.kept_inputs(folder)))]
