"""The shape annotations are checked while tests run: a wrong shape raises at the call that has it."""

import jaxtyping
import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from checked import strict
from glassformer.core.batch import Batch, Positions
from glassformer.layers.attention.attend import attention_pattern, attention_values
from glassformer.layers.norm import LayerNorm


def test_a_wrong_rank_raises():
    with pytest.raises(jaxtyping.TypeCheckError, match="scores"):
        attention_pattern(torch.zeros(2, 3))


def test_two_arguments_that_disagree_about_an_axis_raise():
    with pytest.raises(jaxtyping.TypeCheckError, match="attention_values"):
        attention_values(torch.zeros(2, 4, 3, 5), torch.zeros(2, 4, 6, 8))


def test_a_method_of_a_module_is_checked():
    with pytest.raises(jaxtyping.TypeCheckError, match="forward"):
        LayerNorm(4)(torch.zeros(2, 4, dtype=torch.long))


def test_a_record_is_checked():
    with pytest.raises(jaxtyping.TypeCheckError):
        Positions(torch.zeros(2, 3, dtype=torch.long), valid=torch.ones(2, 4, dtype=torch.bool))
    with pytest.raises(jaxtyping.TypeCheckError):
        Batch(torch.zeros(3))


def test_a_result_is_checked_also_where_equal_arguments_had_a_right_one_before():
    def twice(x: Float[Tensor, "B T"], wide: bool) -> Float[Tensor, "B T"]:
        return torch.cat([x, x], -1) if wide else x

    checked = jaxtyping.jaxtyped(typechecker=strict)(twice)
    assert checked(torch.ones(2, 3), False).shape == (2, 3)
    for _ in range(2):
        with pytest.raises(jaxtyping.TypeCheckError, match="return value"):
            checked(torch.ones(2, 3), True)
    assert checked(torch.ones(2, 3), False).shape == (2, 3)


def test_arguments_are_checked_also_after_right_ones():
    attention_values(torch.zeros(2, 4, 3, 6), torch.zeros(2, 4, 6, 8))
    for _ in range(2):
        with pytest.raises(jaxtyping.TypeCheckError, match="attention_values"):
            attention_values(torch.zeros(2, 4, 3, 5), torch.zeros(2, 4, 6, 8))
