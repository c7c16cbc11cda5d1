"""The processors, by the name that a recipe gives them."""

from glassformer.core.errors import ConfigError, suggest
from glassformer.processors.documents import DocumentsProcessor
from glassformer.processors.media.audio import AudioProcessor
from glassformer.processors.media.image import ImageProcessor
from glassformer.processors.messages import MessagesProcessor
from glassformer.processors.pairs import PairsProcessor
from glassformer.processors.parts import PartsProcessor
from glassformer.processors.processor import Processor
from glassformer.processors.text import TextProcessor, WordsProcessor

PROCESSORS: dict[str, type[Processor]] = {
    kind.name: kind
    for kind in (
        DocumentsProcessor,
        MessagesProcessor,
        TextProcessor,
        WordsProcessor,
        PairsProcessor,
        ImageProcessor,
        AudioProcessor,
        PartsProcessor,
    )
}


def processor_named(name: str) -> type[Processor]:
    """A processor by its name; ConfigError: there is none."""
    if name not in PROCESSORS:
        raise ConfigError(f"There is no input {name!r}; {suggest(name, PROCESSORS)}")
    return PROCESSORS[name]
