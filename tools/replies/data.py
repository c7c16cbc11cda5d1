"""Small files of every kind, drawn from a fixed seed: to train by, and to give to commands."""

import io
import json
import os
import random
import struct
import wave
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

ANIMALS, FOOD, MOODS = ["cat", "dog", "owl", "fox"], ["fish", "bone", "rice"], ["good", "bad"]
VERBS = ["saw", "ate", "left"]
OPPOSITES = {
    **{"hot": "cold", "big": "small", "old": "new", "fast": "slow", "day": "night", "up": "down"},
    **{"cold": "hot", "small": "big", "new": "old", "slow": "fast", "night": "day", "down": "up"},
}
RATE = 8000
TIME = 1_700_000_000
"""When the files were written, so that the fingerprint of encoded data is always the same."""


def sentence(draw: random.Random) -> list[str]:
    """Words such as: the cat saw a good dog ."""
    first = ["the", draw.choice(ANIMALS), draw.choice(VERBS)]
    return [*first, "a", draw.choice(MOODS), draw.choice(ANIMALS + FOOD), "."]


def tags_of(words: Iterable[str]) -> list[str]:
    """The tag of each word of a sentence, by the kind of the word."""
    kinds = {"NOUN": ANIMALS + FOOD, "VERB": VERBS, "ADJ": MOODS, "DET": ["the", "a"]}
    kind = {word: name for name, own in kinds.items() for word in own}
    return [kind.get(word, "X") for word in words]


def spans_of(words: list[str]) -> list[str]:
    """Tags of spans: an article begins one, the words after it up to a noun are inside."""
    made, inside = list[str](), False
    for word in words:
        begins = word in ("the", "a")
        made.append("B-THING" if begins else "I-THING" if inside else "O")
        inside = (inside or begins) and word not in ANIMALS + FOOD
    return made


def write_lines(path: Path, rows: Iterable[Any]) -> None:
    """Write texts, or values as JSON, a line each."""
    lines = (row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def write_texts(folder: Path) -> None:
    """Write running text, pairs, conversations, texts with classes and with tags."""
    draw = random.Random(1)
    many = [sentence(draw) for _ in range(240)]
    write_lines(folder / "text.txt", (" ".join(one) for one in many))
    spelt = ["".join(draw.choices("abcdef", k=draw.randint(1, 5))) for _ in range(240)]
    spelt = [" ".join(spelt[i : i + 1 + (i % 4 == 0)]) for i in range(240)]
    write_lines(folder / "pairs.tsv", (f"{one}\t{one[::-1]}" for one in spelt))
    upper = (f"{one}\t{one[::-1].upper()}" for one in spelt)
    write_lines(folder / "upper.tsv", upper)
    write_lines(folder / "talk.jsonl", (talk(draw) for _ in range(200)))
    rows = ({"text": " ".join(one), "label": one[1]} for one in many)
    write_lines(folder / "classes.jsonl", rows)
    both = ({"text": " ".join(one), "label": [one[4], *one[2:3]]} for one in many)
    write_lines(folder / "senses.jsonl", both)
    write_lines(folder / "nli.jsonl", (entails(one, draw) for one in many))
    slashed = (" ".join(map("/".join, zip(one, tags_of(one), strict=True))) for one in many)
    write_lines(folder / "tags.txt", slashed)
    write_lines(folder / "spans.jsonl", ({"words": one, "tags": spans_of(one)} for one in many))


def talk(draw: random.Random) -> dict[str, Any]:
    """A conversation of one or two questions, each answered by an opposite."""
    made = []
    for _ in range(draw.choice((1, 2))):
        first, second = draw.choices([*OPPOSITES], k=2)
        made.append({"role": "user", "content": f"{first} {second}"})
        made.append({"role": "assistant", "content": OPPOSITES[first]})
    return {"messages": made}


def entails(words: list[str], draw: random.Random) -> dict[str, str]:
    """Two texts; the second names the animal of the first, or another."""
    other = draw.choice(ANIMALS)
    label = "same" if other == words[1] else "other"
    return {"text": " ".join(words), "pair": f"the {other}", "label": label}


def half(bright: str, draw: np.random.Generator) -> Image.Image:
    """A picture of 8 x 8, the left or the right half of it bright."""
    pixels = draw.integers(0, 100, (8, 8, 3))
    pixels[:, slice(0, 4) if bright == "left" else slice(4, 8)] += 120
    return Image.fromarray(pixels.astype(np.uint8))


def tone(pitch: float, draw: np.random.Generator) -> bytes:
    """A WAV file of a tenth of a second."""
    time = np.arange(RATE // 10) / RATE
    sound = 0.3 * np.sin(2 * np.pi * (pitch * time + draw.random()))
    sound += 0.05 * draw.standard_normal(len(time))
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(RATE)
        out.writeframes(struct.pack(f"<{len(sound)}h", *(sound * 32767).astype(int).tolist()))
    return file.getvalue()


def write_media(folder: Path) -> None:
    """Write folders of pictures and of recordings for each class, and an archive of pictures."""
    draw = np.random.default_rng(2)
    for i in range(32):
        side, pitch = ("left", "right")[i % 2], {"low": 400.0, "high": 1600.0}
        name = [*pitch][i % 2]
        for place in (folder / "pictures" / side, folder / "sounds" / name):
            place.mkdir(parents=True, exist_ok=True)
        half(side, draw).save(folder / "pictures" / side / f"{i:03}.png")
        (folder / "sounds" / name / f"{i:03}.wav").write_bytes(tone(pitch[name], draw))
    with zipfile.ZipFile(folder / "pictures.zip", "w") as archive:
        for path in sorted((folder / "pictures" / "left").iterdir()):
            archive.writestr(zipfile.ZipInfo(path.name), path.read_bytes())


def write_mixtures(folder: Path) -> None:
    """Write rows of a picture and a question with answer, class and tags, and two drawn flags."""
    sides, rows = ("left", "right"), []
    for i in range(32):
        image = {"image": f"pictures/{sides[i % 2]}/{i:03}.png"}
        for question in ("which side is bright ?", "is it the left side ?"):
            answers = sides if question[0] == "w" else ("yes", "no")
            row = {"input": [image, {"text": question}], "target": answers[i % 2]}
            rows.append(row | {"label": answers[i % 2], "tags": tags_of(question.split())})
    write_lines(folder / "parts.jsonl", rows)
    flags = {"a red flag": [(200, 30, 30), (250, 250, 250)], "a blue flag": [(30, 30, 200)]}
    for name, colours in flags.items():
        stripes = np.repeat(np.array(colours, np.uint8), 6 // len(colours), 0)
        Image.fromarray(stripes[None].repeat(4, 0)).save(folder / f"{name[2:-5]}.png")
    drawn = [{"input": name, "target": {"image": f"{name[2:-5]}.png"}} for name in flags]
    write_lines(folder / "drawn.jsonl", drawn * 12)


def write_data(folder: Path) -> None:
    """Write all files to train by into a new folder."""
    folder.mkdir(parents=True)
    write_texts(folder)
    write_media(folder)
    write_mixtures(folder)
    for path in folder.rglob("*"):
        os.utime(path, (TIME, TIME))
