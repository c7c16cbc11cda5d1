"""Choices of a user about predictions: one record for each verb.

OPTIONS["tag"] ─┬─> flags of `glassformer tag`      cli/predict
                ├─> fields of POST /v1/tag          serve/api/predict
                └─> keywords of run.tag(...)        run/run.

A field that is None is as the recipe of the run has it, or as the model was trained. This file
imports neither torch nor numpy, which `--help` must not wait for.
"""

import inspect
from collections.abc import Callable, Iterator
from copy import copy
from types import UnionType
from typing import Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin

from pydantic import ConfigDict, Field, create_model
from pydantic.fields import FieldInfo

from glassformer.core.errors import ConfigError
from glassformer.core.record import Record
from glassformer.runtime.config import GenerateConfig

Method = TypeVar("Method", bound=Callable[..., Any])
Form = Literal["line", "json", "table"]
"""What a command writes: lines, JSON, or the rows of a file."""
BY_FIELD = ConfigDict(use_attribute_docstrings=False)
BY_DOCSTRING = ConfigDict(use_attribute_docstrings=True)
PLAIN = (bool, int, float, str)


def _local(default: Any, **bounds: Any) -> Any:
    """A choice that no request has: of the form of lines, or a path."""
    return Field(default, json_schema_extra={"local": True}, **bounds)


def _optional(*names: str) -> dict[str, Any]:
    """Return fields of a recipe's section `generate` by name, None by default."""
    found: dict[str, Any] = {}
    for name in names:
        field = copy(GenerateConfig.model_fields[name])
        field.default = None
        found[name] = (Union[field.annotation, None], field)  # noqa: UP007 - of a variable
    return found


class Options(Record):
    """Choices about predictions."""

    section = "generate"
    doing: ClassVar[str]
    """The verb in a sentence: tagging."""

    @property
    def skips(self) -> bool:
        """Whether inputs that cannot be read are left out."""
        return False

    def check(self, form: Form) -> None:
        """Raise ConfigError for a choice that has no use in this form."""
        return


class _Made(Options):
    """Base of records whose fields are copied with their descriptions."""

    model_config = BY_FIELD


Writing: Any = create_model("Writing", __base__=_Made, **_optional(*GenerateConfig.model_fields))
DRAWING = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed")
Drawing: Any = create_model("Drawing", __base__=_Made, **_optional(*DRAWING))


class GenerateOptions(Writing):
    """Text for texts, images and audio."""

    model_config = BY_DOCSTRING
    doing = "generating text"
    draft: Any = _local(None)
    """A smaller run of the same vocabulary, or ngram, proposes tokens; the text is the same."""
    draft_tokens: int | None = _local(None, ge=1)
    """Tokens that are proposed together (4)."""


class ChatOptions(Writing):
    """Answers to messages."""

    model_config = BY_DOCSTRING
    doing = "chatting"


class TranslateOptions(Writing):
    """Targets of texts."""

    model_config = BY_DOCSTRING
    doing = "translating"
    scores: bool = _local(False)
    """Print the score before each line."""
    alignments: bool = False
    """Which word of the source each word is from."""
    layer: tuple[int, ...] = ()
    """Decoder layers of the alignments, from 0; none: all."""
    head: tuple[int, ...] = ()
    """Heads of the alignments, from 0; none: all."""

    def check(self, form: Form) -> None:
        """Raise ConfigError for a choice that has no use in this form."""
        if self.alignments and (self.n_best or 1) > 1:
            raise ConfigError(
                "--alignments belong to the best translation, so --n-best has no place beside it."
            )
        if form == "table":
            refuse({"alignments": self.alignments, "n_best": (self.n_best or 1) > 1})


class TagOptions(Options):
    """A tag for each word."""

    section, doing = "tag", "tagging"
    columns: bool = _local(False)
    """Print a line for each word: word, TAB, tag (CoNLL)."""
    top: int = Field(default=1, ge=1)
    """Likeliest tags of each word."""
    punctuation: bool = False
    """Split punctuation marks off as words (for raw text)."""

    def check(self, form: Form) -> None:
        """Refuse several forms of one line, and forms of lines in a table."""
        if form == "json" and self.columns:
            raise ConfigError(
                "--columns and --json are two forms of the same; leave one of them out."
            )
        if form == "line" and self.top > 1:
            raise ConfigError(
                f"--top={self.top} lists several tags of each word, which only --json can hold; "
                "add --json."
            )
        if form == "table":
            refuse({"columns": self.columns, "punctuation": self.punctuation, "top": self.top > 1})


