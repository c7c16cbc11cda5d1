"""Heads: what is read off the stream, from which element."""

import pytest
import torch
from torch.testing import assert_close

from glassformer.batch import Places
from glassformer.layers.heads import ClassifyHead, LanguageModelHead, NoHead, TagHead, pool
from tiny import EXACT

HIDDEN = torch.arange(2 * 4 * 1, dtype=torch.float64).view(2, 4, 1)


@pytest.mark.parametrize(
    ("places", "how", "expected"),
    [
        (Places.arange(4), "first", [0, 4]),
        (Places.arange(4), "last", [3, 7]),
        (Places.arange(4), "mean", [1.5, 5.5]),
        (Places.padded([4, 2]), "first", [0, 4]),
        (Places.padded([4, 2]), "last", [3, 5]),
        (Places.padded([4, 2]), "mean", [1.5, 4.5]),
        (Places.padded([1, 4], "left"), "first", [3, 4]),
        (Places.padded([1, 4], "left"), "last", [3, 7]),
        (Places.padded([1, 4], "left"), "mean", [3, 5.5]),
        (Places(torch.tensor([[2, 0, 3, 1]])), "first", [1, 5]),
        (Places(torch.tensor([[2, 0, 3, 1]])), "last", [2, 6]),
    ],
)
def test_pool(places, how, expected):
    assert pool(HIDDEN, places, how).flatten().tolist() == expected


@pytest.mark.parametrize("how", ["first", "last", "mean"])
def test_what_padding_holds_does_not_matter_even_nan(how):
    hidden = HIDDEN.clone()
    hidden[1, 2:] = torch.nan
    hidden.requires_grad_()
    pooled = pool(hidden, Places.padded([4, 2]), how)
    pooled.sum().backward()
    assert pooled.isfinite().all()
    assert hidden.grad.isfinite().all()
    assert (hidden.grad[1, 2:] == 0).all()


def test_language_model_head_is_h_times_e_transposed():
    embedding = torch.nn.Parameter(torch.randn(7, 4))
    head, h = LanguageModelHead(4, 7, embedding, bias=False, factor=0.5), torch.randn(2, 3, 4)
    assert head.weight is embedding
    assert_close(head(h), 0.5 * h @ embedding.T)
    own = LanguageModelHead(4, 7, None, bias=True)
    torch.nn.init.normal_(own.weight)
    torch.nn.init.normal_(own.bias)
    assert_close(own(h[:, 0]), h[:, 0] @ own.weight.T + own.bias)  # any leading axes


def test_tag_and_classify_heads():
    h = torch.randn(2, 3, 4, dtype=torch.float64)
    tag = TagHead(4, 5).double()
    assert_close(tag(h), h @ tag.proj.weight.T + tag.proj.bias, **EXACT)
    classify = ClassifyHead(4, 5, "last", dense=True).double()
    expected = classify.proj(torch.tanh(classify.dense(h[:, -1])))
    assert_close(classify(h, Places.arange(3)), expected, **EXACT)
    assert ClassifyHead(4, None, "mean", dense=False)(h, Places.arange(3)).shape == (2, 4)
    assert NoHead()(h) is h
