"""The tokenizer of a GGUF file.

gpt2   byte-level byte pairs: tokens, merges, and the name of how a text is cut before
llama  SentencePiece byte pairs: tokens and scores. The pair of the highest score is merged first.

`gguf_tokenizers.json` lists what llama.cpp knows: its names, and the fields of a tokenizer.json.

Source: ggml-org/llama.cpp, src/llama-vocab.cpp.
"""

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from glassformer.core.errors import ConfigError
from glassformer.tokenizers.decoding import ALPHABET, MARK
from glassformer.tokenizers.frame import Frame
from glassformer.tokenizers.text import Tokenizer

if TYPE_CHECKING:
    from gguf import GGUFWriter

KNOWN = files("glassformer.interop").joinpath("gguf_tokenizers.json")
OPTIONS = (
    *("type", "continuing_subword_prefix", "end_of_word_suffix"),
    *("byte_fallback", "ignore_merges", "merges"),
)
WITHOUT_EFFECT = ("trim_offsets", "split")
"""Keys of steps that llama.cpp needs not know."""
BYTES = {"gpt2": [*ALPHABET], "llama": [f"<0x{byte:02X}>" for byte in range(256)]}
ROLES = ("bos", "eos", "unk", "pad", "mask")
NO_MERGE = f"{MARK} {MARK}"
"""A pair that no text has: llama.cpp needs at least one."""


def add_tokenizer(writer: "GGUFWriter", tokenizer: Tokenizer, frame: Frame, size: int) -> None:
    """Add a tokenizer, filled up to a size with tokens that no text has.

    ConfigError: llama.cpp would read texts as other tokens.
    """
    from gguf import TokenType

    known, model = _find(tokenizer.definition), tokenizer.definition["model"]
    vocab, added = model["vocab"], tokenizer.definition.get("added_tokens") or []
    if missing := {*BYTES[known["model"]]} - vocab.keys():
        raise _refusal(f"no token {min(missing)} in model.vocab (every byte needs one)")
    # older files write a pair as one text
    pairs = [one.split(" ") if isinstance(one, str) else one for one in model.get("merges") or []]
    names = {i: piece for piece, i in vocab.items()} | {one["id"]: one["content"] for one in added}
    types = dict.fromkeys(vocab.values(), TokenType.NORMAL)
    ids = range(max(size, tokenizer.vocab_size))
    writer.add_tokenizer_model(known["model"])
    writer.add_tokenizer_pre(known["pre"])
    if known["model"] == "gpt2":
        writer.add_token_merges([" ".join(pair) for pair in pairs] or [NO_MERGE])
    else:
        writer.add_add_space_prefix(known["add_space_prefix"])
        ranks = {piece: i for i, piece in enumerate(dict.fromkeys(map("".join, pairs)))}
        writer.add_token_scores([-float(ranks.get(names.get(i, ""), len(ranks))) for i in ids])
        types |= {vocab[name]: TokenType.BYTE for name in BYTES["llama"]}
        # sought in a text before its spaces are marked
        names |= {one["id"]: one["content"].replace(MARK, " ") for one in added}
    kinds = (TokenType.USER_DEFINED, TokenType.CONTROL)
    types |= {one["id"]: kinds[bool(one.get("special"))] for one in added}
    if "unk" in tokenizer.specials:
        types[tokenizer.specials["unk"]] = TokenType.UNKNOWN
    writer.add_token_list([names.get(i, f"[PAD{i}]") for i in ids])
    writer.add_token_types([types.get(i, TokenType.UNUSED) for i in ids])
    _add_symbols(writer, tokenizer.specials, frame)


def _add_symbols(writer: "GGUFWriter", specials: Mapping[str, int], frame: Frame) -> None:
    if "eos" not in specials:
        raise ConfigError(
            "The tokenizer has no symbol for the end of a text, which llama.cpp needs; add <eos> "
            "to its special symbols."
        )
    # without one, llama.cpp takes the token 11 for the beginning
    ids = {"bos": specials["eos"], **specials}
    if frame.begin not in ((), (ids["bos"],)):
        raise _refusal(f"{frame.begin} before a text (not one symbol for the beginning)")
    for role in ROLES:
        if role in ids:
            getattr(writer, f"add_{role}_token_id")(ids[role])
    writer.add_add_bos_token(bool(frame.begin))
    writer.add_add_eos_token(False)  # the end of a text is not the end of a prompt


def _find(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry of this tokenizer; ConfigError: there is none, with the fields in which the
    nearest one differs."""
    given = {name: definition.get(name) for name in ("normalizer", "pre_tokenizer")}
    own = json.loads(json.dumps(given), object_hook=_without_effect)
    own |= {f"model.{name}": definition["model"].get(name) or None for name in OPTIONS}
    own["model.merges"] = own["model.merges"] and True
    rows = json.loads(KNOWN.read_text(encoding="utf-8"))
    others = [[name for name in own if own[name] != row["of"].get(name)] for row in rows]
    nearest = min(range(len(rows)), key=lambda i: len(others[i]))
    if others[nearest]:
        shown = (
            f"{k}={own[k]!s:.80} (not {rows[nearest]['of'].get(k)!s:.80})" for k in others[nearest]
        )
        raise _refusal("; ".join(shown))
    return rows[nearest]


def _without_effect(step: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in step.items() if key not in WITHOUT_EFFECT}


def _refusal(problem: str) -> ConfigError:
    return ConfigError(
        f"llama.cpp reads no tokenizer with {problem}; models with a tokenizer of "
        "processor.tokenizer.kind=bpe or byte export."
    )
