"""Looks read what training reads: `encode` and `windows` make the same sequence, an element for each
id, and words are numbered in order."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.core.errors import ConfigError
from glassformer.media.image import ImageConfig, ImageReader
from glassformer.processors.config import ModelFacts
from glassformer.processors.documents import DocumentsProcessor
from glassformer.processors.media.image import ImageProcessor
from glassformer.processors.pairs import PairsProcessor
from glassformer.processors.parts import PartsProcessor
from glassformer.processors.text import TextProcessor, WordsProcessor
from glassformer.processors.tokens.pair_tokenizer import PairTokenizer
from glassformer.tokenizers.definition import byte_definition
from glassformer.tokenizers.text import Tokenizer

BYTES = Tokenizer(byte_definition())
FACTS = ModelFacts(64, 64, token_types=True)
TAGGER = ModelFacts(64, 64, word_at="last")
WORD = st.text("abé", min_size=1, max_size=4)
TEXT = st.lists(WORD, min_size=1, max_size=4).map(" ".join)
PICTURE = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
CUT = {"size": 4, "patch": 2, "channels": 3, "mean": [0.5] * 3, "std": [0.5] * 3}
IMAGE = ImageProcessor(ImageReader(ImageConfig.parse(CUT)), FACTS)
ROW = st.lists(st.one_of(TEXT, st.just({"image": PICTURE})), min_size=1, max_size=3)

KINDS = {
    "documents": (DocumentsProcessor(BYTES, FACTS), TEXT),
    "text": (TextProcessor(BYTES, FACTS), TEXT),
    "pair of texts": (TextProcessor(BYTES, FACTS), st.tuples(WORD, WORD)),
    "words": (WordsProcessor(BYTES, TAGGER), st.lists(WORD, min_size=1, max_size=4)),
    "source": (PairsProcessor(PairTokenizer(BYTES, BYTES, "to x: "), FACTS), TEXT),
    "image": (IMAGE, st.just(PICTURE)),
    "parts": (PartsProcessor(BYTES, FACTS, {"image": IMAGE}), ROW),
    "parts by word": (PartsProcessor(BYTES, TAGGER, {"image": IMAGE}), ROW),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


@every_kind
@given(st.data())
def test_a_look_reads_what_a_window_has(kind, data):
    processor, inputs = KINDS[kind]
    one = data.draw(inputs)
    (window,) = processor.windows(one)
    found = processor.encode(one)
    read = found.batch.source or found.batch
    elements = found.source or found.elements
    ((numbers, batch),) = processor.batches([window.example])
    assert numbers == [0]
    assert torch.equal(read.elements, batch.elements)
    assert len(elements) == read.elements.shape[1]
    for mine, other in zip(read.parts, batch.parts, strict=True):
        assert torch.equal(mine.values, other.values)
    if batch.token_type_ids is not None:
        assert torch.equal(read.token_type_ids, batch.token_type_ids)
    if processor.elements == "tokens":
        named = zip(elements, read.elements[0].tolist(), strict=True)
        assert all(element.id in (None, own) for element, own in named)
    words = [e.word for e in elements if e.word is not None]
    assert words == sorted(words)
    assert set(words) == set(range(len(set(words))))


@pytest.mark.parametrize("kind", ["words", "parts by word"])
@given(st.data())
def test_a_target_is_at_the_last_element_of_its_word(kind, data):
    processor, inputs = KINDS[kind]
    one = data.draw(inputs)
    (window,) = processor.windows(one)
    at = [] if window.example.at is None else window.example.at.tolist()
    words = [e.word for e in processor.encode(one).elements]
    lasts = {word: i for i, word in enumerate(words) if word is not None}
    assert at == list(lasts.values())
    assert len(at) == len(processor.words(one))


def test_a_part_alone_is_one_input():
    processor = PartsProcessor(BYTES, FACTS, {"image": IMAGE})
    sound, path = (np.zeros(3, np.float32), 8000), Path("a.png")
    for alone, kind, value in (
        ({"image": PICTURE}, "image", PICTURE),
        (PICTURE, "image", PICTURE),
        (path, "image", path),
        (sound, "audio", sound),
    ):
        single, ((part,),) = processor.one_or_several(alone)
        assert single
        assert list(part) == [kind]
        assert part[kind] is value
    assert processor.one_or_several("a") == (True, [["a"]])
    assert processor.one_or_several(["a", {"text": "b"}]) == (True, [["a", {"text": "b"}]])
    assert processor.one_or_several([["a"], path]) == (False, [["a"], path])
    assert len(processor.windows(PICTURE)) == 1


def test_ids_are_of_one_sequence():
    with pytest.raises(ConfigError, match="an encoder-decoder reads a source and writes another"):
        PartsProcessor(BYTES, FACTS, {}).prompt([5, 6], crossed=True)


@every_kind
def test_nothing_and_too_much_are_said(kind):
    processor, _ = KINDS[kind]
    if processor.elements == "patches":
        return
    with pytest.raises(ConfigError, match=r"has no token; give|none were given; give"):
        processor.encode([])
    with pytest.raises(ConfigError, match="elements and the model reads 64 at once; shorten it"):
        processor.encode("word " * 40)
