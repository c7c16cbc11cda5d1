"""One large text file: memory, the first word of progress, Ctrl-C, speed, kills.

python bench/large_text.py PART [--megabytes 1000] [--between line|space|nothing | --text FILE]
                                [--folder FOLDER]

PART   train    a training on it: memory, first line, Ctrl-C
       store    its tokens: the speed beside that of the tokenizers library alone with all threads,
                on the same text in the same run; memory
       resume   its tokens: killed twice and started again, the bytes beside those of one start

The text is random words, by default in one line with spaces between them, or a file repeated. It
and the stores are kept in FOLDER, where the next part finds them.
"""

import argparse
import hashlib
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from itertools import islice
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


ENCODE = """
import sys
from glassformer.core import progress
from glassformer.data.config import DataConfig
from glassformer.data.tokens import store_tokens
from glassformer.tokenizers.text import Tokenizer
tokenizer, text, store = Tokenizer.load(sys.argv[1]), sys.argv[2], sys.argv[3]
data = DataConfig.parse({"train": {"path": text}})
with progress.following(lambda what: print(what, file=sys.stderr, flush=True)):
    print(store_tokens(store, tokenizer, data).counts["train"])
"""


def written(text: Path, megabytes: int, between: str, repeated: Path | None) -> None:
    """Random words, or a file again and again."""
    if repeated is None:
        write(text, megabytes, *BETWEEN[between])
        return
    raw = repeated.read_bytes()
    with text.open("wb") as out:
        for _ in range(-(-megabytes * 10**6 // len(raw))):
            out.write(raw)


def learn(text: Path, tokenizer: Path) -> None:
    """Byte pairs, learned from the first 16 MB."""
    from glassformer.tokenizers.config import TokenizerConfig
    from glassformer.tokenizers.train import train_tokenizer

    config = TokenizerConfig.parse({"kind": "bpe", "vocab_size": 8192})
    with text.open(encoding="utf-8") as file:
        parts = iter(lambda: file.read(1 << 20), "")
        train_tokenizer(config, islice(parts, 16)).save(tokenizer)


def library_alone(text: Path, tokenizer: Path, first: int, megabytes: int) -> tuple[float, float]:
    """Megabytes a second of the library with all threads, in portions of 4 MB, without reading;
    and megabytes in a second of processors."""
    from tokenizers import Tokenizer

    made, seconds, worked, size = Tokenizer.from_file(str(tokenizer)), 0.0, 0.0, 0
    with text.open("rb") as file:
        file.seek(first * 10**6)
        while size < megabytes * 10**6 and (raw := file.read(1 << 22)):
            part = raw.decode(errors="ignore")
            chunks = [part[i : i + (1 << 16)] for i in range(0, len(part), 1 << 16)]
            begin, before = time.perf_counter(), time.process_time()
            made.encode_batch_fast(chunks, add_special_tokens=False)
            seconds += time.perf_counter() - begin
            worked += time.process_time() - before
            size += len(raw)
    return size / 1e6 / seconds, size / 1e6 / worked


def memory(process: int) -> int:
    """KiB in memory of a process and those that it started; what they share counts for each."""
    parents, sizes = dict[int, int](), dict[int, int]()
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        except OSError:
            continue
        number = int(status.parent.name)
        parents[number] = int(fields["PPid"])
        sizes[number] = int(fields.get("VmRSS", "0 kB").split()[0])
    own = {process}
    while more := {number for number, of in parents.items() if of in own} - own:
        own |= more
    return sum(sizes.get(number, 0) for number in own)


def store(text: Path, tokenizer: Path, place: Path) -> None:
    """Speed and memory of encoding a text, between two measurements of the library."""
    megabytes = text.stat().st_size / 1e6
    part = max(round(megabytes / 10), 1)
    alone = [library_alone(text, tokenizer, 0, part)]
    begin, peak = time.perf_counter(), 0
    command = [sys.executable, "-c", ENCODE, str(tokenizer), str(text), str(place / "store")]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            peak = max(peak, memory(process.pid))
            time.sleep(0.1)
    seconds, used = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    alone.append(library_alone(text, tokenizer, 8 * part, part))
    own = megabytes / seconds, megabytes / (used.ru_utime + used.ru_stime)
    print(f"{seconds:.0f} s with Python's start; {peak / 1024:.0f} MiB")
    for number, what in enumerate(("s", "s of CPU")):
        (first, last), speed = (one[number] for one in alone), own[number]
        ratio = speed / ((first + last) / 2)
        print(f"MB/{what}: {speed:.2f}, the library alone {first:.2f} and {last:.2f}: {ratio:.2f}")


def content(folder: Path) -> dict[str, str]:
    """SHA-256 of each file."""
    files = sorted(folder.iterdir())
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest()[:12] for file in files}


def resume(text: Path, tokenizer: Path, place: Path) -> None:
    """Kill the encoding of a text after a third and after two thirds; compare it with one start."""
    command = [sys.executable, "-c", ENCODE, str(tokenizer), str(text)]
    for share in (1 / 3, 2 / 3):
        with subprocess.Popen(
            [*command, str(place / "killed")], stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stderr is not None
            for line in process.stderr:
                words = line.replace(",", "").split()
                if words[0] == "reading" and int(words[2]) >= share * text.stat().st_size / 1e6:
                    break
            process.kill()
        kept = sum(1 for _ in (place / ".killed.shards").glob("0*/manifest.json"))
        print(f"killed after {line.strip()}: {kept} shards are kept", flush=True)
    for name in ("killed", "store"):
        begin = time.perf_counter()
        subprocess.run([*command, str(place / name)], check=True, stderr=subprocess.DEVNULL)
        print(f"{name}: {time.perf_counter() - begin:.0f} s", content(place / name), flush=True)
    print("the same bytes:", content(place / "killed") == content(place / "store"))


def train(text: Path, place: Path) -> None:
    """Ctrl-C, memory and the first line of a training."""
    for after in (1, 5, 15, 30, 60):
        seconds, code = ctrl_c(text, place, after)
        print(f"Ctrl-C after {after} s: ended in {seconds:.2f} s, exit code {code}", flush=True)
    watched = Watched(text, place / "run")
    watched.wait(3600)
    took = time.perf_counter() - watched.began
    print(f"first line: {watched.lines[0]}; exit code {watched.process.poll()}")
    print(f"{took:.0f} s, peak {watched.peak / 1024:.0f} MiB anonymous memory", flush=True)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("train", "store", "resume"))
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--between", choices=BETWEEN, default="space")
    parser.add_argument("--text", type=Path)
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="large-text-") as temporary:
        place = asked.folder or Path(temporary)
        place.mkdir(parents=True, exist_ok=True)
        text, tokenizer = place / "text.txt", place / "tokenizer.json"
        if not text.is_file():
            written(text, asked.megabytes, asked.between, asked.text)
        if asked.part == "train":
            train(text, place)
            return
        if not tokenizer.is_file():
            learn(text, tokenizer)
        {"store": store, "resume": resume}[asked.part](text, tokenizer, place)


if __name__ == "__main__":
    main()
