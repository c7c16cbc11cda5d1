"""Wall-clock time of `glassformer --help` and of an import, as whole processes: medians, in
seconds, as JSON."""

import json
import os
import statistics
import subprocess
import sys
import time


def median_seconds(command: list[str], runs: int = 11) -> float:
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - begin)
    return round(statistics.median(times), 3)


if __name__ == "__main__":
    sys.stderr.write("About half a minute on two cores.\n")
    commands = {
        "glassformer --help": [sys.executable, "-m", "glassformer", "--help"],
        "glassformer train --help": [sys.executable, "-m", "glassformer", "train", "--help"],
        "import glassformer": [sys.executable, "-c", "import glassformer"],
        "python alone": [sys.executable, "-c", "pass"],
    }
    figures = {name: median_seconds(command) for name, command in commands.items()}
    sys.stdout.write(json.dumps({"load_before": os.getloadavg()[0], **figures}, indent=2) + "\n")
