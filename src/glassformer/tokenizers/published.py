"""The tokenizers of published model folders, of every layout, as one `Tokenizer`.

    tokenizer.json                                     as it is
    vocab.json  merges.txt                             by the converters of transformers: byte
    vocab.txt                                          pairs, WordPiece, SentencePiece
    spiece.model  sentencepiece.bpe.model
    tokenizer.model
    source.spm  target.spm  vocab.json                 SentencePiece of Marian
    vocab.json                                         characters: nanoGPT, minGPT

Beside them, `tokenizer_config.json`, `special_tokens_map.json` and `added_tokens.json` say more,
and `config.json` what a decoder begins with. A SentencePiece model prepares a text as its own file
says, also where a converter does it otherwise.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError, DataError
from glassformer.files import read_bytes, scratch_folder, write_json
from glassformer.tokenizers.definition import read_definition, symbol_entry
from glassformer.tokenizers.library import guarded
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

Values = Mapping[str, Any]
LARGEST = 64 << 20
"""Bytes of a vocab.json, merges.txt or vocab.txt."""
MODELS = ("spiece.model", "sentencepiece.bpe.model", "tokenizer.model")
CONVERTED = (("vocab.json", "merges.txt"), ("vocab.txt",), *((name,) for name in MODELS))
"""The layouts that transformers converts, each with its vocabulary first."""
GPT2 = ("nanogpt", "mingpt")
"""Types that transformers does not know, with the tokenizer of GPT-2 or with characters."""
STARTS = {"t5": "<pad>", "marian": "<pad>", "bart": "</s>"}
"""What a decoder begins with, if config.json does not say it."""
OPTIONS = (
    *("do_lower_case", "strip_accents", "tokenize_chinese_chars", "add_prefix_space"),
    *("add_bos_token", "add_eos_token"),
)
"""Settings that the converters are given, each true or false."""
MOST_SENTINELS = 1 << 12
"""Most sentinels of T5 that a file may ask for."""


def published_tokenizer(folder: Path, model_type: str, side: str = "target") -> Tokenizer:
    """Return the tokenizer of a published model's folder.

    `model_type`: as its config.json says; `side`: source or target, of a model with one
    SentencePiece model for each. DataError: no tokenizer, or one that is damaged or not read.
    ConfigError: a package that reads it is not installed.
    """
    if side not in ("source", "target"):
        raise ConfigError(f"side is {side!r}; it is source or target.")
    name, file = f"the tokenizer of {folder}", folder / "tokenizer.json"
    roles, settings = roles_beside(file), read_object(folder / "tokenizer_config.json")
    about = read_object(folder / "config.json")
    with guarded(f"read {name}"):
        added = _added_tokens(folder, settings, {*roles.values()})
        if file.is_file():
            definition = read_definition(file)
        else:
            options = _options(about | settings, roles, added)
            definition, own = _convert_files(folder, model_type, side, options)
            roles = own | roles
        ids = _ids(definition)
        if missing := [one for one in added if one["content"] not in ids]:
            definition["added_tokens"] = [*(definition.get("added_tokens") or []), *missing]
        symbols: dict[Any, str] = {index: symbol for symbol, index in ids.items()}
        start = symbols.get(about.get("decoder_start_token_id"))
        if start := start or roles.get(START) or STARTS.get(model_type):
            roles = roles | {START: start}
        tokenizer = Tokenizer(definition, name, roles)
        for one in added:
            index, symbol = one["id"], one["content"]
            if index >= tokenizer.vocab_size or tokenizer.symbol(index) != symbol:
                raise DataError(
                    f"{name} gives the added token {symbol[:40]!r} the id {index}, which is not "
                    f"the next one, or that of another token; restore the files"
                )
    return tokenizer


def _added_tokens(folder: Path, settings: Values, symbols: set[str]) -> list[dict[str, Any]]:
    """Return the added tokens that the small files list, as a tokenizer.json has them."""
    older = read_object(folder / "added_tokens.json").items()
    found = [(i, {"content": name, "normalized": name not in symbols}) for name, i in older]
    found += [(int(i), {**one}) for i, one in (settings.get("added_tokens_decoder") or {}).items()]
    plain = symbol_entry(0, "") | {"special": False}
    made = [{**plain, **one, "id": index} for index, one in found]
    return [one | {"special": one["special"] or one["content"] in symbols} for one in made]


def _ids(definition: Values) -> dict[str, int]:
    """Return the id of every piece and added token."""
    vocab, added = definition["model"]["vocab"], definition.get("added_tokens") or []
    if isinstance(vocab, list):
        vocab = {entry[0]: index for index, entry in enumerate(vocab)}
    return vocab | {one["content"]: one["id"] for one in added}


def _convert_files(
    folder: Path, model_type: str, side: str, options: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the definition that is made of other files, and the symbols of roles."""

    def has(*names: str) -> bool:
        return all((folder / name).is_file() for name in names)

    for names in CONVERTED:
        if has(*names):
            return _convert([folder / name for name in names], model_type, options)
    if has("source.spm", "target.spm", "vocab.json"):
        return _marian(folder, side, options.get("unk_token", "<unk>")), {}
    if has("vocab.json") and model_type in GPT2:
        model = {"type": "BPE", "vocab": _vocabulary(folder / "vocab.json"), "merges": []}
        return {"version": "1.0", "model": model, "decoder": {"type": "Fuse"}}, {}
    raise DataError(
        f"{folder} has no tokenizer that a {model_type!r:.60} may have; give a folder with "
        f"tokenizer.json, with vocab.json and merges.txt, with vocab.txt, or with one of "
        f"{', '.join(MODELS)}"
    )


