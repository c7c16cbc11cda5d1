"""Drafts, which propose the next tokens of a text: a smaller run, or a look-up in the text."""

from collections.abc import Mapping
from typing import Any

from glassformer.core.errors import ConfigError
from glassformer.runtime.request import AHEAD
from glassformer.runtime.speculative import Drafts
from glassformer.tokenizers.text import Tokenizer

NGRAM = "ngram"
"""The draft that looks up the last tokens in the text itself."""


def with_drafts(changes: Mapping[str, Any], run: Any) -> Mapping[str, Any]:
    """Return choices with the drafts of `drafts_in`."""
    names = {"draft", "draft_tokens"}
    if not names & changes.keys():
        return changes
    drafts = drafts_in(run, changes.get("draft"), changes.get("draft_tokens"))
    return {**changes, **dict.fromkeys(names), "draft": drafts}


def drafts_in(run: Any, draft: Any, ahead: int | None = None) -> Drafts | None:
    """Return drafts of a run's tokens, at most `ahead` for a step.

    ConfigError: a draft that is neither a run with the same vocabulary nor `ngram`, or `ahead`
    without a draft or below 1.
    """
    if draft is None:
        if ahead is not None:
            raise ConfigError(f"draft_tokens={ahead} is for a draft; give one, or leave it out.")
        return None
    ahead = AHEAD if ahead is None else ahead
    if draft == NGRAM:
        return Drafts(None, ahead)
    if not isinstance(draft, type(run)):
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
