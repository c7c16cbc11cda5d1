"""The table of an alignment from recorded rows: the strongest source element of each target element."""

import numpy as np
import pytest
import torch

import tiny
from glassformer.batch import Batch
from glassformer.errors import ConfigError
from glassformer.generate import GenerateConfig, Watch, decode
from glassformer.inspect.steps import Aligned, cross_weights, strongest
from glassformer.layers.tap import Tape, recording

ROWS = [  # two targets, three layers, two heads, three sources
    [[[1, 0, 0]] * 2, [[0.2, 0.5, 0.3], [0.4, 0.1, 0.5]], [[0, 0, 1]] * 2],
    [[[1, 0, 0]] * 2, [[0.1, 0.1, 0.8], [0.3, 0.3, 0.4]], [[0, 1, 0]] * 2],
]


def test_the_table_is_the_mean_over_the_heads_of_the_layer_before_the_last():
    np.testing.assert_allclose(cross_weights(ROWS), [[0.3, 0.3, 0.4], [0.2, 0.2, 0.6]])
    np.testing.assert_allclose(cross_weights(ROWS, heads=[0]), [[0.2, 0.5, 0.3], [0.1, 0.1, 0.8]])
    np.testing.assert_allclose(cross_weights(ROWS, layers=[0, 2]), [[0.5, 0, 0.5], [0.5, 0.5, 0]])
    np.testing.assert_allclose(cross_weights([step[:1] for step in ROWS]), [[1, 0, 0]] * 2)


def test_each_target_has_its_strongest_source_and_of_equals_the_first():
    assert [(one.target, one.source) for one in strongest(ROWS)] == [(0, 2), (1, 2)]
    assert strongest(ROWS, layers=[0, 2]) == [Aligned(0, 0, 0.5), Aligned(1, 0, 0.5)]
    without = strongest(ROWS, heads=[0], without={2})
    assert [(one.source, one.weight) for one in without] == [(1, 0.5), (0, 0.1)]


def test_what_was_recorded_aligns_as_one_forward_pass_over_the_whole_pair():
    model = tiny.model(architecture="encoder_decoder", n_layers=3)
    source, watch = Batch(tiny.tokens(1, 7)), Watch(attention=True)
    steps = list(decode(model, [[1]], GenerateConfig.parse({"max_new_tokens": 9}), (), source, watch=watch))
    given = [1, *(step.ids[0] for step in steps[:-1])]
    tape = Tape(model, keep=("decoder.blocks.1.cross.pattern",))
    with torch.no_grad(), recording(tape):
        model(Batch(torch.tensor([given]), source=source))
    pattern = tape.kept["decoder.blocks.1.cross.pattern"][0].mean(0)
    rows = [step.choices[0].rows.cross for step in steps]
    np.testing.assert_allclose(cross_weights(rows), pattern, atol=1e-10)  # float64, see tiny.EXACT
    assert [one.source for one in strongest(rows)] == pattern.argmax(1).tolist()


def test_what_has_no_table_is_said():
    with pytest.raises(ConfigError, match=r"no rows of cross-attention.*Watch\(attention=True\)"):
        strongest([[], []])
    with pytest.raises(ConfigError, match="made of layer 3; give some of the recorded layers 0 to 2"):
        strongest(ROWS, layers=[3])
    with pytest.raises(ConfigError, match="made of no head"):
        strongest(ROWS, heads=[])
    with pytest.raises(ConfigError, match="All 3 source elements are left out"):
        strongest(ROWS, without=range(3))