class ClassifyOptions(Options):
    """Classes of texts, images, audio, parts."""

    section, doing = "classify", "classifying"
    scores: bool = _local(False)
    """Print the probability before each class; in a table, add those of all classes."""
    top: int | None = Field(default=None, ge=1)
    """Only the K likeliest classes, or all."""
    threshold: float | None = Field(default=None, ge=0, le=1)
    """Of a model of several classes: those of at least this probability (0.5)."""
    skip_bad: bool = _local(False)
    """Skip files that cannot be read, and count them."""

    @property
    def skips(self) -> bool:
        """See `Options`: files, if requested."""
        return self.skip_bad

    def check(self, form: Form) -> None:
        """Refuse a list of classes in a table, or beside a threshold."""
        if form == "table":
            refuse({"top": self.top})
        if form != "json" and self.top is not None and self.threshold is not None:
            raise ConfigError(
                "--top lists classes whatever their probability; leave it out or leave out "
                "--threshold."
            )


class FillOptions(Options):
    """Words for the blanks of texts."""

    section, doing = "fill", "filling blanks"
    top: int = Field(default=5, ge=1)
    """Words for each blank."""


class EmbedOptions(Options):
    """Vectors of texts."""

    section, doing = "embed", "embedding"
    pool: Literal["mean", "first", "last"] | None = None
    """mean, first, or last (for decoders); default: the model's own, or mean."""
    normalize: bool | None = None
    """Scale vectors to length 1; default: as the model was trained to, or yes."""
    layer: int | None = None
    """Layer of the vectors; 0: the static embedding; default: the last."""
    prompt: str | None = None
    """Name of the prompt of a sentence model, a text before each text."""


class DrawOptions(Drawing):
    """Images for texts."""

    model_config = BY_DOCSTRING
    doing = "drawing"


class ScoreOptions(Options):
    """Log-probabilities of tokens."""

    section, doing = "score", "scoring text"
    targets: str | None = _local(None)
    """File with the target of each line, which is a source."""


class ChooseOptions(Options):
    """Labels of texts, chosen by examples."""

    section, doing = "choose", "scoring answers"
    shots: Any = None
    """Table of labelled texts: examples in prompts, whose labels answer."""
    n_shots: int = Field(default=5, ge=0)
    """Examples in a prompt, balanced over labels."""
    template: str | None = None
    r"""Form of an example; default "Text: {text}\nLabel: {label}"."""
    seed: int | None = Field(default=None, ge=0)
    """Any examples, by this random seed; default: the first."""


OPTIONS: dict[str, type[Options]] = {
    "generate": GenerateOptions,
    "chat": ChatOptions,
    "translate": TranslateOptions,
    "tag": TagOptions,
    "classify": ClassifyOptions,
    "embed": EmbedOptions,
    "fill": FillOptions,
    "draw": DrawOptions,
    "score": ScoreOptions,
    "choose": ChooseOptions,
}


def refuse(given: dict[str, Any]) -> None:
    """Raise ConfigError for the first of these choices that was made beside a table."""
    for name, value in given.items():
        if value:
            flag = name.replace("_", "-")
            raise ConfigError(f"--out has a form of its own, so --{flag} has no use; leave it out.")


def plain_fields(record: type[Options]) -> Iterator[tuple[str, Any, FieldInfo]]:
    """Name, type and field of each choice that a flag or a JSON value can hold.

    The type is bool, int, float, str or a list of one of them; what else None may mean is not in
    it.
    """
    for name, field in record.model_fields.items():
        union = get_origin(field.annotation) in (Union, UnionType)
        kinds = get_args(field.annotation) if union else (field.annotation,)
        kind, *others = (one for one in kinds if one is not type(None))
        if get_origin(kind) is Literal or kind is Any:
            kind = str
        elif get_origin(kind) is tuple and get_args(kind)[0] in PLAIN:
            kind = list[get_args(kind)[0]]
        elif kind not in PLAIN:
            continue
        if not others:
            yield name, kind, field


def keywords(verb: str) -> Callable[[Method], Method]:
    """Give a method with `**options` the choices of a verb, as keywords with help."""

    def with_help(method: Method) -> Method:
        own = OPTIONS[verb].model_fields.items()
        before = list(inspect.signature(method).parameters.values())[:-1]
        after = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=field.default)
            for name, field in own
        ]
        vars(method)["__signature__"] = inspect.Signature([*before, *after])
        lines = [f"`{name}`: {field.description}" for name, field in own]
        method.__doc__ = "\n\n".join([inspect.cleandoc(method.__doc__ or ""), *lines])
        return method

    return with_help


def is_local(field: FieldInfo) -> bool:
    """Whether no request has this choice."""
    return field.json_schema_extra == {"local": True}
