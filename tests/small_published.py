"""A folder in which the commands of the pages run: a few rows of each data set in the files that its
publisher gives, a text, and the small files that the commands name."""

import gzip
import io
import json
import zipfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.numpy import save_file

from glassformer.media.audio_file import write_wav

TEXT = "the cat sat on the mat because it was a warm day and the bank was near the river\n"
TAGS = ("DET", "NOUN", "VERB", "ADP")
ROWS = 24


def packed(path: Path, content: bytes) -> None:
    path.write_bytes(gzip.compress(content))


def treebank(folder: Path) -> None:
    """UD English-EWT: ten columns for each word."""
    sentence = "".join(
        f"{i}\t{word}\t{word}\t{tag}\t_\t_\t0\t_\t_\t_\n"
        for i, (word, tag) in enumerate(zip(["the", "cat", "sat", "on"], TAGS, strict=True), 1)
    )
    for split in ("train", "dev", "test"):
        packed(folder / f"en_ewt-ud-{split}.conllu.gz", f"{sentence}\n".encode() * ROWS)


def intents(folder: Path) -> None:
    """BANKING77: text and category."""
    rows = "".join(f"where is card {i},card_{i % 2}\n" for i in range(ROWS))
    for split in ("train", "test"):
        (folder / f"{split}.csv").write_text(f"text,category\n{rows}")


def clothes(folder: Path) -> None:
    """Fashion-MNIST: IDX files of 28 x 28 bytes, and of a byte for each class."""
    pixels = np.random.default_rng(0).integers(0, 256, (ROWS, 28, 28), np.uint8)
    for split in ("train", "t10k"):
        head = b"".join(n.to_bytes(4, "big") for n in (2051, ROWS, 28, 28))
        packed(folder / f"{split}-images-idx3-ubyte.gz", head + pixels.tobytes())
        head = b"".join(n.to_bytes(4, "big") for n in (2049, ROWS))
        packed(folder / f"{split}-labels-idx1-ubyte.gz", head + bytes(i % 10 for i in range(ROWS)))


def digits(folder: Path) -> None:
    """Spoken digits: digit_speaker_index.wav in an archive."""
    sound = write_wav(np.zeros(4000, np.float32), 8000)
    with zipfile.ZipFile(folder / "recordings.zip", "w") as archive:
        for speaker in ("theo", "lucas"):
            for i in range(ROWS):
                archive.writestr(f"{i % 4}_{speaker}_{i}.wav", sound)
    (folder.parent / "my-voice.wav").write_bytes(sound)


def picture() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (64, 64), (200, 30, 60)).save(file, "PNG")
    return file.getvalue()


def questions(folder: Path) -> None:
    """easy-VQA: [question, answer, number of the image], and archives of images."""
    for split in ("train", "test"):
        rows = [["what shape is in the image?", "circle", i] for i in range(ROWS)]
        packed(folder / f"{split}_questions.json.gz", json.dumps(rows).encode())
        with zipfile.ZipFile(folder / f"{split}_images.zip", "w") as archive:
            for i in range(ROWS):
                archive.writestr(f"{split}/{i}.png", picture())


def drawings(folder: Path) -> None:
    """Rows of words and the image that they describe, as `python -m glassformer.demos` writes."""
    folder.mkdir()
    (folder / "0.png").write_bytes(picture())
    row = {"input": "a large purple star", "target": {"image": "0.png"}}
    for split in ("train", "validation", "test"):
        (folder / f"{split}.jsonl").write_text(f"{json.dumps(row)}\n" * ROWS)


def checkpoint(folder: Path) -> None:
    """What nanoGPT's train.py saves, of a model of one word."""
    folder.mkdir()
    sizes = {"n_layer": 1, "n_head": 1, "n_embd": 2, "block_size": 4, "vocab_size": 1}
    torch.save({"model": {"_orig_mod.x": torch.zeros(2)}, "model_args": sizes}, folder / "ckpt.pt")


def published(folder: Path) -> Path:
    """Make the folder; PATH in it has every data set."""
    data = folder / "PATH"
    data.mkdir()
    for write in (treebank, intents, clothes, digits, questions):
        write(data)
    drawings(folder / "drawn")
    checkpoint(folder / "out")
    for split, image in {"FOLDER/one": 0, "FOLDER/two": 1}.items():
        (folder / split).mkdir(parents=True)
        for i in range(ROWS // 2):
            (folder / split / f"{image}{i}.png").write_bytes(picture())
    (folder / "photo.png").write_bytes(picture())
    (folder / "YOUR_TEXT").write_text(TEXT * 40)
    talk = [{"role": "user", "content": "the cat"}, {"role": "assistant", "content": "sat"}]
    (folder / "talks.jsonl").write_text(f"{json.dumps({'messages': talk})}\n" * ROWS)
    for name in ("lines.txt", "sentences.txt", "sources.txt", "in.txt", "lines.en", "lines.de"):
        (folder / name).write_text(TEXT * (ROWS if name.startswith("lines.") else 2))
    for name in ("examples.csv", "labelled.csv"):
        (folder / name).write_text("text,label\nwhat a film,good\nthe cat sat,bad\n" * 2)
    (folder / "pairs.tsv").write_text(f"{TEXT.strip()}\t{TEXT}" * ROWS)
    point = "decoder.blocks.1.attention.pattern.safetensors"
    save_file({"values": np.zeros((1, 2, 3, 3), np.float32)}, folder / point)
    return folder
