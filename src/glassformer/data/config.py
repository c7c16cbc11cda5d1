"""What a recipe trains and evaluates on: running text, pairs of a source and a target, tagged
words, labelled texts."""

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from glassformer.record import Record


class DataConfig(Record):
    """The `data` section of a recipe."""

    section = "data"

    path: str | list[str] | None = Field(
        default=None,
        description="a file, glob, folder or several of them, also inside a zip archive "
        "(texts.zip/folder/*); '-' is standard input",
    )
    format: Literal[
        "auto",
        "text",
        "jsonl",
        "csv",
        "tsv",
        "conllu",
        "conll",
        "slash",
        "label_first",
        "images",
        "idx",
        "numpy",
        "audio",
    ] = Field(
        default="auto",
        description="text: a file is a document (of pairs, a line is one side); jsonl: a line "
        "is one; csv and tsv: a "
        "row is a pair or a labelled text; conllu: Universal Dependencies; conll: columns, a "
        "word a line; slash: "
        "word/tag, a sentence a line; label_first: the first word of a line is its class; "
        "images, audio: files in a "
        "folder for each class, or whose names tell it; idx, numpy: arrays of pictures; auto: "
        "by the file's name",
    )
    text_field: str = Field(
        default="text",
        description="the field of a JSONL line, dotted if nested, or the column (its name, or "
        "its number from 1 in a "
        "table without a header) that holds the text",
    )
    label_field: str = Field(default="label", description="the field or column of a text's class")
    pair_field: str | None = Field(
        default=None,
        description="the field or column of a second text, where texts are classified in pairs",
    )
    label_separator: str | None = Field(
        default=None,
        min_length=1,
        description="what stands between several classes of one cell; None: a cell is one",
    )
    word_field: str = Field(
        default="words",
        description="of tagged words: the field of a JSONL line with the list of words; the "
        "column of conllu (form by "
        "default) or of conll (its number; the first by default)",
    )
    tag_field: str | None = Field(
        default=None,
        description="the same for tags, also of mixed sequences; None: tags in JSONL, upos in "
        "conllu, the last column in conll",
    )
    label_delimiter: str | None = Field(
        default=None,
        min_length=1,
        description="where the name of a class or tag ends, unless nothing is left: ':' makes "
        "DESC of DESC:manner",
    )
    file_field: str = Field(
        default="file_name",
        description="of pictures and recordings listed in a table: the column of their files",
    )
    label_pattern: str | None = Field(
        default=None, description="how a file's name tells its class: {label}_{speaker}_{index}.wav"
    )
    label_path: str | None = Field(
        default=None, description="the file of labels that belongs to path: idx, numpy"
    )
    validation_label_path: str | None = Field(
        default=None, description="the same for validation_path"
    )
    test_label_path: str | None = Field(default=None, description="the same for test_path")
    class_names: tuple[str, ...] = Field(
        default=(), description="names of classes that the files number 0, 1, 2, ..."
    )
    split_by: dict[str, dict[str, list[str]]] | None = Field(
        default=None,
        description="files of a split, by what label_pattern found: {test: {speaker: [theo]}}; "
        "the others: train",
    )
    bad_files: Literal["stop", "skip"] = Field(
        default="stop",
        description="a picture or recording that cannot be read: stop, or go on without it and "
        "count it",
    )
    parts: tuple[dict[str, str], ...] = Field(
        default=(),
        description="of mixed sequences: what a row's parts are, [{image: "
        "'photos.zip/{file}'}, {text: '{question}'}]; "
        "empty: the list in input_field",
    )
    validation_parts: tuple[dict[str, str], ...] = Field(
        default=(), description="the same for validation_path"
    )
    test_parts: tuple[dict[str, str], ...] = Field(default=(), description="the same for test_path")
    input_field: str = Field(
        default="input", description="of mixed sequences: the field with the list of parts"
    )
    target: str | None = Field(
        default=None,
        description="of mixed sequences: what is to be written, '{answer}'; None: the field "
        "`target`",
    )
    target_image: str | None = Field(
        default=None,
        description="of mixed sequences: the picture that is to be drawn, 'photos.zip/{file}'",
    )
    overlap: int | None = Field(
        default=None,
        ge=0,
        description="elements by which the windows of a document that is longer than the model "
        "overlap; None: half "
        "the model's length",
    )
    source_field: str = Field(
        default="source",
        description="of a pair: the column or the field, dotted if nested: translation.en",
    )
    target_field: str = Field(
        default="target", description="of a pair: the column or field of what is to be written"
    )
    group_field: str | None = Field(
        default=None,
        description="of a pair: a column or field, such as the language, by which scores are "
        "listed too",
    )
    prefix: str = Field(
        default="", description="put before every source, to name the task: 'summarize: '"
    )
    encoding: str = Field(
        default="utf-8", description="the encoding of the files, for instance latin-1"
    )
    validation_path: str | list[str] | None = Field(
        default=None,
        description="files to validate on; if set, validation_fraction is not taken from path",
    )
    test_path: str | list[str] | None = Field(
        default=None, description="files to test on; if set, test_fraction is not taken from path"
    )
    target_path: str | list[str] | None = Field(
        default=None,
        description="pairs in two text files: line n of this one belongs to line n of path",
    )
    validation_target_path: str | list[str] | None = Field(
        default=None, description="the same for validation_path"
    )
    test_target_path: str | list[str] | None = Field(
        default=None, description="the same for test_path"
    )
    validation_fraction: float = Field(
        default=0.1,
        ge=0.0,
        lt=1.0,
        description="the share of the characters, behind the training text, to validate on; of "
        "pairs, drawn by chance",
    )
    test_fraction: float = Field(
        default=0.0,
        ge=0.0,
        lt=1.0,
        description="the share of the characters, at the very end, to test on; or of pairs",
    )
    root: str | None = Field(
        default=None, description="the folder that relative paths start from; None: the current one"
    )
    documents: Literal["mixed", "separate"] = Field(
        default="mixed",
        description="separate: attention, positions and targets are kept apart per document; "
        "mixed: one running text",
    )
    store: str | None = Field(
        default=None, description="folder of the token store; None: inside the run folder"
    )

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

    @model_validator(mode="after")
    def _something_to_train_on(self) -> Self:
        if self.held_out_validation + self.held_out_test >= 1.0:
            raise ValueError(
                "validation_fraction and test_fraction leave nothing to train on; their sum "
                "must be below 1"
            )
        return self

    @property
    def held_out_validation(self) -> float:
        """The share of `path` that is validation text: none if there is a file for it."""
        return 0.0 if self.validation_path is not None else self.validation_fraction

    @property
    def held_out_test(self) -> float:
        """The share of `path` that is test text: none if there is a file for it."""
        return 0.0 if self.test_path is not None else self.test_fraction

    def class_name(self, written: str) -> str:
        """A class or tag as far as `label_delimiter`, or the whole where nothing would be left."""
        return (
            written
            if self.label_delimiter is None
            else written.partition(self.label_delimiter)[0].strip() or written
        )
