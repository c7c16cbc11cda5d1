"""How text is generated: the fields of a recipe's `generate` section and of every generating
command."""

from typing import Literal, Self

from pydantic import Field, model_validator

from glassformer.record import Record


class GenerateConfig(Record):
    """Choices of the decoding loop; the defaults sample from the model's own distribution."""

    section = "generate"

    max_new_tokens: int = Field(100, ge=1, description="At most this many new tokens.")
    temperature: float = Field(
        1.0,
        ge=0,
        allow_inf_nan=False,
        description="τ in softmax(u / τ); 0 takes the likeliest token (greedy).",
    )
    top_k: int | None = Field(None, ge=1, description="Only the k likeliest tokens.")
    top_p: float | None = Field(
        None, gt=0, le=1, description="Only the likeliest tokens that together reach p."
    )
    min_p: float | None = Field(
        None, gt=0, le=1, description="Only tokens at least p times as likely as the likeliest."
    )
    repetition_penalty: float = Field(
        1.0,
        gt=0,
        allow_inf_nan=False,
        description="Divide (multiply) positive (negative) logits of seen tokens, the prompt's "
        "included.",
    )
    seed: int = Field(
        0, ge=0, description="The same seed and prompt give the same text, alone or in a batch."
    )
    stop: tuple[str, ...] = Field((), description="End before any of these strings.")
    overflow: Literal["refuse", "window"] = Field(
        "refuse",
        description="A prompt longer than the context: refuse, or window to go on from its "
        "last half context.",
    )
    beams: int = Field(
        0, ge=0, description="0: sample by temperature; 1: greedy; k: the best of k hypotheses."
    )
    n_best: int = Field(
        1, ge=1, description="How many hypotheses of a beam search are given, the best first."
    )
    length_penalty: float = Field(
        1.0,
        ge=-10,
        le=10,
        description="α in a hypothesis' score Σ log p / lengthᵅ; 0 favours short ones.",
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        """A beam search finds the likeliest, so it has no place for the choices of sampling."""
        if self.n_best > max(1, self.beams):
            raise ValueError(f"n_best={self.n_best} is more than beams={self.beams}; raise beams")
        if self.beams:
            for name in ("temperature", "top_k", "top_p", "min_p", "repetition_penalty"):
                if (value := getattr(self, name)) != type(self).model_fields[name].default:
                    raise ValueError(
                        f"{name}={value} is for sampling and beams={self.beams} searches; "
                        f"leave one of them out"
                    )
        return self
