"""The text tokenizer: text to ids and back.

A tokenizer is its definition, the content of a `tokenizer.json`; everything else is derived from
it.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np

from glassformer.core.errors import ConfigError, DataError
from glassformer.core.files import file_in, write_text, writing
from glassformer.tokenizers import library
from glassformer.tokenizers.decoding import Beginning, Spelling, join_words, spelling_of
from glassformer.tokenizers.definition import (
    LARGEST_ID,
    Kind,
    check_definition,
    kind_of,
    names_of_gaps,
    read_definition,
    symbol_entry,
)
from glassformer.tokenizers.frame import Frame, read_frame, template_of
from glassformer.tokenizers.roles import ROLES as NAMED
from glassformer.tokenizers.roles import START, ids_by_role, roles_beside, roles_file, roles_json
from glassformer.tokenizers.symbols import Encoded, Symbols

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Library


@final
class Tokenizer:
    """Text to ids and back, defined by the content of a `tokenizer.json`.

    For byte, character and bpe: the joined `token_bytes` of `encode(text)` are the text's UTF-8
    bytes (character: if nothing was unknown).
    """

    def __init__(
        self,
        definition: dict[str, Any],
        name: str = "the tokenizer",
        roles: Mapping[str, str] | None = None,
    ) -> None:
        """`roles`: symbols by role (see `specials`), where their names do not say it."""
        self.definition = check_definition(definition, name)
        """The content of its `tokenizer.json`."""
        self._name = name
        self._library = library.built(self.definition, name)
        with library.guard(f"read the tokenizer {name}"):
            self.kind: Kind = kind_of(self.definition)
            """byte, character, word, bpe; `library` for any other tokenizer.json."""
            vocab = self._library.get_vocab(with_added_tokens=True)
            added = self._library.get_added_tokens_decoder()
        self._spelling = {index: token for token, index in vocab.items()}
        symbols = {token.content: index for index, token in added.items() if token.special}
        self.vocab_size = max(self._spelling, default=-1) + 1
        """One more than the largest id: the size that an embedding needs."""
        if self.vocab_size > LARGEST_ID:
            raise DataError(f"{name} has a token id beyond {LARGEST_ID}; restore the file")
        self._spelling |= (gaps := names_of_gaps(self._spelling))
        vocab |= {symbol: index for index, symbol in gaps.items()}
        roles = {role: symbol for role, symbol in (roles or {}).items() if symbol in vocab}
        given = {role: vocab[symbol] for role, symbol in roles.items()}
        self.specials = ids_by_role(symbols, given)
        """Ids by role: unk, pad, bos, eos, mask, cls, sep, decoder_start where there is one; an
        extra symbol is its own role."""
        self._roles = {} if self.specials == ids_by_role(symbols, {}) else roles
        # what a decoder begins with may be an ordinary piece, which a text may hold
        named = (index for role, index in given.items() if role != START)
        self._special_ids = frozenset((*symbols.values(), *named, *gaps))
        self.frame: Frame | None = read_frame(self.definition, self._spelling.keys(), name)
        """The symbols around a text, where the definition has some."""
        with library.guard(f"read the decoder of {name}"):
            whole = self.kind in ("character", "word")
            self._text = Spelling() if whole else spelling_of(self.definition)
        self.bytewise = self._text.joined or self.kind == "character"
        """Whether decoding joins `token_bytes`, token by token, but for the `beginning`."""

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        """Return what another process builds: the library's pickle would read special symbols."""
        return type(self), (self.definition, self._name, self._roles or None)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The tokenizer of a `tokenizer.json` (or of the folder that holds it), with the roles of
        `roles_beside`; DataError: damaged."""
        file = file_in(path, "tokenizer.json")
        return cls(read_definition(file), str(file), roles_beside(file))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one `tokenizer.json` that `tokenizers.Tokenizer.from_file` loads too, replaced as
        one step; and `special_tokens_map.json`, if the roles do not follow without it."""
        path = Path(path)
        write_text(path, json.dumps(self.definition, ensure_ascii=False, indent=1))
        if self._roles:
            write_text(roles_file(path), roles_json(self._roles))
        else:  # of an earlier tokenizer
            with writing(roles_file(path)):
                roles_file(path).unlink(missing_ok=True)

    def with_frame(self, frame: Frame) -> Self:
        """Return this tokenizer with the frame of texts in its definition."""
        own = template_of(frame, self._spelling) if frame.symbols else None
        return type(self)({**self.definition, "post_processor": own}, self._name, self._roles)

    def with_symbols(self, symbols: Sequence[str]) -> Self:
        """This tokenizer with further special symbols, their ids after all others; ConfigError: an
        empty one, or one that it has already."""
        if not symbols:
            return self
        known, first = {"", *self._spelling.values()}, self.vocab_size
        added = [*(self.definition.get("added_tokens") or [])]
        for index, symbol in enumerate(symbols, first):
            if symbol in known:
                what = f"{symbol!r}, a token that it has" if symbol else "an empty symbol"
                raise ConfigError(
                    f"processor.tokenizer.new_tokens adds {what}; give each new symbol once."
                )
            known.add(symbol)
            added.append(symbol_entry(index, symbol))
        # all roles, since a new symbol may have the name of one
        roles = {role: self.symbol(self.specials[role]) for role in NAMED if role in self.specials}
        made = type(self)(self.definition | {"added_tokens": added}, self._name, roles)
        if [*map(made._spelling.get, range(first, made.vocab_size))] != [*symbols]:
            raise ConfigError(
                f"{self._name} numbers its tokens in a way to which processor.tokenizer.new_tokens "
                "cannot be added; leave them out."
            )
        return made

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the definition and of given roles: equal exactly if two tokenizers are."""
        whole = [self.definition, self._roles] if self._roles else self.definition
        canonical = json.dumps(whole, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    @property
    def reversible(self) -> bool:
        """Whether decode(encode(text)) == text for every text (character: for every text of known
        characters)."""
        plain = self.definition.get("normalizer") is None
        prefixed = '"add_prefix_space": true' in json.dumps(self.definition.get("pre_tokenizer"))
        spelled = self._text.byte_level or self.kind == "character"
        return spelled and plain and not prefixed

    @property
    def in_pieces(self) -> bool:
        """Whether texts may be encoded in the pieces of `cuts`: not by kind `library`."""
        return self.kind != "library"

    def at_least(self, text: str) -> int:
        """Fewest tokens that this text may have, without encoding it: characters / bytes of the
        longest token; 0 where tokens do not spell the text."""
        return -(-len(text) // self._longest) if self.reversible else 0

    @cached_property
    def _longest(self) -> int:
        """Bytes of the longest token, and so characters at most."""
        return max(len(self.token_bytes(index)) for index in self._spelling) or 1

    def encode(self, text: str) -> np.ndarray:
        """Return the ids of a text, int32 [n]; DataError: an unpaired surrogate, or it fails."""
        return self.encode_all([text])[0]

    def encode_all(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Encode each text as `encode`, at the same time."""
        raw = [*map(library.utf8, texts)]
        if self.kind == "byte":
            return [np.frombuffer(one, np.uint8).astype(np.int32) for one in raw]
        if self.kind == "character":
            vocab, unknown = self.definition["model"]["vocab"], repeat(self.specials["unk"])
            return [np.fromiter(map(vocab.get, text, unknown), np.int32) for text in texts]
        found = library.encode_texts(self._library, texts, self.in_pieces)
        return [
            self.encode_spans(text)[0] if self._symbols.among(ids).any() else ids  # as some do
            for text, ids in zip(texts, found, strict=True)
        ]

    def encode_spans(self, text: str) -> Encoded:
        """The ids of a text, int32 [n], and the characters that each came from, int64 [n, 2]: begin
        and end. Not of kinds byte and character, where they follow from the bytes."""
        library.utf8(text)
        return self._symbols.spell(library.encode_spans(self._library, text))

    def encode_symbols(self, text: str, written: Sequence[tuple[int, int]]) -> Encoded:
        """Encode a text as `encode_spans`, but with the special symbols at the `written` spans of
        characters, in their order."""
        library.utf8(text)
        found = library.encode_spans(self._symbol_library, text)
        return self._symbols.spell(found, text, written)

    @cached_property
    def _symbols(self) -> Symbols:
        names = {index: self.symbol(index) for index in self._special_ids if self.skips(index)}
        return Symbols(self._library, names, self.specials.get("unk"))

    def encode_word(self, word: str) -> np.ndarray:
        """The ids of a word as within a sentence, after another one."""
        return self.encode(self.word_space + word)

    @cached_property
    def word_space(self) -> str:
        """Space before a word that is encoded as if in a text; empty where the tokenizer marks or
        cuts words."""
        one, two = self.encode("a").tolist(), self.encode("a a").tolist()
        return "" if two == one + one else " "

    def frame_or(self, begin: str, end: str) -> Frame:
        """Return the frame of the definition, else the symbols of these roles, if there are any."""
        ends = [(self.specials[role],) if role in self.specials else () for role in (begin, end)]
        return self.frame or Frame.of(*ends)

    def merges(self) -> tuple[list[tuple[str, str]], dict[str, int]]:
        """Return the pairs that bpe merges to ordinary tokens, the best first, and the id of each
        spelling."""
        model = self.definition["model"]
        special = {self.symbol(index) for index in self._special_ids}
        pairs = [tuple(pair) for pair in model["merges"] if "".join(pair) not in special]
        return pairs, model["vocab"]

    def decode(self, ids: Sequence[int] | np.ndarray, skip_specials: bool = True) -> str:
        """The text of ids; bytes that are not UTF-8 become U+FFFD; words are joined as `join_words`
        (not reversible).

        `skip_specials` leaves out every special symbol but <unk>, which is shown. DataError: an id
        out of range.
        """
        kept = [i for i in map(int, ids) if not (skip_specials and self.skips(i))]
        if self.bytewise:
            beginning = self.beginning()
            shown = (beginning(self.shown_bytes(i, False)) for i in kept)
            return b"".join(shown).decode(errors="replace")
        words = [self.symbol(i) for i in kept]
        if self.kind == "word":
            return join_words(words)
        with library.guard("decode the tokens"):
            return self._library.decode(kept, skip_special_tokens=False)

    def beginning(self) -> Beginning:
        """Return a function that drops what a text does not begin with, such as a space."""
        return Beginning(self._text)

    def skips(self, index: int) -> bool:
        """Whether `decode` leaves this id out by default: a special symbol other than <unk>."""
        return index in self._special_ids and index != self.specials.get("unk")

    def shown_bytes(self, index: int, skip_specials: bool = True) -> bytes:
        """The decoded bytes of this id: of a special symbol its name, or nothing if skipped."""
        if index in self._special_ids:
            return b"" if skip_specials and self.skips(index) else self.symbol(index).encode()
        return self.token_bytes(index)

    def token_bytes(self, index: int) -> bytes:
        """The exact bytes of a token: none for a special symbol; of kind word without its space, of
        WordPiece and SentencePiece with the space that its word begins with.

        Best effort for other decoders. DataError: an id out of the vocabulary.
        """
        spelling = self.symbol(index)
        if index in self._special_ids:
            return b""
        if self.kind in ("word", "character"):
            return spelling.encode("utf-8", errors="replace")
        return self._text.bytes_of(spelling)

    def piece(self, index: int) -> str:
        r"""A printable form of a token: its text, with `\n` and so on for control characters and
        `\xe2` for bytes."""
        spelling = self.symbol(index)
        if index not in self._special_ids:
            spelling = self.token_bytes(index).decode("utf-8", "backslashreplace")
        return "".join(
            c if c.isprintable() else c.encode("unicode_escape").decode() for c in spelling
        )

    def symbol(self, index: int) -> str:
        """The spelling of a token, or the name of a special symbol; DataError: an id out of the
        vocabulary."""
        spelling = self._spelling.get(index)
        if spelling is None:
            raise DataError(
                f"token id {index} is not in the vocabulary of {self.vocab_size}; use this model's "
                f"tokenizer"
            )
        return spelling

    @cached_property
    def _symbol_library(self) -> "Library":
        return library.built(self.definition, self._name, symbols=True)
