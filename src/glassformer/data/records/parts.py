"""Rows of several parts (text, images, audio) with a target, classes or tags: lists of parts, or
tables with templates.

    {"input": [{"image": "1.png"}, {"text": "What is it?"}], "target": "a dog"}
    {"input": [{"image": "1.png"}, {"text": "a red dog"}], "tags": ["O", "B-COLOUR", "B-ANIMAL"]}
    ["What is it?", "a dog", 1]      parts: [{image: "images.zip/{3}.png"}, {text: "{1}"}]

Files in listed parts are relative to the row's file, those of templates to data.root.
"""

import os
import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.core.errors import ConfigError, DataError, suggest
from glassformer.data.config import NAMES, DataConfig, SplitName
from glassformer.data.formats.archives import check_inside, has_member, members
from glassformer.data.formats.delimited import is_default
from glassformer.data.formats.lines import checked_text, found
from glassformer.data.formats.records import (
    FIELD,
    classes_at,
    field_of,
    fill_template,
    records,
    text_of,
)
from glassformer.data.sources import Source, beside, near, resolve, source_at, with_slashes
from glassformer.data.splits import in_splits

KINDS = ("text", "image", "audio")
"""Kinds of parts; all but text name a file."""

Parts = tuple[tuple[str, str], ...]
"""Kind and value of each part: a text, a file name, or a template."""


@dataclass(frozen=True)
class Mixed:
    """A row of parts, its target text, classes, target image or tags, and its origin."""

    where: str
    split: SplitName
    parts: Parts
    """Kind and value of each part: a text, or the absolute path of a file, which may continue in a
    zip archive."""
    target: str | None
    labels: tuple[str, ...]
    group: str | None = None
    """The value of `data.group_field`, by which scores are also listed."""
    image: str | None = None
    """Absolute path of the target image."""
    tags: tuple[str, ...] = ()
    """A tag for each word of the texts."""


def read_parts(config: DataConfig) -> Iterator[Mixed]:
    """Every row of every split.

    ConfigError: invalid templates. DataError: no rows; a row without parts, without target, class
    and tags, with an unknown type, a missing field or a missing file (files are not checked if
    `bad_files` is skip).
    """
    templates = {split: _templates(config, split) for split in NAMES}
    root, look = config.root or ".", not config.skips_bad_files
    rows = in_splits(
        config,
        lambda split: _rows(config, split, templates[split]),
        "rows",
        "give rows of parts with a target or a class",
    )
    for split, (row, where, source) in rows:
        home = posixpath.dirname(source.path)
        if chosen := templates[split]:
            folder, setting = root, _setting(config, split)
            listed = tuple(
                (kind, fill_template(value, row, where, setting)) for kind, value in chosen
            )
        else:
            folder = home
            listed = parts_of(field_of(row, config.input_field, where, "input_field"), where)
        if not listed:
            raise DataError(f"{where} has no parts; give at least one, or remove the row")
        parts = tuple((kind, _place(kind, one, folder, look, where)) for kind, one in listed)
        (target, image), labels = _targets(row, config, where), _labels(row, config, where)
        tags, group = _tags(row, config, where), config.group_field
        if image is not None:
            image = _place("image", image, root if config.target_image else home, look, where)
        if not (target or image or labels or tags):
            raise DataError(
                f"{where} has neither a target nor a class nor tags; set data.target to a template "
                f"such as '{{answer}}', data.label_field or data.tag_field"
            )
        if group is not None:
            group = text_of(field_of(row, group, where, "group_field"), group, where)
        yield Mixed(where, split, parts, target, labels, group, image, tags)


def _setting(config: DataConfig, split: SplitName) -> str:
    """The setting with the templates of a split: its own, or that of train."""
    return f"{split if config.splits[split].parts else 'train'}.parts"


def _templates(config: DataConfig, split: SplitName) -> Parts:
    own = config.splits[split]
    if own.parts and own.path is None and split != "train":
        raise ConfigError(f"data.{split}.parts is set but data.{split}.path is not; set both.")
    try:
        return _parts(own.parts or config.train.parts, f"data.{_setting(config, split)}")
    except DataError as problem:
        raise ConfigError(str(problem)) from None


def _parts(items: Sequence[Any], where: str) -> Parts:
    return tuple(_part(item, f"{where}, part {number}") for number, item in enumerate(items, 1))


