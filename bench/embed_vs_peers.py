"""Sentence vectors here beside transformers and sentence-transformers, in one run, on the CPU.

    python bench/embed_vs_peers.py --model FOLDER --texts FILE [--threads 2]

FOLDER: a published sentence-embedding model; FILE: a text a line. transformers gets batches of 64
texts in the order of their lengths, which is also what sentence-transformers does (it takes part if
it is installed). Prints one JSON object: texts a second, medians of rounds A B A B ..., and the
largest difference of a number of the vectors.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import transformers

import glassformer as gf

BATCH = 64


def peer(folder: Path, longest: int) -> Callable[[list[str]], np.ndarray]:
    """transformers: mean of the last states, of length 1, in batches of like length."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()

    @torch.inference_mode()
    def embed(texts: list[str]) -> np.ndarray:
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        found = np.zeros((len(texts), model.config.hidden_size), np.float32)
        for begin in range(0, len(order), BATCH):
            own = order[begin : begin + BATCH]
            given = tokenizer(
                [texts[i] for i in own],
                padding=True,
                truncation=True,
                max_length=longest,
                return_tensors="pt",
            )
            states, mask = model(**given).last_hidden_state, given["attention_mask"][..., None]
            mean = (states * mask).sum(1) / mask.sum(1)
            found[own] = torch.nn.functional.normalize(mean, dim=1).numpy()
        return found

    return embed


def library(folder: Path) -> Callable[[list[str]], np.ndarray] | None:
    """sentence-transformers, if it is installed."""
    try:
        from sentence_transformers import (  # pyright: ignore[reportMissingImports]
            SentenceTransformer,
        )
    except ImportError:
        return None
    model = SentenceTransformer(str(folder), device="cpu")
    return lambda texts: model.encode(texts, batch_size=BATCH, normalize_embeddings=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--most", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    lines = given.texts.read_text(encoding="utf-8").splitlines()
    texts = [line for line in lines if line.strip()][: given.most]
    run = gf.load(given.model)
    sides = {
        "glassformer": run.embed,
        "transformers": peer(given.model, run.model.config.max_length),
    }
    if other := library(given.model):
        sides["sentence-transformers"] = other
    vectors = {name: embed(texts) for name, embed in sides.items()}  # and a round to warm up
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(given.rounds):
        for name, embed in sides.items():
            begin = time.perf_counter()
            embed(texts)
            seconds[name].append(time.perf_counter() - begin)
    rates = {name: len(texts) / statistics.median(own) for name, own in seconds.items()}
    ours = vectors["glassformer"]
    print(
        json.dumps(
            {
                "texts": len(texts),
                "threads": given.threads,
                "texts_per_second": {name: round(rate, 1) for name, rate in rates.items()},
                "times": {
                    name: round(rates["glassformer"] / rate, 3) for name, rate in rates.items()
                },
                "difference": {
                    name: float(np.abs(own - ours).max()) for name, own in vectors.items()
                },
            }
        )
    )


if __name__ == "__main__":
    main()
