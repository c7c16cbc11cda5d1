"""The form of every configuration: a frozen record of documented fields, strict about what it is given.

Knows: pydantic. Does not know: any field.
"""

from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from glassformer.errors import ConfigError, suggest


class Record(BaseModel):
    """A section of a recipe: frozen, an unknown field is an error, and every field says what it is."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    section: ClassVar[str]

    @classmethod
    def parse(cls, values: dict[str, Any]) -> Self:
        """A record from plain values; a ConfigError names the field, the value and what was expected."""
        for key in values:
            if key not in cls.model_fields:
                raise ConfigError(f"Unknown key {cls.section}.{key}; {suggest(str(key), cls.model_fields)}")
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join([cls.section, *(str(part) for part in first["loc"])])
            message = first["msg"].removeprefix("Value error, ")
            got = "" if first["type"] == "value_error" else f", got {first['input']!r}"
            raise ConfigError(f"{where}: {message[0].lower() + message[1:]}{got}.") from None
