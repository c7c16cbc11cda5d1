"""Texts that are hard for tokenizers: the time by their length, and whether they come back."""

import random
import statistics
import time
from typing import Any

import numpy as np

from glassformer.tokenizers.config import TokenizerConfig
from glassformer.tokenizers.train import train_tokenizer


def patterns() -> list[str]:
    """200 texts to repeat: what makes regular expressions, merges and normalization slow."""
    draw = random.Random(0)
    single = [
        *"a0 _-.'!\n\t\r\0é你あ한א\u0301\u200d\u202e\ufeff\ufdfa\u1e9e🙂",
        "\U0001f1e6",
        "\U0010ffff",
    ]
    units = [one * n for one in single for n in (1, 7)]
    units += [
        "ab",
        "aA",
        "a1",
        "a.",
        "a'",
        "' ",
        "  a",
        "a  ",
        "\n\n a",
        "\r\n",
        "a\u0301\u0323",
        "👩‍👩‍👧",
    ]
    units += ["((", "[](", "}{", "<a>", "</s>", "<unk>", "<|endoftext|>", "\\u0000", "&amp;", "%20"]
    units += [
        "don't",
        "I'll've",
        "http://a.b/c?d=e&f",
        "1,234.5",
        "2026-11-22T03:50",
        "x" * 5000 + " ",
    ]
    units += [
        " " * 5000 + "x",
        "a" * 257,
        "a" * 256 + "b",
        "word " * 9,
        "ÀÉ",
        "ß",
        "ﬁ",
        "Ⅷ",
        "①",
        "½",
    ]
    while len(units) < 200:
        signs = "".join(chr(draw.choice(RANGES) + draw.randrange(60)) for _ in range(4))
        units.append("".join(draw.choice(signs) for _ in range(draw.randrange(2, 40))))
    return units[:200]


RANGES = (
    *(0x20, 0x40, 0xA0, 0x300, 0x391, 0x410, 0x5D0, 0x621, 0x905, 0xE01, 0x1100, 0x2000, 0x2190),
    *(0x3041, 0x4E00, 0xAC00, 0x1F300, 0x1F600),
)


def tokenizers_of() -> dict[str, Any]:
    """One of each kind, learned from a small text."""

    text = "the theatre then, isn't it? Über 你好 the cat sat on 1,234 mats. " * 20
    kinds = ({"kind": "byte"}, {"kind": "character"}, {"kind": "word"})
    made = [*kinds, {"kind": "bpe", "vocab_size": 400}]
    return {one["kind"]: train_tokenizer(TokenizerConfig.parse(one), [text]) for one in made}


STEEPEST = 1.1
"""Exponent of time by length, above which a text is timed again."""
SHORTEST = 0.1
"""Seconds of computation; less tells about caches and pages of memory, not about the length."""


def pathological_texts(units: list[str], sizes: list[int], random_texts: int) -> list[str]:
    """What went wrong; the exponents of time by length are printed, with the longest time."""
    problems = list[str]()
    for kind, tokenizer in tokenizers_of().items():
        exponents, longest = list[tuple[float, str]](), (0.0, "")
        returns = kind in ("byte", "bpe")
        for unit in units:
            texts = [(unit * (size // len(unit) + 1))[:size] for size in sizes]
            took = [min(_timed(tokenizer, text) for _ in range(2)) for text in texts]
            again = 0
            while len(sizes) > 1 and took[-1] > SHORTEST and again < 4:
                if _slope(sizes, took) <= STEEPEST:
                    break
                again += 1  # another program may have run beside it
                took = [
                    min(old, _timed(tokenizer, text)) for old, text in zip(took, texts, strict=True)
                ]
            longest = max(longest, (took[-1], f"{unit[:20]!r} to {sizes[-1]}"))
            if returns and tokenizer.decode(tokenizer.encode(texts[0])) != texts[0]:
                problems.append(f"{kind}, {unit[:20]!r} to {sizes[0]}: another text comes back")
            if len(sizes) > 1 and took[-1] > SHORTEST:
                exponents.append((_slope(sizes, took), repr(unit[:20])))
        said = f"longest {longest[0]:.2f} s ({longest[1]})"
        if exponents:
            (most, where), middle = max(exponents), statistics.median(e for e, _ in exponents)
            many = sum(e > STEEPEST for e, _ in exponents)
            print(
                f"  {kind}: time ~ length^{middle:.3f} (median of {len(exponents)}), {most:.3f} at "
                f"most ({where}), {many} above {STEEPEST}"
            )
        print(f"  {kind}: {said}")
        draw = random.Random(kind)
        for _ in range(random_texts if returns else 0):
            text = _any_text(draw)
            if tokenizer.decode(tokenizer.encode(text)) != text:
                problems.append(f"{kind}: {text!r} comes back as another text")
    return problems


def _timed(tokenizer: Any, text: str) -> float:
    """Seconds of computation."""
    begin = time.process_time()
    tokenizer.encode(text)
    return time.process_time() - begin


def _slope(sizes: list[int], times: list[float]) -> float:
    """Exponent e of time = c * size^e, by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def _any_text(draw: random.Random) -> str:
    """Any valid UTF-8, of up to 40 characters."""
    found = (
        draw.randrange(0x110000 if draw.random() < 0.5 else 0x180)
        for _ in range(draw.randrange(40))
    )
    return "".join(chr(one) for one in found if not 0xD800 <= one < 0xE000)
