"""Text to image, pixel by pixel, by the ordinary decoding loop.

    <bos> a large red circle <eos> <eos> <eos>   pixel pixel pixel ...
    |------------ one fixed length -----------|   of the palette's colours, in reading order

The text is padded to one length, so that each pixel always has the same position: learned positions
tell row and column. The ids of colours follow the text's vocabulary.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from glassformer.core.errors import ConfigError
from glassformer.data.example import Example
from glassformer.media.palette import Palette
from glassformer.models.transformer import Transformer
from glassformer.processors.processor import check_length
from glassformer.processors.tokens.sequence_builder import TEXT, SequenceBuilder
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.decode import decode


def draw(
    model: Transformer,
    tokenizer: SequenceBuilder,
    palette: Palette,
    prompts: Sequence[str],
    config: GenerateConfig,
    batch_size: int = 64,
) -> np.ndarray:
    """The colours of an image for each prompt, int64 [N, h * w]; `palette.pixels` converts them.

    ConfigError: a prompt longer than those that the model was trained with; otherwise the errors of
    `decode`.
    """
    first, n = tokenizer.text.vocab_size, palette.config.n_pixels
    width, colours = model.config.max_length - n + 1, range(first, first + len(palette.colours))
    config = config.model_copy(update={"max_new_tokens": n, "stop": ()})
    texts = (tokenizer.example([(TEXT, prompt)]) for prompt in prompts)
    briefs = [brief(tokenizer, text, width) for text in texts]
    found = np.empty((len(prompts), n), np.int64)
    for begin in range(0, len(briefs), batch_size):
        batch = found[begin : begin + batch_size]
        steps = decode(model, briefs[begin : begin + batch_size], config, only=colours)
        for at, step in enumerate(steps):
            batch[list(step.rows), at] = np.array(step.ids) - first
    return found


def brief(tokenizer: SequenceBuilder, text: Example, width: int) -> Example:
    """The text of an image, padded with its end symbol to `width` elements.

    ConfigError: the tokenizer has no end symbol, or the text is longer.
    """
    if not len(tokenizer.eos):
        raise ConfigError(
            "The tokenizer has no eos symbol, behind which an image begins; train one of kind "
            "bpe, word, character or byte."
        )
    check_length(len(text.ids), width, "The prompt")
    missing = width - len(text.ids)
    return replace(text, ids=np.concatenate([text.ids, np.repeat(tokenizer.eos, missing)]))
