"""The model and its looks: the ops `model`, `look`, `picture`, `curves`, `raw`, `points`."""

from dataclasses import asdict
from typing import Any

import numpy as np

from glassformer.core.errors import ConfigError, plural
from glassformer.inspect.look import Look
from glassformer.pages.images import brightness
from glassformer.pages.training_report import points
from glassformer.run.checkpoints import history, steps
from glassformer.serve.explorer.looks import OpContext
from glassformer.serve.explorer.wire import Reply

TOP = 5


def model(context: OpContext) -> Reply:
    """The model card: capabilities, sizes, attentions, checkpoints and example inputs."""
    run = context.run
    config, processor = run.model.config, run.processor
    stack = "decoder" if config.is_decoder_only or config.is_encoder_decoder else "encoder"
    places = [("", "self", stack)]
    if config.is_encoder_decoder:
        places += [("", "cross", stack), ("encoder", "self", "encoder")]
    sizes = {"layers": config.n_layers, "heads": config.n_heads}
    summary = processor.summary or run.task.kind.summary.format(inputs=plural(processor.noun))
    header = {
        "name": run.folder.resolve().name,
        "path": str(run.folder),
        "task": summary,
        "capabilities": sorted(run.task.views),
        "media": {kind: reader.accept for kind, reader in processor.media().items()},
        "architecture": config.architecture,
        "config": config.model_dump(mode="json"),
        "parameters": run.model.n_parameters,
        **sizes,
        "kv_heads": config.kv_heads,
        "d_model": config.d_model,
        "d_head": config.head_width,
        "max_length": config.max_length,
        "classes": list(run.classes),
        "attentions": [
            {"side": side, "site": site, "stack": stack, **sizes, "layers": config.depth(stack)}
            for side, site, stack in places
        ],
        "specials": tokenizer.specials if (tokenizer := processor.tokenizer) else {},
        "checkpoints": steps(run),
        "examples": context.looks.inputs.examples(),
    }
    return Reply(header)


def look(context: OpContext, look: Look) -> Reply:
    """The elements of a look, and the most likely outcomes at every position, or of the whole
    sequence (`position` None)."""
    rows, config = list[dict[str, Any]](), look.model.config
    if look.names:
        logits = look.logits.reshape(-1, look.logits.shape[-1]).float()
        top = logits.topk(min(TOP, logits.shape[-1]), -1)
        logs = config.outcomes.log_probabilities(logits).gather(-1, top.indices)
        found = zip(top.indices.tolist(), logs.exp().tolist(), strict=True)
        rows = [
            {
                "position": None if config.one_output else position,
                "top": [outcome(look, i) | {"p": p} for i, p in zip(*row, strict=True)],
            }
            for position, row in enumerate(found)
        ]
    header = {
        "elements": [asdict(element) for element in look.elements],
        "source_elements": [asdict(element) for element in look.source_elements],
        "outcome": {"kind": context.run.task.objective.outcome, "rows": rows},
        "edits": [edit.to_json() for edit in look.edits],
    }
    return Reply(header)


def outcome(look: Look, index: int) -> dict[str, Any]:
    """An outcome as its id and its name; without a name, its number."""
    return {"id": index, "label": name_of(look, index)}


def name_of(look: Look, index: int) -> str:
    """The name of an outcome, otherwise its number."""
    return look.names[index] if index < len(look.names) else str(index)


def picture(context: OpContext, look: Look, part: int) -> Reply:
    """An image or spectrogram of the input in pixels, as the model got it, and its grid of patches.

    `part` counts images and audio in the order of the sequence. A spectrogram is `turned`: an
    element's row runs from left to right, its column upwards.
    """
    of = look.batch.source or look.batch
    shown = [*context.run.processor.pictures(of).values()]
    if part >= len(shown):
        raise ConfigError(
            f"There is no image or audio {part} in this input; it has {len(shown)} of them."
        )
    reader, patches = shown[part]
    pixels = reader.restored(patches.float().cpu())
    if turned := pixels.dtype != np.uint8:  # a spectrogram
        pixels = np.rint(255 * brightness(pixels)).astype(np.uint8)[..., None]
    header = {
        "kind": "spectrogram" if turned else "image",
        "turned": turned,
        "grid": list(reader.reader.grid),
        "part": part,
        "parts": len(shown),
    }
    return Reply(header, {"pixels": pixels})


def curves(context: OpContext) -> Reply:
    """The metrics of training by name: [n, 2], step and value of each line of metrics.jsonl."""
    metrics = history(context.run)
    found = {}
    for name in dict.fromkeys(name for line in metrics for name in line if name != "step"):
        if curve := points(metrics, name):
            found[name] = np.array(curve, np.float32)
    return Reply({"names": list(found)}, found)


def raw(context: OpContext, look: Look, point: str) -> Reply:
    """The tensor of a point without the batch axis; masked scores are -inf."""
    named = look[point]
    return Reply({"point": point, "axes": list(named.axes)}, {"values": named.tensor})


def points_(context: OpContext, look: Look) -> Reply:
    """Every point of the model for this input: name, kind, axes, shape, layer, side, site."""
    return Reply({"points": [asdict(point) for point in look.points()]})


OPS = model, look, points_, picture, curves, raw
"""Functions of ops, with the names that requests have."""
