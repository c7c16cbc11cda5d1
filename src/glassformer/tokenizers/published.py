"""The tokenizers of published model folders, of every layout, as one `Tokenizer`.

    tokenizer.json                         | read directly
    vocab.json  merges.txt                 | by the converters of transformers: byte pairs,
    vocab.txt                              | WordPiece, SentencePiece
    spiece.model  sentencepiece.bpe.model
    tokenizer.model
    source.spm  target.spm  vocab.json     | SentencePiece of Marian
    vocab.json                             | characters: nanoGPT, minGPT

Beside them, `tokenizer_config.json`, `special_tokens_map.json` and `added_tokens.json` say more,
and `config.json` what a decoder begins with. A SentencePiece model prepares a text as its own file
says, also where a converter does it otherwise.
"""

import json
import shutil
from pathlib import Path
from typing import Any

from glassformer.core.errors import DataError
from glassformer.core.files import Values, read_bytes, scratch_folder
from glassformer.tokenizers.definition import read_definition
from glassformer.tokenizers.library import guard
from glassformer.tokenizers.roles import ROLES, START, read_object, roles_beside
from glassformer.tokenizers.sentencepiece import (
    CONTROL,
    missing_package,
    read_sentencepiece,
    set_model,
    set_steps,
    to_plain,
    unigram,
)
from glassformer.tokenizers.text import Tokenizer

LARGEST = 64 << 20
"""Bytes of a vocab.json, merges.txt or vocab.txt."""
MODELS = ("spiece.model", "sentencepiece.bpe.model", "tokenizer.model")
CONVERTED = (("vocab.json", "merges.txt"), ("vocab.txt",), *((name,) for name in MODELS))
"""The layouts that transformers converts, each with its vocabulary first."""
GPT2 = ("nanogpt", "mingpt")
"""Types that transformers does not know, with the tokenizer of GPT-2 or with characters."""
SETTINGS = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")


def published_tokenizer(folder: Path, model_type: str, side: str = "target") -> Tokenizer:
    """Return the tokenizer of a published model's folder.

    `model_type`: as its config.json says; `side`: source or target, of a model with one
    SentencePiece model for each. DataError: no tokenizer, or one that is damaged or not read.
    ConfigError: a package that reads it is not installed.
    """
    name, file = f"the tokenizer of {folder}", folder / "tokenizer.json"
    roles, about = roles_beside(file), read_object(folder / "config.json")
    with guard(f"read {name}"):
        if file.is_file():
            definition = read_definition(file)
        else:
            config = {"model_type": model_type, "tokenizer_class": about.get("tokenizer_class")}
            definition, own = _convert_files(folder, config, side, roles)
            roles = own | roles
        tokenizer = Tokenizer(definition, name, roles)
        if (start := about.get("decoder_start_token_id")) is not None:
            tokenizer = Tokenizer(definition, name, roles | {START: tokenizer.symbol(start)})
    return tokenizer


def _convert_files(
    folder: Path, config: Values, side: str, roles: Values
) -> tuple[Values, dict[str, str]]:
    """Return the definition that is made of other files, and the symbols of roles."""
    there = {path.name for path in folder.iterdir() if path.is_file()}
    for names in CONVERTED:
        if there.issuperset(names):
            return _convert(folder, names, config, roles)
    if there >= {"source.spm", "target.spm", "vocab.json"}:
        return _marian(folder, side), {}
    if "vocab.json" in there and config["model_type"] in GPT2:
        model = {"type": "BPE", "vocab": _vocabulary(folder / "vocab.json"), "merges": []}
        return {"version": "1.0", "model": model, "decoder": {"type": "Fuse"}}, {}
    raise DataError(
        f"{folder} has no tokenizer that a {config['model_type']!r:.60} may have; give a folder "
        f"with tokenizer.json, with vocab.json and merges.txt, with vocab.txt, or with one of "
        f"{', '.join(MODELS)}"
    )


