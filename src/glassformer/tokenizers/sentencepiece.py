"""SentencePiece models: their pieces and their steps of a text, as the tokenizer library has them.

    "  Two  cats" -> charsmap, one space "Two cats" -> prefix, mark "▁Two▁cats" -> ▁Two ▁cat s

Each step is there only if the model has it. The package sentencepiece reads the file.

Source: google/sentencepiece, src/sentencepiece_model.proto.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.core.errors import ConfigError, DataError
from glassformer.core.files import read_bytes
from glassformer.tokenizers.decoding import MARK
from glassformer.tokenizers.library import guard

if TYPE_CHECKING:
    from tokenizers.models import Unigram

    from tokenizers import Tokenizer as Library

LARGEST = 16 << 20
"""Bytes of a model; the largest published ones have about 5 MB."""
NORMAL, UNKNOWN, CONTROL, USER_DEFINED = 1, 2, 3, 4
"""Types of pieces."""
UNIGRAM, BYTE_PAIRS = 1, 2
"""Types of models."""


def missing_package(file: Path, package: str) -> ConfigError:
    """Return the error for a package that reads a file and is not installed."""
    return ConfigError(
        f"{file} is read by {package}, which is not installed; run pip install 'glassformer[hub]', "
        "or give the tokenizer as a tokenizer.json."
    )


def read_sentencepiece(file: Path) -> Any:
    """Read the ModelProto of a file.

    DataError: missing, damaged, or of a kind that is not read. ConfigError: the package is missing.
    """
    raw = read_bytes(file, LARGEST, "a SentencePiece model")
    try:
        from sentencepiece import sentencepiece_model_pb2 as schema
    except ImportError:
        raise missing_package(file, "sentencepiece with protobuf") from None
    model = getattr(schema, "ModelProto")()  # noqa: B009 - made while the module is imported
    with guard(f"read {file} as a SentencePiece model"):
        model.ParseFromString(raw)
    trainer = model.trainer_spec
    marks = model.normalizer_spec.escape_whitespaces and not trainer.treat_whitespace_as_suffix
    if trainer.model_type not in (UNIGRAM, BYTE_PAIRS) or not marks:
        raise DataError(
            f"{file} is a SentencePiece model of words or characters, or one that does not mark "
            f"spaces before words; give the tokenizer as a tokenizer.json"
        )
    return model


def unknown_piece(model: Any) -> str:
    """Return the piece for unknown characters."""
    return next(piece.piece for piece in model.pieces if piece.type == UNKNOWN)


def unigram(names: Sequence[str], model: Any) -> "Unigram":
    """Return the unigram model with the tokens `names` in the order of their ids.

    Scores are those of the pieces; so high that it is always taken for a symbol of the user; so low
    that it is never taken for a token that no text spells.
    """
    from tokenizers import models

    scores = {piece.piece: piece.score for piece in model.pieces if piece.type == NORMAL}
    lowest = (max(map(len, names)) + 1) * min([-1.0, *scores.values()])
    highest = max(scores.values(), default=0.0)
    users = [piece.piece for piece in model.pieces if piece.type == USER_DEFINED]
    scores |= {user: len(user) * highest - 0.1 for user in users}
    unknown, fallback = names.index(unknown_piece(model)), model.trainer_spec.byte_fallback
    return models.Unigram([(name, scores.get(name, lowest)) for name in names], unknown, fallback)


def to_plain(model: Any) -> bytes:
    """Return a model to be converted, without what `set_model` gives the result."""
    copy = type(model)()
    copy.CopyFrom(model)
    copy.ClearField("normalizer_spec")
    copy.trainer_spec.model_type = UNIGRAM  # which a converter needs no merges of
    for piece in copy.pieces:
        if piece.type == USER_DEFINED:
            piece.type = NORMAL
    return copy.SerializeToString()


def set_model(library: "Library", model: Any) -> None:
    """Give a converted tokenizer the scores or merges of a model, and its steps.

    DataError: no tokenizer.json expresses the model.
    """
    from tokenizers import models

    trainer, spec = model.trainer_spec, model.normalizer_spec
    vocab = library.get_vocab(with_added_tokens=False)
    users = [piece.piece for piece in model.pieces if piece.type == USER_DEFINED]
    if trainer.model_type == UNIGRAM:
        library.model = unigram(sorted(vocab, key=vocab.__getitem__), model)
    elif users and (spec.add_dummy_prefix or spec.remove_extra_whitespaces):
        raise DataError(
            f"the model merges byte pairs around the symbol {users[0]!r} of its own and adds or "
            f"drops spaces, which is not read; give the tokenizer as a tokenizer.json"
        )
    else:
        unknown, fallback = unknown_piece(model), trainer.byte_fallback
        library.model = models.BPE(
            vocab, merges(model), unk_token=unknown, fuse_unk=True, byte_fallback=fallback
        )
        library.add_tokens(users)
    set_steps(library, model)


def merges(model: Any) -> list[tuple[str, str]]:
    """Return the pairs that make each piece, those of the best scores first."""
    pieces = model.pieces
    ids = {piece.piece: i for i, piece in enumerate(pieces) if piece.type == NORMAL}
    found = [
        (-pieces[whole].score, whole, ids[left], ids[right])
        for text, whole in ids.items()
        for cut in range(1, len(text))
        if (left := text[:cut]) in ids and (right := text[cut:]) in ids
    ]
    return [(pieces[left].piece, pieces[right].piece) for _, _, left, right in sorted(found)]


def set_steps(library: "Library", model: Any) -> None:
    """Give a tokenizer the steps of a model before and after its pieces."""
    from tokenizers import Regex, decoders, normalizers, pre_tokenizers

    spec, replace = model.normalizer_spec, normalizers.Replace
    steps = list[Any]()
    if spec.precompiled_charsmap:
        steps.append(normalizers.Precompiled(spec.precompiled_charsmap))
    if spec.remove_extra_whitespaces:
        steps += [replace(Regex(" {2,}"), " "), replace(Regex(rf"\A +|[ {MARK}]+\z"), "")]
    if spec.add_dummy_prefix:
        steps.append(normalizers.Prepend(MARK))
    library.normalizer = normalizers.Sequence([*steps, replace(" ", MARK)])
    # pieces that have a space only at their beginning are the same in a text and in its words
    whole = any(MARK in piece.piece[1:] for piece in model.pieces if piece.type != CONTROL)
    library.pre_tokenizer = None if whole else pre_tokenizers.Split(MARK, "merged_with_next")
    strips = spec.add_dummy_prefix or spec.remove_extra_whitespaces
    decoded: list[Any] = [
        decoders.Replace(MARK, " "),
        *[decoders.ByteFallback()] * model.trainer_spec.byte_fallback,
        decoders.Fuse(),
        *[decoders.Strip(" ", 1, 0)] * strips,
    ]
    library.decoder = decoders.Sequence(decoded)
