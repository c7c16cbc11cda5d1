"""Beam search here beside CTranslate2 in one run, on the CPU, in float32 and with 8-bit integers.

    python bench/translate_vs_ctranslate2.py --run RUN --texts FILE [--threads 2]

RUN: a translator that CTranslate2 has a class for, such as one of BART's architecture:

    glassformer train multi30k data.root=PATH --run RUN model.position=learned model.norm=layer
        model.own_source_positions=true model.norm_placement=post model.epsilon=0.00001
        model.bias=true model.attention_bias=true model.qk_norm=false model.activation=relu
        model.head_bias=true model.init=gpt2 train.optimizer.matrix_learning_rate=0.01
        train.optimizer.learning_rate=0.002 train.steps=900

FILE: a text a line. Both sides sort the texts by length and search with five beams; each gets the
batch size (CTranslate2 also the division of its threads) with which it was fastest before, and its
own other settings. Ours decodes by a compiled step and is timed from texts to texts, CTranslate2
from tokens to tokens. Prints one JSON object: sentences a second, medians of rounds A B A B ...
and how many texts are the same.
"""

import argparse
import gzip
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import ctranslate2
import torch

import glassformer as gf
from glassformer.core.files import read_json
from glassformer.processors.tokens.pair_tokenizer import PairTokenizer
from glassformer.runtime.config import GenerateConfig

BEAMS, LONGEST = 5, 100
OURS = {"float32": None, "int8": "int8"}
"""Formats of CTranslate2, and ours with as many bits."""
BATCHES = {"glassformer": (128, 256, 512), "ctranslate2": (16, 32, 64)}
Search = Callable[[Sequence[str]], list[str]]


def ours(run: gf.Run, batch: int) -> Search:
    config = GenerateConfig.parse({"beams": BEAMS, "max_new_tokens": LONGEST})

    def search(texts: Sequence[str]) -> list[str]:
        return run.predictor("translate").complete(texts, config, batch)

    return search


def theirs(
    folder: Path, kind: str, pair: PairTokenizer, batch: int, threads: tuple[int, int]
) -> Search:
    """Their search; encoding and decoding are done before and after the clock by `timed`."""
    inter, intra = threads
    model = ctranslate2.Translator(
        str(folder), compute_type=kind, inter_threads=inter, intra_threads=intra
    )
    (file,) = folder.glob("*vocabulary.json")
    names = read_json(file, 1 << 27)
    ids = {name: i for i, name in enumerate(names)}

    def search(texts: Sequence[str]) -> list[str]:
        tokens = [[names[i] for i in pair.source_ids(text).tolist()] for text in texts]
        begin = time.perf_counter()
        found = model.translate_batch(
            tokens, beam_size=BEAMS, max_batch_size=batch, max_decoding_length=LONGEST
        )
        search.seconds = time.perf_counter() - begin  # pyright: ignore[reportFunctionMemberAccess]
        return [pair.target.decode([ids[name] for name in one.hypotheses[0]]) for one in found]

    return search


def timed(search: Search, texts: Sequence[str]) -> tuple[list[str], float]:
    begin = time.perf_counter()
    found = search(texts)
    return found, getattr(search, "seconds", time.perf_counter() - begin)


def fastest(searches: Sequence[tuple[str, Search]], texts: Sequence[str]) -> tuple[str, Search]:
    """The fastest of several settings, after a round to warm up."""
    for _, search in searches:
        timed(search, texts[:100])
    return min(searches, key=lambda one: timed(one[1], texts)[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--most", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    data = given.texts.read_bytes()
    data = gzip.decompress(data) if given.texts.suffix == ".gz" else data
    texts = [line.strip() for line in data.decode().splitlines() if line.strip()][: given.most]
    divided = [(1, given.threads), (given.threads, 1)]
    sides: dict[str, tuple[str, Search]] = {}
    with tempfile.TemporaryDirectory() as place:
        gf.export_run(given.run, "ctranslate2", folder := Path(place, "theirs"))
        for kind, bits in OURS.items():
            run = gf.load(given.run, quantize=bits, compile=True)
            sides[f"glassformer {kind}"] = fastest(
                [(f"batch {n}", ours(run, n)) for n in BATCHES["glassformer"]], texts
            )
            sides[f"ctranslate2 {kind}"] = fastest(
                [
                    (
                        f"batch {n}, threads {a} x {b}",
                        theirs(folder, kind, run.task.processor.pair, n, (a, b)),
                    )
                    for n in BATCHES["ctranslate2"]
                    for a, b in divided
                ],
                texts,
            )
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    found: dict[str, list[str]] = {}
    for _ in range(given.rounds):
        for name, (_, search) in sides.items():
            found[name], took = timed(search, texts)
            seconds[name].append(took)
    rates = {name: len(texts) / statistics.median(own) for name, own in seconds.items()}
    same = {
        kind: sum(map(str.__eq__, found[f"glassformer {kind}"], found[f"ctranslate2 {kind}"]))
        for kind in OURS
    }
    print(
        json.dumps(
            {
                "sentences": len(texts),
                "threads": given.threads,
                "load": os.getloadavg()[0],
                "sentences_per_second": {name: round(rate, 1) for name, rate in rates.items()},
                "times": {
                    kind: round(rates[f"glassformer {kind}"] / rates[f"ctranslate2 {kind}"], 3)
                    for kind in OURS
                },
                "same_texts": same,
                "settings": {name: how for name, (how, _) in sides.items()},
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
