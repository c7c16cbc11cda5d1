"""Files of published models, mutated: each kind so many times, over folders of several families."""

import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors.torch import load_file, save_file

import published_families as families
import published_folders as tokenizers
from glassformer.tokenizers.published import published_tokenizer
from properties.hostile_code import FORBIDDEN
from properties.mutated_files import Outcomes, mutated_file

MODELS = ("gpt2", "llama-3", "bert-classes", "bert-tags", "t5-1.1", "bart", "vit-wide")


def published_files(place: Path, cases: int) -> tuple[dict[str, Outcomes], set[str]]:
    """What so many mutated files of each kind did, and the audit events that should not be."""
    kinds: dict[str, list[tuple[Path, Path]]] = defaultdict(list)
    for folder in _folders(place):
        for file in sorted(folder.iterdir()):
            kinds[_kind(file)].append((folder, file))
    found = {kind: Outcomes() for kind in sorted(kinds)}
    with _audited() as seen:
        for kind, outcomes in found.items():
            for folder, file in kinds[kind]:
                mutated_file(folder, file, -(-cases // len(kinds[kind])), outcomes)
    return found, seen


def _folders(place: Path) -> Iterator[Path]:
    for name in MODELS:
        (folder := place / name).mkdir()
        yield families.complete(name, folder)
    yield _sharded(place / "llama-3", place / "sharded")
    for family in tokenizers.FAMILIES:
        folder = tokenizers.published_folder(place / "tokenizers", family)
        rows = published_tokenizer(folder, family).vocab_size
        families.save(family, folder, vocab_size=rows)
        yield folder


def _sharded(whole: Path, folder: Path) -> Path:
    """The model spread over two files with an index."""
    folder.mkdir()
    tensors, index = load_file(whole / "model.safetensors"), {}
    for number in range(2):
        own = sorted(tensors)[number::2]
        file = f"model-0000{number + 1}-of-00002.safetensors"
        save_file({name: tensors[name] for name in own}, folder / file)
        index |= dict.fromkeys(own, file)
    text = json.dumps({"weight_map": index}, indent=1)
    (folder / "model.safetensors.index.json").write_text(text)
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        if (whole / name).is_file():
            (folder / name).write_bytes((whole / name).read_bytes())
    return folder


def _kind(file: Path) -> str:
    if file.suffix == ".safetensors":
        return "safetensors"
    if file.name.endswith(".index.json"):
        return "index"
    if file.name == "config.json":
        return "config"
    if file.name in ("generation_config.json", "preprocessor_config.json"):
        return "generation and images"
    return "tokenizer"


@contextmanager
def _audited() -> Iterator[set[str]]:
    """Events that are forbidden, as they come; a hook stays, and is silent afterwards."""
    seen: set[str] = set()
    listening = [True]

    def hook(event: str, arguments: tuple) -> None:
        if listening and event in FORBIDDEN:
            seen.add(f"{event} {str(arguments)[:200]}")

    sys.addaudithook(hook)
    yield seen
    listening.clear()
