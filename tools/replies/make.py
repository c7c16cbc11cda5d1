"""Data and runs in a new folder, which no later command changes."""

import json
import sys
from pathlib import Path
from typing import Any

import yaml

from replies.data import write_data
from replies.tree import command

HERE = Path(__file__).parent
WORDS = ["<unk>", "<pad>", "<bos>", "<eos>", "the", "a", "cat", "dog", "owl", "fox", "saw", "ate"]
WORDS += ["good", "bad", "fish", ".", "query", ":"]


def overlay(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Values of sections laid over others; a field that is null is left out."""
    made = dict(below)
    for name, value in above.items():
        inner = isinstance(value, dict) and isinstance(made.get(name), dict)
        made[name] = overlay(made[name], value) if inner else value
    return {name: value for name, value in made.items() if value is not None}


def make(only: list[str]) -> None:
    """Write data, recipes and runs into the current folder; `only`: these runs, default all."""
    write_data(Path("data"))
    recipes = yaml.safe_load((HERE / "recipes.yaml").read_text(encoding="utf-8"))
    shared = recipes.pop("all")
    Path("recipes").mkdir()
    for name, own in recipes.items():
        file = Path("recipes") / f"{name}.yaml"
        file.write_text(yaml.safe_dump(overlay(shared, own), sort_keys=False), encoding="utf-8")
        if not only or name in only:
            said = command(["train", str(file), "--run", f"runs/{name}"])
            sys.stderr.write(f"{name}: {said.out.decode().partition(chr(10))[0]}\n")
            if said.code:
                sys.exit(said.err.decode())
    if not only:
        publish(Path("runs"))


def publish(folder: Path) -> None:
    """Save folders of other programs, with random weights: a GPT-2, and a sentence encoder."""
    import torch
    from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel

    from tokenizers import Tokenizer, models, pre_tokenizers

    torch.manual_seed(5)
    size: dict[str, Any] = {"vocab_size": len(WORDS), "initializer_range": 0.3}
    gpt2: dict[str, Any] = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32}
    bert: dict[str, Any] = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2}
    bert |= {"num_attention_heads": 2, "max_position_embeddings": 32, "pad_token_id": 1}
    ends: dict[str, Any] = {"bos_token_id": 2, "eos_token_id": 3}
    GPT2LMHeadModel(GPT2Config(**size, **gpt2, **ends)).save_pretrained(folder / "gpt2")
    BertModel(BertConfig(**size, **bert)).save_pretrained(folder / "encoder")
    text = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    text.pre_tokenizer = pre_tokenizers.Whitespace()
    named = {"unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<bos>", "eos_token": "<eos>"}
    for name in ("gpt2", "encoder"):
        text.save(str(folder / name / "tokenizer.json"))
        write_json(folder / name / "tokenizer_config.json", named)
    kind = "sentence_transformers.models"
    places = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}
    modules = [
        {"idx": i, "name": str(i), "path": place, "type": f"{kind}.{name}"}
        for i, (name, place) in enumerate(places.items())
    ]
    of = folder / "encoder"
    write_json(of / "modules.json", modules)
    write_json(of / "1_Pooling" / "config.json", {"pooling_mode_mean_tokens": True})
    write_json(of / "sentence_bert_config.json", {"max_seq_length": 24})
    prompts = {"prompts": {"query": "query : ", "plain": ""}, "default_prompt_name": None}
    write_json(of / "config_sentence_transformers.json", prompts)


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
