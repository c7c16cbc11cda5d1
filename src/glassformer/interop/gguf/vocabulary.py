"""The tokenizer of a GGUF file.

gpt2   byte-level byte pairs: tokens, merges, and the name of how a text is cut before
llama  SentencePiece byte pairs: tokens and scores; the pair of the highest score is merged first

Source: ggml-org/llama.cpp, src/llama-vocab.cpp.
"""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Any

from glassformer.errors import ConfigError
from glassformer.interop.gguf.file import Value
from glassformer.tokenizers.bytelevel import ALPHABET
from glassformer.tokenizers.decoding import MARK
from glassformer.tokenizers.frame import Frame
from glassformer.tokenizers.text import Tokenizer

QWEN_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA3_WORDS = QWEN_WORDS.replace(r"\p{N}|", r"\p{N}{1,3}|", 1)
CUTS = {None: "gpt-2", QWEN_WORDS: "qwen2", LLAMA3_WORDS: "llama-bpe"}
"""How llama.cpp names the ways to cut a text before byte pairs are merged; None: GPT-2's."""
WHOLE_WORDS = ("llama-bpe",)
"""Cuts of which a word that is a token is taken whole."""
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
ROLES = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding", "mask": "mask"}
"""Names of symbols there by their roles here."""


class Type(IntEnum):
    """Type of a token."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


def vocabulary(tokenizer: Tokenizer, frame: Frame, size: int) -> dict[str, Value]:
    """The values of a tokenizer, filled up to a size with tokens that no text has.

    ConfigError: llama.cpp would read texts as other tokens.
    """
    definition = tokenizer.definition
    model = definition["model"]
    if model.get("type") != "BPE":
        raise _refused("model.type", model.get("type"), "BPE")
    for option in ("continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(option):
            raise _refused(f"model.{option}", model[option], "null")
    own = _pieces(definition) if model.get("byte_fallback") else _byte_pairs(definition)
    added = definition.get("added_tokens") or []
    spelling = {i: piece for piece, i in model["vocab"].items()}
    spelling |= {one["id"]: one["content"] for one in added}
    names = [spelling.get(i, f"[PAD{i}]") for i in range(max(size, tokenizer.vocab_size))]
    if own["model"] == "llama":
        ranks = _ranks(model)
        own["scores"] = [-float(ranks.get(name, len(ranks))) for name in names]
        for one in added:  # sought in a text before its spaces are marked
            names[one["id"]] = one["content"].replace(MARK, " ")
    own |= {
        "tokens": names,
        "token_type": _types(tokenizer, spelling, len(names)),
        **_symbols(tokenizer, frame),
    }
    return {f"tokenizer.ggml.{name}": value for name, value in own.items()}


def _symbols(tokenizer: Tokenizer, frame: Frame) -> dict[str, Value]:
    ids = tokenizer.specials
    if "eos" not in ids:
        raise ConfigError(
            "The tokenizer has no symbol for the end of a text, which llama.cpp needs; add <eos> "
            "to its special symbols."
        )
    # without one, llama.cpp takes the token 11 for the beginning
    ids = {"bos": ids["eos"], **ids}
    if frame.begin not in ((), (ids["bos"],)):
        raise _refused("post_processor", list(frame.begin), "no symbol or one for the beginning")
    named = {f"{theirs}_token_id": ids[role] for role, theirs in ROLES.items() if role in ids}
    # the end of a text is not the end of a prompt
    return {**named, "add_bos_token": bool(frame.begin), "add_eos_token": False}


def _types(tokenizer: Tokenizer, spelling: Mapping[int, str], size: int) -> list[int]:
    found = [Type.NORMAL if i in spelling else Type.UNUSED for i in range(size)]
    if tokenizer.definition["model"].get("byte_fallback"):
        ids = tokenizer.definition["model"]["vocab"]
        for name in BYTES:
            found[ids[name]] = Type.BYTE
    for one in tokenizer.definition.get("added_tokens") or []:
        found[one["id"]] = Type.CONTROL if one.get("special") else Type.USER_DEFINED
    if "unk" in tokenizer.specials:
        found[tokenizer.specials["unk"]] = Type.UNKNOWN
    return [int(kind) for kind in found]


def _byte_pairs(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Of byte-level byte pairs."""
    model, cut = definition["model"], _cut(definition)
    if not model["vocab"].keys() >= {*ALPHABET}:
        raise ConfigError(
            "The tokenizer has no token for some bytes, which llama.cpp needs; train with "
            "processor.tokenizer.kind=bpe or byte."
        )
    normalizers = [one["type"] for one in _steps(definition.get("normalizer"))]
    if normalizers not in ([], ["NFC"]):
        raise _refused("normalizer", ", ".join(normalizers), "none or NFC")
    name = CUTS[cut]
    if bool(model.get("ignore_merges")) != (name in WHOLE_WORDS):
        raise _refused("model.ignore_merges", model.get("ignore_merges"), name in WHOLE_WORDS)
    return {"model": "gpt2", "pre": name, "merges": [" ".join(pair) for pair in _merges(model)]}


