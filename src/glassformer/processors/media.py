"""What the processors of images and of audio share: files decoded once, stored, cut into patches.

images   uint8 [N, H, W, C]  ── augmented, mixed ──> normalized ──> patches [N, T, P]
audio    float32 [N, T]      ── augmented ──> spectrograms ── masked ──> patches [N, T, P]
"""

import hashlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
import torch

from glassformer.axes import Float, Tensor
from glassformer.batch import Batch
from glassformer.data.arrays import KIND, arrays_of, stamp_of, store_arrays
from glassformer.data.config import DataConfig
from glassformer.data.example import Example, Patches
from glassformer.data.order import ShuffledOrder
from glassformer.data.store import Store
from glassformer.errors import CheckpointError, DataError
from glassformer.media.audio import AudioReader
from glassformer.media.image import ImageReader
from glassformer.models.config import ModelConfig
from glassformer.processors.config import Augmentations
from glassformer.processors.elements import Element
from glassformer.processors.inputs import Inputs, Records, SingleRows, Sizes, split_of
from glassformer.processors.processor import EncodedInput, ModelFacts, Processor, Window

NOTHING = np.zeros(0, np.int32)
ROWS, EXAMPLES = 256, 6
EXAMPLE = "example:"
"""What a request writes before the number of an example that the run folder keeps."""


@dataclass(frozen=True)
class Files:
    """What identifies the files of the data, and whether those that cannot be read are left out."""

    stamp: str = ""
    skip: bool = False

    @classmethod
    def of(cls, data: DataConfig) -> Self:
        """Names, sizes and times of the files that the settings name."""
        named = [data.path, data.validation_path, data.test_path]
        return cls(stamp_of(named), data.bad_files == "skip")


