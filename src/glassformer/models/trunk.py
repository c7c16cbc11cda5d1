"""Trunk of a Transformer: the stream after each layer, before the head or decoder.

    layer   0                  1 .. N               None
            only rows of E     after block 1 .. N   after the final norm, where there is one

Layer 0 is the static embedding, without positions or other tokens.
"""

from collections.abc import Sequence

from glassformer.core.axes import Float, Tensor
from glassformer.core.batch import Batch, Positions
from glassformer.core.errors import ConfigError
from glassformer.layers.tap import Tape, recording
from glassformer.models.transformer import Transformer, evaluating


def streams(
    model: Transformer, batch: Batch, layers: Sequence[int | None]
) -> tuple[list[Float[Tensor, "B T D"]], Positions]:
    """The stream after each of `layers` and its positions; of an encoder-decoder, the encoder's.

    ConfigError: no such layer, or a model that reads patches.
    """
    check_trunk(model, layers)
    side = "decoder" if model.encoder is None else "encoder"
    static = "embed.elements" if model.source_embed is None else "source_embed.elements"
    point = lambda layer: f"{side}.blocks.{layer - 1}.resid_post" if layer else static
    points = [None if layer is None else point(layer) for layer in layers]
    tape = Tape(model, keep=tuple(filter(None, points)))
    with evaluating(model), recording(tape):
        end = model.features(batch) if model.encoder is None else model.encode(batch)
    return [end.hidden if point is None else tape.kept[point] for point in points], end.positions


def check_trunk(model: Transformer, layers: Sequence[int | None]) -> None:
    """Raise the ConfigErrors of `streams`."""
    if model.config.reads_patches:
        raise ConfigError(
            f"This model reads {model.config.elements}, not text; use one with elements='tokens'."
        )
    most = model.config.depth("decoder" if model.encoder is None else "encoder")
    for layer in layers:
        if layer is not None and not 0 <= layer <= most:
            raise ConfigError(
                f"There is no layer {layer} in this model; its layers are 0, the static "
                f"embedding, and 1 to {most}."
            )
