"""Parts in, text out: what a model writes for sequences of text, pictures and sounds, of whatever
lengths.

a decoder goes on from      <bos> [patches] what is this <eos>
an encoder-decoder reads it as its source, and goes on from <bos>
"""

from collections.abc import Sequence
from dataclasses import replace

from glassformer.data.collate import padded
from glassformer.data.example import Example
from glassformer.errors import ConfigError
from glassformer.generate.config import GenerateConfig
from glassformer.generate.text import Generated, deltas
from glassformer.generate.transduce import by_length
from glassformer.generate.watch import Watch
from glassformer.models.transformer import Transformer
from glassformer.processors.parts_tokenizer import PartsTokenizer


def answer(
    model: Transformer,
    tokenizer: PartsTokenizer,
    examples: Sequence[Example],
    config: GenerateConfig,
    batch_size: int = 64,
    watch: Watch | None = None,
) -> list[Generated]:
    """The text for each example, in their order; an answer that an example has already is not
    looked at.

    A decoder's answer ends at the latest where it and the prompt fill the context, that of an
    encoder-decoder after as many tokens as the context has. Errors: those of `decode` and
    `beam_search`, a source longer than the context.
    """
    found = [Generated() for _ in examples]
    crossed = model.config.architecture == "encoder_decoder"
    if crossed:
        _check_sources(examples, model.config.max_length)
        config = config.model_copy(
            update={"max_new_tokens": min(config.max_new_tokens, model.config.max_length)}
        )
    for batch in by_length([len(example.ids) for example in examples], batch_size):
        asked = [replace(examples[i], answer=None, targets=None) for i in batch]
        prompts, source = (
            ([[tokenizer.begin]] * len(batch), padded(asked)) if crossed else (asked, None)
        )
        results, nothing = [found[i] for i in batch], [()] * len(batch)
        for _ in deltas(model, tokenizer.text, prompts, config, results, nothing, source, watch):
            pass
    return found


def _check_sources(examples: Sequence[Example], context: int) -> None:
    longest = max((len(example.ids) for example in examples), default=0)
    if longest > context:
        raise ConfigError(
            f"The prompt has {longest} elements, patches included, and the context {context}; "
            f"shorten its text, or "
            "train with a larger model.max_length."
        )
