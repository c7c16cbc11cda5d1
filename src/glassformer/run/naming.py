"""What the elements of a sequence are called, and a model's outcomes.

"The cat"  ->  Element("The", 17, "token", word=0), Element(" cat", 4, "token", word=1)
"""

import itertools
from collections.abc import Sequence

from glassformer.errors import ConfigError, DataError
from glassformer.media.audio import AudioReader
from glassformer.media.image import ImageReader
from glassformer.media.palette import Palette
from glassformer.processors.elements import Element, token_label
from glassformer.processors.word_spans import WORD, token_words, word_spans
from glassformer.run.opened import Opened
from glassformer.tokenizers.text import Tokenizer

Ids = Sequence[int]


def outcomes(run: Opened) -> tuple[str, ...]:
    """What the model's outcomes are called, in the order of its logits: tokens, tags or classes; ()
    for vectors."""
    config = run.model.config
    match config.head:
        case "lm" | "masked_lm":
            return tuple(_label(run.tokenizer, i, run.palette) for i in range(config.vocab_size))
        case "tag" | "classify":
            return config.classes or tuple(str(i) for i in range(config.class_count))
        case _:
            return ()


def named(
    tokenizer: Tokenizer, ids: Ids, words: Sequence[int | None] = (), palette: Palette | None = None
) -> tuple[Element, ...]:
    """The elements of tokens and colours; `words` may be fewer, what is behind them belongs to
    none."""
    specials = set(tokenizer.specials.values())

    def kind(i: int) -> str:
        if i in specials:
            return "special"
        return "image" if palette and i >= tokenizer.vocab_size else "token"

    owners = itertools.chain(words, itertools.repeat(None))
    return tuple(
        Element(_label(tokenizer, i, palette), i, kind(i), word)
        for i, word in zip(ids, owners, strict=False)
    )


def _label(tokenizer: Tokenizer, index: int, palette: Palette | None) -> str:
    """A token's text, or the colour that follows the vocabulary; a number that nothing has is
    called by itself."""
    colour = index - tokenizer.vocab_size
    if palette is not None and 0 <= colour < len(palette.colours):
        return "#" + bytes(palette.colours[colour].tolist()).hex()
    try:
        return token_label(tokenizer, index)
    except DataError:  # models have more rows than tokens, for speed
        return f"id {index}"


def words_of(tokenizer: Tokenizer, text: str, first: int = 0, prefix: str = "") -> list[int | None]:
    """The word of each token of prefix + text, numbered from `first`; none where they cannot be
    told."""
    try:
        words = token_words(tokenizer, text, word_spans(text, WORD), prefix)
    except ConfigError:
        return [None] * len(tokenizer.encode(prefix + text))
    return [None if word is None else word + first for word in words]


def after(words: Sequence[int | None]) -> int:
    """The number of the next word."""
    return 1 + max((word for word in words if word is not None), default=-1)


def named_patches(reader: ImageReader | AudioReader, kind: str) -> list[Element]:
    """The patches of a picture or a recording, row by row of their grid."""
    rows, columns = reader.grid
    frames, bands = reader.config.patch_size
    if kind == "audio":
        band = (lambda column: f", band {column * bands}") if columns > 1 else lambda column: ""
        label = lambda row, column: f"frame {row * frames}{band(column)}"  # noqa: E731
    else:
        label = lambda row, column: f"patch {row},{column}"  # noqa: E731
    return [
        Element(label(r, c), None, kind, row=r, column=c)
        for r in range(rows)
        for c in range(columns)
    ]
