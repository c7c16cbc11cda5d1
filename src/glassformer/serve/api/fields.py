"""The base of all requests, and types of their fields."""

import json
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

LARGEST = (1 << 63) - 1
MOST_TEXTS, MOST_STOPS, LONGEST_STOP = 2048, 16, 256
MOST_NAMES = 4096
"""Names of an object, each of which may be an error."""
TokenId = Annotated[int, Field(ge=0, le=(1 << 31) - 1)]
# of a hundred thousand wrong elements, one is reported: a sentence for each takes a second
Ids = Annotated[list[TokenId], Field(fail_fast=True, min_length=1)]
Texts = Annotated[list[str], Field(fail_fast=True, min_length=1, max_length=MOST_TEXTS)]
IdLists = Annotated[list[Ids], Field(fail_fast=True, min_length=1, max_length=MOST_TEXTS)]
Prompt = str | Texts | Ids | IdLists
StopString = Annotated[str, Field(min_length=1, max_length=LONGEST_STOP)]
Stops = StopString | Annotated[list[StopString], Field(fail_fast=True, max_length=MOST_STOPS)]
Number = Annotated[int, Field(ge=0)]
Numbers = Annotated[list[Number], Field(fail_fast=True, min_length=1, max_length=1024)]

NEUTRAL = json.loads(Path(__file__).with_name("neutral_fields.json").read_text("utf-8"))
"""Fields of OpenAI's API that request nothing, of each kind of object: what to do instead of
another value, and the known values beside null; null: no value is refused."""


@cache
def neutral_of(kind: type) -> dict[str, Any]:
    """The fields of an object that request nothing; see `NEUTRAL`."""
    bases = [NEUTRAL.get(base.__name__, {}) for base in kind.__mro__]
    return {name: own for base in bases for name, own in base.items()}


class Base(BaseModel):
    """Strict about types and names; `null` is a field that is left out."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        for n in (len(one) for one in (value, *value.values()) if isinstance(one, dict)):
            if n > MOST_NAMES:
                raise ValueError(f"an object has {n} names, more than {MOST_NAMES}")
        neutral = neutral_of(cls)
        for name, (remedy, *known) in ((name, own) for name, own in neutral.items() if own):
            given, *texts = (json.dumps(one)[:40] for one in (value.get(name), *known, None))
            if given not in texts:
                said = f"{given} is refused, only {' or '.join(texts)} is known; {remedy}"
                raise ValidationError.from_exception_data(
                    name,
                    [
                        {
                            "type": "value_error",
                            "loc": (name,),
                            "input": given,
                            "ctx": {"error": ValueError(said)},
                        }
                    ],
                )
        return {name: one for name, one in value.items() if name not in neutral}


class ModelRequest(Base):
    """A request that names a model."""

    model: str = Field(max_length=256, description="A name of /v1/models.")

    @property
    def is_light(self) -> bool:
        """Whether it is read in a few milliseconds if it is short."""
        return False
