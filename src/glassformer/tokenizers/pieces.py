"""Definitions (the content of a tokenizer.json) of published vocabularies: SentencePiece models,
byte-level byte pairs, WordPiece.

A SentencePiece text goes through these steps, each of them only if the model has it:

    "  Two  cats"  charsmap, one space   "Two cats"  prefix, mark   "▁Two▁cats"  pieces  ▁Two ▁cat s
"""

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from glassformer.errors import DataError
from glassformer.tokenizers.decoding import MARK
from glassformer.tokenizers.sentencepiece import LONGEST_PIECE, Piece, SentencePieceModel, Type

Definition = dict[str, Any]
MARKED = (Type.CONTROL, Type.UNKNOWN)
"""Pieces that no text spells."""
PLAIN = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
QWEN_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""How Qwen2 and Qwen3 cut a text before byte pairs are merged; a fact of their vocabulary."""


def definition_of(
    model: Definition, added: Iterable[Definition] = (), **parts: Definition | None
) -> Definition:
    """A definition of a model with its added tokens; `parts`: normalizer, pre_tokenizer, decoder,
    post_processor."""
    empty = dict.fromkeys(
        ("truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder")
    )
    return {"version": "1.0", **empty, **parts, "added_tokens": list(added), "model": model}


def token(index: int, content: str, special: bool = True, **flags: bool) -> Definition:
    """An added token."""
    return {"id": index, "content": content, **PLAIN, **flags, "special": special}


def template(
    begin: Sequence[str],
    end: Sequence[str],
    pair: Sequence[tuple[str, int]],
    ids: Mapping[str, int],
) -> Definition:
    """The post_processor `begin A end`; `pair`: symbols and the texts "A" and "B" in order, each
    with its token type."""
    texts = ("A", "B")

    def piece(name: str, kind: int) -> Definition:
        return {"Sequence" if name in texts else "SpecialToken": {"id": name, "type_id": kind}}

    names = {*begin, *end, *(name for name, _ in pair)} - {*texts}
    return {
        "type": "TemplateProcessing",
        "single": [piece(name, 0) for name in (*begin, "A", *end)],
        "pair": [piece(name, kind) for name, kind in pair],
        "special_tokens": {
            name: {"id": name, "ids": [ids[name]], "tokens": [name]} for name in sorted(names)
        },
    }


def byte_pairs(
    vocab: Mapping[str, int], merges: Sequence[tuple[str, str]], qwen: bool, prefix_space: bool
) -> Definition:
    """Byte-level byte pairs: GPT-2's; with `qwen`, NFC and other words."""
    level = {"type": "ByteLevel", "add_prefix_space": prefix_space, "trim_offsets": True}
    before: Definition = {**level, "use_regex": not qwen}
    if qwen:
        split = {"type": "Split", "pattern": {"Regex": QWEN_WORDS}, "behavior": "Isolated"}
        before = {"type": "Sequence", "pretokenizers": [{**split, "invert": False}, before]}
    return definition_of(
        _bpe(vocab, merges),
        normalizer={"type": "NFC"} if qwen else None,
        pre_tokenizer=before,
        decoder={**level, "use_regex": True},
    )


def _bpe(vocab: Mapping[str, int], merges: Sequence[tuple[str, str]], **options: Any) -> Definition:
    absent = dict.fromkeys(
        ("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix")
    )
    plain = dict.fromkeys(("fuse_unk", "byte_fallback", "ignore_merges"), False)
    pairs = [list(pair) for pair in merges]
    return {"type": "BPE", **absent, **plain, **options, "vocab": dict(vocab), "merges": pairs}


def word_pieces(vocab: Mapping[str, int], unknown: str, config: Mapping[str, Any]) -> Definition:
    """BERT's WordPiece; `config` has do_lower_case, strip_accents, tokenize_chinese_chars."""
    return definition_of(
        {
            "type": "WordPiece",
            "unk_token": unknown,
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": dict(vocab),
        },
        normalizer={
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": config.get("tokenize_chinese_chars", True),
            "strip_accents": config.get("strip_accents"),
            "lowercase": config.get("do_lower_case", True),
        },
        pre_tokenizer={"type": "BertPreTokenizer"},
        decoder={"type": "WordPiece", "prefix": "##", "cleanup": True},
    )


def characters(vocab: Mapping[str, int]) -> Definition:
    """The definition of a vocabulary of single characters, without a symbol for others."""
    return definition_of(_bpe(vocab, []), decoder={"type": "Fuse"})


