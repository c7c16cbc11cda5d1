"""`draw`: text to image, pixel by pixel, by the ordinary decoding loop.

    <bos> a large red circle <eos> <eos> <eos>   pixel pixel pixel ...
    |------------ one fixed length -----------|   of the palette's colours, in reading order

The text is padded to one length, so that each pixel always has the same position. Learned positions
give row and column. The ids of colours follow the text's vocabulary.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from glassformer.core.errors import ConfigError
from glassformer.data.example import Example
from glassformer.pages.images import png
from glassformer.processors.processor import check_length
from glassformer.processors.tokens.sequence_builder import TEXT, SequenceBuilder
from glassformer.runtime.decode import decode
from glassformer.tasks.options import DrawOptions
from glassformer.tasks.predictors.predictor import WHOLE, OfText, Parsed, Prediction, check_text
from glassformer.tasks.predictors.writer import config_of

_SHADES = " .:-=+*#%@"
BATCH = 64
"""Images at the same time."""


@dataclass(frozen=True)
class Picture(Prediction):
    """An image, uint8 [H, W, 3]."""

    pixels: np.ndarray

    @property
    def value(self) -> np.ndarray:
        """Return the value that the verb of a run gives."""
        return self.pixels

    def line(self) -> str:
        """See `Prediction`: in characters, dark is dense; two rows of pixels a line."""
        light = self.pixels[::2].astype(np.float64) @ [0.299, 0.587, 0.114]
        shades = ((255 - light) / 256 * len(_SHADES)).astype(int)
        return "\n".join("".join(_SHADES[shade] for shade in row).rstrip() for row in shades)

    def json(self) -> dict[str, Any]:
        """See `Prediction`: a PNG file as a data: address."""
        return {"image": png(self.pixels)}

    def picture(self) -> np.ndarray:
        """Return the pixels."""
        return self.pixels


class Draw(OfText[DrawOptions]):
    """An image for each text."""

    name, routes, given = "draw", ("draw",), "prompt"
    reply: ClassVar = {"image": {"type": "string", "description": "a PNG file as a data: address"}}

    def gather(self, values: Sequence[np.ndarray]) -> np.ndarray:
        """Return the values as one array."""
        return np.stack(values)

    def parse(
        self, given: Any, options: DrawOptions, where: str = "The input", number: int = 1
    ) -> Parsed:
        """See `Predictor`. ConfigError: a text longer than those of the training data."""
        tokenizer: SequenceBuilder = self.processor.parts
        text = tokenizer.example([(TEXT, check_text(given))])
        return Parsed(given, (brief(tokenizer, text, self.task.objective.width),), number=number)

    def predict(
        self, inputs: Iterable[Parsed], options: DrawOptions, elements: int = WHOLE
    ) -> Iterator[Picture | None]:
        """Yield the prediction of each input, and None after each step."""
        palette, first = self.task.objective.palette, self.processor.vocab_size
        n, colours = palette.config.n_pixels, range(first, first + len(palette.colours))
        how = config_of(self.task, options)
        how = how.model_copy(update={"max_new_tokens": n, "stop": ()})
        briefs = [example for one in inputs for example in one.windows]
        for begin in range(0, len(briefs), BATCH):
            batch = briefs[begin : begin + BATCH]
            found = np.empty((len(batch), n), np.int64)
            for at, step in enumerate(decode(self.model, batch, how, only=colours)):
                found[list(step.rows), at] = np.array(step.ids) - first
                yield
            yield from map(Picture, palette.pixels(found))


def brief(tokenizer: SequenceBuilder, text: Example, width: int) -> Example:
    """The text of an image, padded with its end symbol to `width` elements.

    ConfigError: the tokenizer has no end symbol, or the text is longer.
    """
    if not len(tokenizer.eos):
        raise ConfigError(
            "The tokenizer has no eos symbol, after which an image begins; train one of kind "
            "bpe, word, character or byte."
        )
    check_length(len(text.ids), width, "The prompt")
    missing = width - len(text.ids)
    return replace(text, ids=np.concatenate([text.ids, np.repeat(tokenizer.eos, missing)]))
