"""The tokenizers of published model folders, of every layout, as one `Tokenizer`.

    tokenizer.json                                     as it is
    vocab.json  merges.txt                             byte pairs: GPT-2, RoBERTa, BART, Qwen
    vocab.txt                                          WordPiece: BERT
    spiece.model  sentencepiece.bpe.model              SentencePiece: T5, XLM-R, Llama, Gemma
    tokenizer.model
    source.spm  target.spm  vocab.json                 SentencePiece: Marian
    tokenizer.bin                                      SentencePiece: llama2.c
    vocab.json                                         characters: nanoGPT, minGPT

Beside them, `tokenizer_config.json`, `special_tokens_map.json` and `added_tokens.json` say more,
and `config.json` what a decoder begins with.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from glassformer.errors import ConfigError, DataError
from glassformer.files import read_bytes
from glassformer.tokenizers.definition import LARGEST_ID, read_definition
from glassformer.tokenizers.frame import read_frame
from glassformer.tokenizers.library import guarded
from glassformer.tokenizers.llama2c import read_llama2c
from glassformer.tokenizers.pieces import (
    Definition,
    byte_pairs,
    characters,
    lowest,
    score_of,
    sentence_pieces,
    template,
    token,
    unigram,
    word_pieces,
)
from glassformer.tokenizers.published_settings import Settings, ids_of, index_in, with_added
from glassformer.tokenizers.roles import ROLES, START, read_object
from glassformer.tokenizers.sentencepiece import Type, read_sentencepiece
from glassformer.tokenizers.text import Tokenizer

LARGEST = 64 << 20
"""Bytes of a vocab.json, merges.txt or vocab.txt."""
MODEL_FILES = ("spiece.model", "sentencepiece.bpe.model", "tokenizer.model")
Shape = Literal["", "bert", "roberta", "end", "marian", "begin"]


@dataclass(frozen=True)
class Family:
    """What files without a post_processor leave to the type of a model."""

    frame: Shape = ""
    """The frame of a text: see `_template`."""
    roles: tuple[tuple[str, str], ...] = ()
    """The symbol of each role that its name does not tell."""
    qwen: bool = False
    fairseq: bool = False
    """Four symbols stand before the pieces of the model, and <mask> after them."""
    sentinels: int = 0
    """Symbols <extra_id_0> and so on behind the pieces, where no file lists them."""


_ENDS = (("bos", "<s>"), ("eos", "</s>"), ("cls", "<s>"), ("sep", "</s>"))
GPT = Family()
BERT = Family("bert")
ROBERTA = Family("roberta", _ENDS)
QWEN = Family(qwen=True)
T5 = Family("end", sentinels=100)
LLAMA = Family("begin")
BYTE_PAIRS = {
    **dict.fromkeys(("gpt2", "gpt_neo", "gptj", "nanogpt", "mingpt"), GPT),
    **dict.fromkeys(("roberta", "longformer", "bart"), ROBERTA),
    **dict.fromkeys(("qwen2", "qwen2_moe", "qwen3", "qwen3_moe"), QWEN),
}
WORD_PIECES: dict[str, Family] = dict.fromkeys(
    ("bert", "distilbert", "electra", "mobilebert"), BERT
)
SENTENCE_PIECES = {
    **dict.fromkeys(("t5", "longt5"), T5),
    **dict.fromkeys(("mt5", "umt5"), Family("end")),
    **dict.fromkeys(
        ("llama", "mistral", "mixtral", "gemma", "gemma2", "gemma3", "gemma3_text"), LLAMA
    ),
    "xlm-roberta": Family("roberta", _ENDS, fairseq=True),
    # the symbol that begins a text is also what llama2.c stops at
    "llama2.c": Family("begin", (("eos", "<s>"),)),
}
CHARACTERS: dict[str, Family] = dict.fromkeys(("nanogpt", "mingpt"), GPT)
MARIAN = Family("marian")
STARTS = dict.fromkeys(("t5", "mt5", "umt5", "longt5", "marian"), "<pad>") | {"bart": "</s>"}
"""What a decoder begins with, if config.json does not say it."""
FRAMED = {*WORD_PIECES, *STARTS, "roberta", "xlm-roberta", "longformer"}
"""Types whose frame add_bos_token and add_eos_token of tokenizer_config.json do not change."""


def published_tokenizer(folder: Path, model_type: str, side: str = "target") -> Tokenizer:
    """The tokenizer of a published model's folder.

    `model_type`: as its config.json says; `side`: source or target, of a model with one
    SentencePiece model for each. DataError: no tokenizer, or one that is damaged or not read.
    """
    if side not in ("source", "target"):
        raise ConfigError(f"side is {side!r}; it is source or target.")
    settings = Settings.read(folder)
    for names, read in READERS:
        if all((folder / name).is_file() for name in names):
            with guarded(f"read the tokenizer of {folder}"):
                definition, family = read(folder, model_type, side, settings)
            break
    else:
        raise DataError(
            f"{folder} has no tokenizer; give a folder with tokenizer.json, with vocab.json and "
            f"merges.txt, with vocab.txt, or with one of {', '.join(MODEL_FILES)}"
        )
    name = f"the tokenizer of {folder}"
    with guarded(f"read {name}"):
        sentinels = (
            int(settings.config.get("extra_ids", family.sentinels)) if family.frame == "end" else 0
        )
        definition = with_added(definition, settings, sentinels, name)
        definition = _framed(definition, model_type, family, settings, name)
        roles = _roles(definition, model_type, family, settings, folder)
    tokenizer = Tokenizer(definition, name, roles)
    tokenizer.check()
    return tokenizer


Found = tuple[Definition, Family]


def _whole(folder: Path, model_type: str, side: str, settings: Settings) -> Found:
    """A tokenizer.json as it is."""
    return read_definition(folder / "tokenizer.json"), Family()


def _byte_level(folder: Path, model_type: str, side: str, settings: Settings) -> Found:
    family = _family(BYTE_PAIRS, model_type, folder, "vocab.json and merges.txt")
    vocab = _vocabulary(folder / "vocab.json")
    lines = read_bytes(folder / "merges.txt", LARGEST, "a merges.txt").decode("utf-8").split("\n")
    pairs = [line.rstrip("\r").split(" ") for line in lines if not line.startswith("#version")]
    merges = [(pair[0], pair[1]) for pair in pairs if len(pair) == 2]
    if len(merges) < sum(1 for pair in pairs if pair != [""]):
        raise DataError(f"{folder / 'merges.txt'} has a line that is not two pieces; restore it")
    prefix_space = bool(settings.config.get("add_prefix_space", False))
    definition = byte_pairs(vocab, merges, family.qwen, prefix_space)
    symbols = ["<|endoftext|>"] if family in (GPT, QWEN) else ["<s>", "<pad>", "</s>", "<unk>"]
    symbols += [] if family in (GPT, QWEN) else ["<mask>"]
    symbols += settings.roles.values()
    named = sorted({(vocab[symbol], symbol) for symbol in symbols if symbol in vocab})
    definition["added_tokens"] = [token(index, symbol) for index, symbol in named]
    return definition, family


def _word_piece(folder: Path, model_type: str, side: str, settings: Settings) -> Found:
    family = _family(WORD_PIECES, model_type, folder, "vocab.txt")
    text = read_bytes(folder / "vocab.txt", LARGEST, "a vocab.txt").decode("utf-8")
    lines = text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n")
    vocab = {line: i for i, line in enumerate(lines)}
    symbols = [
        settings.named(role, symbol)
        for role, symbol in (
            *(("pad", "[PAD]"), ("unk", "[UNK]"), ("cls", "[CLS]"), ("sep", "[SEP]")),
            ("mask", "[MASK]"),
        )
    ]
    if missing := [symbol for symbol in symbols[1:4] if symbol not in vocab]:
        raise DataError(
            f"{folder / 'vocab.txt'} has no {missing[0]}; restore it, or name the symbol in "
            f"tokenizer_config.json"
        )
    definition = word_pieces(vocab, symbols[1], settings.config)
    named = sorted({(vocab[symbol], symbol) for symbol in symbols if symbol in vocab})
    definition["added_tokens"] = [token(index, symbol) for index, symbol in named]
    return definition, family


def _sentence_pieces(name: str) -> "Callable[[Path, str, str, Settings], Found]":
    def read(folder: Path, model_type: str, side: str, settings: Settings) -> Found:
        family = _family(SENTENCE_PIECES, model_type, folder, name)
        model = read_sentencepiece(folder / name)
        if not family.fairseq:
            return sentence_pieces(model, str(folder / name)), family
        if not model.unigram or len(model.pieces) < 3 or model.unknown != 0:
            raise DataError(f"{folder / name} is no model of {model_type}; restore it")
        # its own symbols are <unk> <s> </s>; the published ids begin with others
        first = [(symbol, lowest(model.pieces)) for symbol in ("<s>", "<pad>", "</s>", "<unk>")]
        pieces = [(p.text, score_of(p, model.pieces)) for p in model.pieces[3:]]
        definition = unigram(model, [*first, *pieces, ("<mask>", lowest(model.pieces))], 3)
        last = len(first) + len(pieces)
        marks = [token(1, "<pad>"), token(last, "<mask>", lstrip=True)]
        added = sorted([*definition["added_tokens"], *marks], key=lambda one: one["id"])
        return definition | {"added_tokens": added}, family

    return read


def _marian(folder: Path, model_type: str, side: str, settings: Settings) -> Found:
    """The pieces of one side with the ids of the vocabulary of both."""
    model = read_sentencepiece(folder / f"{side}.spm")
    vocab = _vocabulary(folder / "vocab.json")
    names = sorted(vocab, key=vocab.__getitem__)
    if [vocab[name] for name in names] != [*range(len(names))] or not model.unigram:
        raise DataError(
            f"{folder} has a vocab.json whose ids are not 0, 1, 2 and so on, or pieces that are no "
            f"unigram model; give the tokenizer as a tokenizer.json"
        )
    unknown = settings.named("unk", "<unk>")
    if missing := [symbol for symbol in (unknown, "</s>", "<pad>") if symbol not in vocab]:
        raise DataError(f"{folder / 'vocab.json'} has no {missing[0]}; restore it")
    # pieces of the other side alone are never taken from a text
    other = lowest(model.pieces)
    scores = {p.text: score_of(p, model.pieces) for p in model.pieces}
    scores |= dict.fromkeys((unknown, "</s>", "<pad>"), other)
    entries = [(name, scores.get(name, other)) for name in names]
    definition = unigram(model, entries, vocab[unknown])
    marked = {unknown, "</s>", "<pad>", *(p.text for p in model.pieces if p.type is Type.CONTROL)}
    named = [token(vocab[name], name) for name in marked if name in vocab]
    languages = (name for name in names if name.startswith(">>") and name.endswith("<<"))
    named += [token(vocab[name], name, special=False) for name in languages]
    added = sorted(named, key=lambda one: one["id"])
    return definition | {"added_tokens": added}, MARIAN


def _pieces_of_llama2c(folder: Path, model_type: str, side: str, settings: Settings) -> Found:
    family = _family(SENTENCE_PIECES, model_type, folder, "tokenizer.bin")
    return sentence_pieces(read_llama2c(folder / "tokenizer.bin"), f"{folder}"), family


def _characters(folder: Path, model_type: str, side: str, settings: Settings) -> Found:
    family = _family(CHARACTERS, model_type, folder, "a vocab.json without merges.txt")
    return characters(_vocabulary(folder / "vocab.json")), family


READERS = (
    (("tokenizer.json",), _whole),
    (("vocab.json", "merges.txt"), _byte_level),
    (("vocab.txt",), _word_piece),
    *(((name,), _sentence_pieces(name)) for name in MODEL_FILES),
    (("source.spm", "target.spm", "vocab.json"), _marian),
    (("tokenizer.bin",), _pieces_of_llama2c),
    (("vocab.json",), _characters),
)


def _family(known: Mapping[str, Family], model_type: str, folder: Path, files: str) -> Family:
    if model_type not in known:
        raise DataError(
            f"{folder} has {files} and the model type {model_type!r:.60}, whose frame they do not "
            f"tell (known: {', '.join(known)}); give the tokenizer as a tokenizer.json"
        )
    return known[model_type]


def _vocabulary(file: Path) -> dict[str, int]:
    """Ids by piece; DataError: it is no such object."""
    vocab = json.loads(read_bytes(file, LARGEST, f"a {file.name}"))
    json.dumps(vocab, ensure_ascii=False).encode("utf-8")
    if not isinstance(vocab, dict) or not vocab:
        raise DataError(f"{file} is not an object of pieces and ids; restore it")
    for piece, index in vocab.items():
        index_in(index, piece)
    if len(set(vocab.values())) < len(vocab):
        raise DataError(f"{file} gives two pieces the same id; restore it")
    return vocab


def _framed(
    definition: Definition, model_type: str, family: Family, settings: Settings, name: str
) -> Definition:
    """The definition with the frame of its family, or the one that add_bos_token and add_eos_token
    ask for."""
    ids, config = ids_of(definition), settings.config
    asked = {key: config[key] for key in ("add_bos_token", "add_eos_token") if key in config}
    shape = family.frame
    if shape != "begin" and (model_type in FRAMED or not asked):
        made = _template(shape, settings, ids) if shape else None
        return definition | {"post_processor": made} if made else definition
    old = read_frame(definition, range(LARGEST_ID), name)
    first, last = (shape == "begin", False) if old is None else (bool(old.begin), bool(old.end))
    bos = _known(settings, "bos", ids, ("<s>", "<bos>", "<|begin_of_text|>"))
    eos = _known(settings, "eos", ids, ("</s>", "<eos>", "<|end_of_text|>", "<|endoftext|>"))
    if old is not None and not asked:
        return definition
    begin = [bos] if bos and asked.get("add_bos_token", first) else []
    end = [eos] if eos and asked.get("add_eos_token", last) else []
    one = [*begin, "A", *end]
    pair = [(symbol, 0) for symbol in one] + [(symbol, 1) for symbol in (*begin, "B", *end)]
    return definition | {"post_processor": template(begin, end, pair, ids)}


def _known(
    settings: Settings, role: str, ids: Mapping[str, int], names: tuple[str, ...]
) -> str | None:
    named = settings.roles.get(role)
    return next((name for name in (named, *names) if name is not None and name in ids), None)


def _template(shape: Shape, settings: Settings, ids: Mapping[str, int]) -> Definition:
    """The post_processor of a family.

    bert      [CLS] A [SEP]      [CLS] A [SEP] B [SEP], whose second half has the type 1
    roberta   <s> A </s>         <s> A </s> </s> B </s>
    end       A </s>             A </s> B </s>
    marian    A </s>             A B </s>
    """
    bert = shape == "bert"
    cls = settings.named("cls", "[CLS]" if bert else "<s>")
    end = settings.named(
        "sep" if bert or shape == "roberta" else "eos", "[SEP]" if bert else "</s>"
    )
    begin = [cls] if shape in ("bert", "roberta") else []
    between = {"roberta": [end, end], "marian": []}.get(shape, [end])
    first, second = [*begin, "A", *between], ["B", end]
    pair = [(name, 0) for name in first] + [(name, int(bert)) for name in second]
    if missing := [name for name in (*begin, end) if name not in ids]:
        raise DataError(f"the vocabulary has no {missing[0]}, which frames a text; restore it")
    return template(begin, [end], pair, ids)


def _roles(
    definition: Definition, model_type: str, family: Family, settings: Settings, folder: Path
) -> dict[str, str]:
    """The symbol of each role: of the small files, else of the family; and what a decoder begins
    with."""
    ids = ids_of(definition)
    roles = {**dict(family.roles), **settings.roles}
    start = read_object(folder / "config.json").get("decoder_start_token_id")
    by_id = {index: symbol for symbol, index in ids.items()}
    if type(start) is int and start in by_id:
        roles[START] = by_id[start]
    elif model_type in STARTS:
        roles.setdefault(START, STARTS[model_type])
    return {role: symbol for role, symbol in roles.items() if role in ROLES and symbol in ids}
