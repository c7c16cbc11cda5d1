"""Mixtures: rows of text, pictures and sounds, one sequence each, of which something is to be said
(Note D).

MixtureTask             rows to sequences to batches, the files that they name among them
  AnswerTask            a text is written: by a decoder behind the row, or for an encoder's source
  ChoiceTask            a class is told
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, islice, permutations
from pathlib import Path
from typing import Any

import numpy as np
import torch

from glassformer.batch import Batch
from glassformer.data.collate import encoder_decoder, micro_batches, padded, shared_prefix
from glassformer.data.example import Example
from glassformer.data.order import LengthOrder, length_order
from glassformer.data.parts import Mixed, mixed
from glassformer.data.split import NAMES, SplitName
from glassformer.errors import ConfigError, DataError, counted
from glassformer.losses import LossSum
from glassformer.models.transformer import Transformer
from glassformer.processors.parts import TEXT, PartsTokenizer, check_order
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.examples import by_split, split_of
from glassformer.tasks.part_files import KINDS, PartFiles
from glassformer.tasks.task import Card, Sample
from glassformer.tokenizers.text import Tokenizer
from glassformer.tokenizers.train import train_tokenizer

SHOWN, ROWS, ROUND, BUNDLE = 5, 128, 16, 16


class MixtureTask(ABC):
    """What tasks on rows of parts have in common (see `Task`)."""

    noun = "rows"

    def __init__(self, recipe: Recipe, run: Path, begun: bool):
        """`begun`: the run knows its tokenizer and how files are read; otherwise the training rows
        tell."""
        self._run, self._begun = run, begun
        self._rows = by_split(mixed(recipe.data))
        train = split_of(self._rows, "train")
        check(recipe, train)
        self.recipe = recipe
        self.files = self._files(self._rows)
        text = (
            Tokenizer.load(run / "tokenizer.json")
            if begun
            else train_tokenizer(recipe.tokenizer, _texts(train))
        )
        self.tokenizer = PartsTokenizer(text)
        self._examples: dict[str, list[Example]] = {}
        self.recipe = self._filled(recipe.with_vocabulary(self._vocab_size))
        self._check_order()

    @staticmethod
    def training_texts(recipe: Recipe) -> Iterator[str]:
        """What the tokenizer is made from."""
        return _texts(row for row in mixed(recipe.data) if row.split == "train")

    def _files(self, rows: dict[str, list[Mixed]]) -> dict[str, PartFiles]:
        """The files of each kind that rows name."""
        found: dict[str, dict[str, SplitName]] = {kind: {} for kind in KINDS}
        for split in NAMES:
            for row in rows.get(split, []):
                for kind, path in row.parts:
                    if kind != TEXT:
                        found[kind].setdefault(path, split)
        return {
            kind: PartFiles(kind, self.recipe, self._run, self._begun, of)
            for kind, of in found.items()
            if of
        }

    @property
    def _vocab_size(self) -> int:
        return self.tokenizer.text.vocab_size

    def _filled(self, recipe: Recipe) -> Recipe:
        """The recipe with what follows of its model from the data: classes, patches, the length of
        a sequence."""
        readers = {kind: files.senses.sense for kind, files in self.files.items()}
        fields: dict[str, Any] = {
            "parts": {kind: reader.patch_width for kind, reader in readers.items()}
            | recipe.model.parts,
            "part_patches": {kind: reader.n_patches for kind, reader in readers.items()}
            | recipe.model.part_patches,
            "modality_order": recipe.model.modality_order
            or modality_order(split_of(self._rows, "train")),
        }
        for kind in () if self._begun else recipe.model.parts:
            if kind not in readers:
                raise ConfigError(
                    f"The model reads parts of type {kind!r} and no row has one; give rows that do."
                )
        if "max_length" not in recipe.model.model_fields_set:
            longest = max(
                self._length(example) for split in self._rows for example in self._all(split)
            )
            fields["max_length"] = -(-longest // ROUND) * ROUND
        return recipe.with_model(fields)

    def _check_order(self) -> None:
        """Raise DataError for a row whose parts stand in another order than the model learns, or
        has learned, them."""
        for row in chain.from_iterable(self._rows.values()):
            check_order(kinds_of(row), self.recipe.model.modality_order, row.where)

    def store(self) -> None:
        """See `Task`. DataError: a file that cannot be read, unless data.bad_files is skip; a row
        beyond the model."""
        for name in self._rows:
            self._check_lengths(name)
        _ = self.tokenizer.begin if self._crossed else None
        for files in self.files.values():
            files.store(self._run)
        _ = self._order
        self.tokenizer.text.save(self._run / "tokenizer.json")

    def open(self, folder: Path, split: str) -> None:
        """Decode what the rows of one split name into a folder, instead of all in the run folder:
        to score them."""
        self._rows = {split: split_of(self._rows, split)}
        self.files = self._files(self._rows)
        for kind, files in self.files.items():
            files.open(folder / kind)
        self._check_lengths(split)

    def _check_lengths(self, split: str) -> None:
        longest = self.recipe.model.max_length
        for row, example in zip(split_of(self._rows, split), self._all(split), strict=True):
            if (n := self._length(example)) > longest:
                raise DataError(
                    f"{row.where} has {n} elements and the model {longest}; raise model.max_length"
                )

    def _length(self, example: Example) -> int:
        if not self._crossed or example.answer is None:
            return example.length
        return max(len(example.ids), len(example.answer))

    @property
    def _crossed(self) -> bool:
        return self.recipe.model.architecture == "encoder_decoder"

    def _example(self, row: Mixed) -> Example:
        """A row as a sequence, with nothing yet where its patches stand."""
        parts: list[tuple[str, str | np.ndarray]] = []
        for kind, value in row.parts:
            if kind == TEXT:
                parts.append((kind, value))
            else:
                reader = self.files[kind].senses.sense
                parts.append(
                    (kind, np.broadcast_to(np.float32(0), (reader.n_patches, reader.patch_width)))
                )
        return self._said(row, parts)

    @abstractmethod
    def _said(self, row: Mixed, parts: Sequence[tuple[str, str | np.ndarray]]) -> Example:
        """The sequence of a row's parts with what is to be said of it."""
        ...

    def _all(self, split: str) -> list[Example]:
        if split not in self._examples:
            self._examples[split] = [self._example(row) for row in split_of(self._rows, split)]
        return self._examples[split]

    def readable(self, split: str) -> list[int]:
        """The numbers of a split's rows all of whose files could be read; DataError: there is
        none."""
        rows = split_of(self._rows, split)
        found = [
            i
            for i, row in enumerate(rows)
            if all(self.files[k].has(v) for k, v in row.parts if k != TEXT)
        ]
        if not found:
            raise DataError(f"no {split} row has files that can all be read; see data.bad_files")
        return found

    def rows(self, split: str, numbers: Sequence[int]) -> list[Mixed]:
        """Rows of a split by their numbers."""
        return [split_of(self._rows, split)[i] for i in numbers]

    def sequences(
        self, split: str, numbers: Sequence[int], step: int | None = None
    ) -> list[Example]:
        """Rows of a split as they are fed: training rows at a `step`, with their files changed;
        others as they are."""
        paths = [
            [path for kind, path in row.parts if kind != TEXT] for row in self.rows(split, numbers)
        ]
        of_kind = {kind: set[str]() for kind in self.files}
        for row in self.rows(split, numbers):
            for kind, path in row.parts:
                if kind != TEXT:
                    of_kind[kind].add(path)
        patches: dict[str, np.ndarray] = {}
        for kind, named in of_kind.items():
            patches |= (
                self.files[kind].plain(named) if step is None else self.files[kind].fed(named, step)
            )
        examples = self._all(split)
        return [
            examples[i].with_values([patches[p] for p in own])
            for i, own in zip(numbers, paths, strict=True)
        ]

    def batch(self, examples: Sequence[Example]) -> Batch:
        """Sequences as the model reads them."""
        return (
            encoder_decoder(examples, self.tokenizer.begin) if self._crossed else padded(examples)
        )

    def plain_batches(
        self, split: str, limit: int | None = None
    ) -> Iterator[tuple[list[int], Batch]]:
        """A split's rows with their numbers, those of like length together; `limit`: so many
        batches, spread evenly."""
        numbers = np.array(self.readable(split))
        if limit is not None and limit * ROWS < len(numbers):
            numbers = numbers[np.linspace(0, len(numbers) - 1, limit * ROWS).round().astype(int)]
        lengths = np.array([self._length(self._all(split)[i]) for i in numbers.tolist()])
        numbers = numbers[np.argsort(lengths, kind="stable")].tolist()
        for begin in range(0, len(numbers), ROWS):
            chosen = numbers[begin : begin + ROWS]
            yield chosen, self.batch(self.sequences(split, chosen))

    @cached_property
    def _train(self) -> list[int]:
        return self.readable("train")

    @cached_property
    def _bundles(self) -> list[list[int]]:
        """Training rows that begin with the same files, which are read once for all of them; else
        rows one by one.

        A batch is whole bundles, of `batch_size` rows on average.
        """
        if not self._bundling:
            return [[number] for number in self._train]
        bundles: dict[tuple[Any, ...], list[int]] = {}
        for number, row in zip(self._train, self.rows("train", self._train), strict=True):
            files = [i for i, (kind, _) in enumerate(row.parts) if kind != TEXT]
            key = row.parts[: files[-1] + 1] if files else (number,)
            bundles.setdefault(tuple(key), []).append(number)
        return [own[i : i + BUNDLE] for own in bundles.values() for i in range(0, len(own), BUNDLE)]

    @property
    def _bundling(self) -> bool:
        """Whether rows may stand behind one beginning, and none is changed by it."""
        return False

    @cached_property
    def _order(self) -> LengthOrder:
        train, bundles = self.recipe.train, self._bundles
        examples = self._all("train")
        lengths = np.array([self._bundle_length([examples[i] for i in own]) for own in bundles])
        size = max(1, round(train.batch_size * len(bundles) / len(self._train)))
        return length_order(lengths, size, train.batch_tokens, train.seed)

    def _bundle_length(self, bundle: Sequence[Example]) -> int:
        return sum(map(self._length, bundle)) - (len(bundle) - 1) * bundle[0].prefix_length

    def batches(self, step: int) -> list[Batch]:
        """See `Task`; a batch of fewer bundles than micro-batches has fewer parts."""
        bundles = [self._bundles[i] for i in self._order.rows(step).tolist()]
        examples = iter(self.sequences("train", list(chain.from_iterable(bundles)), step))
        filled = [list(islice(examples, len(own))) for own in bundles]
        pieces = micro_batches(np.arange(len(filled)), self.recipe.train.micro_batches)
        return [self._bundled([filled[i] for i in piece]) for piece in pieces]

    def _bundled(self, bundles: Sequence[Sequence[Example]]) -> Batch:
        if max(map(len, bundles)) > 1:
            return shared_prefix(bundles)
        return self.batch([example for bundle in bundles for example in bundle])

    @property
    def length(self) -> int:
        """See `Task`: the mean sequence's."""
        return max(1, round(self.elements / len(self._train)))

    def pace(self, elements_per_second: float) -> str:
        """See `Paced`."""
        return f"{elements_per_second:,.0f} elements/s"

    @property
    def elements(self) -> int:
        """See `Task`."""
        examples = self._all("train")
        return sum(self._bundle_length([examples[i] for i in own]) for own in self._bundles)

    @property
    def validated(self) -> bool:
        """See `Task`."""
        return "validation" in self._rows

    @property
    def fingerprint(self) -> str:
        """See `Task`."""
        seen = hashlib.sha256()
        for row, example in zip(split_of(self._rows, "train"), self._all("train"), strict=True):
            seen.update(example.ids.tobytes() + repr(row.parts).encode(errors="replace"))
            seen.update(f"{row.target!r} {row.labels}|".encode(errors="replace"))
        return seen.hexdigest()[:16]

    def opening(self) -> list[str]:
        """See `Task`: also what could not be read."""
        order, text, steps = self._order, self.tokenizer.text, self.recipe.train.steps
        n = len(self._train)
        described = [
            f"{counted(len(f.senses.places('train')), f.senses.noun)} to train on"
            for f in self.files.values()
        ]
        return [
            f"tokenizer: {text.kind}, {text.vocab_size:,} tokens",
            *(sentence for files in self.files.values() for sentence in files.senses.described()),
            f"{n:,} training rows of {self.length} elements on average, "
            f"{', '.join([*described, ''])}"
            f"{order.batches:,} batches an epoch, {steps:,} steps = "
            f"{steps / order.batches:.1f} epochs",
            *(
                f"left out: {counted(len(files.skipped), files.senses.noun)} that cannot be "
                f"read, the first: "
                f"{files.skipped[0]}"
                for files in self.files.values()
                if files.skipped
            ),
        ]

    @abstractmethod
    def loss(self, logits: torch.Tensor, targets: torch.Tensor) -> LossSum:
        """See `Task`."""
        ...

    @abstractmethod
    def scores(self, model: Transformer, precision: torch.dtype) -> dict[str, Any] | None:
        """See `Task`."""
        ...

    @abstractmethod
    def sample(self, model: Transformer) -> Sample | None:
        """See `Task`."""
        ...

    def excerpt(self, batch: Batch) -> str:
        """See `Task`."""
        return self.tokenizer.text.decode((batch.source or batch).elements[0, -24:].tolist())

    def card_of(self, pipeline_tag: str, use: str) -> Card:
        """What the model card says of a task on rows of parts."""
        text, train = self.tokenizer.text, self.recipe.train
        read = "; ".join(
            sentence for files in self.files.values() for sentence in files.senses.described()
        )
        size = (
            f"{train.batch_size} rows"
            if train.batch_tokens is None
            else f"at most {train.batch_tokens:,} elements"
        )
        named = f"{text.kind}, {text.vocab_size:,} tokens"
        return Card(
            pipeline_tag,
            f"{named}; {read}" if read else named,
            size,
            f"{use}\nglassformer evaluate {self._run}",
        )


