"""Blanks are filled as the published pipeline fills them, each from all that the model can read."""

import json
import re

import pytest
import torch

import glassformer as gf
import tiny
from glassformer.tokenizers.published import published_tokenizer
from published_families import CASES, transformers
from published_folders import published_folder

TEXTS = ("the [MASK] sat on the ___ .", "<mask>", "un____s, and the [MASK]?")


def published(folder, family: str):
    """A masked model of a family with its tokenizer, and the published pipeline on it."""
    place = published_folder(folder, family)
    if family == "roberta":  # the space before a blank is the blank's
        mask = {"mask_token": {"content": "<mask>", "lstrip": True}}
        (place / "special_tokens_map.json").write_text(json.dumps(mask))
    case, size = CASES[f"{family}-masked"], published_tokenizer(place, family).vocab_size
    config = getattr(transformers, case.config)(**case.values | {"vocab_size": size})
    model = tiny.stir(getattr(transformers, case.model)(config)).eval()
    model.save_pretrained(place)
    kind = {"bert": "BertTokenizer", "roberta": "RobertaTokenizer"}[family]
    tokenizer = getattr(transformers, kind).from_pretrained(place)
    return place, transformers.pipeline("fill-mask", model=model, tokenizer=tokenizer)


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_blanks_are_filled_as_the_published_pipeline_fills_them(family, tmp_path):
    place, pipeline = published(tmp_path, family)
    mask = pipeline.tokenizer.mask_token
    for text, found in zip(TEXTS, gf.load(place).predict(TEXTS, top=4), strict=True):
        theirs = pipeline(re.sub(r"\[MASK\]|<mask>|_{3,}", mask, text), top_k=4)
        theirs = [theirs] if isinstance(theirs[0], dict) else theirs
        for own, expected in zip(found.blanks, theirs, strict=True):
            assert [word.id for word in own] == [one["token"] for one in expected]
            shares = torch.tensor([word.probability for word in own])
            torch.testing.assert_close(shares, torch.tensor([one["score"] for one in expected]))
            words = [one["token_str"].removeprefix("##").strip() for one in expected]
            assert [word.word.strip() for word in own] == words
