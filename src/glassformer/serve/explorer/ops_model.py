"""What a model is, and what it made of an input: the ops `model`, `look`, `picture`, `curves`,
`raw`."""

from dataclasses import asdict
from time import perf_counter
from typing import Any

import numpy as np
from pydantic import Field

from glassformer.axes import Float, Int, Tensor
from glassformer.errors import ConfigError
from glassformer.inspect.look import Look
from glassformer.media.audio import AudioReader
from glassformer.media.image import ImageReader
from glassformer.media.patches import unpatchify
from glassformer.pages.images import brightness
from glassformer.pages.training_report import points
from glassformer.serve.explorer.examples import examples, family
from glassformer.serve.explorer.looks import Desk
from glassformer.serve.explorer.requests import Ask, Seen
from glassformer.serve.explorer.wire import Reply, floats
from glassformer.training.checkpoint import Checkpoints
from glassformer.training.history import read_metrics

TASKS = {
    "lm": "writes on from a text",
    "masked": "fills in what is masked in a text",
    "tag": "gives every word of a text a tag",
    "classify": "gives a text a class",
    "translate": "turns a text into another",
    "image": "gives a picture a class",
    "audio": "gives a recording a class",
    "mixture": "reads pictures, sounds and text in one sequence",
    "depiction": "draws a picture of a text, pixel by pixel",
    "vectors": "turns a sequence into vectors",
}
TOP = 5


class ModelAsk(Ask):
    """Of the model that is open."""


def model(desk: Desk, ask: ModelAsk) -> Reply:
    """The model card: its family, its sizes, its attentions, checkpoints, and inputs to begin
    with."""
    run = desk.run
    config, kind = run.model.config, family(run)
    return Reply(
        {
            "name": run.folder.resolve().name,
            "path": str(run.folder),
            "task": TASKS[kind],
            "family": kind,
            "architecture": config.architecture,
            "config": config.model_dump(mode="json"),
            "parameters": run.model.n_parameters,
            "layers": config.n_layers,
            "heads": config.n_heads,
            "kv_heads": config.kv_heads,
            "d_model": config.d_model,
            "d_head": config.head_width,
            "max_length": config.max_length,
            "classes": list(run.classes) if config.head in ("tag", "classify") else [],
            "attentions": attentions(config.architecture, config.n_layers, config.n_heads),
            "specials": {} if run.text is None else run.text.specials,
            "checkpoints": Checkpoints(run.folder).steps(),
            "examples": examples(run),
        }
    )


def attentions(architecture: str, layers: int, heads: int) -> list[dict[str, Any]]:
    """The attentions of a model, as requests name them: `side` empty is the stack that answers,
    which comes first."""
    places = [("", "self")]
    if architecture == "encoder_decoder":
        places += [("", "cross"), ("encoder", "self")]
    return [
        {
            "side": side,
            "site": site,
            "stack": side or ("decoder" if "decoder" in architecture else "encoder"),
            "layers": layers,
            "heads": heads,
        }
        for side, site in places
    ]


def look(desk: Desk, ask: Seen) -> Reply:
    """Look at an input: its elements, and the likeliest outcomes at every position."""
    begun = perf_counter()
    desk.check()
    seen, cached = desk.looks.find(ask.seen)
    return Reply(
        {
            "elements": [asdict(element) for element in seen.elements],
            "source_elements": [asdict(element) for element in seen.source_elements],
            "outcome": outcome(seen),
            "edits": [edit.to_json() for edit in seen.edits],
            "ms": round(1000 * (perf_counter() - begun), 3),
            "cached": cached,
        }
    )


def outcome(seen: Look) -> dict[str, Any]:
    """The likeliest outcomes of each position, or of the whole sequence (`position` None)."""
    config = seen.model.config
    kind = {"lm": "tokens", "masked_lm": "tokens", "tag": "tags", "classify": "class"}.get(
        config.head, "vectors"
    )
    if kind == "vectors":
        return {"kind": kind, "rows": []}
    ids, probabilities = likeliest(
        seen.logits.reshape(-1, seen.logits.shape[-1]), TOP, config.multi_label
    )
    rows = [
        {"position": None if kind == "class" else position, "top": labelled(seen, *row)}
        for position, row in enumerate(zip(ids.tolist(), probabilities.tolist(), strict=True))
    ]
    return {"kind": kind, "rows": rows}