def _cut(definition: Mapping[str, Any]) -> str | None:
    """The expression by which a text is cut, None of GPT-2's."""
    cut, level = None, False
    for step in _steps(definition.get("pre_tokenizer")):
        match step:
            case {"type": "ByteLevel", "add_prefix_space": False}:
                level = True
                # single bytes are the same however a text is cut
                own = step.get("use_regex", True) or not definition["model"].get("merges")
                if own == (cut is not None):
                    raise _refused("pre_tokenizer.use_regex", own, not own)
            case {"type": "Split", "pattern": {"Regex": str(cut)}} if cut in CUTS:
                pass
            case _:
                raise _refused("pre_tokenizer", step, "as of GPT-2, Qwen or Llama 3")
    if not level:
        raise _refused("pre_tokenizer", None, "ByteLevel")
    return cut


def _pieces(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Of SentencePiece byte pairs."""
    model = definition["model"]
    if missing := {*BYTES} - model["vocab"].keys():
        raise _refused("model.vocab", f"no {min(missing)}", "all of <0x00> to <0xFF>")
    prefix = marks = False
    for step in (*_steps(definition.get("normalizer")), *_steps(definition.get("pre_tokenizer"))):
        match step:
            case {"type": "Prepend", "prepend": mark} if mark == MARK:
                prefix = True
            case {"type": "Replace", "pattern": {"String": " "}, "content": mark} if mark == MARK:
                marks = True
            case {"type": "Metaspace", "replacement": mark} if mark == MARK:
                marks, prefix = True, step.get("prepend_scheme", "always") != "never"
            case {"type": "Split", "pattern": {"String": mark}} if mark == MARK:
                pass  # pieces that have a space only at their beginning
            case _:
                raise _refused("normalizer", step, "as of Llama or Gemma")
    if not marks:
        raise _refused("normalizer", None, f"one that writes {MARK} for a space")
    return {"model": "llama", "pre": "default", "add_space_prefix": prefix}


def _ranks(model: Mapping[str, Any]) -> dict[str, int]:
    """The place of each piece in the order in which they are merged."""
    pieces = dict.fromkeys(left + right for left, right in _merges(model))
    return {piece: rank for rank, piece in enumerate(pieces)}


def _merges(model: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Pairs, which older files write as one text."""
    for pair in model.get("merges") or []:
        left, right = pair.split(" ") if isinstance(pair, str) else pair
        yield left, right


def _steps(given: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    """The single steps of a normalizer or pre_tokenizer."""
    if given is None:
        return
    if given.get("type") != "Sequence":
        yield given
        return
    for one in given.get("normalizers") or given.get("pretokenizers") or []:
        yield from _steps(one)


def _refused(field: str, value: object, known: object) -> ConfigError:
    return ConfigError(
        f"llama.cpp reads no tokenizer whose tokenizer.json has {field}={value!s:.80} (not "
        f"{known}); models with a tokenizer of processor.tokenizer.kind=bpe or byte export."
    )
