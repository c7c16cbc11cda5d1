"""What tests of the explorer ask, and how they look themselves."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load

from bare_runs import bare_run
from glassformer.inspect.look import Look
from glassformer.media.audio import AudioConfig, AudioReader
from glassformer.media.image import ImageConfig, ImageReader
from glassformer.serve.explorer.handler import Explorer
from glassformer.serve.explorer.wire import Reply
from glassformer.tokenizers.config import TokenizerConfig
from glassformer.tokenizers.train import train_tokenizer
from small_senses import AUDIO

CLOSE = {"rtol": 2e-5, "atol": 2e-6}
"""float32 with sums of at most a few dozen terms, in another order."""


def untrained(folder: Path, **model: Any) -> Explorer:
    """An explorer of a run that reads images of 8 x 8, audio of a tenth of a second, and text."""
    levels = {"mean": (0.5,) * 3, "std": (0.25,) * 3}
    image = ImageReader(ImageConfig.parse({"size": 8, "channels": 3, "patch": 4, **levels}))
    audio = AudioReader(AudioConfig.parse(AUDIO | {"mean": (0.0,) * 16, "std": (1.0,) * 16}))
    tokenizer = train_tokenizer(TokenizerConfig.parse({"kind": "word"}), ["the cat"])
    parts = {"parts": {"image": 48, "audio": 40}, "part_patches": {"image": 4, "audio": 4}}
    kept = [image, audio]
    return Explorer(bare_run(folder, tokenizer, kept, position="learned", **parts, **model))


def model_of(explorer: Explorer) -> dict[str, Any]:
    return explorer.handle({"op": "model"}).header


def first(explorer: Explorer) -> Any:
    """The first example."""
    return model_of(explorer)["examples"][0]


def own_look(explorer: Explorer, value: Any) -> Look:
    """The same look, without the explorer."""
    return explorer.run.look(explorer.looks.inputs.decode(value))


def reply_of(data: bytes) -> Reply:
    """The answer in a safetensors file."""
    described = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return Reply(json.loads(described["__metadata__"]["header"]), load(data))


def ask(explorer: Explorer, op: str, **arguments: Any) -> Reply:
    """An answer as it arrives: through its bytes."""
    return reply_of(explorer.handle({"op": op, **arguments}).to_bytes())


def everywhere(explorer: Explorer) -> list[dict[str, str]]:
    """Side and site of every attention."""
    return [{"side": one["side"], "site": one["site"]} for one in model_of(explorer)["attentions"]]


def softmax(scores: np.ndarray) -> np.ndarray:
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)
