"""Examples to batches: padded, packed, with a shared prefix, or as source and target.

padded            one example in each row; answers follow the sequence they belong to
packed            several examples in each row, kept apart by document numbers
shared_prefix     examples with the same patches in one row, which reads the patches once
encoder_decoder   the sequence is the source; <bos> and the answer are the decoder's
windows           windows of running text, whose targets are the next tokens
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import torch

from glassformer.batch import IGNORE, SHARED_PREFIX, Batch, Part, Positions
from glassformer.data.example import Example
from glassformer.data.order import Row, spread
from glassformer.data.tokens import TokenSplit
from glassformer.errors import DataError, counted


def padded(examples: Sequence[Example], side: Literal["right", "left"] = "right") -> Batch:
    """One example in each row, padded to the longest; targets of answers, elements or wholes."""
    rows = [e.ids if e.answer is None else np.concatenate([e.ids, e.answer[:-1]]) for e in examples]
    lengths = np.array([len(row) for row in rows])
    width = int(lengths.max())
    begins = np.arange(len(rows)) * width + (width - lengths if side == "left" else 0)
    elements = np.zeros(len(rows) * width, np.int64)
    elements[_slots(begins, lengths)] = np.concatenate(rows)
    types = _token_types(examples)
    at, targets = _targets(examples, begins)
    return Batch(
        torch.from_numpy(elements).view(len(rows), width),
        None if lengths.min() == width else Positions.padded(lengths.tolist(), side),
        targets,
        None if types is None else _filled(types, width, 0),
        at=at,
        parts=_parts(examples, begins),
    )


def packed(examples: Sequence[Example] | Mapping[int, Example], rows: Sequence[Row]) -> Batch:
    """Several examples in each row: document k is the k-th read, its positions from 0."""
    chosen = [examples[i] for row in rows for i in row]
    width = max(sum(len(examples[i].ids) for i in row) for row in rows)
    lengths = np.array([len(example.ids) for example in chosen])
    firsts = np.cumsum([0, *map(len, rows)])[:-1]
    before = np.cumsum(lengths) - lengths  # elements of earlier examples, padding not counted
    row = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    begins = row * width + before - before[firsts][row]
    slots = _slots(begins, lengths)

    def laid(columns: Sequence[np.ndarray], empty: int) -> torch.Tensor:
        flat = np.full(len(rows) * width, empty)
        flat[slots] = np.concatenate(columns)
        return torch.from_numpy(flat).view(len(rows), width)

    types = _token_types(chosen)
    at, targets = _targets(chosen, begins)
    return Batch(
        laid([example.ids for example in chosen], 0),
        Positions.packed(laid([np.full(n, k) for k, n in enumerate(lengths)], -1)),
        targets,
        None if types is None else laid(types, 0),
        at=at,
        parts=_parts(chosen, begins),
    )


def shared_prefix(bundles: Sequence[Sequence[Example]]) -> Batch:
    """One bundle in each row: its examples have the same first elements, which are read once.

    Every answer is as if its example stood alone: it sees its own document and the prefix
    (SHARED_PREFIX).
    """
    rows, documents, positions, at, answers = [], [], [], [], []
    for bundle in bundles:
        n = bundle[0].prefix_length
        row, document, position, length = (
            [bundle[0].ids[:n]],
            [np.full(n, SHARED_PREFIX)],
            [np.arange(n)],
            n,
        )
        for number, example in enumerate(bundle):
            assert example.answer is not None
            own = np.concatenate([example.ids[n:], example.answer[:-1]])
            first = length + len(example.ids) - n - 1  # predicts the answer's first token
            row.append(own)
            document.append(np.full(len(own), number))
            position.append(np.arange(n, n + len(own)))
            answers.append(example.answer)
            at.append((len(rows), first + np.arange(len(example.answer))))
            length += len(own)
        rows.append(np.concatenate(row))
        documents.append(np.concatenate(document))
        positions.append(np.concatenate(position))
    width = max(map(len, rows))
    document = _filled(documents, width, -1)
    return Batch(
        _filled(rows, width, 0),
        Positions(_filled(positions, width, 0), document, document != -1),
        torch.from_numpy(np.concatenate(answers).astype(np.int64)),
        at=torch.from_numpy(np.concatenate([row * width + predicted for row, predicted in at])),
        parts=_parts([bundle[0] for bundle in bundles], np.arange(len(rows)) * width),
    )


def encoder_decoder(examples: Sequence[Example], bos: int) -> Batch:
    """Sources, decoder inputs <bos> y_1 .. y_(n-1) and targets y_1 .. y_n (Note E: the shift).

    The decoder's padding needs no mark: it follows every real element, where a causal mask never
    looks.
    """
    answers = [example.answer for example in examples if example.answer is not None]
    assert len(answers) == len(examples), "an encoder-decoder needs every answer"
    source = padded([replace(example, answer=None, targets=None, at=None) for example in examples])
    targets = Batch.padded(answers, fill=IGNORE).elements
    return Batch(shift_right(answers, bos), targets=targets, source=source)


def shift_right(answers: Sequence[np.ndarray], bos: int) -> torch.Tensor:
    """<bos> and each answer without its last token, int64 [B, T] padded with 0."""
    return Batch.padded([np.append(np.int32(bos), ids[:-1]) for ids in answers]).elements


def micro_batch(rows: np.ndarray, part: int, parts: int) -> np.ndarray:
    """The `part`-th of `parts` contiguous slices of a batch's rows; some may be empty."""
    return rows[part * len(rows) // parts : (part + 1) * len(rows) // parts]


def micro_batches(rows: np.ndarray, parts: int) -> list[np.ndarray]:
    """The contiguous slices of a batch's rows that are not empty, at most `parts`."""
    pieces = (micro_batch(rows, part, parts) for part in range(parts))
    return [piece for piece in pieces if len(piece)]


def windows(split: TokenSplit, starts: np.ndarray, length: int) -> Batch:
    """Windows of running text: elements and targets int64 [B, length].

    target[b, t] is the token after element[b, t]; IGNORE behind the end of the text and, if
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
        positions = Positions.packed(torch.from_numpy(document[:, :-1].copy()))
    return Batch(torch.from_numpy(tokens[:, :-1].copy()), positions, torch.from_numpy(targets))


def evaluation_windows(
    split: TokenSplit, batch_size: int, length: int, limit: int | None = None
) -> Iterator[Batch]:
    """The whole split in order: every token but the first is predicted exactly once.

    Windows do not overlap; the last is padded with IGNORE. A split shorter than length + 1 is one
    shorter window. If documents are kept apart, the first token of each is not predicted. `limit`:
    only so many batches, spread evenly. DataError: fewer than 2 tokens.
    """
    n = len(split.tokens)
    if n < 2:
        raise DataError(
            f"the {split.described} has {counted(n, 'token')}, too few to predict one from "
            f"another; use a longer text"
        )
    length = min(length, n - 1)
    starts = np.arange(0, n - 1, length)
    for batch in spread(-(-len(starts) // batch_size), limit):
        yield windows(split, starts[batch * batch_size : (batch + 1) * batch_size], length)


def _targets(
    examples: Sequence[Example], begins: np.ndarray
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Where targets are (None: of whole sequences), and what they are."""
    at: list[np.ndarray] = []
    targets: list[np.ndarray] = []
    for begin, example in zip(begins.tolist(), examples, strict=True):
        if example.answer is not None:
            at.append(begin + len(example.ids) - 1 + np.arange(len(example.answer)))
            targets.append(example.answer)
            continue
        if example.at is not None:
            at.append(begin + example.at)
        if example.targets is not None:
            targets.append(example.targets)
    return (
        torch.from_numpy(np.concatenate(at)) if at else None,
        torch.from_numpy(_numbered(np.concatenate(targets))) if targets else None,
    )


def _numbered(targets: np.ndarray) -> np.ndarray:
    """Targets as they are if they are real numbers, else int64."""
    return targets if targets.dtype.kind == "f" else targets.astype(np.int64)


def _token_types(examples: Sequence[Example]) -> list[np.ndarray] | None:
    if all(example.token_type_ids is None for example in examples):
        return None
    return [
        np.zeros_like(example.ids) if example.token_type_ids is None else example.token_type_ids
        for example in examples
    ]


def _filled(rows: Sequence[np.ndarray], width: int, fill: int) -> torch.Tensor:
    table = np.full((len(rows), width), fill, np.int64)
    for slots, row in zip(table, rows, strict=True):
        slots[: len(row)] = row
    return torch.from_numpy(table)


def _parts(examples: Sequence[Example], begins: np.ndarray) -> tuple[Part, ...]:
    """All patches of one kind together, kinds in alphabetical order."""
    found: dict[str, list[tuple[int, np.ndarray]]] = {}
    for begin, example in zip(begins.tolist(), examples, strict=True):
        for patches in example.patches:
            found.setdefault(patches.kind, []).append((begin + patches.begin, patches.values))
    return tuple(_part(kind, found[kind]) for kind in sorted(found))


def _part(kind: str, placed: Sequence[tuple[int, np.ndarray]]) -> Part:
    counts = np.array([len(values) for _, values in placed])
    return Part(
        kind,
        torch.from_numpy(_slots(np.array([begin for begin, _ in placed]), counts)),
        torch.from_numpy(np.concatenate([values for _, values in placed], dtype=np.float32)),
        torch.from_numpy(_slots(np.zeros(len(counts), np.int64), counts)),
    )


def _slots(begins: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """begin, begin + 1, ... for each run, one run after the other, int64."""
    return np.repeat(begins - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
