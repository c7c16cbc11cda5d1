"""Damaged and hostile tokenizer files raise our errors and nothing else."""

import contextlib
import copy
import json
import random
from pathlib import Path

import pytest

from glassformer.core.errors import GlassformerError
from glassformer.tokenizers.config import TokenizerConfig
from glassformer.tokenizers.published import published_tokenizer
from glassformer.tokenizers.stream import StreamDecoder
from glassformer.tokenizers.text import Tokenizer
from glassformer.tokenizers.train import train_tokenizer
from published_folders import FAMILIES, published_folder

TEXT = "the theatre then, isn't it? Über 你好 the " * 10
VALUES = [
    None,
    -1,
    0,
    2**31,
    2**63,
    1e308,
    True,
    "",
    "\ud800",
    "<unk>",
    [],
    {},
    [[]],
    {"type": "ByteLevel"},
    "a" * 1000,
]


def damaged_bytes(raw: bytes, chance: random.Random) -> bytes:
    data = bytearray(raw)
    match chance.randrange(4):
        case 0:
            return bytes(data[: chance.randrange(len(data))])
        case 1:
            for _ in range(chance.randint(1, 8)):
                data[chance.randrange(len(data))] = chance.randrange(256)
        case 2:
            at = chance.randrange(len(data))
            data[at:at] = data[at // 2 : at]
        case _:
            at = chance.randrange(len(data))
            del data[at : at + chance.randint(1, 30)]
    return bytes(data)


def damaged_value(definition: dict, chance: random.Random) -> bytes:
    definition = copy.deepcopy(definition)
    for _ in range(chance.randint(1, 2)):
        place = definition
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = chance.choice(keys)
            if not isinstance(place[key], dict | list) or not place[key] or chance.random() < 0.25:
                break
            place = place[key]
        if isinstance(place, dict) and chance.random() < 0.3:
            del place[key]
        else:
            place[key] = chance.choice(VALUES)
        if not definition:
            break
    return json.dumps(definition).encode()


def made(kind: str, folder: Path) -> Tokenizer:
    if kind in FAMILIES:
        return published_tokenizer(published_folder(folder, kind), kind)
    size = {"vocab_size": 300} if kind == "bpe" else {}
    return train_tokenizer(TokenizerConfig.model_validate({"kind": kind, **size}), [TEXT])


@pytest.mark.parametrize("kind", ["byte", "character", "word", "bpe", "bert", "llama", "t5"])
def test_mutated_files_raise_only_our_errors(kind, tmp_path):
    good = made(kind, tmp_path / "published")
    file = tmp_path / "tokenizer.json"
    good.save(file)
    raw, chance = file.read_bytes(), random.Random(kind)
    refused = []
    for case in range(75):
        file.write_bytes(
            damaged_value(json.loads(raw), chance) if case % 3 else damaged_bytes(raw, chance)
        )
        with contextlib.suppress(GlassformerError):
            use(file)
            continue
        with pytest.raises(GlassformerError) as problem:
            use(file)
        refused.append(str(problem.value))
    assert not [sentence for sentence in refused if "\n" in sentence]
    assert 20 <= len(refused) < 75  # both outcomes are exercised


def use(file: Path) -> None:
    tokenizer = Tokenizer.load(file)
    ids = tokenizer.encode(TEXT)
    tokenizer.decode(ids)
    tokenizer.frame_or("bos", "eos").pair(ids, tokenizer.encode_word("the"))
    decoder = StreamDecoder(tokenizer)
    for index in ids[:20].tolist():
        decoder.push(index)
        tokenizer.piece(index)
    decoder.flush()
    tokenizer.save(file.with_name("again.json"))
    _ = tokenizer.fingerprint, tokenizer.reversible