def _convert(
    files: list[Path], model_type: str, options: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the definition that transformers makes of a vocabulary, and the symbols of roles.

    It opens no other file of the folder, and its settings are the options only.
    """
    model = _check(files)
    try:
        from transformers import AutoConfig, AutoTokenizer
    except ImportError:
        raise missing_package(files[0], "transformers") from None
    with scratch_folder() as place:
        if model is not None:
            bos = options.get("bos_token", model.trainer_spec.bos_piece)
            begins = any(piece.piece == bos for piece in model.pieces)
            files, options = [place / files[0].name], {"add_bos_token": begins} | options
            files[0].write_bytes(to_plain(model))
        write_json(place / "tokenizer_config.json", options)
        made: Any = AutoTokenizer.from_pretrained(
            place,
            config=AutoConfig.for_model("gpt2" if model_type in GPT2 else model_type),
            local_files_only=True,
            trust_remote_code=False,
            **dict(zip(("vocab_file", "merges_file"), map(str, files), strict=False)),
        )
    if not made.is_fast:
        raise DataError(
            f"{files[0].name} is the vocabulary of a {type(made).__name__}, which transformers "
            f"cannot write as a tokenizer.json; give one"
        )
    library = made.backend_tokenizer
    if model is not None:
        set_model(library, model)
    definition, size = json.loads(library.to_str()), library.get_vocab_size(with_added_tokens=False)
    # symbols that only the class names are no part of this vocabulary
    known = [one["content"] for one in options.get("added_tokens_decoder", {}).values()]
    known += options.values()
    definition["added_tokens"] = [
        one for one in definition["added_tokens"] if one["id"] < size or one["content"] in known
    ]
    own = {role: getattr(made, f"{role}_token", None) for role in ROLES}
    return definition, {role: symbol for role, symbol in own.items() if symbol}


def _check(files: list[Path]) -> Any:
    """Refuse files that a converter should not be given, and return a SentencePiece model."""
    for file in files:
        read_bytes(file, LARGEST, f"a {file.name}")
    if files[0].suffix == ".json":
        _vocabulary(files[0])
    return read_sentencepiece(files[0]) if files[0].name in MODELS else None


def _options(settings: Values, roles: Values, added: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the tokenizer_config.json for transformers: what is known here, in checked values."""
    options = {k: settings[k] for k in OPTIONS if isinstance(settings.get(k), bool)}
    if str(settings.get("tokenizer_class")).endswith(("Tokenizer", "TokenizerFast")):
        options["tokenizer_class"] = settings["tokenizer_class"]
    if type(sentinels := settings.get("extra_ids")) is int:
        options["extra_ids"] = min(sentinels, MOST_SENTINELS)
    if added:
        tokens = {one["id"]: {k: v for k, v in one.items() if k != "id"} for one in added}
        options["added_tokens_decoder"] = tokens
    return options | {f"{role}_token": symbol for role, symbol in roles.items() if role != START}


def _marian(folder: Path, side: str, unknown: str) -> dict[str, Any]:
    """Return the definition of the pieces of one side with the ids of the vocabulary of both."""
    from tokenizers import AddedToken, processors
    from tokenizers import Tokenizer as Library

    model, vocab = read_sentencepiece(folder / f"{side}.spm"), _vocabulary(folder / "vocab.json")
    names = sorted(vocab, key=vocab.__getitem__)
    symbols = [unknown, "</s>", "<pad>"]
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
