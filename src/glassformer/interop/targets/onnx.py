"""A model as ONNX graphs, which onnxruntime and other programs run without Python's torch.

model.onnx (or encoder.onnx and decoder.onnx; of audio also features.onnx)  config.json
tokenizer.json (and target_tokenizer.json, if source and target have one each)
"""

from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.core.batch import Batch
from glassformer.core.errors import ConfigError
from glassformer.core.files import Values, write_json
from glassformer.interop.onnx.graphs import (
    IDS,
    MASK,
    OPSET,
    PATCHES,
    PIXELS,
    SOURCE_MASK,
    TYPES,
    features,
    graphs,
)
from glassformer.interop.parity import Parity, Plan, compare_outputs
from glassformer.media.audio import AudioReader
from glassformer.media.image import ImageReader
from glassformer.models.config import ModelConfig
from glassformer.models.transformer import Transformer
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.task import Task

LIBRARY = "onnx"
PROGRAM = files("glassformer.interop.onnx").joinpath("program.jinja")
Arrays = dict[str, np.ndarray]


def plan(recipe: Recipe) -> Plan:
    """The graphs of a model, which fit any configuration except for the fields that are named."""
    return Plan(f"ONNX graphs of opset {OPSET}", tuple(differences(recipe.model)))


def differences(model: ModelConfig) -> list[str]:
    """The fields that no graph has."""
    found = [f"parts={model.parts!r}, patches among tokens"] if model.parts else []
    if model.is_encoder_decoder and not model.predicts_next:
        found.append(f"head={model.head!r} of an encoder-decoder")
    return found


def write(model: Transformer, task: Task, folder: Path) -> str:
    """Write graphs, tokenizer and config.json; returns the names of the graphs.

    ConfigError: a model that has no graph, or onnxscript is not installed.
    """
    if lacking := differences(model.config):
        raise ConfigError(f"This model has no ONNX graph: {'; '.join(lacking)}; train without it.")
    processor, reader, about = task.processor, task.processor.reader, _about(model.config, task)
    made = graphs(model, reader if isinstance(reader, ImageReader) else None)
    if isinstance(reader, AudioReader):
        made = {"features": features(reader), **made}
    elif not isinstance(reader, ImageReader):
        frame = reader.frame
        if model.config.is_decoder_only:
            # the end of a prompt may be missing, since the text continues
            ids = task.encode(task.first_input()).batch.elements[0].tolist()
            if tuple(ids[len(ids) - len(frame.end) :]) != frame.end:
                frame = replace(frame, end=())
        reader.tokenizer.with_frame(frame).save(folder / "tokenizer.json")
        if reader.tokenizer.fingerprint != processor.tokenizer.fingerprint:
            processor.tokenizer.save(folder / "target_tokenizer.json")
    for name, graph in made.items():
        graph.save(folder / f"{name}.onnx")
    write_json(folder / "config.json", about)
    return " and ".join(f"{name}.onnx" for name in made)


def compare(model: Transformer, task: Task, folder: Path) -> Parity:
    """Compare with onnxruntime on a CPU.

    ConfigError: it is not installed, or no example input fits into the model.
    """
    reader = task.processor.reader
    running = Running(folder, reader if isinstance(reader, ImageReader) else None)
    return compare_outputs(running.program, model, task, running.outputs, running.generate)


def usage(task: Task, name: str) -> str:
    """A program that runs the folder, beside which it lies."""
    return f"With onnxruntime:\n\n```python\n{program(task)}```"


def program(task: Task) -> str:
    """A short program that runs an exported folder with onnxruntime and tokenizers only."""
    from jinja2 import Environment, StrictUndefined

    language = Environment(
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined
    )
    processor, reader = task.processor, task.processor.reader
    values: Values = {"kind": "image" if isinstance(reader, ImageReader) else "audio"}
    if not isinstance(reader, ImageReader | AudioReader):
        tokenizer, values["kind"] = processor.tokenizer, "text"
        values["two_tokenizers"] = reader.tokenizer.fingerprint != tokenizer.fingerprint
        values["mask"] = tokenizer.symbol(tokenizer.specials.get("mask", 0))
    return language.from_string(PROGRAM.read_text(encoding="utf-8")).render(
        model=task.recipe.model, processor=processor, reader=reader, **values
    )


