"""How text is generated: the fields of a recipe's `generate` section and of every generating
command."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from glassformer.core.errors import ConfigError
from glassformer.core.record import Record

SAMPLING = frozenset({"temperature", "top_k", "top_p", "min_p"})
"""Fields that say how a token is sampled; a beam search has no place for them."""


def _several(value: Any) -> Any:
    """One id as a list of it."""
    one = type(value) is int or (isinstance(value, str) and value.isdecimal())
    return [value] if one else value


Id = Annotated[int, Field(ge=0)]
Ids = Annotated[tuple[Id, ...], BeforeValidator(_several)]


class GenerateConfig(Record):
    """Choices of the decoding loop; the defaults sample from the model's own distribution."""

    section = "generate"

    max_new_tokens: int = Field(default=100, ge=1)
    """At most this many new tokens."""
    temperature: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    """τ in softmax(u / τ); 0 takes the likeliest token (greedy)."""
    top_k: int | None = Field(default=None, ge=1)
    """Only the k likeliest tokens."""
    top_p: float | None = Field(default=None, gt=0, le=1)
    """Only the likeliest tokens that together reach p."""
    min_p: float | None = Field(default=None, gt=0, le=1)
    """Only tokens at least p times as likely as the likeliest."""
    repetition_penalty: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """Divide (multiply) positive (negative) logits of seen tokens, the prompt's included."""
    no_repeat_ngram_size: int = Field(default=0, ge=0)
    """No n tokens in a row occur twice, the prompt's included; 0: they may."""
    min_new_tokens: int = Field(default=0, ge=0)
    """No end symbol before this many new tokens."""
    min_length: int = Field(default=0, ge=0)
    """No end symbol before this many tokens, the prompt's (of an encoder-decoder the symbol that
    begins its target) included."""
    eos_token_id: Ids = ()
    """Ids of the symbols that end a text; none: the tokenizer's own."""
    bad_words_ids: tuple[Annotated[tuple[Id, ...], Field(min_length=1)], ...] = ()
    """Sequences of ids that never occur; one of only an end symbol is ignored."""
    suppress_tokens: Ids = ()
    """Ids that are never chosen."""
    begin_suppress_tokens: Ids = ()
    """Ids that are never the first new token (after a forced one)."""
    forced_bos_token_id: Id | None = None
    """The second token of every row; after a longer prompt it has no effect."""
    forced_eos_token_id: Ids = ()
    """Ids of which one is the last token of a text that reached its limit."""
    seed: int = Field(default=0, ge=0)
    """The same seed and prompt give the same text, by itself or in a batch."""
    stop: tuple[str, ...] = ()
    """End before any of these strings."""
    overflow: Literal["refuse", "window"] = "refuse"
    """A prompt longer than the context: refuse, or window to go on from its last half context."""
    beams: int = Field(default=0, ge=0)
    """0: sample by temperature; 1: greedy; k: the best of k hypotheses."""
    n_best: int = Field(default=1, ge=1)
    """How many hypotheses of a beam search are given, the best first."""
    length_penalty: float = Field(default=1.0, ge=-10, le=10)
    """α in a hypothesis' score Σ log p / lengthᵅ; 0 favours short ones."""

    early_stopping: bool | Literal["never"] | None = None
    """Where a beam search ends. null: each hypothesis that ends narrows the beam, and the search
    goes on while the best can still be beaten. Else the beam keeps its width (as in transformers),
    and the search ends with as many ended hypotheses as beams (true), when the best live one has no
    better score than the worst of them (false), or when none can have (never)."""
    renormalize_logits: bool = False
    """Scores of a search are of the tokens that are not excluded alone."""
    length_ratio: float | None = Field(default=2.0, gt=0, allow_inf_nan=False)
    """The target of a text has at most so many times its tokens and 20 more; null: no such
    limit."""

    def with_changes(self, changes: Mapping[str, Any]) -> Self:
        """Return these choices with changes: a search replaces sampling, and sampling a search.

        ConfigError: an unknown name, a bad value, or sampling and a search together.
        """
        base = self.model_dump()
        if "beams" not in changes and SAMPLING & changes.keys():
            base |= {"beams": 0, "n_best": 1}
        if changes.get("beams"):
            if name := min(SAMPLING & changes.keys(), default=""):
                raise ConfigError(
                    f"generate: {name}={changes[name]} is for sampling and "
                    f"beams={changes['beams']} searches; leave one of them out."
                )
            base = {name: value for name, value in base.items() if name not in SAMPLING}
        if "beams" in changes and "n_best" not in changes:
            base |= {"n_best": 1}
        return self.parse({**base, **changes})

    def ends(self, own: int | None) -> tuple[int, ...]:
        """The ids that end a text; `own`: the tokenizer's."""
        return self.eos_token_id or (() if own is None else (own,))

    @property
    def named_ids(self) -> dict[str, tuple[int, ...]]:
        """All ids that fields name, by the field."""
        first = () if self.forced_bos_token_id is None else (self.forced_bos_token_id,)
        return {
            "eos_token_id": self.eos_token_id,
            "bad_words_ids": tuple(index for word in self.bad_words_ids for index in word),
            "suppress_tokens": self.suppress_tokens,
            "begin_suppress_tokens": self.begin_suppress_tokens,
            "forced_bos_token_id": first,
            "forced_eos_token_id": self.forced_eos_token_id,
        }

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        """A beam search finds the likeliest, so it has no place for the choices of sampling."""
        if self.n_best > max(1, self.beams):
            raise ValueError(f"n_best={self.n_best} is more than beams={self.beams}; raise beams")
        if self.beams:
            for name in sorted(SAMPLING):
                if (value := getattr(self, name)) != type(self).model_fields[name].default:
                    raise ValueError(
                        f"{name}={value} is for sampling and beams={self.beams} searches; "
                        f"leave one of them out"
                    )
        return self