class MediaInputs(Inputs):
    """Decoded images or clips of one split, memory-mapped."""

    def __init__(
        self,
        processor: "MediaProcessor",
        array: np.ndarray,
        records: Sequence[Any],
        skipped: tuple[str, ...],
    ):
        self.processor, self.array = processor, array
        self.records, self.skipped = records, skipped
        self.owner = np.arange(len(records))

    @property
    def lengths(self) -> np.ndarray:
        """See `Inputs`."""
        return np.full(len(self.records), self.processor.reader.n_patches)

    def patches(
        self, numbers: Sequence[int] | np.ndarray, step: int | None = None
    ) -> Float[Tensor, "N T P"]:
        """Patches of some of them: at a training step augmented, otherwise as they are."""
        chosen = np.asarray(numbers, np.int64)
        return self.processor.patches(self.array[chosen], chosen, step)

    def examples(self, numbers: Sequence[int], step: int | None = None) -> list[Example]:
        """See `Inputs`."""
        return self.processor.examples(self.patches(numbers, step))

    def mixed(
        self, targets: np.ndarray, n_classes: int, numbers: Sequence[int], step: int
    ) -> np.ndarray:
        """See `Inputs`."""
        return self.processor.mixed(targets, n_classes, np.asarray(numbers, np.int64), step)

    def picture(self, number: int) -> np.ndarray:
        """See `Inputs`."""
        return self.processor.picture(np.array(self.array[number]))

    def fingerprint(self) -> Iterator[bytes]:
        """See `Inputs`."""
        step = max(1, self.array.size // (1 << 20))
        yield np.ascontiguousarray(self.array[::step]).tobytes()


ReaderKind = TypeVar("ReaderKind", ImageReader, AudioReader)


class MediaProcessor(Processor, Generic[ReaderKind]):
    """Images, or audio clips, as patches."""

    unit, elements, reads_files = "patch", "patches", True
    kind: ClassVar[Any]
    """The class of the reader."""
    array: ClassVar[str]
    """The folder of the stored arrays."""
    dtype: ClassVar[str]
    accept: ClassVar[str]
    """Media types of files, the first that of `to_file`, as `accept` of an HTML input."""
    shape: tuple[int, ...]

    def __init__(
        self,
        reader: ReaderKind,
        facts: ModelFacts | None = None,
        files: Files | None = None,
        how: Augmentations | None = None,
    ):
        self.reader: ReaderKind = reader
        self.facts = facts or ModelFacts(reader.n_patches, reader.n_patches)
        self.files, self.how = files or Files(), how or Augmentations()

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
        return cls(reader, facts, Files.of(data))

    @abstractmethod
    def decode(self, item: Any) -> np.ndarray:
        """A record's image or clip in the shape of the store."""
        ...

    @abstractmethod
    def given_array(self, thing: Any) -> np.ndarray:
        """A file, pixels or samples as the reader takes them."""
        ...

    @abstractmethod
    def patches(
        self, array: np.ndarray, numbers: np.ndarray, step: int | None
    ) -> Float[Tensor, "N T P"]:
        """Patches of stored rows with these numbers."""
        ...

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """What the stored arrays depend on."""
        ...

    @abstractmethod
    def label(self, row: int, column: int) -> str:
        """Name of a patch."""
        ...

    @abstractmethod
    def picture(self, row: np.ndarray) -> np.ndarray:
        """A stored row to look at: pixels uint8 [H, W, C], or a spectrogram [frames, mels]."""
        ...

    @abstractmethod
    def restored(self, patches: Float[Tensor, "T P"]) -> np.ndarray:
        """What patches show, as an array to look at."""
        ...

    @abstractmethod
    def request(self, row: np.ndarray) -> Any:
        """A stored row as `windows` takes it."""
        ...

    @abstractmethod
    def from_file(self, content: bytes) -> Any:
        """The content of a file as `windows` takes it; DataError: it cannot be decoded."""
        ...

    @abstractmethod
    def to_file(self, given: Any) -> bytes | None:
        """The file of pixels, or of (samples, rate), the inverse of `from_file`; None: neither."""
        ...

    def augmented(self, how: Augmentations) -> Self:
        """The same processor, whose training examples are changed at every step."""
        return type(self)(self.reader, self.facts, self.files, how)

    def mixed(
        self, targets: np.ndarray, n_classes: int, numbers: np.ndarray, step: int
    ) -> np.ndarray:
        """Class targets of a step's rows, mixed as their inputs are."""
        return targets

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
        names = list(splits or records)
        items = {
            name: [partial(self.decode, record) for record in split_of(records, name)]
            for name in names
        }
        where = "\n".join(record.where for name in names for record in records[name])
        request = {
            "stamp": self.files.stamp,
            "files": hashlib.sha256(where.encode(errors="replace")).hexdigest()[:16],
            "settings": self.settings(),
            "skip": self.files.skip,
        }
        with hinting(self.files.skip or splits is not None):  # an evaluation has no recipe
            store = store_arrays(
                folder / self.array, request, items, self.shape, self.dtype, self.files.skip
            )
        found = {}
        for name in names:
            rows = arrays_of(store, name)
            kept = [records[name][i] for i in rows.kept.tolist()]
            found[name] = MediaInputs(self, rows.array, kept, rows.skipped)
        if "train" in found and not found["train"].records:
            first = found["train"].skipped[0]
            raise DataError(f"no training {self.noun} could be read, the first: {first}")
        self._learn(found)
        return found

    def _learn(self, inputs: Mapping[str, Inputs]) -> None:
        """Take from the training rows what the reader needs of them (mean and deviation)."""
        if isinstance(train := inputs.get("train"), MediaInputs):
            self.reader = self.reader.resolved(train.array)

    def order(self, inputs: Inputs, lengths: np.ndarray, sizes: Sizes) -> SingleRows:
        """See `Processor`."""
        size = sizes.batch_size
        if sizes.batch_tokens is not None:
            size = max(1, sizes.batch_tokens // self.reader.n_patches)
        return SingleRows(ShuffledOrder(len(lengths), size, sizes.seed))

    def collate(self, rows: Sequence[Sequence[Example]]) -> Batch:
        """See `Processor`."""
        examples = [example for row in rows for example in row]
        patches = torch.from_numpy(np.stack([example.patches[0].values for example in examples]))
        targets = [example.targets for example in examples if example.targets is not None]
        if not targets:
            return Batch(patches)
        return Batch(patches, targets=torch.from_numpy(np.concatenate(targets)))

    def batches(self, examples: Sequence[Example]) -> Iterator[tuple[list[int], Batch]]:
        """See `Processor`."""
        for begin in range(0, len(examples), ROWS):
            numbers = list(range(begin, min(begin + ROWS, len(examples))))
            yield numbers, self.collate([[examples[i]] for i in numbers])

    def given_patches(self, given: Any) -> np.ndarray:
        """Patches, float32 [T, P], of a file, of pixels, or of (samples, rate)."""
        array = self.given_array(given)[None]
        return self.patches(array, np.zeros(1, np.int64), None)[0].numpy()

    def windows(self, given: Any) -> list[Window]:
        """See `Processor`."""
        return [
            Window(Example(NOTHING, patches=(Patches(self.name, 0, self.given_patches(given)),)))
        ]

    def patch_elements(self) -> list[Element]:
        """Elements of the patches, row by row of their grid."""
        rows, columns = self.reader.grid
        places = ((r, c) for r in range(rows) for c in range(columns))
        return [Element(self.label(r, c), None, self.name, row=r, column=c) for r, c in places]

    def encode(self, given: Any) -> EncodedInput:
        """See `Processor`."""
        (window,) = self.windows(given)
        first = [Element("[class]", None, "class")] if self.facts.class_token else []
        return EncodedInput(self.collate([[window.example]]), (*first, *self.patch_elements()))

    def model_fields(self) -> dict[str, Any]:
        """See `Processor`."""
        reader = self.reader
        size = {"patch_width": reader.patch_width, "patch": reader.config.patch_size}
        return size | {"max_length": reader.n_patches, "grid": reader.grid}

    def schema(self) -> dict[str, Any]:
        """See `Processor`."""
        address = {"type": "string", "description": "a data: address, or example:N"}
        return {
            "type": "object",
            "properties": {self.name: address},
            "required": [self.name],
            "additionalProperties": False,
        }

    def kept_inputs(self, folder: Path) -> list[Any]:
        """See `Processor`."""
        return self.kept(folder)

    def to_values(self, given: Any) -> dict[str, Any]:
        """See `Processor`."""
        return {"file": given}

    def kept(self, folder: Path) -> list[Any]:
        """Stored validation (else training) rows of a run folder as `windows` takes them."""
        for name in ("validation", "train"):
            with suppress(DataError, KeyError):
                array = arrays_of(Store.open(folder / self.array, KIND), name).array
                if len(array):
                    return [self.request(np.array(row)) for row in array[:EXAMPLES]]
        return []

    def media(self) -> Mapping[str, Any]:
        """See `Processor`."""
        return {self.name: self}

    def neutral_inputs(self) -> list[Any]:
        """See `Processor`: a black image, or silence."""
        return [self.request(np.zeros(self.shape, self.dtype))]

    def example_inputs(self, folder: Path, sampled: Sequence[Any] = ()) -> list[Any]:
        """See `Processor`."""
        return [{self.name: f"{EXAMPLE}{i}"} for i in range(len(self.kept(folder)))]


@contextmanager
def hinting(skip: bool) -> Iterator[None]:
    """Add to a DataError that files which cannot be read can be left out."""
    try:
        yield
    except DataError as problem:
        if skip:
            raise
        raise DataError(
            f"{problem}, or set data.bad_files=skip to go on without such files"
        ) from None
