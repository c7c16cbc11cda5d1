"""An exported folder run in onnxruntime."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.core.batch import Batch
from glassformer.core.errors import ConfigError
from glassformer.interop.onnx.graphs import IDS, MASK, PATCHES, PIXELS, SOURCE_MASK, TYPES
from glassformer.media.image import ImageReader

Arrays = dict[str, np.ndarray]


class Running:
    """The graphs of a folder, ready to run; ConfigError: onnxruntime is not installed."""

    def __init__(self, folder: Path, images: ImageReader | None = None):
        runtime, cpu = installed(), ["CPUExecutionProvider"]
        opened = {
            file.stem: runtime.InferenceSession(str(file), providers=cpu)
            for file in folder.glob("*.onnx")
        }
        self._images, self._encoder = images, opened.get("encoder")
        self._model = opened.get("decoder") or opened["model"]
        self._past = [one for one in self._model.get_inputs() if one.name.startswith("past_")]

    def outputs(self, batch: Batch) -> Tensor:
        """The outputs of a batch of one, in the shape of `Output.logits`."""
        found, *_ = _run(self._model, self._given(batch)).values()
        values = torch.from_numpy(found)
        return values if batch.at is None else values.flatten(0, 1)[batch.at]

    def continued(self, batch: Batch, n: int) -> Sequence[int]:
        """n tokens generated greedily after a batch of one, with the cache."""
        given, found = self._given(batch), list[int]()
        for _ in range(n):
            logits, *present = _run(self._model, given).values()
            found.append(int(logits[0, -1].argmax()))
            length = given[MASK].shape[1] + 1
            given |= dict(zip([one.name for one in self._past], present, strict=True))
            given |= {IDS: np.array([found[-1:]]), MASK: np.ones((1, length), np.int64)}
            given[TYPES] = np.zeros_like(given[IDS])
        return found

    def _given(self, batch: Batch) -> Arrays:
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


def installed() -> Any:
    """onnxruntime; ConfigError: it is not installed."""
    try:
        import onnxruntime
    except ImportError:
        raise ConfigError(
            "The export is compared in onnxruntime, which is not installed; run pip install "
            "'glassformer[onnx]', or add --no-check."
        ) from None
    return onnxruntime


def _tokens(batch: Batch) -> Arrays:
    ids, kinds = batch.elements.numpy(), batch.token_type_ids
    own = np.zeros_like(ids) if kinds is None else kinds.numpy()
    given = {IDS: ids, MASK: np.ones_like(ids), TYPES: own}
    return {name: values.astype(np.int64) for name, values in given.items()}


def _run(session: Any, given: Arrays) -> Arrays:
    """The outputs by name; what the graph has no input for is left out."""
    read = {one.name: given[one.name] for one in session.get_inputs()}
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(names, read), strict=True))
