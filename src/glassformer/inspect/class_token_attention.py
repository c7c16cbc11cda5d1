"""Attention of the class token of a model of patches, in the last block, over the grid.

    pattern [B, H, T, S], row 0 is the class token
        ->  mean over heads, of patches alone  ->  [B, rows, columns]

Attention says what the class token read, not how that changed the answer.
"""

from glassformer.axes import Float, Tensor
from glassformer.batch import Batch
from glassformer.errors import ConfigError
from glassformer.inspect.look import run
from glassformer.models.transformer import Transformer


def class_token_attention(
    model: Transformer, patches: Float[Tensor, "B T P"]
) -> Float[Tensor, "B _ _"]:
    """Share of attention of each patch, [B, rows, columns]; the rest to 1 is that of the learned
    tokens.

    ConfigError: a model without a class token (`model.pool` is not first) or without a grid of
    patches.
    """
    config = model.config
    if not config.class_token or config.grid is None:
        raise ConfigError(
            f"Attention of a class token was asked of a model with model.elements="
            f"{config.elements} and model.pool={config.pool}; give one of patches with pool=first."
        )
    point = f"encoder.blocks.{config.n_layers - 1}.attention.pattern"
    _, tape = run(model, Batch(patches), [point])
    pattern = tape.kept[point][:, :, 0, config.n_prefix :]
    return pattern.mean(1).float().cpu().unflatten(1, config.grid)
