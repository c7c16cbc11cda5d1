"""Running text in shards: some bytes of some files, encoded apart from the others.

A shard is a function of its `Job` and the tokenizer: a start that was killed keeps those that are
whole. Its tokens are those that its text has in the whole: a file is cut only where `cuts` says so,
or between lines of JSON. The threads of the tokenizers library encode a portion of a shard while
the one before is written. This module does not load torch.

    jobs ──count──> characters before each ──encode──> a store for each ──join──> the store
"""

import codecs
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np

from glassformer.cuts import portions
from glassformer.data.config import DataConfig, SplitName
from glassformer.data.formats.documents import documents
from glassformer.data.sources import Source, reading
from glassformer.data.splits import Part, divided, of_split, whole
from glassformer.data.store import Store, Writer
from glassformer.errors import ConfigError

KIND, SHARD_KIND = "tokens", "a shard of tokens"
SIZE = 32 << 20
"""Bytes of the files of one shard, about."""
PORTION = 1 << 20
"""Characters that are encoded at the same time, about."""
LOOK, WINDOW = 4, 1 << 16
"""Bytes of the longest character, and bytes that are searched for a place to cut at once."""
BYTEWISE = ("utf-8", "ascii", "iso8859-1", "cp1252")
"""Encodings in which the bytes of a space and a newline are nothing else."""


class Encoder(Protocol):
    """A tokenizer, as far as a store needs it."""

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything that its ids depend on."""
        ...

    @property
    def vocab_size(self) -> int:
        """Ids are below it."""
        ...

    @property
    def specials(self) -> Mapping[str, int]:
        """The ids of special symbols; `eos` follows each document of a split with more than one."""
        ...

    @property
    def in_pieces(self) -> bool:
        """Whether a text may be encoded in the pieces of `cuts`."""
        ...

    def encode_all(self, texts: Sequence[str]) -> list[np.ndarray]:
        """The ids of each text."""
        ...


@dataclass(frozen=True)
class Job:
    """What a shard is made of, as plain values."""

    place: str
    """The folder of its store."""
    config: dict[str, Any]
    split: SplitName
    sources: list[dict[str, Any]]
    stamps: list[dict[str, str | int]]
    """Size and time of each file when the shards were planned."""
    tokenizer: dict[str, Any]
    borders: list[int] | None = None
    """Where splits begin and end in the text of all shards of train, in characters."""
    start: int = 0
    """Characters before this shard, if there are borders."""

    @property
    def size(self) -> int:
        """Bytes of its files."""
        ends = zip(self.sources, self.stamps, strict=True)
        return sum(int(of["size"] if s["end"] is None else s["end"]) - s["begin"] for s, of in ends)


def made_by(tokenizer: Encoder) -> dict[str, Any]:
    """What the ids in a store depend on, of its tokenizer."""
    eos, size = tokenizer.specials.get("eos"), tokenizer.vocab_size
    return {"fingerprint": tokenizer.fingerprint, "vocab_size": size, "eos": eos}


def count(job: Job) -> int:
    """The characters of a shard's text."""
    return sum(len(document.text) for document in _documents(job))


def encode(job: Job, tokenizer: Encoder) -> int:
    """Make the store of a shard, unless it is there and whole; the characters of its text."""

    def made(writer: Writer) -> None:
        write(writer, job, tokenizer)

    request = {"kind": SHARD_KIND, **asdict(job)}
    store = Store.open_or_build(Path(job.place), request, made)
    return sum(own["characters"] for own in store.counts.values())


def write(writer: Writer, job: Job, tokenizer: Encoder, alone: bool = False) -> int:
    """Write the ids of a shard's text, and `eos` behind each document that ends; not if it is the
    only one of a shard that is `alone`, as a whole split. Gives the characters of the text.

    `counts`: tokens, bytes, characters, documents; goes_on: the last document is not at its end.
    """
    eos, dtype = tokenizer.specials.get("eos"), dtype_of(tokenizer.vocab_size)
    counts, goes_on = dict[str, dict[str, Any]](), dict[str, bool]()
    found = _parts(job)
    for part, ids in _encode_ahead(found if tokenizer.in_pieces else whole(found), tokenizer):
        column = writer.column(part.split, KIND, dtype)
        own = counts.setdefault(part.split, zeros())
        if goes_on.get(part.split):
            column.extend(ids)
        else:
            if own["documents"] and eos is not None:
                column.extend(np.array([eos]))
            column.append(ids)
            own["documents"] += 1
        own["bytes"] += len(part.text.encode("utf-8"))
        own["characters"] += len(part.text)
        goes_on[part.split] = not part.ends
    for name, own in counts.items():
        column = writer.column(name, KIND, dtype)
        if eos is not None and not goes_on[name] and (own["documents"] > 1 or not alone):
            column.extend(np.array([eos]))
        own["tokens"] = column.size
        writer.counts[name] = own if alone else own | {"goes_on": goes_on[name]}
    return sum(own["characters"] for own in counts.values())


