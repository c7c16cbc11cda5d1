"""Drafts, which propose the next tokens of a text: a smaller run, or a look-up in the text."""

from typing import Any

from glassformer.core.errors import ConfigError
from glassformer.runtime.request import AHEAD
from glassformer.runtime.speculative import Drafts
from glassformer.tokenizers.text import Tokenizer

NGRAM = "ngram"
"""The draft that looks up the last tokens in the text itself."""


def drafts_in(changes: dict[str, Any], run: Any) -> Drafts | None:
    """What proposes a run's tokens by `draft` and `draft_tokens`, which are taken out of `changes`.

    ConfigError: a draft that is neither a run with the same vocabulary nor `ngram`, or
    `draft_tokens` without a draft or below 1.
    """
    draft, ahead = changes.pop("draft", None), changes.pop("draft_tokens", None)
    if draft is None:
        if ahead is not None:
            raise ConfigError(f"draft_tokens={ahead} is for a draft; give one, or leave it out.")
        return None
    ahead = AHEAD if ahead is None else ahead
    if draft == NGRAM:
        return Drafts(None, ahead)
    if not hasattr(draft, "model"):
        raise ConfigError(
            f"draft={draft!r} is neither a run nor ngram; give gf.load(RUN), or ngram."
        )
    if _pieces(draft.tokenizer) != _pieces(run.tokenizer):
        raise ConfigError(
            f"The draft {draft.folder} has another vocabulary than {run.folder}; use a run with "
            "the same tokenizer, or ngram."
        )
    return Drafts(draft.model, ahead)


def _pieces(tokenizer: Tokenizer) -> list[str]:
    return [tokenizer.piece(index) for index in range(tokenizer.vocab_size)]
