"""Text to batches and back through a real tokenizer: data and tokens fit without knowing each
other."""

import json

import pytest

from glassformer.core.batch import IGNORE
from glassformer.data.collate import evaluation_windows, windows
from glassformer.data.splits import texts_for_tokenizer
from glassformer.data.tokens import store_tokens, tokens_of, training_order
from glassformer.tokenizers.config import TokenizerConfig
from glassformer.tokenizers.train import train_tokenizer
from small_runs import data_config


@pytest.mark.parametrize("kind", ["byte", "character", "bpe"])
def test_evaluation_spells_the_validation_text(tmp_path, kind):
    texts = [f"Line {i}: the theatre, then — isn't it?" for i in range(200)]
    (tmp_path / "d.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in texts))
    config = data_config({"train.path": "d.jsonl", "root": str(tmp_path)})
    size = 300 if kind == "bpe" else None
    tokenizer = train_tokenizer(
        TokenizerConfig(kind=kind, vocab_size=size), texts_for_tokenizer(config)
    )
    store = store_tokens(tmp_path / "store", tokenizer, config)
    validation, train = (tokens_of(store, name) for name in ("validation", "train"))
    batches = list(evaluation_windows(validation, 4, 32))
    ids = [int(batches[0].elements[0, 0])]
    for batch in batches:
        ids += batch.targets[batch.targets != IGNORE].tolist()
    whole = "".join(texts)
    assert tokenizer.decode(ids) == whole[int(len(whole) * 0.9) :]
    assert validation.n_bytes == len(tokenizer.decode(ids).encode())
    assert ids.count(tokenizer.specials["eos"]) == 20
    batch = windows(train, training_order(train, 64, 1, 0).rows(0), 64)
    text = tokenizer.decode(batch.elements[0].numpy())
    assert text.strip("\ufffd") in whole