def shown(row: Mixed) -> str:
    """A row's parts in a line: its texts, and the names of its files."""
    return " ".join(value if kind == TEXT else f"[{Path(value).name}]" for kind, value in row.parts)


def check(recipe: Recipe, rows: Sequence[Mixed]) -> None:
    """Raise ConfigError where a recipe does not say how the parts of its rows are read, or mixes
    pictures."""
    for row in rows:
        for kind, _ in row.parts:
            if kind != TEXT and getattr(recipe, kind) is None:
                raise ConfigError(
                    f"{row.where} has the part {kind}, and the recipe no section {kind}; add one."
                )
    if recipe.augment is not None and recipe.augment.mixes:
        raise ConfigError(
            "augment.mixup and cutmix mix two pictures, of which no one answer is right; leave "
            "them out."
        )
    if not recipe.tokenizer.shared:
        raise ConfigError(
            "Rows of parts have one vocabulary, so tokenizer.shared=false has no use; leave it out."
        )


def kinds_of(row: Mixed) -> tuple[str, ...]:
    """The kinds of a row's parts, each once, in the order in which they begin."""
    return tuple(dict.fromkeys(kind for kind, _ in row.parts))


def modality_order(rows: Iterable[Mixed]) -> tuple[str, ...]:
    """An order of the kinds of parts that every row keeps; (): there is none."""
    seen = {kinds_of(row) for row in rows}
    known = [kind for kind in (*KINDS, TEXT) if any(kind in kinds for kinds in seen)]
    orders = (
        order
        for order in permutations(known)
        if all(list(k) == sorted(k, key=order.index) for k in seen)
    )
    return next(orders, ())


def _texts(rows: Iterator[Mixed] | Sequence[Mixed]) -> Iterator[str]:
    for row in rows:
        yield from (value for kind, value in row.parts if kind == TEXT)
        if row.target is not None:
            yield row.target