def join(writer: Writer, shards: Iterable[Store], eos: int | None, dtype: str) -> None:
    """Write the shards of a text one behind the other."""
    goes_on: dict[str, bool] = {}
    for store in shards:
        for name, own in store.counts.items():
            same, column = goes_on.get(name, False), writer.column(name, KIND, dtype)
            column.join(store.ragged(name, KIND), same)
            total = writer.counts.setdefault(name, zeros())
            for key in total:
                total[key] += own[key]
            total["documents"] -= same
            goes_on[name] = own["goes_on"]
    for name, total in writer.counts.items():
        if eos is not None and total["documents"] == 1 and not goes_on[name]:
            writer.column(name, KIND, dtype).drop(1)
            total["tokens"] -= 1


def zeros() -> dict[str, Any]:
    """The counts of a split without text."""
    return {"tokens": 0, "bytes": 0, "characters": 0, "documents": 0}


def dtype_of(vocab_size: int) -> str:
    """The smallest type of the store for ids below `vocab_size`."""
    return "uint16" if vocab_size <= 1 << 16 else "uint32"


def planned(
    work: Path,
    config: DataConfig,
    sources: Mapping[SplitName, Sequence[Source]],
    tokenizer: Encoder,
    size: int,
) -> list[Job]:
    """The jobs for shards of about `size` bytes, in order; their stores are in the folder `work`.

    A file on disk of plain text or JSON lines is cut; others are read whole, and the members of an
    archive together.
    """
    settings, by, jobs = config.model_dump(mode="json"), made_by(tokenizer), list[Job]()
    for split, of in sources.items():
        for group in _groups(of, config, size, tokenizer.in_pieces):
            place, stamps = str(work / f"{len(jobs):06}"), [source.stamp() for source in group]
            jobs.append(Job(place, settings, split, [asdict(s) for s in group], stamps, by))
    return jobs


def _groups(
    sources: Iterable[Source], config: DataConfig, size: int, in_pieces: bool
) -> Iterator[list[Source]]:
    """Spans of files, together about `size` bytes."""
    held, length, archive = list[Source](), 0, None
    for source in sources:
        for span in _spans(source, config, size, in_pieces):
            if 2 * length >= size and (span.archive is None or span.archive != archive):
                yield held
                held, length = [], 0
            if span.archive is None or span.archive != archive:
                length += (span.size if span.end is None else span.end) - span.begin
            held.append(span)
            archive = span.archive
    if held:
        yield held


def _spans(source: Source, config: DataConfig, size: int, in_pieces: bool) -> Iterator[Source]:
    """A source cut into spans of about `size` bytes, or the whole source where it is not cut."""
    kind, begin = source.format(config), 0
    bytewise = codecs.lookup(config.encoding).name in BYTEWISE
    lines = kind == "jsonl" and source.suffix != ".json"  # which may be one array
    plain = source.archive is None and not source.path.lower().endswith(".gz")
    if bytewise and plain and (lines or (kind == "text" and in_pieces)):
        with reading(source.path), open(source.path, "rb") as file:
            for at in range(size, total := source.size, size):
                limit = min(at + size, total)
                if (cut := _cut(file, at, limit, lines, config.encoding)) is not None:
                    yield replace(source, begin=begin, end=cut)
                    begin = cut
    yield replace(source, begin=begin)


def _cut(file: BinaryIO, at: int, limit: int, lines: bool, encoding: str) -> int | None:
    """The first byte from `at` to `limit` before which the file may be cut: the beginning of a
    line, or a space or newline behind a character that is not white space."""
    while at < limit:
        first = max(at - LOOK, 0)
        file.seek(first)
        block = file.read(WINDOW + LOOK)
        for found in re.finditer(b"\n" if lines else b"[ \n]", block):
            place = first + (found.end() if lines else found.start())
            before = block[max(found.start() - LOOK, 0) : found.start()]
            black = lines or not before.decode(encoding, "ignore")[-1:].isspace()
            if at <= place < limit and black:
                return place
        at = first + len(block) if len(block) == WINDOW + LOOK else limit
    return None


def _documents(job: Job) -> Iterator[Any]:
    config = DataConfig.parse(job.config)
    return documents((Source(**source) for source in job.sources), config)


def _parts(job: Job) -> Iterator[Part]:
    found = _documents(job)
    if job.borders is None:
        return of_split(job.split, found)
    return divided(found, job.borders, job.start)


def _encode_ahead(parts: Iterable[Part], tokenizer: Encoder) -> Iterator[tuple[Part, np.ndarray]]:
    """Each part with its ids, encoded a portion ahead in a thread; ConfigError: an id beyond the
    vocabulary."""
    size = tokenizer.vocab_size

    def encode(portion: list[Part]) -> list[np.ndarray]:
        return tokenizer.encode_all([part.text for part in portion])

    def check(portion: list[Part], found: Future[list[np.ndarray]]) -> Iterator[Any]:
        for part, ids in zip(portion, found.result(), strict=True):
            if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < size:
                raise ConfigError(
                    f"the tokenizer gave id {int(ids.max())} for {part.source}, beyond its "
                    f"vocabulary of {size}; use the tokenizer that belongs to this model"
                )
            yield part, ids

    with ThreadPoolExecutor(1, "encoding") as thread:
        before: tuple[list[Part], Future[list[np.ndarray]]] | None = None
        for portion in portions(parts, lambda part: len(part.text), PORTION):
            ahead = portion, thread.submit(encode, portion)
            if before is not None:
                yield from check(*before)
            before = ahead
        if before is not None:
            yield from check(*before)
