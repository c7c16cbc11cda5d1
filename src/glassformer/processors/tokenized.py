"""Base of processors with a tokenizer: files, framing, packed batches, piece dropout."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from itertools import chain, filterfalse, islice
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from glassformer.core.batch import Batch
from glassformer.core.errors import ConfigError
from glassformer.data.collate import join_examples, pack_examples, pad_examples
from glassformer.data.config import DataConfig
from glassformer.data.example import Example
from glassformer.data.order import PackedOrder
from glassformer.media.palette import FILE as PALETTE
from glassformer.models.config import ModelConfig
from glassformer.processors.config import UNCHANGED, Augmentations, ModelFacts, ProcessorConfig
from glassformer.processors.init_from import readers_of, tokenizer_of
from glassformer.processors.inputs import Inputs, Records, Sizes, split_of
from glassformer.processors.processor import Processor, Window, check_length, ids_of
from glassformer.processors.stored import FILE, load_tokenizer
from glassformer.processors.tokens.chat_template import ChatTemplate
from glassformer.processors.tokens.elements import Content, EncodedInput, token_elements
from glassformer.processors.tokens.text_reader import TextReader
from glassformer.tokenizers.piece_dropout import PieceDropout, Recut
from glassformer.tokenizers.text import Tokenizer
from glassformer.tokenizers.train import train_tokenizer

FEW_TOKENS = 8


class PackedInputs(Inputs):
    """Sequences in memory; with `processor.cut`, training examples have new pieces every step."""

    def __init__(self, processor: "PackedProcessor", records: Sequence[Any]):
        self.processor = processor
        found = [processor.windows(processor.given(record)) for record in records]
        owners = np.repeat(np.arange(len(records)), [len(windows) for windows in found])
        super().__init__(records, owners)
        self._windows = [*chain.from_iterable(found)]

    def with_targets(self, change: Callable[[Window], Window | None]) -> "PackedInputs":
        """Return these inputs with the windows that `change` returns, in which their targets are;
        None: a window is left out."""
        found, pairs = copy(self), zip(self.owner.tolist(), map(change, self._windows), strict=True)
        kept = [(owner, window) for owner, window in pairs if window is not None]
        found.owner = np.array([owner for owner, _ in kept], np.int64)
        found._windows, found.has_targets = [window for _, window in kept], True
        return found

    @property
    def cut(self) -> list[int]:
        """The elements that were left out of each input that is longer than the model."""
        return [window.cut for window in self._windows if window.cut]

    @property
    def lengths(self) -> np.ndarray:
        """See `Inputs`."""
        return np.array([len(window.example.ids) for window in self._windows], np.int64)

    def units(self, number: int) -> slice:
        """See `Inputs`."""
        return self._windows[number].units

    def examples(self, numbers: Sequence[int], step: int | None = None) -> list[Example]:
        """See `Inputs`."""
        found, cut = [self._windows[i].example for i in numbers], self.processor.cut
        if step is None or cut is None:
            return found
        pairs = zip(numbers, found, strict=True)
        return [self._with_new_pieces(one, cut(one.ids, step, i)) for i, one in pairs]

    def _with_new_pieces(self, example: Example, new: Recut) -> Example:
        """Return the example in other pieces, if they are short enough."""
        facts = self.processor.facts
        if len(new.ids) > facts.window:
            return example
        at = None if example.at is None else new.places(example.at, facts.word_at or "last")
        types = None if example.token_type_ids is None else new.spread(example.token_type_ids)
        return Example(new.ids, at=at, token_type_ids=types)

    def fingerprint(self) -> Iterator[bytes]:
        """See `Inputs`."""
        for window in self._windows:
            example = window.example
            for column in (example.ids, example.at, example.targets, example.token_type_ids):
                if column is not None:
                    yield column.tobytes()


@dataclass(eq=False)
class TokenProcessor(Processor):
    """A processor with a tokenizer."""

    tokenizer: Tokenizer
    facts: ModelFacts
    _: KW_ONLY
    how: Augmentations = UNCHANGED
    template: ChatTemplate | None = None
    """How messages are written; None: it reads no messages."""
    place: Path | None = None
    """The folder of its encoded data; None: in the run folder."""

    frame: ClassVar[tuple[str, str]] = ("bos", "eos")
    """Special symbols before and after a text, where the tokenizer defines no frame; "": none."""
    reads: ClassVar[str] = "a text"
    """An input of a request, in words."""

    @property
    def vocab_size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Number of token ids of the tokenizer."""
        return self.tokenizer.vocab_size

    @property
    def prefix(self) -> str:
        """Text in front of one of which the vector is computed."""
        return ""

    @classmethod
    def fit(
        cls, config: ProcessorConfig, data: DataConfig, records: Any, facts: ModelFacts
    ) -> Self:
        """See `Processor`."""
        return cls(train_tokenizer(config.tokenizer, cls.texts_to_fit(data, records)), facts)

    @classmethod
    def take_over(
        cls,
        config: ProcessorConfig,
        trunk: ModelConfig,
        folder: Path,
        begun: ProcessorConfig | None,
    ) -> ProcessorConfig:
        """See `Processor`: the tokenizers too."""
        kinds = {*trunk.parts, *["palette"] * (folder / PALETTE).is_file()}
        readers = readers_of(config, kinds, folder, begun)
        tokenizer = config.tokenizer.model_copy(update=tokenizer_of(folder, begun))
        return config.model_copy(update={**readers, "tokenizer": tokenizer})

    @classmethod
    def training_texts(cls, config: ProcessorConfig, data: DataConfig) -> Iterator[str]:
        """See `Processor`."""
        return cls.texts_to_fit(data, cls.read(data))

    @classmethod
    def texts_to_fit(cls, data: DataConfig, records: Any) -> Iterator[str]:
        """The texts of the training split that a tokenizer is made from."""
        return (text for one in split_of(records, "train") for text in cls.texts(one))

    @classmethod
    def load(cls, folder: Path, data: DataConfig, model: ModelConfig, facts: ModelFacts) -> Self:
        """See `Processor`."""
        made = cls(load_tokenizer(folder, model), facts)
        made.template = ChatTemplate.load(folder, made.tokenizer)
        return made

    @property
    def reader(self) -> TextReader:
        """How a text is read for its vector: as in training."""
        frame = self.tokenizer.frame_or(*self.frame)
        return TextReader(self.tokenizer, self.facts.window, self.prefix, frame)

    def save(self, folder: Path) -> None:
        """See `Processor`."""
        self.tokenizer.save(folder / FILE)
        if self.template is not None:
            self.template.save(folder)

    @staticmethod
    def texts(record: Any) -> Iterable[str]:
        """The texts of a record that a tokenizer may learn from."""
        return [record]

    @staticmethod
    def given(record: Any) -> Any:
        """The input of a record, as `windows` takes it."""
        return record

    def batches(self, examples: Sequence[Example]) -> Iterator[tuple[list[int], Batch]]:
        """See `Processor`: joined, without padding."""
        return join_examples(examples)

    def encode(self, given: Any) -> EncodedInput:
        """See `Processor`: token ids are read unchanged."""
        if (ids := ids_of(given)) is None:
            return self.encode_given(given)
        return self.name_elements(Example(np.array(ids)))

    @abstractmethod
    def encode_given(self, given: Any) -> EncodedInput:
        """Encode one input that is not a list of ids; see `encode`."""

    def name_elements(self, example: Example, contents: Sequence[Content] = ()) -> EncodedInput:
        """Return one sequence whose elements have names; ConfigError: none, too many, or unknown
        ids."""
        ids = example.ids.tolist()
        check_ids(ids, self.facts.context)
        check_known(ids, self.facts.vocab_size)
        elements = token_elements(self.tokenizer, ids, contents)
        return EncodedInput(pad_examples([replace(example, at=None)]), elements)

    def description(self) -> list[str]:
        """See `Processor`."""
        return [f"tokenizer: {described(self.tokenizer)}"]

    def schema(self) -> dict[str, Any]:
        """See `Processor`: of an input that is a text."""
        return {"type": "string", "description": self.reads}

    def neutral_inputs(self) -> list[Any]:
        """See `Processor`: one is of the vocabulary, which may have no Latin letters."""
        return [*super().neutral_inputs(), known_text(self.tokenizer)]


