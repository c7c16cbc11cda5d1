"""Statistics of a tokenizer on a text."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from glassformer.tokenizers.text import Tokenizer


def report(tokenizer: Tokenizer, text: str, most: int = 20) -> dict[str, Any]:
    """Counts and ratios of one text, ready for JSON; ratios of an empty text are 0.

    tokens_per_byte = tokens / UTF-8 bytes; vocabulary_used = distinct ids / vocab_size;
    `round_trip`: whether decoding gives the text back; `most_frequent` and `longest`: rows of
    piece, id and count or bytes.
    """
    ids, size = tokenizer.encode(text), tokenizer.vocab_size
    n_bytes, n = len(text.encode("utf-8")), len(ids)
    counts = Counter(ids.tolist())
    lengths = {index: len(tokenizer.token_bytes(index)) for index in sorted(counts)}

    def rows(values: Mapping[int, int], name: str) -> list[dict[str, Any]]:
        chosen = sorted(lengths, key=values.__getitem__, reverse=True)[:most]
        return [{"piece": tokenizer.piece(i), "id": i, name: values[i]} for i in chosen]

    return {
        "kind": tokenizer.kind,
        "vocab_size": size,
        "characters": len(text),
        "bytes": n_bytes,
        "tokens": n,
        "tokens_per_byte": n / n_bytes if n_bytes else 0.0,
        "bytes_per_token": n_bytes / n if n else 0.0,
        "unknowns": counts[tokenizer.specials.get("unk", -1)],
        "round_trip": tokenizer.decode(ids, skip_specials=False) == text,
        "vocabulary_used": len(counts) / size if size else 0.0,
        "most_frequent": rows(counts, "count"),
        "longest": rows(lengths, "bytes"),
    }
