"""What a run is given, as one sequence to be looked at: the batch that its model reads, and each
element's name.

    "The cat"  ->  Batch [1, T]  and  Element("The", 17, "token", word=0), Element(" cat", 4, "token", word=1)

A sequence is made as it was for training: bare, framed, word by word, as patches, in parts, or as
source and target. Nothing is cut: what is too long is an error.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from glassformer.batch import Batch
from glassformer.data.collate import padded
from glassformer.errors import ConfigError
from glassformer.generate.advance import check_ids, check_source
from glassformer.generate.draw import brief
from glassformer.media.image import ImageReader
from glassformer.processors.elements import Element
from glassformer.processors.parts import TEXT, PartsTokenizer
from glassformer.processors.sequence import SequenceTokenizer
from glassformer.processors.words import WordTokenizer
from glassformer.run.media_inputs import example_of, part_of, patches_of
from glassformer.run.naming import Ids, after, named, named_patches, words_of
from glassformer.run.opened import Opened

WHOLE = 1 << 40
"""A window that everything fits into: so nothing is cut here, and what is too long is told."""
HOPELESS = 16
"""What surely is so many times longer than the model reads is refused before it is cut into
tokens."""


@dataclass(frozen=True)
class Fed:
    """One sequence: its batch, the elements of the stack that answers, those of the source of an
    encoder-decoder."""

    batch: Batch
    elements: tuple[Element, ...]
    source: tuple[Element, ...] = ()


def fed(run: Opened, given: Any) -> Fed:
    """The sequence of an input; see `Run.look`.

    Errors: ConfigError for what the model does not read, or for too much of it; DataError for a
    file.
    """
    if run.senses is not None:
        elements = (Element("[class]", None, "class"),) if run.model.config.pool == "first" else ()
        kind = "image" if isinstance(run.senses, ImageReader) else "audio"
        return Fed(
            Batch(patches_of(run.senses, [given])), (*elements, *named_patches(run.senses, kind))
        )
    if run.pair is not None:
        return _pair(run, given)
    if (ids := ids_of(given)) is not None:
        batch = _alone(run, ids)
        return Fed(batch, named(run.tokenizer, ids, palette=run.palette))
    if run.readers:
        return _parts(run, given)
    if run.model.config.head == "tag":
        return _words(run, given)
    if run.model.config.head in ("lm", "masked_lm"):
        if not isinstance(given, str):
            raise ConfigError(
                f"This model reads a text or a list of token ids, not {type(given).__name__}; "
                f"give one."
            )
        return _brief(run, given) if run.palette is not None else _text(run, given)
    return _framed(run, given)


def _text(run: Opened, text: str) -> Fed:
    """Running text, as it stands."""
    _hopeful(run.tokenizer.at_least(text), run.model.config.max_length)
    ids = run.tokenizer.encode(text).tolist()
    batch = _alone(run, ids)
    return Fed(batch, named(run.tokenizer, ids, words_of(run.tokenizer, text)))


def _brief(run: Opened, text: str) -> Fed:
    """What is to be drawn, up to the place of the first pixel."""
    assert run.palette is not None
    tokenizer = PartsTokenizer(run.tokenizer)
    width = run.model.config.max_length - run.palette.config.n_pixels + 1
    _hopeful(run.tokenizer.at_least(text), width, "The prompt")
    ids = brief(tokenizer, [(TEXT, text)], width).ids.tolist()
    _fits(len(ids), width, "The prompt")
    words = [*([None] * len(tokenizer.bos)), *words_of(run.tokenizer, text)]
    return Fed(_alone(run, ids), named(run.tokenizer, ids, words))


def _framed(run: Opened, given: Any) -> Fed:
    """A text or a pair of texts, between the symbols that frame examples."""
    texts = (given,) if isinstance(given, str) else given
    if not (
        isinstance(texts, tuple)
        and 1 <= len(texts) <= 2
        and all(isinstance(text, str) for text in texts)
    ):
        raise ConfigError(
            f"This model reads a text or a pair of texts, not {type(given).__name__}; give one."
        )
    tokenizer, longest = SequenceTokenizer(run.tokenizer, WHOLE), run.sequences.longest
    _hopeful(sum(map(run.tokenizer.at_least, texts)), longest)
    (sequence,) = tokenizer.sequences(*texts)
    ids = sequence.ids.tolist()
    batch = _alone(run, ids, longest)
    if sequence.token_type_ids is not None and run.model.config.n_token_types > 1:
        batch = replace(batch, token_type_ids=torch.from_numpy(sequence.token_type_ids)[None])
    words: list[int | None] = [None] * len(tokenizer.bos)
    for text in texts:
        words += [*words_of(run.tokenizer, text, after(words)), *([None] * len(tokenizer.eos))]
    return Fed(batch, named(run.tokenizer, ids, words))


def _words(run: Opened, given: Any) -> Fed:
    """Words, each encoded by itself."""
    words = given.split() if isinstance(given, str) else list(given)
    if not words or not all(isinstance(word, str) for word in words):
        raise ConfigError(
            "This model reads words, and none were given; give a text, or a list of words."
        )
    tokenizer, longest = WordTokenizer(run.tokenizer, WHOLE), run.sequences.longest
    _hopeful(max(len(words), run.tokenizer.at_least(" ".join(words))), longest)
    (pieces,) = tokenizer.windows(words)
    ids = pieces.ids.tolist()
    batch = _alone(run, ids, longest)
    word_of = [number for number, word in enumerate(words) for _ in tokenizer.pieces(word)]
    return Fed(batch, named(run.tokenizer, ids, [*([None] * len(tokenizer.bos)), *word_of]))


def _pair(run: Opened, given: Any) -> Fed:
    """A source and what the decoder has read behind its beginning; a source alone: nothing yet."""
    assert run.pair is not None
    pair = run.pair
    both = isinstance(given, tuple) and len(given) == 2 and ids_of(given) is None
    source, target = given if both else (given, "")
    longest = run.model.config.max_length
    if isinstance(source, str):
        _hopeful(pair.source.at_least(source), longest, "The source")
        read = pair.source_ids(source).tolist()
    elif (read := ids_of(source)) is None:
        raise ConfigError(
            "An encoder-decoder reads a source, or a tuple of a source and a target; give one."
        )
    if isinstance(target, str):
        _hopeful(pair.target.at_least(target), longest)
        written = [pair.bos, *pair.target_ids(target)[:-1].tolist()]
    elif (written := ids_of(target)) is None:
        raise ConfigError(
            f"A target is a text or a list of token ids, not {type(target).__name__}; give one."
        )
    if not read:
        raise ConfigError("The source has no token; give at least one word.")
    _fits(len(read), longest, "The source")
    beside = Batch(torch.tensor([read]))
    check_source(beside, 1, run.model)
    batch = _alone(run, written)
    owners = words_of(pair.source, source, prefix=pair.prefix) if isinstance(source, str) else ()
    sources = named(pair.source, read, owners)
    owners = [None, *words_of(pair.target, target)] if isinstance(target, str) else ()
    return Fed(replace(batch, source=beside), named(run.tokenizer, written, owners), sources)


def _parts(run: Opened, given: Any) -> Fed:
    """Parts in their order, or a tuple of them and the answer that is being written."""
    answer = None
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], str):
        given, answer = given
    if isinstance(given, np.ndarray):  # a picture or a recording alone
        given = {"image": given}
    elif isinstance(given, tuple) and given and isinstance(given[0], np.ndarray):
        given = {"audio": given}
    elif isinstance(given, Path):
        given = {min(run.readers): given}
    parts = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    tokenizer, crossed = run.parts, run.model.config.architecture == "encoder_decoder"
    longest, what = (
        run.model.config.max_length,
        "The source" if crossed else "The sequence of parts",
    )
    if answer is not None and run.model.config.head != "lm":
        raise ConfigError(
            f"An answer was given, and model.head={run.model.config.head!r} writes none; leave "
            f"it out."
        )
    texts = [text for kind, text in map(part_of, parts) if kind == TEXT]
    _hopeful(sum(map(run.tokenizer.at_least, texts)), longest, what)
    _hopeful(run.tokenizer.at_least(answer or ""), longest, "The answer")
    example = example_of(tokenizer, run.readers, parts)
    ids = example.ids.tolist()
    written = [] if answer is None else tokenizer.answer(answer)[:-1].tolist()
    _fits(len(ids) + (0 if crossed else len(written)), longest, what)
    if crossed:
        batch = replace(_alone(run, [tokenizer.begin, *written]), source=padded([example]))
    else:
        batch = padded([replace(example, ids=np.array([*ids, *written], np.int32))])
    elements = list(named(run.tokenizer, tokenizer.bos.tolist()))
    for kind, thing in map(part_of, parts):
        if kind != TEXT:
            elements += named_patches(run.readers[kind], kind)
            continue
        own = words_of(run.tokenizer, thing, after([element.word for element in elements]))
        elements += named(run.tokenizer, run.tokenizer.encode(thing).tolist(), own)
    elements += named(run.tokenizer, ids[len(elements) :])
    first = 0 if crossed else after([element.word for element in elements])
    said = named(run.tokenizer, written, words_of(run.tokenizer, answer or "", first))
    if crossed:
        return Fed(batch, (*named(run.tokenizer, [tokenizer.begin]), *said), tuple(elements))
    return Fed(batch, (*elements, *said))


def _alone(run: Opened, ids: Ids, longest: int | None = None) -> Batch:
    """The sequence of these tokens; ConfigError: none, too many, or one that the model has not."""
    if not ids:
        raise ConfigError("The text has no token; give at least one word.")
    _fits(len(ids), longest or run.model.config.max_length, "The input")
    check_ids(list(ids), run.model, "The input")
    return Batch(torch.tensor([list(ids)]))


def _fits(length: int, longest: int, what: str, least: str = "") -> None:
    if length > longest:
        raise ConfigError(
            f"{what} has {least}{length} elements and the model reads {longest} at once; "
            f"shorten it by "
            f"{least}{length - longest}, or take a model with a larger model.max_length."
        )


def _hopeful(least: int, longest: int, what: str = "The input") -> None:
    """Raise ConfigError for what has `least` elements or more, if these are far too many to be
    worth counting."""
    if least > HOPELESS * longest:
        _fits(least, longest, what, "at least ")


def ids_of(given: Any) -> list[int] | None:
    """Token ids, if that is what was given."""
    numbers = given.tolist() if isinstance(given, torch.Tensor) else given
    whole = isinstance(numbers, list | tuple) and all(type(number) is int for number in numbers)
    return list(numbers) if whole else None
