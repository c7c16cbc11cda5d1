"""Settings of the data: the files of each split, and their format."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from glassformer.core.record import Record

SplitName = Literal["train", "validation", "test"]
NAMES: tuple[SplitName, ...] = ("train", "validation", "test")
Format = Literal[
    "auto",
    "text",
    "jsonl",
    "csv",
    "tsv",
    "parquet",
    "conllu",
    "conll",
    "slash",
    "label_first",
    "images",
    "idx",
    "numpy",
    "audio",
]
HELD_OUT = {"validation": 0.1, "test": 0.0}
"""Default fraction of a split that has no files."""
Paths = str | list[str] | None
"""A file, glob or folder, or several of them."""


def _for(default: Any, *inputs: str, **limits: Any) -> Any:
    """A field that only these inputs use."""
    return Field(default, json_schema_extra={"inputs": [*inputs]}, **limits)


class SplitConfig(Record):
    """The records of one split."""

    section = "data.SPLIT"

    path: Paths = None
    """A file, glob or folder, or several of them, also inside a zip archive (texts.zip/folder/*);
    '-' is standard input."""
    targets: Paths = _for(None, "pairs")
    """Pairs in two text files: line n of targets belongs to line n of path."""
    labels: str | None = _for(None, "image", "text")
    """The file with the classes: of images in arrays (idx, numpy), or line n that of line n of the
    texts in path."""
    parts: tuple[dict[str, str], ...] = _for((), "parts")
    """Parts of a row, [{image: 'photos.zip/{file}'}, {text: '{question}'}]; empty: as in
    data.train, there the list in input_field."""
    where: dict[str, list[str]] | None = _for(None, "image", "audio", "text", min_length=1)
    """Files of data.train.path that belong to this split, by the fields of label_pattern: {speaker:
    [theo]}."""
    fraction: float | None = Field(default=None, ge=0.0, lt=1.0)
    """Share of data.train held out for this split, if it has neither path nor where; null: 0.1 for
    validation, 0 for test. The end of running text; other records at random."""


class DataConfig(Record):
    """The files of each split, and how they are written."""

    section = "data"

    train: SplitConfig = SplitConfig()
    """Records to train on."""
    validation: SplitConfig = SplitConfig(fraction=HELD_OUT["validation"])
    """Records to evaluate on while training."""
    test: SplitConfig = SplitConfig(fraction=HELD_OUT["test"])
    """Records to evaluate on in the end."""
    format: Format = "auto"
    """text: a document a file (of pairs: one side, a line a record); jsonl: a record a line; csv,
    tsv, parquet: a record a row; conllu: Universal Dependencies; conll: columns, a word a line;
    slash: word/tag, a sentence a line; label_first: the first word of a line is its class; images,
    audio: files in a folder for each class, or with their class in the name, as texts may be; idx,
    numpy: arrays of images; auto: by the file's name."""
    encoding: str = "utf-8"
    """Encoding of text files, for instance latin-1."""
    root: str | None = None
    """Folder that relative paths start from; null: the current one."""
    store: str | None = _for(None, "documents", "pairs")
    """Folder of the encoded data; null: inside the run folder."""
    documents: Literal["mixed", "separate"] = _for("mixed", "documents")
    """separate: attention, positions and targets stay within a document; mixed: one running
    text."""
    text_field: str = _for("text", "documents", "text")
    """Field of a JSONL line (dotted if nested) or column (name, or number from 1 in a table without
    header) with the text."""
    messages_field: str = _for("messages", "messages")
    """Field or column with the messages of a conversation, objects with role and content (or from
    and value); without it, instruction, input and output, or prompt and completion."""
    loss_on: Literal["answers", "all"] = _for("answers", "messages")
    """What of a conversation is predicted: answers, the assistant's text and the symbol that ends
    it; all, every token."""
    pair_field: str | None = _for(None, "text")
    """Field or column of the second text, to classify pairs of texts."""
    label_field: str = _for("label", "text", "image", "audio", "parts")
    """Field or column of the class."""
    label_columns: tuple[str, ...] = _for((), "text", "image", "audio")
    """Columns of 0 and 1, each named as its class, instead of label_field."""
    label_separator: str | None = _for(None, "text", "image", "audio", "parts", min_length=1)
    """Separator of several classes in one cell; null: a cell is one class."""
    label_delimiter: str | None = _for(
        None, "text", "words", "image", "audio", "parts", min_length=1
    )
    """Keep the name of a class or tag only up to this string: ':' shortens DESC:manner to DESC; a
    name is never emptied."""
    class_names: tuple[str, ...] = Field(
        default=(),
        json_schema_extra={
            "tasks": [
                f"{kind}-classification"
                for kind in ("text", "token", "image", "audio", "image-text")
            ]
        },
    )
    """Names of classes or tags that the files number 0, 1, 2, ..."""
    label_pattern: str | None = _for(None, "image", "audio", "text")
    """Fields in the name of a file, its class among them: {label}_{speaker}_{index}.wav."""
    file_field: str = _for("file_name", "image", "audio")
    """Column of the files, where a table lists images or audio; in Parquet also of their bytes."""
    bad_files: Literal["stop", "skip"] = _for("stop", "image", "audio", "parts")
    """An image or audio file that cannot be read: stop, or skip and count it."""
    word_field: str = _for("words", "words")
    """Field of a JSONL line or column of Parquet with the list of words; column of conllu (default:
    form) or conll (a number; default: the first)."""
    tag_field: str | None = _for(None, "words", "parts")
    """The same for tags, also in rows of parts; null: tags in JSONL and Parquet, upos in conllu,
    the last column in conll."""
    source_field: str = _for("source", "pairs")
    """Field (dotted if nested: translation.en) or column of the source."""
    target_field: str = _for("target", "pairs")
    """Field or column of the target."""
    prefix: str = _for("", "pairs")
    """Text before every source, to name the task: 'summarize: '."""
    group_field: str | None = Field(
        default=None,
        json_schema_extra={"tasks": ["text-to-text", "image-text-to-text", "audio-text-to-text"]},
    )
    """Field or column, such as the language, by which scores are also listed."""
    input_field: str = _for("input", "parts")
    """Field with the list of parts."""
    target: str | None = _for(None, "parts")
    """Target text of a row of parts, '{answer}'; null: the field target."""
    target_image: str | None = Field(default=None, json_schema_extra={"tasks": ["text-to-image"]})
    """Target image of a row of parts, 'photos.zip/{file}'."""
    overlap: int | None = _for(None, "text", "words", ge=0)
    """Elements shared by successive windows of a document that is longer than the model; null: half
    the model's length."""

    @field_validator("encoding")
    @classmethod
    def _known_encoding(cls, encoding: str) -> str:
        try:
            "".encode(encoding)
        except LookupError:
            raise ValueError(
                f"{encoding!r} is not a text encoding that Python knows; try utf-8 or latin-1"
            ) from None
        return encoding

    @field_validator("validation", "test", mode="before")
    @classmethod
    def _held_out(cls, split: Any, info: ValidationInfo) -> Any:
        """Write the default fraction of a split without files, and none for one that has them."""
        if not isinstance(split, Mapping | None):
            return split
        split = dict(split or {})
        if split.get("path") is not None or split.get("where") is not None:
            split["fraction"] = None
        elif split.get("fraction") is None:
            split["fraction"] = HELD_OUT[str(info.field_name)]
        return split

    @model_validator(mode="after")
    def _something_to_train_on(self) -> Self:
        if self.train.fraction is not None or self.train.where is not None:
            raise ValueError("train has neither fraction nor where; it is what the others leave")
        if sum(self.held_out) >= 1.0:
            raise ValueError(
                "validation.fraction and test.fraction leave nothing to train on; their sum "
                "must be below 1"
            )
        return self

    @property
    def splits(self) -> dict[SplitName, SplitConfig]:
        """The splits by name."""
        return {"train": self.train, "validation": self.validation, "test": self.test}

    @property
    def skips_bad_files(self) -> bool:
        """Whether unreadable files are left out."""
        return self.bad_files == "skip"

    @property
    def held_out(self) -> tuple[float, float]:
        """Shares of the training records held out for validation and test."""
        return self.validation.fraction or 0.0, self.test.fraction or 0.0

    @property
    def with_files(self) -> list[SplitName]:
        """Names of train and of the splits that have files."""
        return [name for name, of in self.splits.items() if name == "train" or of.path is not None]

    def with_splits(self, **changes: dict[str, Any]) -> Self:
        """Return the settings with fields of splits replaced: with_splits(test={"path":
        "x.txt"})."""
        return self.model_copy(
            update={name: getattr(self, name).model_copy(update=of) for name, of in changes.items()}
        )

    def absolute(self) -> Self:
        """Return these settings with absolute paths, so that a run can be used from any folder."""
        base = Path(self.root or ".").expanduser().absolute()

        def place(path: str | list[str] | None) -> str | list[str] | None:
            if isinstance(path, list):
                return [str(place(part)) for part in path]
            return None if path is None else str(base / Path(path).expanduser())

        def place_part(part: dict[str, str]) -> dict[str, str]:
            return {k: v if k in ("text", "type") else str(place(v)) for k, v in part.items()}

        changes: dict[str, dict[str, Any]] = {
            name: {
                **{field: place(getattr(of, field)) for field in ("path", "targets", "labels")},
                "parts": tuple(map(place_part, of.parts)),
            }
            for name, of in self.splits.items()
        }
        others = {field: place(getattr(self, field)) for field in ("target_image", "store")}
        return self.with_splits(**changes).model_copy(update={**others, "root": None})

    def class_name(self, written: str) -> str:
        """A class or tag up to `label_delimiter`, or the whole where nothing would be left."""
        if self.label_delimiter is None:
            return written
        return written.partition(self.label_delimiter)[0].strip() or written
