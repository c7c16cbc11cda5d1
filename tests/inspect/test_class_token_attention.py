"""Where the class token looked: the numbers of the last block, on the grid that the patches came
from."""

import pytest
import torch

from glassformer.batch import Batch
from glassformer.errors import ConfigError
from glassformer.inspect.class_token_attention import class_token_attention
from glassformer.layers.tap import Tape, recording
from glassformer.models import ModelConfig, Transformer
from tiny import stir

SMALL = {
    **{
        "architecture": "encoder",
        "elements": "patches",
        "head": "classify",
        "n_classes": 3,
        "position": "learned",
    },
    **{
        "d_model": 16,
        "n_layers": 2,
        "n_heads": 2,
        "patch_width": 4,
        "max_length": 6,
        "grid": (2, 3),
    },
}


def model(**changes) -> Transformer:
    return stir(Transformer(ModelConfig.parse({**SMALL, "pool": "first", **changes})))


@pytest.mark.parametrize("n", [0, 2])
def test_it_is_the_first_row_of_the_last_block_by_place(n):
    own, patches = model(n_registers=n), torch.randn(5, 6, 4)
    found = class_token_attention(own, patches)
    assert found.shape == (5, 2, 3)
    tape = Tape(own, keep=("encoder.blocks.1.attention.*",))
    with torch.no_grad(), recording(tape):
        own(Batch(patches))
    q, k = tape.kept["encoder.blocks.1.attention.q"], tape.kept["encoder.blocks.1.attention.k"]
    weights = (
        (q[:, :, :1] @ k.transpose(2, 3) * own.config.head_width**-0.5).softmax(-1).mean(1)[:, 0]
    )
    for row in range(2):
        for column in range(3):
            torch.testing.assert_close(found[:, row, column], weights[:, 1 + n + 3 * row + column])
    torch.testing.assert_close(found.sum((1, 2)), 1 - weights[:, : 1 + n].sum(1))


def test_what_it_gives_can_be_worked_with_and_the_model_stays_as_it_was():
    own = model().train()
    found = class_token_attention(own, torch.randn(1, 6, 4))
    found += 1
    assert own.training


@pytest.mark.parametrize("changes", [{"pool": "mean"}, {"grid": None}])
def test_a_model_without_a_class_token_or_a_grid_is_refused(changes):
    with pytest.raises(ConfigError, match="pool=first"):
        class_token_attention(model(**changes), torch.randn(1, 6, 4))
