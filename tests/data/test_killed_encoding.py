"""A text whose encoding is killed or refused by the system: the bytes of one start."""

import hashlib
import json
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from glassformer.data.store import Store
from glassformer.data.tokens import KIND, store_tokens
from glassformer.tokenizers.config import TokenizerConfig
from glassformer.tokenizers.text import Tokenizer
from glassformer.tokenizers.train import train_tokenizer
from small_runs import WORDS, data_config

# Encodes a text in small pieces, and reports after each shard.
ENCODE = """
import json, sys
from functools import partial
from glassformer.core import cuts
from glassformer.data import tokens
from glassformer.data.config import DataConfig
from glassformer.data.formats import documents
from glassformer.tokenizers.text import Tokenizer
folder, data, size = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
tokenizer = Tokenizer.load(folder)
print("begun", flush=True)
documents.pieces = partial(cuts.pieces, size=20_000)
encode = tokens._encode

def report(*arguments, **options):
    encode(*arguments, **options)
    print("shard", flush=True)

tokens._encode = report
tokens.store_tokens(f"{folder}/store", tokenizer, DataConfig.parse(data), size=size)
"""


def content(folder: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.iterdir())}


def text_and_tokenizer(folder: Path, words: int) -> tuple[dict[str, object], Tokenizer]:
    draw = random.Random(0)
    (folder / "a.txt").write_text(" ".join(draw.choices(WORDS, k=words)))
    rows = (json.dumps({"text": " ".join(draw.choices(WORDS, k=20))}) for _ in range(words // 20))
    (folder / "b.jsonl").write_text("\n".join(rows))
    tokenizer = train_tokenizer(
        TokenizerConfig.parse({"kind": "bpe", "vocab_size": 300}), [" ".join(WORDS) * 20]
    )
    tokenizer.save(folder / "tokenizer.json")
    names = [str(folder / "a.txt"), str(folder / "b.jsonl")]
    return {"train": {"path": names}, "validation": {"fraction": 0.0}}, tokenizer


@pytest.mark.slow
@pytest.mark.reliability
def test_kills_while_a_text_is_encoded(tmp_path, table):
    """Killed by SIGKILL after one or a few shards; the next start keeps what was finished."""
    data, tokenizer = text_and_tokenizer(tmp_path, 600_000)
    command = [sys.executable, "-c", ENCODE, str(tmp_path), json.dumps(data), f"{60_000}"]
    config = data_config({"train.path": data["train"]["path"], "validation.fraction": 0.0})  # pyright: ignore
    whole = store_tokens(tmp_path / "whole", tokenizer, config, size=60_000)
    work, draw, kills, kept = tmp_path / ".store.shards", random.Random(0), 0, 0
    finished, both = {}, {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    for shards in [0, *(draw.randint(1, 4) for _ in range(9))]:
        with subprocess.Popen(command, **both, text=True) as process:
            assert process.stdout is not None
            left = shards
            for line in process.stdout:
                left -= line == "shard\n"
                if not left:
                    break
            process.kill()
            rest = process.stdout.read()
        assert process.returncode == -signal.SIGKILL, rest
        kills += 1
        for manifest, written in finished.items():
            assert manifest.stat().st_mtime_ns == written
        kept += len(finished)
        finished = {one: one.stat().st_mtime_ns for one in work.glob("0*/manifest.json")}
    subprocess.run(command, check=True, capture_output=True)
    assert content(tmp_path / "store") == content(whole.folder)
    assert not work.exists()
    assert Store.open(tmp_path / "store", KIND).counts == whole.counts
    table("G1", f"{kills} kills while a text is encoded: {kept} finished shards kept, same bytes")


@pytest.mark.slow
@pytest.mark.reliability
def test_a_file_size_limit_of_the_system_keeps_finished_shards(tmp_path, table):
    """As on a full disk: the joined file does not fit, and goes on when it does."""
    data, tokenizer = text_and_tokenizer(tmp_path, 200_000)
    arguments = [str(tmp_path), json.dumps(data), f"{150_000}"]
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n"
    full = subprocess.run(
        [sys.executable, "-c", limited + ENCODE, *arguments], capture_output=True, text=True
    )
    assert "File too large; free space or set data.store" in full.stderr
    config = data_config({"train.path": data["train"]["path"], "validation.fraction": 0.0})  # pyright: ignore
    whole = store_tokens(tmp_path / "whole", tokenizer, config, size=150_000)
    kept = sum(1 for _ in (tmp_path / ".store.shards").glob("0*/manifest.json"))
    assert kept > 3
    subprocess.run([sys.executable, "-c", ENCODE, *arguments], check=True, capture_output=True)
    assert content(tmp_path / "store") == content(whole.folder)
    table("G1", f"a full disk: {kept} finished shards kept, same bytes when there is room")
