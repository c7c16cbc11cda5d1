"""The form of every configuration: a frozen record of documented fields, strict about what it is
given."""

from collections.abc import Iterable
from typing import Any, ClassVar, Self, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator

from glassformer.errors import ConfigError, suggest


class Record(BaseModel):
    """A section of a recipe: frozen, an unknown field is an error, and every field says what it
    is."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    section: ClassVar[str]

    @classmethod
    def parse(cls, values: dict[str, Any]) -> Self:
        """A record from plain values; a ConfigError names the field, the value and what was
        expected."""
        cls.check_keys(values)
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            first = error.errors()[0]
            field, *inside = first["loc"] or ("",)
            # of a choice between types the path names the type too; the user knows only fields and
            # places in lists
            where = ".".join(
                str(part)
                for part in (cls.section, field, *(i for i in inside if type(i) is int))
                if part
            )
            message = first["msg"].removeprefix("Value error, ")
            got = "" if first["type"] == "value_error" else f", got {first['input']!r}"
            raise ConfigError(f"{where}: {message[0].lower() + message[1:]}{got}.") from None

    @classmethod
    def check_keys(cls, values: Iterable[object]) -> None:
        """Raise ConfigError for a key that is no field of this section."""
        for key in values:
            if key not in cls.model_fields:
                raise ConfigError(
                    f"Unknown key {cls.section}.{key}; {suggest(str(key), cls.model_fields)}"
                )

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_for_a_number(cls, value: object, info: ValidationInfo) -> object:
        """`steps: yes` is a mistake, not 1."""
        if isinstance(value, bool) and info.field_name is not None:
            kind = cls.model_fields[info.field_name].annotation
            if kind is not bool and bool not in get_args(kind):
                raise ValueError(f"a yes or no is not what belongs here, got {value!r}")
        return value
