"""Structured output: the tokens that may come next, so that a text is JSON, fits a JSON schema, or
belongs to a language with a grammar.

    format ──compiled──> grammar ──for each text──> hook: new tokens ─> those that may follow them

llguidance knows the languages; a text that ends for its length is a beginning of one.
"""

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np
import torch

from glassformer.core.axes import Bool, Tensor
from glassformer.core.errors import ConfigError, GlassformerError
from glassformer.serve.api.problems import ApiError
from glassformer.serve.api.requests import JsonObject, JsonSchema, Sampling
from glassformer.serve.api.service import Served
from glassformer.tokenizers.text import Tokenizer

LONGEST = 1 << 16
"""Characters of a schema or a grammar."""
LIMITS = {"step_lexer_fuel": 50_000, "step_max_items": 10_000, "verbose_errors": False}
"""Of the work for one token, for which all texts wait: a tenth of a second at worst."""
Allowed = Callable[[Sequence[int]], Bool[Tensor, "V"]]


class Format:
    """A language for the texts of a model that end with `ends`.

    ConfigError: a schema or a grammar that is none, or that the library does not know whole; a
    model whose tokens do not join to text, or that has no symbol to end one.
    """

    def __init__(self, served: Served, grammar: str, ends: tuple[int, ...]):
        tokenizer, self.ends = served.run.tokenizer, ends
        self.size = served.run.model.config.vocab_size
        if not (ends and tokenizer.bytewise):
            why = "joins words" if ends else "has no symbol that ends a text"
            raise ConfigError(f"the tokenizer of {served.id!r} {why}; leave the format out.")
        known, library = _tokens(tokenizer, self.size, ends[0]), _library()
        limits = library.LLParserLimits(**LIMITS)
        self._matcher = library.LLMatcher(known, grammar, log_level=0, limits=limits)
        if self._matcher.is_error():
            said = self._matcher.get_error().splitlines()[0]
            raise ConfigError(f"{said:.200}.")

    def begin(self) -> Allowed:
        """The hook of one text, which is told all its tokens so far, perhaps twice the same, and
        after a step that failed fewer."""
        matcher, seen = self._matcher.deep_copy(), list[int]()

        def allow(new: Sequence[int]) -> Bool[Tensor, "V"]:
            nonlocal matcher
            if len(new) < len(seen):  # a step with a draft failed, and is computed again
                matcher = self._matcher.deep_copy()
                seen.clear()
            more = list(new[len(seen) :])
            seen.extend(more)
            matcher.consume_tokens(more)
            bits = np.frombuffer(matcher.compute_bitmask(), np.uint8)  # of a whole text: its end
            mask = np.unpackbits(bits, count=self.size, bitorder="little").astype(bool)
            if matcher.is_error() or not mask.any():
                raise GlassformerError(
                    "No token continues the text in the given format; simplify it, or ask a model "
                    "whose tokens have all its characters."
                )
            mask[list(self.ends)] = mask[self.ends[0]]
            return torch.from_numpy(mask)

        return allow


def format_of(served: Served, asked: Sampling, ends: tuple[int, ...]) -> Format | None:
    """The format that a request asks for; None: any text. ApiError 400: it can have none."""
    param = "response_format" if asked.grammar is None else "grammar"
    try:
        match asked.response_format:
            case JsonObject():
                grammar = _of_schema({"type": "object"})
            case JsonSchema(json_schema=named):
                grammar = _of_schema(named.schema_)
            case _ if asked.grammar is None:
                return None
            case _:
                grammar = _library().LLMatcher.grammar_from_lark(asked.grammar)
        return Format(served, grammar, ends)
    except ConfigError as error:
        raise ApiError(400, f"{param}: {error}", param) from None


def _of_schema(schema: dict[str, Any]) -> str:
    if len(text := json.dumps(schema)) > LONGEST:
        raise ConfigError(f"the schema has more than {LONGEST:,} characters; shorten it.")
    # without spaces: a weak model would go on writing them
    compact, library = {"whitespace_flexible": False}, _library()
    try:
        return library.LLMatcher.grammar_from_json_schema(text, overrides=compact)
    except ValueError as error:
        raise ConfigError(f"{error!s:.200}.") from None


def _library() -> Any:
    try:
        return import_module("llguidance")
    except ImportError:
        raise ConfigError(
            "Formats of replies need the library llguidance beside the server; install it there "
            "with pip install 'glassformer[structured]'."
        ) from None


@lru_cache(maxsize=16)
def _tokens(tokenizer: Tokenizer, size: int, end: int) -> Any:
    """The tokens of a model by their bytes, as the library wants them."""
    library = _library()
    return library.LLTokenizer(library.TokenizerWrapper(_Vocabulary(tokenizer, size, end)))


class _Vocabulary:
    """Tokens as the library reads them; those without bytes are special and never allowed."""

    bos_token_id = None

    def __init__(self, tokenizer: Tokenizer, size: int, end: int):
        known = min(size, tokenizer.vocab_size)
        self.tokens = [tokenizer.token_bytes(i) for i in range(known)] + [b""] * (size - known)
        self.special_token_ids = [i for i, own in enumerate(self.tokens) if not own]
        self.eos_token_id, self._tokenizer = end, tokenizer

    def __call__(self, text: bytes) -> list[int]:
        """The tokens of a text."""
        return self._tokenizer.encode(text.decode()).tolist()
