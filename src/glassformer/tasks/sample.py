"""What the model writes by now: a text beside the curves."""

from glassformer.generate import GenerateConfig, generate
from glassformer.models.transformer import Transformer
from glassformer.recipe.train import TrainConfig
from glassformer.tokenizers.text import Tokenizer


def sample(model: Transformer, tokenizer: Tokenizer, config: TrainConfig, fallback: int) -> str:
    """`train.sample_prompt` and `train.sample_tokens` tokens after it, the same for the same
    weights.

    A prompt that is nothing to the tokenizer, as spaces are to one of words, is replaced by the
    token `fallback`.
    """
    prompt = config.sample_prompt
    if not len(tokenizer.encode(prompt)):
        prompt = tokenizer.decode([fallback])
    how = GenerateConfig.parse(
        {
            "max_new_tokens": config.sample_tokens,
            "temperature": 0.8,
            "seed": config.seed,
            "overflow": "window",
        }
    )
    return prompt + generate(model, tokenizer, [prompt], how)[0].text