def likeliest(
    logits: Float[Tensor, "N V"], k: int, several: bool = False
) -> tuple[Int[Tensor, "N _"], Float[Tensor, "N _"]]:
    """The k likeliest outcomes of each row and their probabilities (each one's own where `several`
    may be so)."""
    logits = logits.float()
    top = logits.topk(min(k, logits.shape[-1]), -1)
    return top.indices, top.values.sigmoid() if several else (
        top.values - logits.logsumexp(-1, keepdim=True)
    ).exp()


def labelled(seen: Look, ids: list[int], probabilities: list[float]) -> list[dict[str, Any]]:
    """Outcomes with their names."""
    return [
        {"id": i, "label": name_of(seen, i), "p": p}
        for i, p in zip(ids, probabilities, strict=True)
    ]


def name_of(seen: Look, index: int) -> str:
    """What an outcome is called; its number where nobody named it."""
    return seen.names[index] if index < len(seen.names) else str(index)


class PictureAsk(Seen):
    """Which of a sequence's pictures or recordings."""

    part: int = Field(0, ge=0, description="which one, from 0")


def picture(desk: Desk, ask: PictureAsk) -> Reply:
    """The picture or spectrogram that the model was given, as it was given it, in pixels; its grid
    of patches.

    A spectrogram is `turned`: an element's row runs from left to right, and its column from the
    bottom up.
    """
    seen, run = desk.look(ask.seen), desk.run
    shown: list[tuple[ImageReader | AudioReader, Tensor]] = []
    if run.senses is not None:
        shown.append((run.senses, seen.batch.elements))
    for part in (seen.batch.source or seen.batch).parts:
        reader = run.readers[part.name]
        shown += [(reader, values[None]) for values in part.values.split(reader.n_patches)]
    if ask.part >= len(shown):
        raise ConfigError(
            f"There is no picture or recording {ask.part} in this input; it has {len(shown)} "
            f"of them."
        )
    reader, patches = shown[ask.part]
    if isinstance(reader, ImageReader):
        pixels = reader.pixels_of(patches)[0]
    else:
        values = unpatchify(patches.float().cpu(), reader.config.patch_size, reader.grid)[
            0, :, :, 0
        ].numpy()
        pixels = np.rint(255 * brightness(values)).astype(np.uint8)[..., None]
    heard_of = isinstance(reader, AudioReader)
    named = {
        "kind": "spectrogram" if heard_of else "image",
        "turned": heard_of,
        "grid": list(reader.grid),
    }
    return Reply({**named, "part": ask.part, "parts": len(shown)}, {"pixels": pixels})


class CurvesAsk(Ask):
    """Of the run that is open."""


def curves(desk: Desk, ask: CurvesAsk) -> Reply:
    """Whatever was measured in training, by name: [n, 2], step and value of each line of
    metrics.jsonl."""
    metrics = read_metrics(desk.run.folder)
    names = list(dict.fromkeys(name for line in metrics for name in line if name != "step"))
    found = {name: np.array(points(metrics, name), np.float32).reshape(-1, 2) for name in names}
    found = {name: curve for name, curve in found.items() if len(curve)}
    return Reply({"names": list(found)}, found)


class RawAsk(Seen):
    """Which point."""

    point: str = Field(description="the name of a point, such as decoder.blocks.0.resid_post")


def raw(desk: Desk, ask: RawAsk) -> Reply:
    """The tensor of a point, as it is, without the batch axis; -inf where scores are masked is -inf
    here too."""
    named = desk.look(ask.seen)[ask.point]
    return Reply({"point": ask.point, "axes": list(named.axes)}, {"values": floats(named.tensor)})


class PointsAsk(Seen):
    """All points of a look."""


def all_points(desk: Desk, ask: PointsAsk) -> Reply:
    """Every point of the model that fires for this input: name, kind, axes, shape, layer, side,
    site."""
    return Reply({"points": [asdict(point) for point in desk.look(ask.seen).points()]})