def sentence_pieces(model: SentencePieceModel, name: str) -> Definition:
    """The definition of a SentencePiece model with its own ids; DataError naming the file: a model
    that no definition expresses."""
    if model.unigram:
        entries = [(piece.text, score_of(piece, model.pieces)) for piece in model.pieces]
        return unigram(model, entries, model.unknown)
    vocab = {piece.text: i for i, piece in enumerate(model.pieces)}
    own = [(i, piece) for i, piece in enumerate(model.pieces) if piece.type is Type.USER_DEFINED]
    if own and (model.dummy_prefix or model.one_space):
        raise DataError(
            f"{name} merges byte pairs around the symbol {own[0][1].text!r} of its own and adds or "
            f"drops spaces, which is not read; give the tokenizer as a tokenizer.json"
        )
    added = [token(i, piece.text, special=False, normalized=True) for i, piece in own]
    symbols = [token(i, p.text) for i, p in enumerate(model.pieces) if p.type in MARKED]
    unknown = model.pieces[model.unknown].text
    options = {"unk_token": unknown, "fuse_unk": True, "byte_fallback": model.byte_fallback}
    return definition_of(
        _bpe(vocab, _merges(model.pieces), **options),
        sorted([*symbols, *added], key=lambda one: one["id"]),
        **_text_steps(model),
    )


def unigram(
    model: SentencePieceModel, entries: Sequence[tuple[str, float]], unknown: int
) -> Definition:
    """A unigram definition with these pieces and scores, and the normalizer of a model."""
    found = {
        "type": "Unigram",
        "unk_id": unknown,
        "vocab": [list(entry) for entry in entries],
        "byte_fallback": model.byte_fallback,
    }
    ids = {text: i for i, (text, _) in enumerate(entries)}
    named = [token(ids[p.text], p.text) for p in model.pieces if p.type in MARKED and p.text in ids]
    return definition_of(found, sorted(named, key=lambda one: one["id"]), **_text_steps(model))


def score_of(piece: Piece, pieces: Sequence[Piece]) -> float:
    """The score of a unigram piece: that of a normal one as it is; so high that it is always taken
    for a symbol of the user; so low that it is never taken for those that no text spells."""
    match piece.type:
        case Type.NORMAL:
            return piece.score
        case Type.USER_DEFINED:
            highest = max((p.score for p in pieces if p.type is Type.NORMAL), default=0.0)
            return len(piece.text) * highest - 0.1
    return lowest(pieces)


def lowest(pieces: Sequence[Piece]) -> float:
    """A score below that of any text of LONGEST_PIECE characters."""
    normal = min((piece.score for piece in pieces if piece.type is Type.NORMAL), default=0.0)
    return (LONGEST_PIECE + 1) * min(-1.0, normal)


def _merges(pieces: Sequence[Piece]) -> list[tuple[str, str]]:
    """The pairs that make each piece, those of the best scores first."""
    ids = {piece.text: i for i, piece in enumerate(pieces) if piece.type is Type.NORMAL}
    found = [
        (-pieces[whole].score, whole, ids[left], ids[right])
        for text, whole in ids.items()
        for cut in range(1, len(text))
        if (left := text[:cut]) in ids and (right := text[cut:]) in ids
    ]
    return [(pieces[left].text, pieces[right].text) for _, _, left, right in sorted(found)]


def _text_steps(model: SentencePieceModel) -> dict[str, Definition | None]:
    """The normalizer, pre_tokenizer and decoder."""
    steps = list[Definition]()
    if model.charsmap:
        coded = b64encode(model.charsmap).decode("ascii")
        steps.append({"type": "Precompiled", "precompiled_charsmap": coded})
    if model.one_space:
        steps.append(_replace({"Regex": " {2,}"}, " "))
        steps.append(_replace({"Regex": rf"\A +|[ {MARK}]+\z"}, ""))
    if model.dummy_prefix:
        steps.append({"type": "Prepend", "prepend": MARK})
    steps.append(_replace({"String": " "}, MARK))
    # pieces that have a space only at their beginning are the same in a text and in its words
    whole = any(MARK in piece.text[1:] for piece in model.pieces if piece.type is not Type.CONTROL)
    split = {"type": "Split", "pattern": {"String": MARK}, "behavior": "MergedWithNext"}
    decoder = [_replace({"String": MARK}, " ")]
    decoder += [{"type": "ByteFallback"}] if model.byte_fallback else []
    decoder += [{"type": "Fuse"}]
    if model.dummy_prefix or model.one_space:
        decoder += [{"type": "Strip", "content": " ", "start": 1, "stop": 0}]
    return {
        "normalizer": {"type": "Sequence", "normalizers": steps},
        "pre_tokenizer": None if whole else {**split, "invert": False},
        "decoder": {"type": "Sequence", "decoders": decoder},
    }


def _replace(pattern: Definition, content: str) -> Definition:
    return {"type": "Replace", "pattern": pattern, "content": content}
