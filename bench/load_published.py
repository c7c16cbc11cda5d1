"""Opening a published checkpoint here beside safetensors' own memory-mapped read of the same file.

    python bench/load_published.py --folder EMPTY [--megabytes 500]

Writes a BERT of that size with random weights, then opens it in processes of its own, the file in
the system's cache: `safetensors` maps every tensor and reads each number once (its largest and
smallest), `glassformer` opens the model, which also compares names and shapes and refuses numbers
that are not finite. Prints one JSON object: seconds (medians of rounds A B A B ...), and the
resident memory that opening added at its peak, in sizes of the file.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

SIDES = {
    "safetensors": """
from safetensors.torch import load_file
import torch
def read(folder):
    tensors = load_file(folder / "model.safetensors")
    return tensors, [one.aminmax() for one in tensors.values()]
""",
    "glassformer": """
import torch
from glassformer.interop.configuration import published_keys
from glassformer.interop.opening import open_published
def read(folder):
    return open_published(folder, published_keys(folder))
""",
}
MEASURED = """
import sys, time
from pathlib import Path
def peak():
    text = Path("/proc/self/status").read_text()
    return int(text.split("VmHWM:")[1].split()[0]) * 1024
before, begin = peak(), time.perf_counter()
kept = read(Path(sys.argv[1]))
print(time.perf_counter() - begin, peak() - before)
"""


def write(folder: Path, megabytes: int) -> Path:
    """A BERT whose file has about this size."""
    import torch

    from glassformer.interop.targets.transformers import fitting, save_model
    from glassformer.models import Transformer
    from glassformer.models.presets import bert

    layers = max(1, round((megabytes * 1e6 / 4 - 31e6) / 12.6e6))
    torch.manual_seed(0)
    config = bert("large", n_layers=layers)
    save_model(fitting(config, "feature-extraction"), Transformer(config), folder)
    return folder / "model.safetensors"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    size = write(given.folder, given.megabytes).stat().st_size
    found: dict[str, list[tuple[float, int]]] = {name: [] for name in SIDES}
    for _ in range(given.rounds):
        for name, code in SIDES.items():
            command = [sys.executable, "-c", code + MEASURED, str(given.folder)]
            said = subprocess.run(
                command, capture_output=True, text=True, check=True
            ).stdout.split()
            found[name].append((float(said[0]), int(said[1])))
    seconds = {name: statistics.median(s for s, _ in own) for name, own in found.items()}
    added = {name: max(m for _, m in own) / size for name, own in found.items()}
    print(
        json.dumps(
            {
                "megabytes": round(size / 1e6),
                "seconds": {name: round(own, 3) for name, own in seconds.items()},
                "times": round(seconds["glassformer"] / seconds["safetensors"], 3),
                "memory_in_files": {name: round(own, 3) for name, own in added.items()},
            }
        )
    )


if __name__ == "__main__":
    main()
