"""Training of tokenizers."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from glassformer.core.cuts import chunks
from glassformer.core.errors import ConfigError, DataError
from glassformer.tokenizers import library
from glassformer.tokenizers.config import TokenizerConfig
from glassformer.tokenizers.decoding import ALPHABET
from glassformer.tokenizers.definition import (
    ROLES,
    bpe_definition,
    byte_definition,
    character_definition,
    word_definition,
)
from glassformer.tokenizers.text import Tokenizer

if TYPE_CHECKING:
    from tokenizers.trainers import Trainer


MOST_PAIRED, MOST_COUNTED = 4_000_000, 48_000_000
"""UTF-8 bytes of all different words that pairs are learned from, and that are counted: the library
needs about 150 bytes of memory for each of the first, and 10 for each of the second."""
_WORD = re.compile(r"\w+|[^\w\s]+")
LONGEST_RUN = 256
_RUN = re.compile(rf"\S{{{LONGEST_RUN}}}|\s{{{LONGEST_RUN}}}")


def train_tokenizer(config: TokenizerConfig, texts: Iterable[str]) -> Tokenizer:
    """Load the tokenizer of a configuration from `config.path`, or train it on the texts.

    The same texts give the same tokenizer. ConfigError: an impossible vocabulary size. DataError:
    no text.
    """
    if config.path is not None:
        return Tokenizer.load(config.path).with_symbols(config.new_tokens)
    if config.new_tokens:
        raise ConfigError(
            "processor.tokenizer.new_tokens are added to the tokenizer of "
            "processor.tokenizer.path or train.init_from, and there is none; use specials."
        )
    extra = config.specials
    match config.kind:
        case "byte":
            made = Tokenizer(byte_definition(extra))
            if config.vocab_size not in (None, made.vocab_size):
                raise ConfigError(
                    f"processor.tokenizer.vocab_size is {config.vocab_size}, but kind byte always "
                    f"has {made.vocab_size}; leave it out"
                )
            return made
        case "character":
            return Tokenizer(character_definition(_characters(config, texts), extra))
        case "word":
            return Tokenizer(word_definition(_words(config, texts), config.lowercase, extra))
        case "bpe":
            return Tokenizer(bpe_definition(_merges(config, texts), extra))


def _characters(config: TokenizerConfig, texts: Iterable[str]) -> list[str]:
    """The characters of the texts by code point; if there are too many, the most frequent ones."""
    counts = Counter[str]()
    for text in texts:
        library.utf8(text)
        counts.update(text)
    seen = sorted(character for character, n in counts.items() if n >= config.frequency)
    _refuse_nothing(len(seen))
    if config.vocab_size is None:
        return seen
    room = config.ordinary_size(len(ROLES) + len(config.specials), 1)
    return sorted(sorted(seen, key=counts.__getitem__, reverse=True)[:room])


def _words(config: TokenizerConfig, texts: Iterable[str]) -> list[str]:
    from tokenizers.trainers import WordLevelTrainer

    room = config.ordinary_size(len(ROLES) + len(config.specials), 1)
    trainer = WordLevelTrainer(
        vocab_size=room, min_frequency=config.frequency, show_progress=False, special_tokens=[]
    )
    vocab = _learn(word_definition([], config.lowercase), trainer, texts, MOST_COUNTED)["vocab"]
    _refuse_nothing(len(vocab))
    return sorted(vocab, key=vocab.__getitem__)


def _merges(config: TokenizerConfig, texts: Iterable[str]) -> list[tuple[str, str]]:
    from tokenizers.trainers import BpeTrainer

    room = config.ordinary_size(len(ROLES) - 1 + len(config.specials), len(ALPHABET))
    trainer = BpeTrainer(
        vocab_size=room,
        min_frequency=config.frequency,
        initial_alphabet=list(ALPHABET),
        show_progress=False,
        special_tokens=[],
    )
    texts = _sample(texts, config.sample_bytes)
    model = _learn(bpe_definition([]), trainer, texts, MOST_PAIRED)
    return list(map(tuple, model["merges"]))


def _learn(definition: dict, trainer: "Trainer", texts: Iterable[str], most: int) -> dict:
    learner = library.built(definition | {"added_tokens": []}, "the tokenizer")
    pieces = chain.from_iterable(map(_without_long_runs, _until(most, texts)))
    with library.guard("train the tokenizer"):
        library.learn(learner, trainer, pieces)
        return json.loads(learner.to_str())["model"]


def _until(most: int, texts: Iterable[str]) -> Iterator[str]:
    """Chunks of the texts, until their different words have more bytes than `most`."""
    seen, size = set[str](), 0
    for chunk in chain.from_iterable(map(chunks, texts)):
        yield chunk
        new = {*_WORD.findall(chunk)} - seen
        size += len("".join(new).encode("utf-8", "replace"))
        seen |= new
        if size > most:
            return


def _without_long_runs(chunk: str) -> Iterator[str]:
    """A chunk in pieces, cut within a run of letters or of spaces of more than LONGEST_RUN.

    The library learns pairs in a time that grows with the square of the longest run: 72 s for
    160,000 Chinese characters without a space.
    """
    ends = [run.end() for run in _RUN.finditer(chunk)]
    yield from (chunk[i:j] for i, j in zip([0, *ends], [*ends, len(chunk)], strict=True))


def _sample(texts: Iterable[str], limit: int) -> Iterator[str]:
    """The texts up to `limit` UTF-8 bytes, the last one cut."""
    for text in texts:
        raw = library.utf8(text)
        yield text if len(raw) <= limit else raw[:limit].decode("utf-8", errors="ignore")
        limit -= len(raw)
        if limit <= 0:
            return


def _refuse_nothing(n: int) -> None:
    if n == 0:
        raise DataError(
            "there is no text to make a tokenizer from; give a longer text or lower "
            "processor.tokenizer.min_frequency"
        )
