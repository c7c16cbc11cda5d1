"""Classification: packing changes nothing, long texts are means of their windows, pairs have two
kinds of elements."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

import tiny
from every import slow_but
from glassformer.core.batch import Batch
from glassformer.processors.config import ModelFacts
from glassformer.processors.text import TextProcessor
from glassformer.processors.tokens.sequence_builder import SequenceBuilder
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.catalogue import KINDS
from glassformer.tasks.options import ClassifyOptions
from glassformer.tasks.predictors.classify import Classify
from glassformer.tasks.task import Task
from glassformer.tokenizers.definition import byte_definition, word_definition
from glassformer.tokenizers.text import Tokenizer

BYTES = Tokenizer(byte_definition())
CLASSES, LENGTH = 5, 64
TEXTS = [
    "a",
    "",
    "hello",
    ("pair one", "two"),
    "x" * 200,
    ("a" * 90, "b" * 10),
    ("", "c"),
    ("d" * 60, "e" * 90),
]
# The model computes in float64; probabilities leave it as float32, whose numbers in [0, 1] are 6e-8
# apart.
CLOSE = {"rtol": 0, "atol": 1e-6}


def classifier(**changes):
    values = {
        "architecture": "encoder",
        "position": "rotary",
        "vocab_size": BYTES.vocab_size,
        "max_length": LENGTH,
    }
    return tiny.model(**{**values, "head": "classify", "n_classes": CLASSES, **changes})


def sequences(*sides):
    return [window.example for window in SequenceBuilder(BYTES, LENGTH).windows(*sides)]


def classify(model, texts, tokenizer=BYTES):
    processor = TextProcessor(tokenizer, ModelFacts.of(model.config))
    recipe = Recipe.of_model("text-classification", {"input": "text"}, model.config)
    predictor = Classify(model, Task(KINDS[recipe.task], recipe, processor, Path()))
    found = [one.probabilities for one in predictor.predict_each(texts, ClassifyOptions())]
    rows = [row if len(row) else np.full(CLASSES, np.nan) for row in found]
    return np.array(rows).reshape(-1, CLASSES)


def by_hand(model, text):
    """The mean over windows, each computed with nothing beside it; a blank text has no class."""
    rows = []
    if not any(side.strip() for side in ((text,) if isinstance(text, str) else text)):
        return np.full(CLASSES, np.nan)
    for part in sequences(*((text,) if isinstance(text, str) else text)):
        kinds = (
            None
            if part.token_type_ids is None or model.config.n_token_types < 2
            else torch.from_numpy(part.token_type_ids)[None]
        )
        with torch.no_grad():
            logits = model(Batch(torch.from_numpy(part.ids)[None], token_type_ids=kinds)).logits[0]
        rows.append(logits.sigmoid() if model.config.multi_label else logits.softmax(-1))
    return torch.stack(rows).mean(0).numpy()


EVERY = [*product(("encoder", "decoder"), tiny.POSITIONS, ("first", "last", "mean"))]


@pytest.mark.parametrize(("architecture", "position", "pool"), slow_but(EVERY, *EVERY[::5]))
def test_many_texts_are_classified_as_each_by_hand(architecture, position, pool):
    model = classifier(architecture=architecture, position=position, pool=pool)
    found = classify(model, TEXTS)
    assert found.shape == (len(TEXTS), CLASSES)
    np.testing.assert_allclose(found, np.stack([by_hand(model, text) for text in TEXTS]), **CLOSE)
    np.testing.assert_allclose(found[~np.isnan(found[:, 0])].sum(1), 1, **CLOSE)


@pytest.mark.parametrize(
    "changes",
    [{"n_token_types": 2}, {"n_token_types": 1}, {"multi_label": True}, {"pooler": True}],
    ids=str,
)
def test_other_models(changes):
    model = classifier(pool="mean", **changes)
    expected = np.stack([by_hand(model, text) for text in TEXTS])
    np.testing.assert_allclose(classify(model, TEXTS), expected, **CLOSE)
    singles = [text for text in TEXTS if isinstance(text, str)]
    np.testing.assert_allclose(
        classify(model, singles), [by_hand(model, text) for text in singles], **CLOSE
    )


def test_the_sides_of_a_pair_are_told_apart():
    model = classifier(n_token_types=2, pool="mean")
    (pair,) = sequences("ab", "cd")
    with torch.no_grad():
        kindless = model(Batch(torch.from_numpy(pair.ids)[None])).logits.softmax(-1)[0].numpy()
    assert np.abs(classify(model, [("ab", "cd")])[0] - kindless).max() > 1e-3


def test_multi_label_probabilities_are_each_of_their_own():
    found = classify(classifier(multi_label=True), [text for text in TEXTS if text != ""])
    assert np.abs(found.sum(1) - 1).max() > 0.3, "each is a sigmoid of its own"
    assert ((found >= 0) & (found <= 1)).all()


def test_nothing_to_classify():
    assert classify(classifier(), []).shape == (0, CLASSES)


def test_an_empty_text_between_others_has_no_class():
    definition = word_definition(["cat"], lowercase=False)
    definition["added_tokens"] = definition["added_tokens"][:1]
    model = classifier(vocab_size=2, pool="mean")
    found = classify(model, ["cat", "", "cat", ""], Tokenizer(definition))
    assert np.isnan(found[[1, 3]]).all()
    np.testing.assert_allclose(found[0], found[2], **CLOSE)
