"""What processors of text share: the tokenizer, sequences packed into rows, pieces left out."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from glassformer.batch import Batch
from glassformer.data.collate import packed
from glassformer.data.config import DataConfig
from glassformer.data.example import Example
from glassformer.data.order import PackedOrder, batches_of
from glassformer.errors import CheckpointError, ConfigError
from glassformer.models.config import ModelConfig
from glassformer.processors.config import Augmentations, ProcessorConfig
from glassformer.processors.elements import Owners, token_elements
from glassformer.processors.inputs import Inputs, Records, Sizes, split_of
from glassformer.processors.processor import (
    EncodedInput,
    ModelFacts,
    Processor,
    check_length,
)
from glassformer.tokenizers.piece_dropout import PieceDropout
from glassformer.tokenizers.text import Tokenizer
from glassformer.tokenizers.train import train_tokenizer

BATCH_TOKENS = 4096
FILE = "tokenizer.json"


class PackedInputs(Inputs):
    """Sequences in memory; with `cut`, training examples have other pieces at every step."""

    def __init__(self, processor: "TokenProcessor", records: Sequence[Any]):
        self.records, self._cut, self._longest = records, processor.cut, processor.facts.window
        found = [
            (owner, window)
            for owner, record in enumerate(records)
            for window in processor.windows(processor.given(record))
        ]
        self.owner = np.array([owner for owner, _ in found], np.int64)
        self._windows = [window for _, window in found]

    @property
    def lengths(self) -> np.ndarray:
        """See `Inputs`."""
        return np.array([len(window.example.ids) for window in self._windows], np.int64)

    @property
    def long(self) -> int:
        """Records that are read in several windows."""
        return int((np.bincount(self.owner) > 1).sum()) if len(self.owner) else 0

    def units(self, number: int) -> slice:
        """See `Inputs`."""
        return self._windows[number].units

    def examples(self, numbers: Sequence[int], step: int | None = None) -> list[Example]:
        """See `Inputs`."""
        if step is None or self._cut is None:
            return [self._windows[i].example for i in numbers]
        return [self._recut(self._cut, i, step) for i in numbers]

    def _recut(self, cut: PieceDropout, number: int, step: int) -> Example:
        example = self._windows[number].example
        new = cut(example.ids, step, number)
        if len(new.ids) > self._longest:
            return example
        at = None if example.at is None else new.ends(example.at)
        types = None if example.token_type_ids is None else new.spread(example.token_type_ids)
        return Example(new.ids, at=at, token_type_ids=types)

    def fingerprint(self) -> Iterator[bytes]:
        """See `Inputs`."""
        for window in self._windows:
            example = window.example
            for column in (example.ids, example.at, example.token_type_ids):
                if column is not None:
                    yield column.tobytes()


class TokenProcessor(Processor):
    """A processor whose inputs are tokens alone."""

    def __init__(self, tokenizer: Tokenizer, facts: ModelFacts, cut: PieceDropout | None = None):
        self.tokenizer, self.facts, self.cut = tokenizer, facts, cut

    @classmethod
    def fit(
        cls, config: ProcessorConfig, data: DataConfig, records: Records, facts: ModelFacts
    ) -> Self:
        """See `Processor`."""
        texts = (text for one in split_of(records, "train") for text in cls.texts(one))
        return cls(train_tokenizer(config.tokenizer, texts), facts)

    @classmethod
    def training_texts(cls, config: ProcessorConfig, data: DataConfig) -> Iterator[str]:
        """See `Processor`."""
        records = cls.read(data)
        return (text for one in split_of(records, "train") for text in cls.texts(one))

    @classmethod
    def load(cls, folder: Path, data: DataConfig, model: ModelConfig, facts: ModelFacts) -> Self:
        """See `Processor`."""
        return cls(load_tokenizer(folder, model), facts)

    def augmented(self, how: Augmentations) -> Self:
        """The same processor, whose training examples are changed at every step."""
        cut = (
            PieceDropout(self.tokenizer, how.piece_dropout, how.seed) if how.piece_dropout else None
        )
        return type(self)(self.tokenizer, self.facts, cut)

    @property
    def specials(self) -> dict[str, int]:
        """The ids of special symbols."""
        return dict(self.tokenizer.specials)

    def save(self, folder: Path) -> None:
        """See `Processor`."""
        self.tokenizer.save(folder / FILE)

    @staticmethod
    def texts(record: Any) -> Iterator[str]:
        """The texts of a record that a tokenizer may learn from."""
        return iter([record])

    @staticmethod
    def given(record: Any) -> Any:
        """The input of a record, as `windows` takes it."""
        return record

    def open(
        self, records: Records, folder: Path, splits: Sequence[str] | None = None
    ) -> dict[str, PackedInputs]:
        """See `Processor`."""
        return {name: PackedInputs(self, split_of(records, name)) for name in splits or records}

    def order(self, inputs: Inputs, lengths: np.ndarray, sizes: Sizes) -> Any:
        """See `Processor`: packed; without batch_tokens, as many elements as batch_size sequences
        have on average."""
        tokens = sizes.batch_tokens or max(1, round(sizes.batch_size * float(lengths.mean())))
        return PackedOrder(lengths, tokens, sizes.seed)

    def collate(self, rows: Sequence[Sequence[Example]]) -> Batch:
        """See `Processor`."""
        numbers = iter(range(sum(map(len, rows))))
        return packed(
            [e for row in rows for e in row], [[next(numbers) for _ in row] for row in rows]
        )

    def batches(self, examples: Sequence[Example]) -> Iterator[tuple[list[int], Batch]]:
        """See `Processor`: packed, hardly any padding."""
        for rows in batches_of(np.array([len(e.ids) for e in examples], np.int64), BATCH_TOKENS):
            yield [i for row in rows for i in row], packed(examples, rows)

    def encoded_ids(self, ids: Sequence[int], words: Owners = ()) -> EncodedInput:
        """Token ids as one sequence; ConfigError: none, or too many."""
        if not len(ids):
            raise ConfigError("The text has no token; give at least one word.")
        check_length(len(ids), self.facts.context)
        return EncodedInput(
            Batch(torch.tensor([list(ids)])), token_elements(self.tokenizer, ids, words)
        )

    def description(self) -> list[str]:
        """See `Processor`."""
        return [described(self.tokenizer)]


def described(tokenizer: Tokenizer) -> str:
    """Kind and size of a tokenizer."""
    return f"tokenizer: {tokenizer.kind}, {tokenizer.vocab_size:,} tokens"


def load_tokenizer(folder: Path, model: ModelConfig, name: str = FILE) -> Tokenizer:
    """A run's tokenizer; CheckpointError: it has more tokens than the model."""
    tokenizer = Tokenizer.load(folder / name)
    if tokenizer.vocab_size > model.vocab_size:
        raise CheckpointError(
            f"The tokenizer of {folder} has {tokenizer.vocab_size} tokens and its model "
            f"{model.vocab_size}; they are of different runs."
        )
    return tokenizer
