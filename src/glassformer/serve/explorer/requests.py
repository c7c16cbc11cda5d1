"""What may be asked: the arguments of requests, checked before anything is computed.

{"op": "head", "look": {"input": "the cat", "edits": [], "checkpoint": null}, "layer": 3, "head": 5}
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from glassformer.errors import ConfigError
from glassformer.record import Record

MOST_EDITS = 1000
LONGEST = 400
"""Characters of a sentence that repeats what was given."""
Whole = Annotated[int, Field(ge=-(1 << 31), lt=1 << 31)]
Side = Literal["", "encoder", "decoder"]
Site = Literal["self", "cross"]


class Ask(Record):
    """The arguments of one op; one that is missing, unknown or of another kind is a ConfigError."""

    section = "request"

    @classmethod
    def parse(cls, values: Any) -> Self:
        """See `Record`; beside it, a request that is no object or lacks something."""
        if not isinstance(values, Mapping) or not all(isinstance(key, str) for key in values):
            raise ConfigError(
                f"{cls.section} must be a JSON object of named arguments, not {brief(values)}."
            )
        cls.check_keys(values)
        for name, field in cls.model_fields.items():
            if field.is_required() and name not in values:
                raise ConfigError(f"{cls.section}.{name} is missing; give it: {field.description}.")
        try:
            return super().parse(dict(values))
        except ConfigError as error:  # it has the value, which may be a whole book
            said = str(error)
            raise ConfigError(said if len(said) <= LONGEST else f"{said[:LONGEST]}...") from None


class LookAsk(Ask):
    """Which look: an input, edits, and of which checkpoint."""

    section = "look"

    input: Any = Field(description="a text, or what else the model reads; see `inputs`")
    edits: list[dict[str, Any]] = Field(
        [], max_length=MOST_EDITS, description="what is changed inside, in order"
    )
    checkpoint: int | None = Field(
        None, ge=0, description="the step of a checkpoint; None: the model itself"
    )


class Seen(Ask):
    """Arguments of an op on a look."""

    look: dict[str, Any] = Field(description="the look, as {input, edits, checkpoint}")

    @property
    def seen(self) -> LookAsk:
        """Which look."""
        return LookAsk.parse(self.look)


class Attentive(Seen):
    """Arguments of an op on the attention of a stack."""

    side: Side = Field("", description="encoder or decoder; empty: the stack that answers")
    site: Site = Field("self", description="self, or cross: the decoder's attention to the encoder")


class OneHead(Attentive):
    """Arguments of an op on one head."""

    layer: Whole = Field(description="the block, from 0")
    head: Whole = Field(description="the head, from 0")


class Aimed(Seen):
    """Arguments of an op that explains one outcome."""

    target: Whole = Field(description="the outcome: a token id, or the number of a tag or class")
    position: Whole = Field(-1, description="where it is answered; negative: from the end")
    against: Whole | None = Field(None, description="another outcome, whose logit is subtracted")


def brief(value: Any, most: int = 60) -> str:
    """A value in a sentence, cut if it is long."""
    shown = repr(value)
    return shown if len(shown) <= most else f"{shown[: most - 3]}..."
