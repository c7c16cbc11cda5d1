"""A long input is computed in short steps, between which texts of other requests go on."""

from contextvars import ContextVar

import numpy as np
import pytest
import torch

from glassformer.serve.api.engine_thread import EngineThread
from glassformer.tasks.options import ClassifyOptions, EmbedOptions, TagOptions
from glassformer.tasks.predictors.predictor import STEP
from small_runs import probabilities

LONG = "the cat sat on the mat " * 2000


@pytest.mark.parametrize("text", [LONG, "the cat"])
def test_classes_and_tags_and_vectors_of_long_texts(api, text):
    classifier, tagger = api.runs["classes"], api.runs["tags"]
    predictor, options = classifier.predictor("classify"), ClassifyOptions()
    parsed = [predictor.parse(one, options) for one in (text, " ", text)]
    found = list(predictor.predict(parsed, options, STEP))
    windows = [*parsed[0].windows, *parsed[0].windows]
    assert found.count(None) == len(sizes(windows)) >= sum(w.length for w in windows) / STEP
    rows = [one.probabilities for one in found if one]
    np.testing.assert_allclose(rows[::2], probabilities(classifier, [text] * 2), atol=1e-6)
    assert len(rows[1]) == 0
    predictor, options = tagger.predictor("tag"), TagOptions(top=2)
    parsed = predictor.parse(text, options)
    *steps, tags = predictor.predict([parsed], options, STEP)
    assert steps == [None] * len(sizes(parsed.windows))
    whole = tagger.predict(text, top=2)
    np.testing.assert_array_equal(tags.classes, whole.classes)
    np.testing.assert_allclose(tags.probabilities, whole.probabilities, rtol=0, atol=1e-6)
    predictor = classifier.predictor("embed")
    parsed = predictor.parse(text, EmbedOptions())
    *steps, vector = predictor.predict([parsed], EmbedOptions(), STEP)
    assert steps == [None] * len(sizes(parsed.windows))
    np.testing.assert_allclose(vector.value, classifier.embed(text), rtol=0, atol=1e-6)


def sizes(windows):
    """Elements of each group of windows: of at most `STEP` elements, or of one long window."""
    found = [0]
    for one in windows:
        if found[-1] and found[-1] + one.length > STEP:
            found.append(0)
        found[-1] += one.length
    return found


def test_a_group_is_one_long_sequence_or_several_short_ones(api):
    predictor = api.runs["classes"].predictor("classify")
    windows = predictor.parse(LONG, ClassifyOptions()).windows
    of = sizes(windows)
    assert sum(of) == sum(one.length for one in windows)
    assert max(of) <= max(STEP, max(one.length for one in windows))


def test_a_computation_that_waits_leaves_nothing_to_others():
    """A stream of the explorer may wait in a tape, and without gradients."""
    own, engine = ContextVar("own", default=0), EngineThread(1)

    def items():
        own.set(1)
        with torch.no_grad():
            yield own.get()
            yield own.get()

    waiting = items()
    assert engine.call(next, waiting) == 1
    assert engine.call(lambda: (own.get(), torch.is_grad_enabled())) == (0, True)
    assert engine.batch("key", lambda _: [own.get()], [None]).result() == [0]
    assert engine.call(next, waiting) == 0
    engine.call(waiting.close)
    engine.close()