def _convert(
    folder: Path, names: tuple[str, ...], config: Values, roles: Values
) -> tuple[Values, dict[str, str]]:
    """Return the definition that transformers makes of a vocabulary, and the symbols of roles."""
    model = read_sentencepiece(folder / names[0]) if names[0] in MODELS else None
    try:
        from transformers import AutoConfig, AutoTokenizer
    except ImportError:
        raise missing_package(folder / names[0], "transformers") from None
    family = "gpt2" if config["model_type"] in GPT2 else config["model_type"]
    with scratch_folder() as place:
        for name in (*names, *SETTINGS):
            if (folder / name).is_file():
                shutil.copyfile(folder / name, place / name)
        files = zip(("vocab_file", "merges_file"), names, strict=False)
        options: Values = {key: str(place / name) for key, name in files}
        if model is not None:
            (place / names[0]).write_bytes(to_plain(model))
            if "add_bos_token" not in read_object(folder / SETTINGS[0]):
                bos = model.trainer_spec.bos_piece
                options["add_bos_token"] = any(piece.piece == bos for piece in model.pieces)
        made: Any = AutoTokenizer.from_pretrained(
            place,
            config=AutoConfig.for_model(family, tokenizer_class=config["tokenizer_class"]),
            local_files_only=True,
            trust_remote_code=False,
            **options,
        )
    if not made.is_fast:
        raise DataError(
            f"{names[0]} is the vocabulary of a {type(made).__name__}, which transformers "
            f"cannot write as a tokenizer.json; give one"
        )
    library = made.backend_tokenizer
    if model is not None:
        set_model(library, model)
    definition = _without_unnamed(json.loads(library.to_str()), folder, roles)
    own = {role: getattr(made, f"{role}_token", None) for role in ROLES}
    return definition, {role: symbol for role, symbol in own.items() if symbol}


def _without_unnamed(definition: Values, folder: Path, roles: Values) -> Values:
    """Leave out symbols that only the class of a tokenizer names: the vocabulary lacks them."""
    added = read_object(folder / SETTINGS[0]).get("added_tokens_decoder") or {}
    named = {*roles.values(), *(one["content"] for one in added.values())}
    named |= read_object(folder / "added_tokens.json").keys()
    size, tokens = len(definition["model"]["vocab"]), definition["added_tokens"]
    kept = [one for one in tokens if one["id"] < size or one["content"] in named]
    return definition | {"added_tokens": kept}


def _marian(folder: Path, side: str) -> Values:
    """Return the definition of the pieces of one side with the ids of the vocabulary of both."""
    from tokenizers import AddedToken, processors
    from tokenizers import Tokenizer as Library

    model, vocab = read_sentencepiece(folder / f"{side}.spm"), _vocabulary(folder / "vocab.json")
    names = sorted(vocab, key=vocab.__getitem__)
    symbols = ["<unk>", "</s>", "<pad>"]
    if [vocab[name] for name in names] != [*range(len(names))] or not {*symbols} <= vocab.keys():
        raise DataError(
            f"{folder / 'vocab.json'} has ids that are not 0, 1, 2 and so on, or none of "
            f"{', '.join(symbols)}; restore it, or give the tokenizer as a tokenizer.json"
        )
    library = Library(unigram(names, model))
    set_steps(library, model)
    symbols += [one.piece for one in model.pieces if one.type == CONTROL and one.piece in vocab]
    library.add_special_tokens(symbols)
    languages = [name for name in names if name.startswith(">>") and name.endswith("<<")]
    library.add_tokens([AddedToken(name, normalized=False) for name in languages])
    end = [("</s>", vocab["</s>"])]
    library.post_processor = processors.TemplateProcessing("$A </s>", "$A $B </s>", end)
    return json.loads(library.to_str())


def _vocabulary(file: Path) -> dict[str, int]:
    """Return ids by piece; DataError: the file has none."""
    vocab = json.loads(read_bytes(file, LARGEST, f"a {file.name}"))
    if not isinstance(vocab, dict) or not vocab or len({*vocab.values()}) < len(vocab):
        raise DataError(f"{file} is not an object of pieces and different ids; restore it")
    return vocab
