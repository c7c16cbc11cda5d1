"""What a run is given, as one sequence to be looked at: the batch that its model reads, and each element's name.

    "The cat"  ->  Batch [1, T]  and  Element("The", 17, "token", word=0), Element(" cat", 4, "token", word=1)

A sequence is made as it was for training: bare, framed, word by word, as patches, in parts, or as source and target.
Nothing is cut: what is too long is an error. Knows: runs, tokenizers, readers. Does not know: looks.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from glassformer.batch import Batch
from glassformer.errors import ConfigError, DataError
from glassformer.generate.advance import check_ids, check_source
from glassformer.generate.draw import brief
from glassformer.inspect.points import Element, token_label
from glassformer.inspect.words import WORD, token_words, word_spans
from glassformer.run.opened import Opened
from glassformer.run.sensed import example_of, patches_of
from glassformer.tokens.audio import AudioReader
from glassformer.tokens.image import ImageReader
from glassformer.tokens.palette import Palette
from glassformer.tokens.parts import TEXT, PartsTokenizer, laid
from glassformer.tokens.sequence import SequenceTokenizer
from glassformer.tokens.text import Tokenizer
from glassformer.tokens.words import WordTokenizer

WHOLE = 1 << 40
"""A window that everything fits into: so nothing is cut here, and what is too long is told."""
Ids = Sequence[int]


@dataclass(frozen=True)
class Fed:
    """One sequence: its batch, the elements of the stack that answers, those of the source of an encoder-decoder."""

    batch: Batch
    elements: tuple[Element, ...]
    source: tuple[Element, ...] = ()


def fed(run: Opened, given: Any) -> Fed:
    """The sequence of an input; see `Run.look`.

    Errors: ConfigError for what the model does not read, or for too much of it; DataError for a file.
    """
    if run.senses is not None:
        elements = (Element("[class]", None, "class"),) if run.model.config.pool == "first" else ()
        kind = "image" if isinstance(run.senses, ImageReader) else "audio"
        return Fed(Batch(patches_of(run.senses, [given])), (*elements, *_patches(run.senses, kind)))
    if run.pair is not None:
        return _pair(run, given)
    if (ids := ids_of(given)) is not None:
        return _alone(run, ids, _tokens(run.tokenizer, ids, palette=run.palette))
    if run.readers:
        return _parts(run, given)
    if run.model.config.head == "tag":
        return _words(run, given)
    if run.model.config.head in ("lm", "masked_lm"):
        if not isinstance(given, str):
            raise ConfigError(f"This model reads a text or a list of token ids, not {type(given).__name__}; give one.")
        return _brief(run, given) if run.palette is not None else _text(run, given)
    return _framed(run, given)


def outcomes(run: Opened) -> tuple[str, ...]:
    """What the model's outcomes are called, in the order of its logits: tokens, tags or classes; () for vectors."""
    config = run.model.config
    match config.head:
        case "lm" | "masked_lm":
            return tuple(_label(run.tokenizer, i, run.palette) for i in range(config.vocab_size))
        case "tag" | "classify":
            return config.classes or tuple(str(i) for i in range(config.class_count))
        case _:
            return ()


def _text(run: Opened, text: str) -> Fed:
    """Running text, as it stands."""
    ids = run.tokenizer.encode(text).tolist()
    return _alone(run, ids, _tokens(run.tokenizer, ids, _word_of(run.tokenizer, text)))


def _brief(run: Opened, text: str) -> Fed:
    """What is to be drawn, up to the place of the first pixel."""
    assert run.palette is not None
    tokenizer = PartsTokenizer(run.tokenizer)
    width = run.model.config.max_length - run.palette.config.n_pixels + 1
    ids = brief(tokenizer, [(TEXT, text)], width).ids.tolist()
    _fits(len(ids), width, "The prompt")
    return _alone(
        run, ids, _tokens(run.tokenizer, ids, [*([None] * len(tokenizer.bos)), *_word_of(run.tokenizer, text)])
    )


