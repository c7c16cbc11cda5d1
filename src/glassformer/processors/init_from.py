"""Settings of a processor on which weights depend, taken over from the folder of a model."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from glassformer.core.errors import ConfigError
from glassformer.core.record import Record
from glassformer.media.audio import AudioReader
from glassformer.media.image import ImageConfig, ImageReader
from glassformer.media.palette import Palette
from glassformer.processors.config import ProcessorConfig
from glassformer.tokenizers.text import Tokenizer

READERS = {"image": ImageReader, "audio": AudioReader, "palette": Palette}
"""The reader of a folder for each section of `processor` on which weights depend."""


def vocabulary(folder: Path) -> int:
    """Number of tokens of the tokenizer in a folder."""
    return Tokenizer.load(folder).vocab_size


def tokenizer_of(folder: Path, begun: ProcessorConfig | None) -> dict[str, Any]:
    """Return the fields of `tokenizer` for those in a folder, or of a run that has `begun`."""
    source = folder / "source_tokenizer.json"
    there = source.is_file()
    sides = {"shared": not there, "source_path": str(source) if there else None}
    if begun is not None:
        sides = begun.tokenizer.model_dump(include={"shared", "source_path"})
    return {"path": str(folder), **sides}


def readers_of(
    config: ProcessorConfig,
    kinds: Collection[str],
    folder: Path,
    begun: ProcessorConfig | None,
    resized: bool = False,
) -> dict[str, Record]:
    """Return the sections of these kinds with the values of a folder, or of a run that has `begun`
    with them; ConfigError: the settings have others. `resized`: the image size may differ."""
    own = {name: section for name in READERS if (section := getattr(config, name)) is not None}
    if begun is not None:
        return {name: getattr(begun, name) for name in own}
    for name in sorted(own.keys() ^ kinds):
        asks, has = ("a", "none") if name in own else ("no", "one")
        raise ConfigError(
            f"The recipe has {asks} section processor.{name} and the model of "
            f"train.init_from={folder} has {has}; make them alike."
        )
    return {
        name: _taken_over(section, READERS[name].load(folder).config, folder, resized)
        for name, section in own.items()
    }


def _taken_over(own: Record, theirs: Record, folder: Path, resized: bool) -> Record:
    """Return the folder's section with the fields that the recipe may change; ConfigError: the
    recipe contradicts another one."""
    values = theirs.model_dump()
    if isinstance(theirs, ImageConfig) and isinstance(own, ImageConfig):
        if resized and own.size is not None:
            values["size"] = own.size
        if theirs.channels is None and own.channels == theirs.found_channels:
            values["channels"] = own.channels
    for name in own.model_fields_set:
        asked = getattr(own, name)
        if asked is not None and _sides(asked) != _sides(values[name]):
            raise ConfigError(
                f"{own.section}.{name} is {asked!r}, and train.init_from={folder} has "
                f"{values[name]!r}, with which its weights were trained; leave it out."
            )
    return theirs.parse(values)


def _sides(value: Any) -> Any:
    """Return a square as its two sides."""
    return (value, value) if isinstance(value, int) else value
