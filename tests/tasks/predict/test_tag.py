"""Tagging: packing and windows change nothing; a word of a long document is tagged by the window
that owns it."""

from itertools import chain
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import tiny
from glassformer.core.batch import Batch
from glassformer.processors.config import ModelFacts
from glassformer.processors.text import WordsProcessor
from glassformer.tasks.options import TagOptions
from glassformer.tasks.predictors.predictor import WHOLE
from glassformer.tasks.predictors.tag import Tag
from glassformer.tokenizers.definition import byte_definition
from glassformer.tokenizers.text import Tokenizer

BYTES = Tokenizer(byte_definition())
CLASSES, LENGTH = 5, 64
SENTENCES = [
    ["a"],
    [],
    ["hello", "wor"],
    [
        "the",
        "quick",
        "brown",
        "fox",
        "jumps",
        "over",
        "the",
        "lazy",
        "dog",
        "and",
        "then",
        "goes",
        "on",
    ]
    * 3,
    ["x"] * 40,
    ["a-word-that-is-longer-than-half-a-window", "", "é"],
    [],
]
# The model computes in float64 and gives float32, whose numbers in [0, 1] are 6e-8 apart.
CLOSE = {"rtol": 0, "atol": 1e-6}


def tagger(architecture="encoder", position="rotary"):
    return tiny.model(
        architecture=architecture,
        position=position,
        vocab_size=BYTES.vocab_size,
        max_length=LENGTH,
        head="tag",
        n_classes=CLASSES,
    )


def words(overlap=None):
    return WordsProcessor(BYTES, ModelFacts(LENGTH, LENGTH, overlap, word_at="last"))


def tag(model, processor, sentences, top=1, elements=WHOLE):
    """The tags of sentences, by a task without data."""
    data = SimpleNamespace(tag_field=None)
    task = SimpleNamespace(processor=processor, recipe=SimpleNamespace(data=data))
    return Tag(model, task).predict_each(sentences, TagOptions(top=top), elements)


def by_hand(model, ids, at):
    """Probabilities of all classes at some elements of one sequence, with nothing beside it."""
    with torch.no_grad():
        logits = model(Batch(torch.from_numpy(ids)[None])).logits[0]
    return logits[torch.from_numpy(at)].softmax(-1).numpy()


def every_class(tags):
    """Probabilities in the order of the classes: [W, C]."""
    found = np.zeros_like(tags.probabilities)
    np.put_along_axis(found, tags.classes, tags.probabilities, 1)
    return found


@pytest.mark.parametrize("architecture", ["encoder", "decoder"])
@pytest.mark.parametrize("position", tiny.usual(*tiny.POSITIONS))
def test_many_sentences_are_tagged_as_each_alone(architecture, position):
    model = tagger(architecture, position)
    together = list(tag(model, words(), SENTENCES, CLASSES))
    assert len(together) == len(SENTENCES)
    for sentence, found in zip(SENTENCES, together, strict=True):
        (alone,) = tag(model, words(), [sentence], CLASSES)
        assert found.classes.shape == (len(sentence), CLASSES)
        np.testing.assert_allclose(every_class(found), every_class(alone), **CLOSE)


@pytest.mark.parametrize("architecture", ["encoder", "decoder"])
@pytest.mark.parametrize("position", tiny.usual(*tiny.POSITIONS))
def test_a_word_is_tagged_by_the_window_that_owns_it(architecture, position):
    model = tagger(architecture, position)
    for sentence in SENTENCES:
        windows = words().builder.windows(sentence)
        (found,) = tag(model, words(), [sentence], CLASSES)
        probabilities = every_class(found)
        for window in windows:
            expected = by_hand(model, window.example.ids, window.example.at)
            np.testing.assert_allclose(probabilities[window.units], expected, **CLOSE)
    assert [len(words().builder.windows(sentence)) > 1 for sentence in SENTENCES[3:5]] == [
        True,
        True,
    ]


def test_what_fits_is_read_whole():
    """Without windows: the framed pieces of all words, computed at once, whatever the overlap would
    have been."""
    model, sentence = tagger(), ["the", "naïve", "cat", "sat"]
    pieces = [list(f" {word}".encode()) for word in sentence]
    ids = [BYTES.specials["bos"], *chain.from_iterable(pieces), BYTES.specials["eos"]]
    ends = np.cumsum([len(own) for own in pieces])
    expected = by_hand(model, np.array(ids, np.int32), ends)
    for overlap in (None, 0, 20):
        (found,) = tag(model, words(overlap), [sentence], CLASSES)
        np.testing.assert_allclose(every_class(found), expected, **CLOSE)


def test_the_likeliest_stand_first_and_more_than_there_are_is_all():
    model = tagger()
    (every,) = tag(model, words(), [SENTENCES[3]], 99)
    assert every.classes.shape == (39, CLASSES)
    assert (np.sort(every.classes, 1) == np.arange(CLASSES)).all()
    assert (np.diff(every.probabilities, axis=1) <= 0).all()
    np.testing.assert_allclose(every.probabilities.sum(1), 1, rtol=0, atol=1e-6)
    (best,) = tag(model, words(), [SENTENCES[3]])
    assert best.classes.shape == (39, 1)
    assert (best.classes == every.classes[:, :1]).all()
    assert len(set(best.classes[:, 0].tolist())) > 1, "one tag for every word would show nothing"


@pytest.mark.parametrize("together", [1, 40, 200])
def test_how_many_elements_wait_changes_nothing(together):
    model = tagger()
    expected = [every_class(tags) for tags in tag(model, words(), SENTENCES, CLASSES)]
    again = tag(model, words(), SENTENCES, CLASSES, together)
    for found, wanted in zip(again, expected, strict=True):
        np.testing.assert_allclose(every_class(found), wanted, **CLOSE)


def test_sentences_are_tagged_as_they_come():
    """What is enough to compute is computed and given before more is taken."""
    taken = []

    def many():
        for _ in range(1000):
            taken.append(1)
            yield ["the", "cat", "sat"]

    found = tag(tagger(), words(), many(), elements=50)
    for _ in range(20):
        assert next(found).classes.shape == (3, 1)
        assert len(taken) <= 20 + 4  # 14 elements each, so four reach 50


def test_no_sentences():
    assert list(tag(tagger(), words(), [])) == []
    assert [len(tags.classes) for tags in tag(tagger(), words(), [[], []])] == [0, 0]


def test_the_mode_of_the_model_is_given_back():
    model = tagger()
    assert not model.training
    try:
        model.train()
        list(tag(model, words(), SENTENCES))
        assert model.training
    finally:
        model.eval()
