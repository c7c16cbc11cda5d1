"""The model and its looks: the ops `model`, `look`, `picture`, `curves`, `raw`, `points`."""

from dataclasses import asdict
from time import perf_counter
from typing import Any

import numpy as np

from glassformer.axes import Float, Int, Tensor
from glassformer.errors import ConfigError
from glassformer.inspect.look import Look
from glassformer.pages.images import brightness
from glassformer.pages.training_report import points
from glassformer.serve.explorer.examples import capabilities, examples
from glassformer.serve.explorer.looks import OpContext
from glassformer.serve.explorer.wire import Reply, floats
from glassformer.training.checkpoint import Checkpoints
from glassformer.training.history import read_metrics

TASKS = {
    "draws": "draws an image of a text, pixel by pixel",
    "parts": "reads images, audio and text in one sequence",
    "pair": "maps a text to another text",
    "image": "classifies images",
    "audio": "classifies audio",
    "generates": "continues a text",
    "masked": "predicts the masked tokens of a text",
    "tags": "assigns a tag to each word of a text",
    "classes": "classifies texts",
}
"""A sentence for the first capability that a run has."""
TOP = 5


def model(context: OpContext) -> Reply:
    """The model card: capabilities, sizes, attentions, checkpoints and example inputs."""
    run = context.run
    config, has = run.model.config, capabilities(run)
    stack = "decoder" if "decoder" in config.architecture else "encoder"
    places = [("", "self", stack)]
    if config.architecture == "encoder_decoder":
        places += [("", "cross", stack), ("encoder", "self", "encoder")]
    sizes = {"layers": config.n_layers, "heads": config.n_heads}
    header = {
        "name": run.folder.resolve().name,
        "path": str(run.folder),
        "task": next((said for name, said in TASKS.items() if name in has), "computes vectors"),
        "capabilities": sorted(has),
        "architecture": config.architecture,
        "config": config.model_dump(mode="json"),
        "parameters": run.model.n_parameters,
        **sizes,
        "kv_heads": config.kv_heads,
        "d_model": config.d_model,
        "d_head": config.head_width,
        "max_length": config.max_length,
        "classes": list(run.classes) if has & {"tags", "classes"} else [],
        "attentions": [
            {"side": side, "site": site, "stack": stack, **sizes} for side, site, stack in places
        ],
        "specials": getattr(run.processor, "specials", {}),
        "checkpoints": Checkpoints(run.folder).steps(),
        "examples": examples(run),
    }
    return Reply(header)


def look(context: OpContext, look: Look) -> Reply:
    """The elements of a look, and the most likely outcomes at every position."""
    header = {
        "elements": [asdict(element) for element in look.elements],
        "source_elements": [asdict(element) for element in look.source_elements],
        "outcome": outcome(look, capabilities(context.run)),
        "edits": [edit.to_json() for edit in look.edits],
        "ms": round(1000 * (perf_counter() - context.began), 3),
        "cached": context.cached,
    }
    return Reply(header)


def outcome(look: Look, has: frozenset[str]) -> dict[str, Any]:
    """The most likely outcomes of each position, or of the whole sequence (`position` None)."""
    kinds = {"generates": "tokens", "masked": "tokens", "tags": "tags", "classes": "class"}
    kind = next((kind for name, kind in kinds.items() if name in has), "vectors")
    if kind == "vectors":
        return {"kind": kind, "rows": []}
    logits = look.logits.reshape(-1, look.logits.shape[-1])
    ids, probabilities = likeliest(logits, TOP, look.model.config.multi_label)
    rows = [
        {
            "position": None if kind == "class" else position,
            "top": [
                {"id": i, "label": name_of(look, i), "p": p} for i, p in zip(*row, strict=True)
            ],
        }
        for position, row in enumerate(zip(ids.tolist(), probabilities.tolist(), strict=True))
    ]
    return {"kind": kind, "rows": rows}


def likeliest(
    logits: Float[Tensor, "N V"], k: int, several: bool = False
) -> tuple[Int[Tensor, "N _"], Float[Tensor, "N _"]]:
    """The k most likely outcomes of each row and their probabilities; `several`: sigmoids."""
    logits = logits.float()
    top = logits.topk(min(k, logits.shape[-1]), -1)
    logs = top.values - logits.logsumexp(-1, keepdim=True)
    return top.indices, top.values.sigmoid() if several else logs.exp()


def name_of(look: Look, index: int) -> str:
    """The name of an outcome, else its number."""
    return look.names[index] if index < len(look.names) else str(index)


def picture(context: OpContext, look: Look, part: int) -> Reply:
    """An image or spectrogram of the input in pixels, as the model got it, and its grid of patches.

    A spectrogram is `turned`: an element's row runs from left to right, its column upwards.
    """
    run, batch = context.run, look.batch
    readers = run.processor.media()
    shown = [(readers[run.processor.medium], batch.elements[0])] if run.processor.medium else []
    for one in (batch.source or batch).parts:
        reader = readers[one.name]
        shown += [(reader, values) for values in one.values.split(reader.reader.n_patches)]
    if part >= len(shown):
        raise ConfigError(
            f"There is no picture or recording {part} in this input; it has {len(shown)} of them."
        )
    reader, patches = shown[part]
    values = reader.restored(patches.float().cpu())
    turned = values.dtype != np.uint8  # a spectrogram
    pixels = np.rint(255 * brightness(values)).astype(np.uint8)[..., None] if turned else values
    kind = {"kind": "spectrogram" if turned else "image", "turned": turned}
    grid = list(reader.reader.grid)
    header = {**kind, "grid": grid, "part": part, "parts": len(shown)}
    return Reply(header, {"pixels": pixels})


def curves(context: OpContext) -> Reply:
    """The metrics of training by name: [n, 2], step and value of each line of metrics.jsonl."""
    metrics = read_metrics(context.run.folder)
    names = dict.fromkeys(name for line in metrics for name in line if name != "step")
    found = {name: np.array(points(metrics, name), np.float32).reshape(-1, 2) for name in names}
    found = {name: curve for name, curve in found.items() if len(curve)}
    return Reply({"names": list(found)}, found)


def raw(context: OpContext, look: Look, point: str) -> Reply:
    """The tensor of a point without the batch axis; masked scores are -inf."""
    named = look[point]
    return Reply({"point": point, "axes": list(named.axes)}, {"values": floats(named.tensor)})


def all_points(context: OpContext, look: Look) -> Reply:
    """Every point of the model for this input: name, kind, axes, shape, layer, side, site."""
    return Reply({"points": [asdict(point) for point in look.points()]})


OPS = {
    "model": model,
    "look": look,
    "points": all_points,
    "picture": picture,
    "curves": curves,
    "raw": raw,
}
"""The functions of ops, by the names that requests have."""
