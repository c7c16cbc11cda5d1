"""Statistics of a tokenizer on a text."""

from typing import Any

import numpy as np

from glassformer.tokenizers.text import Tokenizer


def report(tokenizer: Tokenizer, text: str, most: int = 20) -> dict[str, Any]:
    """Counts and ratios of one text, ready for JSON; ratios of an empty text are 0.

    tokens_per_byte = tokens / UTF-8 bytes; vocabulary_used = distinct ids / vocab_size;
    `round_trip`: whether decoding gives the text back; `most_frequent` and `longest`: rows of
    piece, id and count or bytes.
    """
    ids = tokenizer.encode(text)
    n_bytes, n = len(text.encode("utf-8")), len(ids)
    counts = np.bincount(ids, minlength=tokenizer.vocab_size)
    used = np.flatnonzero(counts)
    frequent = used[np.argsort(-counts[used], kind="stable")][:most].tolist()
    lengths = {int(index): len(tokenizer.token_bytes(int(index))) for index in used}
    longest = sorted(lengths, key=lambda index: (-lengths[index], index))[:most]
    unknown = tokenizer.specials.get("unk")
    return {
        "kind": tokenizer.kind,
        "vocab_size": tokenizer.vocab_size,
        "characters": len(text),
        "bytes": n_bytes,
        "tokens": n,
        "tokens_per_byte": n / n_bytes if n_bytes else 0.0,
        "bytes_per_token": n_bytes / n if n else 0.0,
        "unknowns": 0 if unknown is None else int(counts[unknown]),
        "round_trip": tokenizer.decode(ids, skip_specials=False) == text,
        "vocabulary_used": len(used) / tokenizer.vocab_size if tokenizer.vocab_size else 0.0,
        "most_frequent": [
            {"piece": tokenizer.piece(i), "id": i, "count": int(counts[i])} for i in frequent
        ],
        "longest": [{"piece": tokenizer.piece(i), "id": i, "bytes": lengths[i]} for i in longest],
    }
