"""Text, pictures and sounds as one sequence, and such sequences as a batch.

    given                <bos>  [patch 0 .. patch 63]  what  is  this  <eos>            parts in the order of their row
    a decoder reads      <bos>  [patch 0 .. patch 63]  what  is  this  <eos>    a    dog
    and is to write                                                      a     dog  <eos>
    an encoder-decoder   reads what is given as its source, and <bos> a dog, of which it is to make a dog <eos>
    examples that begin alike, in one row, each going on from what they have in common and seeing nothing of the others:
                         <bos>  [patch 0 .. patch 63] | what is this <eos> a dog | how many are there <eos> one

A text alone is the sequence that `SequenceTokenizer` makes of it. Knows: tokenizers, patches as numbers. Does not know:
pixels, sound, files, models.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
import torch

from glassformer.batch import COMMON, IGNORE, Batch, Part, Places
from glassformer.errors import ConfigError, DataError
from glassformer.tokens.text import Tokenizer
from glassformer.tokens.words import framing, placeholder

TEXT = "text"
"""The kind of part that is written in tokens; all others are patches."""


@dataclass(frozen=True)
class Patches:
    """The patches of one picture or clip, which stand in an example from element `begin` on."""

    kind: str
    begin: int
    values: np.ndarray
    """float32 [N, P]; examples may share it."""


@dataclass(frozen=True)
class PartsExample:
    """What is given, and what is to be said of it: a text to be written (`answer`), or `classes`."""

    ids: np.ndarray
    """int32 [T], 0 where patches stand."""
    patches: tuple[Patches, ...] = ()
    answer: np.ndarray | None = None
    """int32 [A], the symbol at its end included."""
    classes: np.ndarray | None = None
    """A class, int64 [1], or one number for each class, [1, C]."""

    @property
    def length(self) -> int:
        """How many elements a decoder reads of it, the answer but its end included."""
        return len(self.ids) + (0 if self.answer is None else len(self.answer) - 1)

    @property
    def beginning(self) -> int:
        """How many elements it has up to the end of its last patches: what others may have in common with it."""
        return self.patches[-1].begin + len(self.patches[-1].values) if self.patches else 0

    def with_values(self, values: Sequence[np.ndarray]) -> Self:
        """The same example with other numbers in its patches, one array [N, P] for each of `patches`."""
        new = (replace(old, values=own) for old, own in zip(self.patches, values, strict=True))
        return replace(self, patches=tuple(new))


class PartsTokenizer:
    """A text tokenizer that is given parts; answers are written in the vocabulary of `target` (None: the same).

    ConfigError: the tokenizer of answers has no symbol that ends them.
    """

    def __init__(self, tokenizer: Tokenizer, target: Tokenizer | None = None):
        self.text, self.target = tokenizer, target or tokenizer
        self.bos, self.eos = framing(tokenizer, "bos"), framing(tokenizer, "eos")
        self._end = framing(self.target, "eos")

    def example(
        self,
        parts: Sequence[tuple[str, str | np.ndarray]],
        answer: str | None = None,
        classes: np.ndarray | None = None,
    ) -> PartsExample:
        """An example of parts in their order, each a kind with a text (kind "text") or with patches [N, P]."""
        pieces, patches, length = [self.bos], [], len(self.bos)
        for kind, part in parts:
            if isinstance(part, str):
                pieces.append(self.text.encode(part))
            else:
                patches.append(Patches(kind, length, part))
                pieces.append(np.zeros(len(part), np.int32))
            length += len(pieces[-1])
        ids = np.concatenate([*pieces, self.eos])
        if not len(ids):  # a sequence has at least one element
            ids = placeholder(self.text)
        return PartsExample(ids, tuple(patches), None if answer is None else self.answer(answer), classes)

    @property
    def begin(self) -> int:
        """What the decoder of an encoder-decoder begins an answer with; ConfigError: there is no such symbol."""
        if not len(begin := framing(self.target, "bos")):
            raise ConfigError("The tokenizer has no bos symbol, which begins an answer; train one of kind bpe or word.")
        return int(begin[0])

    def answer(self, text: str) -> np.ndarray:
        """The ids of a text that is to be written, and of its end, int32 [A]."""
        if not len(self._end):
            raise ConfigError(
                "The tokenizer has no eos symbol, without which an answer has no end; train one of kind bpe, word, "
                "character or byte."
            )
        return np.concatenate([self.target.encode(text), self._end])


def check_order(kinds: Sequence[str], order: Sequence[str], what: str) -> None:
    """Raise DataError where parts stand in another order than that which a model learned; (): it learned several."""
    own = [kind for kind in dict.fromkeys(kinds) if kind in order]
    if own != (learned := [kind for kind in order if kind in own]):
        raise DataError(
            f"{what} has {' before '.join(own)}, and the rows of the model have {' before '.join(learned)}; put its "
            "parts in that order"
        )


def laid(examples: Sequence[PartsExample], side: Literal["right", "left"] = "right") -> Batch:
    """The batch of these examples, one in each row, padded to the longest on a side.

    The answers, where there are any, stand behind what is given, and targets are asked for there alone; the targets of
    classes are one for each row.
    """
    rows = [e.ids if e.answer is None else np.concatenate([e.ids, e.answer[:-1]]) for e in examples]
    lengths = np.array([len(row) for row in rows])
    width = int(lengths.max())
    begins = np.arange(len(rows)) * width + (width - lengths if side == "left" else 0)
    elements = np.zeros(len(rows) * width, np.int64)
    elements[_slots(begins, lengths)] = np.concatenate(rows)
    at = targets = None
    answered = [(begin, e.ids, e.answer) for begin, e in zip(begins, examples, strict=True) if e.answer is not None]
    if answered:
        before = np.array([begin + len(ids) - 1 for begin, ids, _ in answered])
        at = _slots(before, np.array([len(answer) for _, _, answer in answered]))
        targets = np.concatenate([answer for _, _, answer in answered]).astype(np.int64)
    elif all(e.classes is not None for e in examples):
        targets = np.concatenate([e.classes for e in examples if e.classes is not None])
    return Batch(
        torch.from_numpy(elements).view(len(rows), width),
        None if lengths.min() == width else Places.padded(lengths.tolist(), side),
        None if targets is None else torch.from_numpy(targets),
        at=None if at is None else torch.from_numpy(at),
        parts=_parts(examples, begins),
    )


def bundled(bundles: Sequence[Sequence[PartsExample]]) -> Batch:
    """The batch of bundles of examples with answers, one bundle in each row, whose examples have one `beginning`.

    It is read once, and every answer is the same as if its example stood alone: it sees its own document and COMMON.
    """
    rows, documents, positions, at, answers = [], [], [], [], []
    for bundle in bundles:
        n = bundle[0].beginning
        row, document, position, length = [bundle[0].ids[:n]], [np.full(n, COMMON)], [np.arange(n)], n
        for number, example in enumerate(bundle):
            assert example.answer is not None
            own = np.concatenate([example.ids[n:], example.answer[:-1]])
            first = length + len(example.ids) - n - 1  # where the answer's first token is asked for
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
    filled = lambda of, fill: torch.from_numpy(_filled(of, width, fill))  # noqa: E731
    document = filled(documents, -1)
    places = Places(filled(positions, 0), document, document != -1)
    return Batch(
        filled(rows, 0),
        places,
        torch.from_numpy(np.concatenate(answers).astype(np.int64)),
        at=torch.from_numpy(np.concatenate([row * width + asked for row, asked in at])),
        parts=_parts([bundle[0] for bundle in bundles], np.arange(len(rows)) * width),
    )


def _filled(rows: Sequence[np.ndarray], width: int, fill: int) -> np.ndarray:
    table = np.full((len(rows), width), fill, np.int64)
    for slots, row in zip(table, rows, strict=True):
        slots[: len(row)] = row
    return table


def crossed(examples: Sequence[PartsExample], bos: int) -> Batch:
    """The same for an encoder-decoder: what is given is the source, and answers are the decoder's, which `bos` begins.

    The decoder's padding needs no mark: it stands behind every real element, where a causal mask never looks.
    """
    answers = [example.answer for example in examples if example.answer is not None]
    assert len(answers) == len(examples), "an encoder-decoder needs every answer"
    shifted = Batch.padded([np.append(np.int32(bos), ids[:-1]) for ids in answers])
    source = laid([replace(example, answer=None, classes=None) for example in examples])
    return Batch(shifted.elements, targets=Batch.padded(answers, fill=IGNORE).elements, source=source)


def _parts(examples: Sequence[PartsExample], begins: np.ndarray) -> tuple[Part, ...]:
    """All patches of one kind together, the kinds in the order of their names."""
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
    """begin, begin + 1, ... for each run, one run behind the other, int64."""
    return np.repeat(begins - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