@dataclass(eq=False)
class PackedProcessor(TokenProcessor):
    """A processor of token sequences that are packed into rows."""

    def __post_init__(self) -> None:
        self.cut = dropout_of(self.tokenizer, self.how)
        """Other pieces at every step; None: always the same."""

    def request_of(self, record: Any) -> list[Any]:
        """See `Processor`."""
        return [self.given(record)]

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
        return pack_examples(rows)


def check_ids(ids: Sequence[int], longest: int, text: str = "text", what: str = "input") -> None:
    """Raise ConfigError for a sequence without elements, or longer than the model."""
    if not len(ids):
        raise ConfigError(f"The {text} has no token; give at least one word.")
    check_length(len(ids), longest, f"The {what}")


def check_known(ids: Sequence[int], rows: int, what: str = "input") -> None:
    """Raise ConfigError for an id that the model does not have; `rows` 0: it is not known yet."""
    if rows and (wrong := [index for index in ids if not 0 <= index < rows]):
        raise ConfigError(
            f"The {what} holds token id {wrong[0]}; this model's ids run from 0 to {rows - 1}."
        )


def dropout_of(tokenizer: Tokenizer, how: Augmentations) -> PieceDropout | None:
    """Random cuts of a tokenizer's words; None: none are asked for."""
    return PieceDropout(tokenizer, how.piece_dropout, how.seed) if how.piece_dropout else None


def described(tokenizer: Tokenizer) -> str:
    """Kind and size of a tokenizer."""
    return f"{tokenizer.kind}, {tokenizer.vocab_size:,} tokens"


def known_text(tokenizer: Tokenizer) -> str:
    """The text of the first ordinary tokens of a vocabulary."""
    ordinary = filterfalse(tokenizer.skips, range(tokenizer.vocab_size))
    return tokenizer.decode([*islice(ordinary, FEW_TOKENS)])