def _part(item: Any, where: str) -> tuple[str, str]:
    """Kind and value of {"image": ...} or {"type": "image", "image": ...}; a string is a text."""
    if isinstance(item, str):
        item = {"text": item}
    if not isinstance(item, dict) or not item:
        raise DataError(
            f"{where} is no part but {item!r:.40}; write {{'text': ...}} or {{'image': ...}}"
        )
    kinds = [kind for kind in KINDS if kind in item] or [next(iter(item))]
    if "type" in item:
        kinds = [item["type"]]
    if len(kinds) > 1:
        raise DataError(f"{where} is both {kinds[0]} and {kinds[1]}; make it two parts")
    kind = str(kinds[0])
    if kind not in KINDS:
        raise DataError(f"{where} is of type {kind!r:.40}, which is none; {suggest(kind, KINDS)}")
    value = found(item, kind, where, "input_field")
    return kind, checked_text(value, kind, where, "give a text, or a file's name")


def _rows(
    config: DataConfig, split: SplitName, templates: Parts
) -> Iterator[tuple[Any, str, Source]]:
    """The rows of a split's own files, their origin and source."""
    setting = _setting(config, split)
    wanted = {field: setting for _, template in templates for field in FIELD.findall(template)}
    for name in ("target", "target_image"):
        wanted |= dict.fromkeys(FIELD.findall(getattr(config, name) or ""), name)
    named = ["group_field", "tag_field"]
    named += [] if is_default(config, "label_field") else ["label_field"]
    named += [] if templates else ["input_field"]
    wanted |= {field: name for name in named if (field := getattr(config, name))}
    for source in resolve(config.splits[split].path, config):
        for row, where in records(source, wanted):
            yield row, where, source


def parts_of(listed: Any, where: str) -> Parts:
    """The parts of a list of {"image": FILE} and {"text": ...}, or of a single text; DataError:
    invalid."""
    return _parts(listed if isinstance(listed, list) else [listed], where)


def _place(kind: str, value: str, folder: str, look: bool, where: str) -> str:
    """A text, or the absolute path of a file named relative to `folder`; DataError: empty or, if
    one shall `look`, missing."""
    if kind == "text":
        return value
    if not value.strip() or "\0" in value:
        raise DataError(f"{where} names no {kind} file, but {value!r}; fill it or remove the row")
    archive = source_at(posixpath.join(folder, "row")).archive
    name = value if archive else os.path.expanduser(value)
    path = with_slashes(os.path.abspath(os.path.join(os.path.expanduser(folder), name)))
    if archive is not None:
        check_inside(path, archive, where, value)
    source = source_at(path)
    inside, name = source.archive, source.member
    if look and not (has_member(inside, name) if inside else os.path.isfile(path)):
        names = members(inside) if inside else beside(Path(path))
        close = near(name if inside else posixpath.basename(path), names)
        raise DataError(f"{where} names the {kind} file {path}, which is not there; {close}")
    return path


def _has(row: Any, field: str) -> bool:
    return isinstance(row, dict) and field in row


def _targets(row: Any, config: DataConfig, where: str) -> tuple[str | None, str | None]:
    """The target text and the file of the target image, by their templates or from the target
    field, which is a text or {"image": FILE}; None: none."""
    field, text, image = config.target_field, config.target, config.target_image
    value = row[field] if _has(row, field) else None
    if text is not None:
        text = fill_template(text, row, where, "target")
    elif _has(row, field) and not isinstance(value, dict):
        text = text_of(value, field, where)
    if text is not None and not text.strip():
        raise DataError(f"{where} has an empty target; fill it or remove the row")
    if image is not None:
        image = fill_template(image, row, where, "target_image")
    elif isinstance(value, dict):
        kind, image = _part(value, f"{where}, {field}")
        if kind != "image":
            raise DataError(
                f"{where} has a target of type {kind}, which cannot be made; give a text or "
                "{'image': FILE}"
            )
    return text, image


def _labels(row: Any, config: DataConfig, where: str) -> tuple[str, ...]:
    """The distinct classes of a row; none if the field is missing and was not set."""
    field = config.label_field
    if is_default(config, "label_field") and not _has(row, field):
        return ()
    return classes_at(field_of(row, field, where, "label_field"), config, where)


def _tags(row: Any, config: DataConfig, where: str) -> tuple[str, ...]:
    """The tags of a row, a list or a text cut at spaces; none if the field is missing and was not
    set."""
    field = config.tag_field or "tags"
    listed = isinstance(row, dict) and isinstance(row.get(field), list | str)
    if config.tag_field is None and not listed:
        return ()
    value = field_of(row, field, where, "tag_field")
    tags = value if isinstance(value, list) else text_of(value, field, where).split()
    return tuple(config.class_name(text_of(tag, field, where)) for tag in tags)
