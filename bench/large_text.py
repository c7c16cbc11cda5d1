"""Training on one large text file: memory, the first word of progress, Ctrl-C, time per byte.

python bench/large_text.py [--megabytes 1000] [--between line|space|nothing]

The text is random words, by default in one line with spaces between them; the time to encode it is
compared with that of the tokenizers library alone, on the first 100 MB.
"""

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

RECIPE = [
    *("task=text-generation", "processor.tokenizer.kind=bpe", "train.steps=1"),
    *("model.d_model=16", "model.n_layers=1", "model.n_heads=2", "model.max_length=16"),
    *("train.evaluate.batches=1", "train.sample.tokens=0", "train.precision=float32"),
]


BETWEEN = {"space": (" ", " "), "line": (" ", "\n"), "nothing": ("", "")}
"""Between words, and behind 2,000 of them."""


def write(file: Path, megabytes: int, between: str, end: str) -> None:
    """Random words of a vocabulary of 30,000."""
    draw = random.Random(0)
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    words = ["".join(draw.choices(letters, k=draw.randint(2, 9))) for _ in range(30_000)]
    with file.open("w") as out:
        size = 0
        while size < megabytes * 10**6:
            text = between.join(draw.choices(words, k=2000)) + end
            size += out.write(text)


def _interruptible() -> None:
    """In the child: hear Ctrl-C, which a program in the background ignores."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Watched:
    """A training in a process of its own, its memory and lines watched."""

    def __init__(self, text: Path, run: Path):
        command = [sys.executable, "-m", "glassformer", "train", *RECIPE]
        command += [f"data.train.path={text}", "--run", str(run)]
        self.began, self.peak, self.lines = time.perf_counter(), 0, list[tuple[float, str]]()
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, preexec_fn=_interruptible
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append((time.perf_counter() - self.began, line.rstrip()))

    def wait(self, seconds: float) -> bool:
        """Watch the memory; whether the process ended."""
        end = time.perf_counter() + seconds
        while self.process.poll() is None and time.perf_counter() < end:
            try:
                status = Path(f"/proc/{self.process.pid}/status").read_text()
            except OSError:
                break
            found = [line.split()[1] for line in status.splitlines() if line.startswith("RssAnon")]
            self.peak = max([self.peak, *map(int, found)])
            time.sleep(0.05)
        return self.process.poll() is not None


def ctrl_c(text: Path, place: Path, after: float) -> tuple[float, int | None]:
    """Seconds from Ctrl-C to the end of a training that ran for so long, and its exit code."""
    watched = Watched(text, place / f"stopped{after}")
    watched.wait(after)
    begin = time.perf_counter()
    watched.process.send_signal(signal.SIGINT)
    watched.process.wait(60)
    return time.perf_counter() - begin, watched.process.returncode


def library_alone(text: Path, tokenizer: Path, megabytes: int = 100) -> float:
    """Seconds a megabyte of the library, in the same portions, reading the text included."""
    from tokenizers import Tokenizer

    made, size = Tokenizer.from_file(str(tokenizer)), 0
    begin = time.perf_counter()
    with text.open(encoding="utf-8") as file:
        while size < megabytes * 10**6 and (part := file.read(1 << 22)):
            chunks = [part[i : i + (1 << 16)] for i in range(0, len(part), 1 << 16)]
            made.encode_batch_fast(chunks, add_special_tokens=False)
            size += len(part)
    return (time.perf_counter() - begin) / (size / 1e6)


def ours(text: Path, tokenizer: Path, place: Path, megabytes: int = 100) -> float:
    """Seconds a megabyte of our store, in which the tokens are."""
    from glassformer.data.config import DataConfig
    from glassformer.data.tokens import store_tokens
    from glassformer.tokenizers.text import Tokenizer

    part = place / "part.txt"
    with text.open("rb") as file:
        part.write_bytes(file.read(megabytes * 10**6))
    data = DataConfig.parse({"train": {"path": str(part)}, "validation": {"fraction": 0.0}})
    made = Tokenizer.load(tokenizer)
    made.encode("a")  # the library is loaded
    begin = time.perf_counter()
    store_tokens(place / "store", made, data)
    return (time.perf_counter() - begin) / (part.stat().st_size / 1e6)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--between", choices=BETWEEN, default="space")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="large-text-") as folder:
        place = Path(folder)
        text = place / "text.txt"
        write(text, asked.megabytes, *BETWEEN[asked.between])
        for after in (1, 5, 15, 30, 60):
            seconds, code = ctrl_c(text, place, after)
            print(f"Ctrl-C after {after} s: ended in {seconds:.2f} s, exit code {code}", flush=True)
        watched = Watched(text, place / "run")
        watched.wait(3600)
        took = time.perf_counter() - watched.began
        print(f"first line: {watched.lines[0]}; exit code {watched.process.poll()}")
        print(f"{took:.0f} s, peak {watched.peak / 1024:.0f} MiB anonymous memory", flush=True)
        made = place / "run" / "tokenizer.json"
        for _ in range(2):  # in turn
            alone, own = library_alone(text, made), ours(text, made, place)
            print(f"encoding: {own * 1e3:.0f} ms/MB, the library alone {alone * 1e3:.0f}")


if __name__ == "__main__":
    main()