def _framed(run: Opened, given: Any) -> Fed:
    """A text or a pair of texts, between the symbols that frame examples."""
    texts = (given,) if isinstance(given, str) else given
    if not (isinstance(texts, tuple) and 1 <= len(texts) <= 2 and all(isinstance(text, str) for text in texts)):
        raise ConfigError(f"This model reads a text or a pair of texts, not {type(given).__name__}; give one.")
    tokenizer = SequenceTokenizer(run.tokenizer, WHOLE)
    (sequence,) = tokenizer.sequences(*texts)
    words: list[int | None] = [None] * len(tokenizer.bos)
    for text in texts:
        words += [*_word_of(run.tokenizer, text, _after(words)), *([None] * len(tokenizer.eos))]
    ids = sequence.ids.tolist()
    made = _alone(run, ids, _tokens(run.tokenizer, ids, words), run.sequences.longest)
    if sequence.kinds is None or run.model.config.n_kinds < 2:
        return made
    return replace(made, batch=replace(made.batch, kinds=torch.from_numpy(sequence.kinds)[None]))


def _words(run: Opened, given: Any) -> Fed:
    """Words, each encoded by itself."""
    words = given.split() if isinstance(given, str) else list(given)
    if not words or not all(isinstance(word, str) for word in words):
        raise ConfigError("This model reads words, and none were given; give a text, or a list of words.")
    tokenizer = WordTokenizer(run.tokenizer, WHOLE)
    (pieces,) = tokenizer.windows(words)
    word_of = [number for number, word in enumerate(words) for _ in tokenizer.pieces(word)]
    ids = pieces.ids.tolist()
    return _alone(
        run, ids, _tokens(run.tokenizer, ids, [*([None] * len(tokenizer.bos)), *word_of]), run.sequences.longest
    )


def _pair(run: Opened, given: Any) -> Fed:
    """A source and what the decoder has read behind its beginning; a source alone: nothing yet."""
    assert run.pair is not None
    pair = run.pair
    both = isinstance(given, tuple) and len(given) == 2 and ids_of(given) is None
    source, target = given if both else (given, "")
    if isinstance(source, str):
        read = pair.source_ids(source).tolist()
        sources = _tokens(pair.source, read, _word_of(pair.source, source, prefix=pair.prefix))
    elif (read := ids_of(source)) is not None:
        sources = _tokens(pair.source, read)
    else:
        raise ConfigError("An encoder-decoder reads a source, or a tuple of a source and a target; give one.")
    if isinstance(target, str):
        written = [pair.bos, *pair.target_ids(target)[:-1].tolist()]
        targets = _tokens(run.tokenizer, written, [None, *_word_of(pair.target, target)])
    elif (written := ids_of(target)) is not None:
        targets = _tokens(run.tokenizer, written)
    else:
        raise ConfigError(f"A target is a text or a list of token ids, not {type(target).__name__}; give one.")
    _fits(len(read), run.model.config.max_length, "The source")
    batch = Batch(torch.tensor([read]))
    check_source(batch, 1, run.model)
    made = _alone(run, written, targets)
    return Fed(replace(made.batch, source=batch), made.elements, sources)


def _parts(run: Opened, given: Any) -> Fed:
    """Parts in their order, or a tuple of them and the answer that is being written."""
    answer = None
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], str):
        given, answer = given
    if isinstance(given, np.ndarray | Path | tuple):  # a picture or a recording alone
        kind = "audio" if isinstance(given, tuple) else "image" if isinstance(given, np.ndarray) else min(run.readers)
        given = {kind: given}
    parts = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    tokenizer, crossed = run.parts, run.model.config.architecture == "encoder_decoder"
    example = example_of(tokenizer, run.readers, parts)
    ids = example.ids.tolist()
    elements = list(_tokens(run.tokenizer, tokenizer.bos.tolist()))
    for part in parts:
        kind, thing = (TEXT, part) if isinstance(part, str) else next(iter(part.items()))
        if kind != TEXT:
            elements += _patches(run.readers[kind], kind)
            continue
        own = _word_of(run.tokenizer, thing, _after([element.word for element in elements]))
        elements += _tokens(run.tokenizer, run.tokenizer.encode(thing).tolist(), own)
    elements += _tokens(run.tokenizer, ids[len(elements) :])
    if answer is not None and run.model.config.head != "lm":
        raise ConfigError(f"An answer was given, and model.head={run.model.config.head!r} writes none; leave it out.")
    written = [] if answer is None else tokenizer.answer(answer)[:-1].tolist()
    first = 0 if crossed else _after([element.word for element in elements])
    said = _tokens(run.tokenizer, written, _word_of(run.tokenizer, answer or "", first))
    if crossed:
        _fits(len(ids), run.model.config.max_length, "The source")
        made = _alone(run, [tokenizer.begin, *written], (*_tokens(run.tokenizer, [tokenizer.begin]), *said))
        return Fed(replace(made.batch, source=laid([example])), made.elements, tuple(elements))
    _fits(len(ids) + len(written), run.model.config.max_length, "The sequence of parts")
    whole = replace(example, ids=np.array([*ids, *written], np.int32))
    return Fed(laid([whole]), (*elements, *said))


