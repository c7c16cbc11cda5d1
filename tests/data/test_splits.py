"""Splits: by fraction and by file, contiguous, nothing lost and nothing twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.config import NAMES
from glassformer.data.formats.documents import Document
from glassformer.data.splits import borders, divide, parts, texts_for_tokenizer
from small_runs import data_config


def test_the_usual_border():
    assert borders(1_115_394, 0.1, 0.0) == (
        1_003_854,
        1_115_394,
    )  # tinyshakespeare as nanoGPT splits it
    assert borders(1000, 0.2, 0.1) == (700, 900)
    assert borders(10, 0.0, 0.0) == (10, 10)


@given(
    texts=st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=8),
    validation=st.floats(0, 0.5),
    test=st.floats(0, 0.4),
)
def test_fractions_cut_the_running_text_once(texts, validation, test):
    n = sum(map(len, texts))
    low, high = borders(n, validation, test)
    found = list(
        divide((Document(text, str(i)) for i, text in enumerate(texts)), (0, low, high, n))
    )
    whole = "".join(texts)
    joined = ["".join(part.text for part in found if part.split == name) for name in NAMES]
    assert joined == [whole[:low], whole[low:high], whole[high:]]
    for i, text in enumerate(texts):
        own = [part for part in found if part.source == str(i)]
        assert "".join(part.text for part in own) == text
        assert [part.ends for part in own] == [False] * (len(own) - 1) + [True]


def test_files_win_over_fractions(tmp_path):
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.txt").write_text(name * 100)
    config = data_config(
        {
            "train.path": "a.txt",
            "validation.path": "b.txt",
            "root": str(tmp_path),
            "test.fraction": 0.2,
        }
    )
    sizes = [(part.split, part.text[0], len(part.text)) for part in parts(config)]
    assert sizes == [("train", "a", 80), ("test", "a", 20), ("validation", "b", 100)]
    config = data_config(
        {
            "train.path": "a.txt",
            "validation.path": "b.txt",
            "test.path": ["b.txt", "c.txt"],
            "root": str(tmp_path),
        }
    )
    assert [(p.split, p.text[0]) for p in parts(config)] == [
        ("train", "a"),
        ("validation", "b"),
        ("test", "b"),
        ("test", "c"),
    ]


@pytest.mark.parametrize("settings", [{}, {"validation.path": "v.txt"}])
def test_a_tokenizer_sees_training_text_only(tmp_path, settings):
    (tmp_path / "t.txt").write_text("a" * 90 + ("b" * 10 if not settings else ""))
    (tmp_path / "v.txt").write_text("bbb")
    config = data_config({"train.path": "t.txt", "root": str(tmp_path), **settings})
    assert "".join(texts_for_tokenizer(config)) == "a" * 90
