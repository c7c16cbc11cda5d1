"""Examples to batches: padded, packed, with a shared prefix, or as source and target.

padded            one example in each row; answers follow the sequence they belong to
split_rows          the rows of a batch as examples
packed            several examples in each row, kept apart by document numbers
joined            all examples in rows without padding, for predictions
shared_prefix     examples with the same patches in one row, which reads the patches once
encoder_decoder   the sequence is the source; <bos> and the answer are the decoder's
windows           windows of running text, whose targets are the next tokens
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
import torch

from glassformer.core.batch import IGNORE, SHARED_PREFIX, Batch, Part, Positions, Side, padded_rows
from glassformer.core.errors import DataError, amount
from glassformer.data.example import Example, Patches
from glassformer.data.order import Row, joined_rows, spread
from glassformer.data.tokens import TokenSplit


def pad_examples(examples: Sequence[Example], side: Side = "right") -> Batch:
    """One example in each row, padded to the longest; targets of answers, elements or
    sequences."""
    return _batch([[example] for example in examples], side)


def split_rows(batch: Batch) -> list[Example]:
    """Return the rows of a batch without padding."""
    length, where = batch.elements.shape[1], batch.where()
    found: list[Example] = []
    for row, ids in enumerate(batch.elements.cpu()):
        valid = torch.ones(length, dtype=torch.bool)
        if where.valid is not None:
            valid = where.valid.expand(len(batch.elements), -1)[row].cpu()
        number = valid.cumsum(0) - 1
        patches: list[Patches] = []
        for part in batch.parts:
            own = (part.at >= row * length) & (part.at < (row + 1) * length)
            at, index, values = (one[own].cpu() for one in (part.at, part.index, part.values))
            begins = index.eq(0).nonzero()[:, 0].tolist()
            for first, last in pairwise([*begins, len(index)]):
                begin = int(number[at[first] - row * length])
                patches.append(Patches(part.name, begin, values[first:last].numpy()))
        patches.sort(key=lambda one: one.begin)
        found.append(Example(ids[valid].numpy().astype(np.int32), patches=tuple(patches)))
    return found


def pack_examples(rows: Sequence[Sequence[Example]]) -> Batch:
    """Several examples in each row: document k is the k-th read, its positions from 0."""
    documents, first = [], 0
    for row in rows:
        numbers = np.arange(first, first := first + len(row))
        documents.append(np.repeat(numbers, [example.length for example in row]))
    return replace(_batch(rows), positions=Positions.pack(padded_rows(documents, -1)))


def join_examples(examples: Sequence[Example]) -> Iterator[tuple[Row, Batch]]:
    """All examples by length, in a sequence, in batches of one row without padding, each with
    the numbers of its examples; see `layers.attention.sequences`."""
    sizes = np.array([example.length for example in examples], np.int64)
    for row in joined_rows(sizes):
        batch, lengths = _batch([[examples[i] for i in row]]), sizes[row]
        yield row, replace(batch, positions=Positions.join(lengths.tolist()), lengths=lengths)


def shared_prefix(bundles: Sequence[Sequence[Example]]) -> Batch:
    """One bundle in each row: its examples have the same first elements, which are read once.

    Every answer is that of its example in a batch of one: it sees its own document and the prefix
    (SHARED_PREFIX).
    """
    rows, documents, positions = [], [], []
    for bundle in bundles:
        n = bundle[0].prefix_length
        prefix = Example(bundle[0].ids[:n], patches=bundle[0].patches)
        own = [Example(example.ids[n:], answer=example.answer) for example in bundle]
        sizes = [example.length for example in own]
        rows.append([prefix, *own])
        documents.append(np.repeat([SHARED_PREFIX, *range(len(own))], [n, *sizes]))
        positions.append(np.concatenate([np.arange(n), *(n + np.arange(size) for size in sizes)]))
    document = padded_rows(documents, -1)
    return replace(
        _batch(rows), positions=Positions(padded_rows(positions), document, document != -1)
    )


def encoder_decoder(examples: Sequence[Example], bos: int) -> Batch:
    """Sources, decoder inputs <bos> y_1 .. y_(n-1) and targets y_1 .. y_n (Note E: the shift).

    The decoder's padding needs no mark: it follows every real element, where a causal mask never
    looks.
    """
    answers = [example.answer for example in examples if example.answer is not None]
    assert len(answers) == len(examples), "an encoder-decoder needs every answer"
    source = pad_examples(
        [replace(example, answer=None, targets=None, at=None) for example in examples]
    )
    return Batch(shift_right(answers, bos), targets=padded_rows(answers, IGNORE), source=source)


def shift_right(answers: Sequence[np.ndarray], bos: int) -> torch.Tensor:
    """<bos> and each answer without its last token, int64 [B, T] padded with 0."""
    return padded_rows([np.append(np.int32(bos), ids[:-1]) for ids in answers])


class Share(NamedTuple):
    """The micro-batches of a step that one process computes, and the number of their first.

    The last `idle` of them bear no weight: processes that compute a model together compute equal
    numbers.
    """

    batches: list[Batch]
    first: int = 0
    idle: int = 0


class Pieces(NamedTuple):
    """Rows of each micro-batch of a `Share`."""

    rows: list[np.ndarray]
    first: int
    idle: int


def micro_batches(rows: np.ndarray, parts: int, rank: int = 0, count: int = 1) -> Pieces:
    """Return the contiguous slices of a batch's rows that process `rank` of `count` has.

    Each process has an equal number: where rows are too few, idle copies of its first slice follow,
    or of the first of all. There are `parts` in all, or, of fewer rows, the largest power of two
    that leaves none empty.
    """
    each = parts // count if count > 1 else 0
    if len(rows) < parts:
        parts = 1 << max(1, len(rows)).bit_length() - 1
    borders = [part * len(rows) // parts for part in range(parts + 1)]
    begin, end = rank * parts // count, (rank + 1) * parts // count
    own = [rows[a:b] for a, b in pairwise(borders[begin : end + 1])]
    idle = max(0, each - len(own))
    return Pieces(own + (own[:1] or [rows[: borders[1]]]) * idle, begin, idle)


def windows(split: TokenSplit, starts: np.ndarray, length: int) -> Batch:
    """Windows of running text: elements and targets int64 [B, length].

    target[b, t] is the token after element[b, t]; IGNORE after the end of the text and, if
    documents are kept apart, at a document's last token.
    """
    at = starts[:, None] + np.arange(length + 1)
    missing = at >= len(split.tokens)
    at = np.minimum(at, len(split.tokens) - 1)
    tokens = split.tokens[at].astype(np.int64)
    targets = np.where(missing[:, 1:], IGNORE, tokens[:, 1:])
    positions = None
    if split.documents == "separate":
        document = np.searchsorted(split.document_ends, at, side="right")
        targets[document[:, 1:] != document[:, :-1]] = IGNORE
        positions = Positions.pack(torch.from_numpy(document[:, :-1].copy()))
    return Batch(torch.from_numpy(tokens[:, :-1].copy()), positions, torch.from_numpy(targets))


def evaluation_windows(
    split: TokenSplit, batch_size: int, length: int, limit: int | None = None
) -> Iterator[Batch]:
    """All windows of a split in order: every token but the first is predicted exactly once.

    Windows do not overlap; the last is padded with IGNORE. A split shorter than length + 1 is one
    shorter window. If documents are kept apart, the first token of each is not predicted. `limit`:
    only so many batches, spread evenly. DataError: fewer than 2 tokens.
    """
    n = len(split.tokens)
    if n < 2:
        raise DataError(
            f"the {split.described} has {amount(n, 'token')}, too few to predict one from "
            f"another; use a longer text"
        )
    length = min(length, n - 1)
    count = -(-(n - 1) // length)
    batches = -(-count // batch_size)
    for batch in range(batches) if limit is None else spread(batches, limit):
        rows = np.arange(batch * batch_size, min((batch + 1) * batch_size, count))
        yield windows(split, rows * length, length)


def _batch(rows: Sequence[Sequence[Example]], side: Side = "right") -> Batch:
    """Rows of one or more examples, one after the other, each with its answer."""
    examples = [example for row in rows for example in row]
    ids = [
        [e.ids if e.answer is None else np.append(e.ids, e.answer[:-1]) for e in row]
        for row in rows
    ]
    batch, begins = Batch.pad([np.concatenate(own) for own in ids], side), []
    for i, own in enumerate(ids):
        sizes, width = [len(one) for one in own], batch.elements.shape[1]
        first = i * width + (width - sum(sizes) if side == "left" else 0)
        begins += accumulate(sizes[:-1], initial=first)
    types = None
    if any(example.token_type_ids is not None for example in examples):
        types = padded_rows([np.concatenate([_types(e) for e in row]) for row in rows], side=side)
    at, targets = _targets(examples, begins)
    parts = _parts(examples, begins)
    return replace(batch, targets=targets, token_type_ids=types, at=at, parts=parts)


def _types(example: Example) -> np.ndarray:
    """The segment of each element, 0 where there is none."""
    types = np.zeros(example.length, np.int64)
    if example.token_type_ids is not None:
        types[: len(example.ids)] = example.token_type_ids
    return types


def _targets(
    examples: Sequence[Example], begins: Sequence[int]
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Places of the targets (None: one for each sequence), and the targets."""
    at: list[np.ndarray] = []
    targets: list[np.ndarray] = []
    for begin, example in zip(begins, examples, strict=True):
        if example.answer is not None:
            at.append(begin + len(example.ids) - 1 + np.arange(len(example.answer)))
            targets.append(example.answer)
            continue
        if example.at is not None:
            at.append(begin + example.at)
        if example.targets is not None:
            targets.append(example.targets)
    places = torch.from_numpy(np.concatenate(at)) if at else None
    if not targets:
        return places, None
    found = torch.from_numpy(np.concatenate(targets))
    return places, found if found.is_floating_point() else found.long()


def _parts(examples: Sequence[Example], begins: Sequence[int]) -> tuple[Part, ...]:
    """All patches of one kind together, kinds in alphabetical order."""
    found: dict[str, list[tuple[int, np.ndarray]]] = {}
    for begin, example in zip(begins, examples, strict=True):
        for patches in example.patches:
            found.setdefault(patches.kind, []).append((begin + patches.begin, patches.values))
    parts: list[Part] = []
    for kind in sorted(found):
        starts, values = zip(*found[kind], strict=True)
        counts = np.array([len(patches) for patches in values])
        patches = torch.from_numpy(np.concatenate(values, dtype=np.float32))
        at, index = _slots(np.array(starts), counts), _slots(np.zeros_like(counts), counts)
        parts.append(Part(kind, at, patches, index))
    return tuple(parts)


def _slots(begins: np.ndarray, counts: np.ndarray) -> torch.Tensor:
    """begin, begin + 1, ... for each run, one run after the other, int64."""
    first = np.repeat(begins - (np.cumsum(counts) - counts), counts)
    return torch.from_numpy(first + np.arange(counts.sum()))
