"""The processor of pairs of a source and a target, the two sides of an encoder-decoder (Note E).

source   prefix + x, <eos>          decoder input   <bos> y          targets   y <eos>

or both in the frame that their tokenizer defines.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from glassformer.core.batch import Batch
from glassformer.core.errors import ConfigError, DataError
from glassformer.data.collate import pad_examples
from glassformer.data.config import DataConfig
from glassformer.data.example import Example
from glassformer.data.records.pairs import (
    KIND,
    SIDES,
    PairSplit,
    PairText,
    pairs_of,
    store_pairs,
    training_texts,
)
from glassformer.data.store import Store, place_of
from glassformer.models.config import ModelConfig
from glassformer.processors.config import UNCHANGED, Augmentations, ModelFacts, ProcessorConfig
from glassformer.processors.inputs import Inputs, Rows, Sizes
from glassformer.processors.processor import Window, ids_of
from glassformer.processors.stored import (
    FILE,
    STORE,
    check_stored,
    check_vocabulary,
    kept_store,
    load_tokenizer,
)
from glassformer.processors.tokenized import (
    TokenProcessor,
    check_ids,
    check_known,
    described,
    dropout_of,
    known_text,
)
from glassformer.processors.tokens.elements import Content, EncodedInput, token_elements
from glassformer.processors.tokens.pair_tokenizer import PairTokenizer
from glassformer.processors.tokens.text_reader import TextReader
from glassformer.tokenizers.piece_dropout import PieceDropout
from glassformer.tokenizers.text import Tokenizer
from glassformer.tokenizers.train import train_tokenizer

SOURCE_FILE = "source_tokenizer.json"
BATCH_TOKENS, EXAMPLES = 4096, 6
SOURCE, TARGET = ("source", "source"), ("text", "input")
"""Names of a side in errors: without tokens, and too long."""
Cuts = tuple[PieceDropout, PieceDropout]


class PairInputs(Inputs):
    """Stored pairs of one split; an example has its answer."""

    has_targets = True

    def __init__(self, split: PairSplit, cuts: Cuts | None, longest: int, pair: PairTokenizer):
        # training pairs keep no texts
        super().__init__([] if split.name == "train" else split.texts(), np.arange(len(split)))
        self.split, self._cuts, self._longest, self._pair = split, cuts, longest, pair

    @property
    def lengths(self) -> np.ndarray:
        """See `Inputs`: of the targets."""
        return self.split.target.lengths

    def examples(self, numbers: Sequence[int], step: int | None = None) -> list[Example]:
        """See `Inputs`."""
        if step is None or self._cuts is None:
            return self.split.examples(numbers)
        pairs = ((self.split.source.row(i), self.split.target.row(i)) for i in numbers)
        return [self._recut(self._cuts, step, i, p) for i, p in zip(numbers, pairs, strict=True)]

    def _recut(
        self, cuts: Cuts, step: int, number: int, sides: tuple[np.ndarray, np.ndarray]
    ) -> Example:
        """Both sides in other pieces, if they are still short enough."""
        new = [
            cut(ids, step, 2 * number + i).ids
            for i, (cut, ids) in enumerate(zip(cuts, sides, strict=True))
        ]
        source, target = new if max(map(len, new)) <= self._longest else sides
        return Example(source, answer=target)

    def groups(self, longest: int) -> list[list[int]]:
        """See `Inputs`: pairs of like length together; those with a longer side are left out."""
        order = self.split.order(longest, BATCH_TOKENS)
        return [order.rows(step).tolist() for step in range(order.batches)]

    def too_long(self, longest: int) -> int:
        """See `Inputs`: pairs with a side of more elements."""
        source, target = self.split.source.lengths, self.split.target.lengths
        return int((np.maximum(source, target) > longest).sum())

    def record(self, number: int) -> PairText:
        """See `Inputs`: a training pair is decoded from its ids."""
        if self.records:
            return self.records[number]
        sides = self.split.source.row(number), self.split.target.row(number)
        return PairText(*self._pair.texts(*sides))

    def first(self, n: int) -> Sequence[int]:
        """See `Inputs`: spread over the texts."""
        return [i * max(1, len(self.records) // n) for i in super().first(n)]

    def fingerprint(self) -> Iterator[bytes]:
        """See `Inputs`: ids spread over both columns."""
        for column in (self.split.source.values, self.split.target.values):
            yield column[:: len(column) // (1 << 20) + 1].tobytes()


class PairsProcessor(TokenProcessor):
    """Sources and targets with a tokenizer each, or one for both."""

    name, noun = "pairs", "pair"
    columns = ("source_field", "target_field")
    capabilities, reads = ("pair",), "a source text"

    def __init__(self, pair: PairTokenizer, facts: ModelFacts, how: Augmentations = UNCHANGED):
        super().__init__(pair.target, facts, how=how)
        target = dropout_of(pair.target, how)
        source = target if pair.shared else dropout_of(pair.source, how)
        self.pair, self.cuts = pair, source and target and (source, target)

    @classmethod
    def fit(
        cls, config: ProcessorConfig, data: DataConfig, records: Any, facts: ModelFacts
    ) -> Self:
        """See `Processor`: one tokenizer from both sides, or one from each."""
        own = config.tokenizer
        if own.shared:
            if own.source_path is not None:
                raise ConfigError(
                    "processor.tokenizer.source_path is a second tokenizer; set shared=false to "
                    "use it."
                )
            both = train_tokenizer(own, training_texts(data, ("source", "target")))
            return cls(PairTokenizer(both, both, data.prefix), facts)
        first = own.model_copy(update={"path": own.source_path, "new_tokens": []})
        source = train_tokenizer(first, training_texts(data, ("source",)))
        target = train_tokenizer(own, training_texts(data, ("target",)))
        return cls(PairTokenizer(source, target, data.prefix), facts)

    @classmethod
    def training_texts(cls, config: ProcessorConfig, data: DataConfig) -> Iterator[str]:
        """See `Processor`: of two tokenizers, the texts of that of the targets."""
        shared = config.tokenizer.shared
        return training_texts(data, ("source", "target") if shared else ("target",))

    @classmethod
    def load(cls, folder: Path, data: DataConfig, model: ModelConfig, facts: ModelFacts) -> Self:
        """See `Processor`: `source_tokenizer.json` is there if the sides have one each."""
        target, own = load_tokenizer(folder, model), folder / SOURCE_FILE
        source = Tokenizer.load(own) if own.is_file() else target
        size = model.source_vocab_size or model.vocab_size
        check_vocabulary(folder, source, size, "The source")
        check_stored(folder, source, "source", SOURCE_FILE if own.is_file() else FILE)
        check_stored(folder, target, "target")
        processor = cls(PairTokenizer(source, target, data.prefix), facts)
        processor.place = place_of(data, folder / STORE)
        return processor

    def for_training(self, facts: ModelFacts, how: Augmentations) -> Self:
        """See `Processor`."""
        return type(self)(self.pair, facts, how)

    def save(self, folder: Path) -> None:
        """See `Processor`."""
        super().save(folder)
        if not self.pair.shared:
            self.pair.source.save(folder / SOURCE_FILE)
        else:  # of a run that was stopped before it began, and begins again with one vocabulary
            (folder / SOURCE_FILE).unlink(missing_ok=True)

    def open(
        self, records: DataConfig, folder: Path, splits: Sequence[str] | None = None
    ) -> dict[str, PairInputs]:
        """See `Processor`."""
        encoders = self.pair.source_ids, self.pair.target_ids
        store = store_pairs(folder / STORE, encoders, self._fingerprints, records)
        return self._inputs(store, splits or store.counts)

    def load_stored(self, data: DataConfig, folder: Path) -> dict[str, PairInputs] | None:
        """See `Processor`."""
        made_by = dict(zip(SIDES, self._fingerprints, strict=True))
        store = kept_store(data, folder, KIND, made_by)
        return store and self._inputs(store, store.counts)

    @property
    def _fingerprints(self) -> tuple[str, str]:
        return self.pair.source.fingerprint, self.pair.target.fingerprint

    def _inputs(self, store: Store, names: Iterable[str]) -> dict[str, PairInputs]:
        own = self.cuts, self.facts.window, self.pair
        return {name: PairInputs(pairs_of(store, name), *own) for name in names}

    def order(self, inputs: Inputs, lengths: np.ndarray, sizes: Sizes) -> Rows:
        """See `Processor`: pairs of like length together."""
        assert isinstance(inputs, PairInputs)
        limits = sizes.longest, sizes.batch_tokens, sizes.batch_size, sizes.seed
        return Rows(inputs.split.order(*limits))

    def collate(self, rows: Sequence[Sequence[Example]]) -> Batch:
        """See `Processor`: the sources."""
        return pad_examples([replace(example, answer=None) for row in rows for example in row])

    def windows(self, given: Any) -> list[Window]:
        """See `Processor`: a source."""
        return [Window(Example(self.pair.source_ids(given)))]

    @property
    def begin(self) -> int:
        """The symbol that begins a target."""
        return self.pair.bos

    def answer(self, text: str) -> np.ndarray:
        """Return the ids of a target and its end."""
        return self.pair.target_ids(text)

    @property
    def reader(self) -> TextReader:
        """How a text is read for its vector: as a source."""
        pair = self.pair
        return TextReader(pair.source, self.facts.window, pair.prefix, pair.frame_of(pair.source))

    def encode(self, given: Any) -> EncodedInput:
        """See `Processor`: a source, or (source, target); each a text or token ids."""
        pair, of = self.pair, self.pair.frame_of
        both = isinstance(given, tuple) and len(given) == 2 and ids_of(given) is None
        source, target = given if both else (given, "")
        if (read := self._side(source, pair.source_ids, SOURCE)) is None:
            raise ConfigError(
                "An encoder-decoder reads a source, or a tuple of a source and a target; give one."
            )
        if (written := self._side(target, pair.target_ids, TARGET)) is None:
            raise ConfigError(
                f"A target is a text or a list of token ids, not {type(target).__name__}; give one."
            )
        check_known(written, self.facts.vocab_size)
        check_known(read if pair.shared else (), self.facts.vocab_size, "source")
        texts, own = list[Content](), list[Content]()
        if isinstance(source, str):
            texts = [of(pair.source).begin, source]
        if isinstance(target, str):
            written, own = [pair.bos, *written[:-1]], [(pair.bos,), of(pair.target).begin, target]
        return EncodedInput(
            Batch(torch.tensor([written]), source=Batch(torch.tensor([read]))),
            token_elements(pair.target, written, own),
            token_elements(pair.source, read, texts, pair.prefix),
        )

    encode_given = encode

    def _side(
        self, given: Any, encode: Callable[[str], np.ndarray], names: tuple[str, str]
    ) -> list[int] | None:
        """Return the ids of a text, or ids unchanged; None: it is neither."""
        ids = encode(given).tolist() if isinstance(given, str) else ids_of(given)
        if ids is not None:
            check_ids(ids, self.facts.context, *names)
        return ids

    def description(self) -> list[str]:
        """See `Processor`."""
        if self.pair.shared:
            return super().description()
        source, target = described(self.pair.source), described(self.pair.target)
        return [f"tokenizer: source {source}; target {target}"]

    def neutral_inputs(self) -> list[Any]:
        """See `Processor`."""
        texts = ("A dog runs.", "a", known_text(self.pair.source))
        return [(text, "") for text in texts]

    def kept_inputs(self, folder: Path) -> list[Any]:
        """See `Processor`."""
        return [tuple(pair) for pair in self.example_inputs(folder)]

    def example_inputs(self, folder: Path, sampled: Sequence[Any] = ()) -> list[Any]:
        """See `Processor`: the first short validation pairs."""
        with suppress(DataError, OSError, ValueError):
            store = Store.open(self.place or folder / STORE, KIND, hashed=False)
            texts = pairs_of(store, "validation").texts()
            fitting = [pair for pair in texts if 0 < len(pair.source) <= 200]
            return [[pair.source, pair.target] for pair in fitting[:EXAMPLES]]
        return []