def _about(model: ModelConfig, task: Task) -> Values:
    """Return what a program needs beside the graphs."""
    processor, reader = task.processor, task.processor.reader
    about = {
        "task": task.recipe.task,
        "architecture": model.architecture,
        "max_length": model.max_length,
        "classes": list(model.classes),
    }
    if isinstance(reader, ImageReader | AudioReader):
        return about | {processor.name: reader.config.model_dump(mode="json")}
    if model.is_encoder_decoder:
        about["begin"] = processor.begin
    return about | {
        "specials": processor.tokenizer.specials,
        "prefix": reader.prefix,
        "tag_piece": processor.facts.word_at or "last",
    }


class Running:
    """The graphs of an exported folder, ready to run; ConfigError: onnxruntime is not installed."""

    def __init__(self, folder: Path, images: ImageReader | None = None):
        try:
            import onnxruntime
        except ImportError:
            raise ConfigError(
                "The export is compared in onnxruntime, which is not installed; run pip install "
                "'glassformer[onnx]', or add --no-check."
            ) from None
        self.program, cpu = f"onnxruntime {onnxruntime.__version__}", ["CPUExecutionProvider"]
        opened: Values = {
            file.stem: onnxruntime.InferenceSession(str(file), providers=cpu)
            for file in folder.glob("*.onnx")
        }
        self._images, self._encoder = images, opened.get("encoder")
        self._model = opened.get("decoder") or opened["model"]
        self._past = [one for one in self._model.get_inputs() if one.name.startswith("past_")]

    def outputs(self, batch: Batch) -> Tensor:
        """Return the outputs of a batch of one, in the shape of `Output.logits`."""
        found, *_ = _run(self._model, self._inputs(batch)).values()
        values = torch.from_numpy(found)
        return values if batch.at is None else values.flatten(0, 1)[batch.at]

    def generate(self, batch: Batch, n: int) -> Sequence[int]:
        """n tokens generated greedily after a batch of one, with the cache."""
        given, found = self._inputs(batch), list[int]()
        for _ in range(n):
            logits, *present = _run(self._model, given).values()
            found.append(int(logits[0, -1].argmax()))
            length = given[MASK].shape[1] + 1
            given |= dict(zip((one.name for one in self._past), present, strict=True))
            given[IDS], given[MASK] = np.array([found[-1:]]), np.ones((1, length), np.int64)
            given[TYPES] = np.zeros_like(given[IDS])
        return found

    def _inputs(self, batch: Batch) -> Arrays:
        """A batch of one by the names of inputs."""
        if batch.elements.is_floating_point():
            if self._images is None:
                return {PATCHES: batch.elements.numpy()}
            return {PIXELS: self._images.pixels_of(batch.elements)}
        given = _tokens(batch)
        for one in self._past:
            _, heads, _, width = one.shape
            given[one.name] = np.zeros((1, heads, 0, width), np.float32)
        if self._encoder is not None and batch.source is not None:
            source = _tokens(batch.source)
            given |= _run(self._encoder, source) | {SOURCE_MASK: source[MASK]}
        return given


def _tokens(batch: Batch) -> Arrays:
    ids, types = batch.elements, batch.token_type_ids
    types = torch.zeros_like(ids) if types is None else types
    inputs = {IDS: ids, MASK: torch.ones_like(ids), TYPES: types}
    return {name: values.long().numpy() for name, values in inputs.items()}


def _run(session: Any, given: Arrays) -> Arrays:
    """The outputs by name; what the graph has no input for is left out."""
    read = {one.name: given[one.name] for one in session.get_inputs()}
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(names, read), strict=True))
