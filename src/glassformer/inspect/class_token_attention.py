"""Where a model of patches looked: the attention of its class token, in the last block, over the
patches' places.

    pattern [B, H, T, S], row 0 is the class token
        ->  mean over heads, without itself  ->  [B, rows, columns]

Attention tells where the model looked, not what it took from there.
"""

import torch

from glassformer.axes import Float, Tensor
from glassformer.batch import Batch
from glassformer.errors import ConfigError
from glassformer.layers.tap import Tape, recording
from glassformer.models.transformer import Transformer, evaluating


def gaze(model: Transformer, patches: Float[Tensor, "B T P"]) -> Float[Tensor, "B _ _"]:
    """The share of attention that each patch got, [B, rows, columns]; what is missing to 1 the
    class token kept.

    ConfigError: a model without a class token (`model.pool` is not first) or without a grid of
    patches.
    """
    config = model.config
    if not config.n_prefix or config.grid is None:
        raise ConfigError(
            f"Where a class token looked is asked of a model with "
            f"model.elements={config.elements} and model.pool="
            f"{config.pool}; give one of patches with pool=first."
        )
    point = f"encoder.blocks.{config.n_layers - 1}.attention.pattern"
    tape = Tape(model, keep=(point,))
    with evaluating(model), recording(tape):
        model(Batch(patches.to(next(model.parameters()).device)))
    looked = tape.kept[point][:, :, 0, 1:].mean(1).float().cpu()
    return torch.clone(looked).unflatten(
        1, config.grid
    )  # a tensor of inference mode could not be worked with freely
