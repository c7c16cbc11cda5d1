"""Heads: what is read off the stream, from which element."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from glassformer.core.batch import Positions
from glassformer.layers.heads import ClassifyHead, LanguageModelHead, NoHead, TagHead, pool
from tiny import EXACT

HIDDEN = torch.arange(2 * 4 * 1, dtype=torch.float64).view(2, 4, 1)


@pytest.mark.parametrize(
    ("positions", "how", "expected"),
    [
        (Positions.arange(4), "first", [0, 4]),
        (Positions.arange(4), "last", [3, 7]),
        (Positions.arange(4), "mean", [1.5, 5.5]),
        (Positions.pad([4, 2]), "first", [0, 4]),
        (Positions.pad([4, 2]), "last", [3, 5]),
        (Positions.pad([4, 2]), "mean", [1.5, 4.5]),
        (Positions.pad([1, 4], "left"), "first", [3, 4]),
        (Positions.pad([1, 4], "left"), "last", [3, 7]),
        (Positions.pad([1, 4], "left"), "mean", [3, 5.5]),
        (Positions(torch.tensor([[2, 0, 3, 1]])), "first", [1, 5]),
        (Positions(torch.tensor([[2, 0, 3, 1]])), "last", [2, 6]),
    ],
)
def test_pool(positions, how, expected):
    assert pool(HIDDEN, positions, how).flatten().tolist() == expected


@given(st.integers(0, 3), st.lists(st.integers(4, 9), min_size=1, max_size=3))
def test_a_mean_begins_behind_what_stands_first(begin, lengths):
    """As the mean of the rest alone, padded or not, whatever stands before it."""
    hidden = torch.randn(len(lengths), max(lengths), 2, dtype=torch.float64)
    rest = Positions.pad([n - begin for n in lengths])
    found = pool(hidden, rest.after(begin), "mean", begin)
    assert_close(found, pool(hidden[:, begin:], rest, "mean"), **EXACT)


@pytest.mark.parametrize("how", ["first", "last", "mean"])
def test_what_padding_holds_does_not_matter_even_nan(how):
    hidden = HIDDEN.clone()
    hidden[1, 2:] = torch.nan
    hidden.requires_grad_()
    pooled = pool(hidden, Positions.pad([4, 2]), how)
    pooled.sum().backward()
    assert pooled.isfinite().all()
    assert hidden.grad.isfinite().all()
    assert (hidden.grad[1, 2:] == 0).all()


def pool_by_loop(hidden, positions, how):
    """One document after the other: its elements in the order of their positions."""
    found = []
    for number in range(int(positions.document.max()) + 1):
        own = (positions.document == number).nonzero().tolist()
        real = [
            (int(positions.position[r, t]), hidden[r, t])
            for r, t in own
            if positions.valid is None or positions.valid[r, t]
        ]
        vectors = [vector for _, vector in sorted(real, key=lambda pair: pair[0])]
        found.append(
            {"first": vectors[0], "last": vectors[-1], "mean": torch.stack(vectors).mean(0)}[how]
        )
    return torch.stack(found)


@st.composite
def documents(draw):
    """Rows of documents with numbers from 0 on, padding (-1) behind them; or their slots in another
    order."""
    rows = draw(
        st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=4), min_size=1, max_size=4)
    )
    width, number, table = max(map(sum, rows)), 0, []
    for row in rows:
        line = []
        for length in row:
            line += [number] * length
            number += 1
        table.append(line + [-1] * (width - len(line)))
    positions = Positions.pack(torch.tensor(table))
    if draw(st.booleans()):
        order = torch.tensor(draw(st.permutations(range(width))))
        valid = None if positions.valid is None else positions.valid[:, order]
        positions = Positions(positions.position[:, order], positions.document[:, order], valid)
    return positions


@given(documents(), st.sampled_from(["first", "last", "mean"]))
def test_a_document_is_pooled_as_a_loop_would(positions, how):
    hidden = torch.randn(*positions.document.shape, 3, dtype=torch.float64, requires_grad=True)
    pooled = pool(hidden, positions, how)
    expected = pool_by_loop(hidden, positions, how)
    assert_close(pooled, expected, **EXACT)
    weights = torch.randn_like(pooled)
    mine, theirs = (
        torch.autograd.grad((x * weights).sum(), hidden, retain_graph=True)[0]
        for x in (pooled, expected)
    )
    assert_close(mine, theirs, **EXACT)


@pytest.mark.parametrize("how", ["first", "last", "mean"])
def test_what_padding_behind_documents_holds_does_not_matter_even_nan(how):
    positions = Positions.pack(torch.tensor([[0, 0, 1, -1], [2, -1, -1, -1]]))
    hidden = torch.randn(2, 4, 3)
    hidden[positions.document < 0] = torch.nan
    hidden.requires_grad_()
    pooled = pool(hidden, positions, how)
    pooled.sum().backward()
    assert pooled.shape == (3, 3)
    assert pooled.isfinite().all()
    assert (hidden.grad[positions.document < 0] == 0).all()
    assert (hidden.grad.flatten(0, 1)[[0, 1, 2, 4]].sum(-1) > 0).sum() == (
        4 if how == "mean" else 3
    )


def test_a_mean_in_half_precision_does_not_stop_growing():
    """A sum of 1 + 1 + ... in bfloat16 stays at 256."""
    positions = Positions.pack(torch.zeros(1, 1024, dtype=torch.long))
    assert pool(torch.ones(1, 1024, 2, dtype=torch.bfloat16), positions, "mean").tolist() == [
        [1.0, 1.0]
    ]


def test_language_model_head_is_h_times_e_transposed():
    embedding = torch.nn.Parameter(torch.randn(7, 4))
    head, h = LanguageModelHead(4, 7, embedding, bias=False, factor=0.5), torch.randn(2, 3, 4)
    assert head.weight is embedding
    assert_close(head(h), 0.5 * h @ embedding.T)
    own = LanguageModelHead(4, 7, None, bias=True)
    torch.nn.init.normal_(own.weight)
    torch.nn.init.normal_(own.bias)
    assert_close(own(h[:, 0]), h[:, 0] @ own.weight.T + own.bias)  # any leading axes


def drawn(head):
    """A model draws the parameters of its heads; before that they are whatever memory held."""
    for parameter in head.parameters():
        torch.nn.init.normal_(parameter)
    return head


def test_tag_and_classify_heads():
    h = torch.randn(2, 3, 4, dtype=torch.float64)
    tag = drawn(TagHead(4, 5).double())
    assert_close(tag(h), h @ tag.proj.weight.T + tag.proj.bias, **EXACT)
    classify = drawn(ClassifyHead(4, 5, "last", dense=True).double())
    expected = classify.proj(torch.tanh(classify.dense(h[:, -1])))
    assert_close(classify(h, Positions.arange(3)), expected, **EXACT)
    assert ClassifyHead(4, None, "mean", dense=False)(h, Positions.arange(3)).shape == (2, 4)
    assert NoHead()(h) is h