def _alone(run: Opened, ids: Ids, elements: tuple[Element, ...], longest: int | None = None) -> Fed:
    """The sequence of these tokens; ConfigError: none, too many, or one that the model has not."""
    if not ids:
        raise ConfigError("The text has no token; give at least one word.")
    check_ids(list(ids), run.model, "The input")
    _fits(len(ids), longest or run.model.config.max_length, "The input")
    return Fed(Batch(torch.tensor([list(ids)])), elements)


def _fits(length: int, longest: int, what: str) -> None:
    if length > longest:
        raise ConfigError(
            f"{what} has {length} elements and the model reads {longest} at once; shorten it by {length - longest}, or "
            "take a model with a larger model.max_length."
        )


def ids_of(given: Any) -> list[int] | None:
    """Token ids, if that is what was given."""
    numbers = given.tolist() if isinstance(given, torch.Tensor) else given
    whole = isinstance(numbers, list | tuple) and all(type(number) is int for number in numbers)
    return list(numbers) if whole else None


def _tokens(
    tokenizer: Tokenizer, ids: Ids, words: Sequence[int | None] = (), palette: Palette | None = None
) -> tuple[Element, ...]:
    """The elements of tokens and colours; `words` may be fewer, what is behind them belongs to none."""
    specials = set(tokenizer.specials.values())
    kind = lambda i: "special" if i in specials else "image" if palette and i >= tokenizer.vocab_size else "token"  # noqa: E731
    owners = itertools.chain(words, itertools.repeat(None))
    return tuple(Element(_label(tokenizer, i, palette), i, kind(i), word) for i, word in zip(ids, owners, strict=False))


def _label(tokenizer: Tokenizer, index: int, palette: Palette | None) -> str:
    """A token's text, or the colour that follows the vocabulary; a number that nothing has is called by itself."""
    colour = index - tokenizer.vocab_size
    if palette is not None and 0 <= colour < len(palette.colours):
        return "#" + bytes(palette.colours[colour].tolist()).hex()
    try:
        return token_label(tokenizer, index)
    except DataError:  # models have more rows than tokens, for speed
        return f"id {index}"


def _word_of(tokenizer: Tokenizer, text: str, first: int = 0, prefix: str = "") -> list[int | None]:
    """The word of each token of prefix + text, numbered from `first`; none where they cannot be told."""
    try:
        words = token_words(tokenizer, text, word_spans(text, WORD), prefix)
    except ConfigError:
        return [None] * len(tokenizer.encode(prefix + text))
    return [None if word is None else word + first for word in words]


def _after(words: Sequence[int | None]) -> int:
    """The number of the next word."""
    return 1 + max((word for word in words if word is not None), default=-1)


def _patches(reader: ImageReader | AudioReader, kind: str) -> list[Element]:
    """The patches of a picture or a recording, row by row of their grid."""
    rows, columns = reader.grid
    frames, bands = reader.config.patch_size
    if kind == "audio":
        band = (lambda column: f", band {column * bands}") if columns > 1 else lambda column: ""
        label = lambda row, column: f"frame {row * frames}{band(column)}"  # noqa: E731
    else:
        label = lambda row, column: f"patch {row},{column}"  # noqa: E731
    return [Element(label(r, c), None, kind, row=r, column=c) for r in range(rows) for c in range(columns)]
