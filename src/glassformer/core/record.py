"""The form of every configuration: a frozen record of documented fields, strict about what it is
given."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, Self, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator
from pydantic.fields import FieldInfo

from glassformer.core.errors import ConfigError, suggest

Positive = Annotated[int, Field(ge=1)]
NonNegative = Annotated[int, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, lt=1)]
Size = Annotated[float, Field(gt=0)]
"""A number above 0."""
LARGEST = 1 << 63
MOST_SHOWN = 200
"""Characters of a value in an error."""


def uses(field: FieldInfo) -> dict[str, list[str]]:
    """The only `tasks` and `inputs` for which a field has a use; empty: for all."""
    own: Any = field.json_schema_extra
    return own if isinstance(own, dict) else {}


class Record(BaseModel):
    """A section of a recipe: frozen, with a description of every field, unknown fields refused."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        coerce_numbers_to_str=True,  # text_field: 2
    )
    section: ClassVar[str]

    @classmethod
    def parse(cls, values: Mapping[Any, Any]) -> Self:
        """Make a record of plain values; a ConfigError names the field, the value and what was
        expected."""
        cls.check_keys(values)
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            first = error.errors()[0]
            where, record = [cls.section], cls
            # of a choice between types the path names the type too; users know fields and places
            for part in first["loc"]:
                if record is not None and part in record.model_fields:
                    where, record = [*where, str(part)], record.records().get(str(part))
                elif isinstance(part, int):
                    where.append(str(part))
            message = first["msg"].removeprefix("Value error, ")
            if first["type"] == "string_type" and isinstance(first["input"], bool):
                message += " (in quotes)"
            got = "" if first["type"] == "value_error" else f", got {_show(first['input'])}"
            name = ".".join(filter(None, where))
            raise ConfigError(f"{name}: {message[0].lower() + message[1:]}{got}.") from None

    @classmethod
    @cache
    def records(cls) -> "dict[str, type[Record]]":
        """The fields that are records themselves."""
        found: dict[str, type[Record]] = {}
        for name, field in cls.model_fields.items():
            for kind in (field.annotation, *get_args(field.annotation)):
                if isinstance(kind, type) and issubclass(kind, Record):
                    found[name] = kind
        return found

    @classmethod
    def paths(cls, section: str) -> Iterator[str]:
        """The full names of all fields, those of nested records included."""
        for name in cls.model_fields:
            yield f"{section}.{name}"
            if name in cls.records():
                yield from cls.records()[name].paths(f"{section}.{name}")

    @classmethod
    def check_keys(cls, values: Iterable[object], section: str | None = None) -> None:
        """Raise ConfigError for a key that is no field of this section or of one inside it."""
        section = section or cls.section
        for key in values:
            if key not in cls.model_fields:
                remedy = advise(str(key), cls.paths(section), cls.model_fields)
                raise ConfigError(f"Unknown key {section}.{key}; {remedy}")
            kind = cls.records().get(str(key))
            content = values[key] if isinstance(values, Mapping) else None
            if kind is None or content is None or isinstance(content, Record):
                continue
            if not isinstance(content, Mapping):
                raise ConfigError(
                    f"The section {section}.{key} must hold key: value lines, not {content!r}."
                )
            kind.check_keys(content, f"{section}.{key}")

    @field_validator("*", mode="before")
    @classmethod
    def _as_meant(cls, value: object, info: ValidationInfo) -> object:
        """Read an empty section as its defaults; `steps: yes` is a mistake, not 1."""
        name = str(info.field_name)
        kind = cls.model_fields[name].annotation
        if value is None and kind is cls.records().get(name):
            return {}
        value = _as_number(value, kind)
        if isinstance(value, bool) and kind is not bool and bool not in get_args(kind):
            raise ValueError(f"a yes or no is not what belongs here, got {value!r}")
        return value

    @field_validator("*", mode="after")
    @classmethod
    def _in_64_bits(cls, value: object) -> object:
        if isinstance(value, int) and value >= LARGEST:
            raise ValueError("a whole number must be below 2^63 here")
        return value


def advise(key: str, paths: Iterable[str], known: Iterable[str]) -> str:
    """The tail of an error sentence for an unknown key: the paths that end with it, or those like
    it of the `known` keys."""
    inside = " or ".join(path for path in paths if path.endswith(f".{key}"))
    return f"use {inside}." if inside else suggest(key, known)


def _show(value: object) -> str:
    """A value as an error shows it: at most a line, numbers as they were written."""
    number = isinstance(value, str) and value.lstrip("+-").replace(".", "", 1).isdecimal()
    shown = f"{value}" if number else f"{value!r}"
    return shown if len(shown) <= MOST_SHOWN else f"{shown[:MOST_SHOWN]}..."


def _as_number(value: Any, kind: Any) -> Any:
    """The number that a text of an override means where a field has a choice of numbers."""
    for one in (kind, *get_args(kind)):
        for number in get_args(one) if get_origin(one) is Literal else ():
            if isinstance(number, int) and value == str(number):
                return number
    return value
