"""Products of few rows with GPT-2's matrices, by each format of `linear.packed`, and in float32.

    python bench/one_row_kernels.py [--threads 2] [--rows 1,2,4,16,64,128]

Prints one JSON object: microseconds of a product, the best of rounds in turn, by shape, number of
rows and kernel: torch's own (`torch`), oneDNN's (`plain`), and the formats. Each round walks over
as many matrices as a model of twelve layers has, so that no weight is in a cache.
"""

import argparse
import json
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.layers import cpu_kernels
from glassformer.layers.linear.packed import OF_LOGITS, PackedMatrix
from glassformer.models.packing import FORMATS

SHAPES = {(768, 768): 48, (2304, 768): 12, (3072, 768): 12, (768, 3072): 12, (50257, 768): 1}
"""Rows and columns of a matrix, and how many a model has."""
ROUNDS = 12
Kernel = Callable[[Tensor], object]


def kernels(shape: tuple[int, int], number: int) -> dict[str, list[Kernel]]:
    """The products of each kind, one for each matrix."""
    weights = [torch.randn(shape) for _ in range(number)]
    found: dict[str, list[Kernel]] = {
        "torch": [lambda x, w=w: F.linear(x, w) for w in weights],
        "plain": [lambda x, w=w: cpu_kernels.linear(x, w, None) for w in weights],
    }
    for bits in FORMATS:
        own = OF_LOGITS[bits] if shape[0] > 10_000 else bits
        packed = [PackedMatrix(weight, own) for weight in weights]
        found[bits] = [lambda x, m=m: m.linear(x, None) for m in packed]
    return found


def best(all_of: dict[str, list[Kernel]], x: Tensor) -> dict[str, float]:
    """Microseconds of one product of each kind."""
    times: dict[str, list[float]] = {name: [] for name in all_of}
    for _ in range(ROUNDS):
        for name, products in all_of.items():
            begin = time.perf_counter()
            for product in products:
                product(x)
            times[name].append((time.perf_counter() - begin) / len(products))
    return {name: round(1e6 * min(own), 1) for name, own in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rows", default="1,2,4,16,64,128")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    found = {}
    with torch.no_grad():
        for shape, number in SHAPES.items():
            products = kernels(shape, number)
            found[" x ".join(map(str, shape))] = {
                rows: best(products, torch.randn(int(rows), shape[1]))
                for rows in given.rows.split(",")
            }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
