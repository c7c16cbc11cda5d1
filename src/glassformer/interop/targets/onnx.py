"""A model as ONNX graphs, which onnxruntime and other programs run without Python's torch.

model.onnx (or encoder.onnx and decoder.onnx; of audio also features.onnx)  config.json
tokenizer.json (and target_tokenizer.json, if source and target have one each)
"""

from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from glassformer.core.errors import ConfigError
from glassformer.core.files import write_json
from glassformer.interop.onnx.graphs import OPSET, features, graphs
from glassformer.interop.onnx.running import Running, installed
from glassformer.interop.parity import Parity, Plan, compared
from glassformer.media.audio import AudioReader
from glassformer.media.image import ImageReader
from glassformer.models.config import ModelConfig
from glassformer.models.transformer import Transformer
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.task import Task
from glassformer.tokenizers.frame import Frame

LIBRARY = "onnx"
PROGRAM = files("glassformer.interop.onnx").joinpath("program.jinja")


def planned(recipe: Recipe) -> Plan:
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
    if told := differences(model.config):
        raise ConfigError(f"This model has no ONNX graph: {'; '.join(told)}; train without it.")
    reader, about = task.processor.reader, _about(model.config, task)
    made = graphs(model, reader if isinstance(reader, ImageReader) else None)
    if isinstance(reader, AudioReader):
        made = {"features": features(reader), **made}
    elif not isinstance(reader, ImageReader):
        _write_tokenizers(task, folder)
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
    target = f"onnxruntime {installed().__version__}"
    return compared(target, model, task, running.outputs, running.continued)


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
    values: dict[str, Any] = {"kind": "text", "two_tokenizers": False}
    if isinstance(reader, ImageReader | AudioReader):
        values["kind"] = "image" if isinstance(reader, ImageReader) else "audio"
    else:
        tokenizer = processor.tokenizer
        values["two_tokenizers"] = reader.tokenizer.fingerprint != tokenizer.fingerprint
        values["mask"] = tokenizer.symbol(tokenizer.specials.get("mask", 0))
    return language.from_string(PROGRAM.read_text(encoding="utf-8")).render(
        model=task.recipe.model, processor=processor, reader=reader, **values
    )


def _about(model: ModelConfig, task: Task) -> dict[str, Any]:
    """What a program needs beside the graphs."""
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
        "tag_piece": processor.facts.tag_piece,
    }


def _write_tokenizers(task: Task, folder: Path) -> None:
    processor, reader = task.processor, task.processor.reader
    frame = _frame(task) if task.recipe.model.is_decoder_only else reader.frame
    reader.tokenizer.framed(frame).save(folder / "tokenizer.json")
    if reader.tokenizer.fingerprint != processor.tokenizer.fingerprint:
        processor.tokenizer.save(folder / "target_tokenizer.json")


def _frame(task: Task) -> Frame:
    """What stands around a prompt: its end may be missing, since the text goes on."""
    frame, end = task.processor.reader.frame, len(task.processor.reader.frame.end)
    ids = task.encode(task.first_input()).batch.elements[0].tolist()
    return frame if tuple(ids[len(ids) - end :]) == frame.end else replace(frame, end=())
