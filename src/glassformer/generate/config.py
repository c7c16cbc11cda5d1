"""How text is generated: the fields of a recipe's `generate` section and of every generating command.

Knows: names and ranges. Does not know: what they do (see `logits.py`).
"""

from typing import Literal

from pydantic import Field

from glassformer.record import Record


class GenerateConfig(Record):
    """Choices of the decoding loop; the defaults sample from the model's own distribution."""

    section = "generate"

    max_new_tokens: int = Field(100, ge=1, description="At most this many new tokens.")
    temperature: float = Field(
        1.0, ge=0, allow_inf_nan=False, description="τ in softmax(u / τ); 0 takes the likeliest token (greedy)."
    )
    top_k: int | None = Field(None, ge=1, description="Only the k likeliest tokens.")
    top_p: float | None = Field(None, gt=0, le=1, description="Only the likeliest tokens that together reach p.")
    min_p: float | None = Field(
        None, gt=0, le=1, description="Only tokens at least p times as likely as the likeliest."
    )
    repetition_penalty: float = Field(
        1.0,
        gt=0,
        allow_inf_nan=False,
        description="Divide (multiply) positive (negative) logits of seen tokens, the prompt's included.",
    )
    seed: int = Field(0, ge=0, description="The same seed and prompt give the same text, alone or in a batch.")
    stop: tuple[str, ...] = Field((), description="End before any of these strings.")
    overflow: Literal["refuse", "window"] = Field(
        "refuse",
        description="A prompt longer than the context: refuse, or window to go on from its last half context.",
    )
