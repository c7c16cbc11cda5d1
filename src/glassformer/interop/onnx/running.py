"""An exported folder run in onnxruntime."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.batch import Batch
from glassformer.errors import ConfigError
from glassformer.interop.onnx.graphs import IDS, MASK, PATCHES, PIXELS, SOURCE_MASK, TYPES
from glassformer.media.image import ImageReader

Arrays = dict[str, np.ndarray]


class Running:
    """The graphs of a folder, ready to run; ConfigError: onnxruntime is not installed."""

    def __init__(self, folder: Path, images: ImageReader | None = None):
        runtime = installed()
        open_graph = lambda file: runtime.InferenceSession(
            str(file), providers=["CPUExecutionProvider"]
        )
        self._images = images
        encoder = folder / "encoder.onnx"
        self._encoder = open_graph(encoder) if encoder.is_file() else None
        self._model = open_graph(folder / ("decoder.onnx" if self._encoder else "model.onnx"))

    def outputs(self, batch: Batch) -> Tensor:
        """The outputs of a batch of one, in the shape of `Output.logits`."""
        found = self._run(self._given(batch))[0]
        values = torch.from_numpy(found)
        return values if batch.at is None else values.flatten(0, 1)[batch.at]

    def continued(self, batch: Batch, n: int) -> Sequence[int]:
        """n tokens generated greedily after a batch of one, with the cache."""
        given, found = self._given(batch), list[int]()
        for _ in range(n):
            logits, *present = self._run(given)
            found.append(int(logits[0, -1].argmax()))
            length = given[MASK].shape[1] + 1
            kept = dict(zip(self._past, present, strict=True))
            given |= kept | {IDS: np.array([found[-1:]]), MASK: np.ones((1, length), np.int64)}
            if TYPES in given:
                given[TYPES] = np.zeros((1, 1), np.int64)
        return found

    @property
    def _past(self) -> list[str]:
        return [one.name for one in self._model.get_inputs() if one.name.startswith("past_")]

    def _run(self, given: Arrays) -> list[np.ndarray]:
        return self._model.run(None, given)

    def _given(self, batch: Batch) -> Arrays:
        """A batch of one by the names of inputs."""
        if batch.elements.is_floating_point():
            if self._images is None:
                return {PATCHES: batch.elements.numpy()}
            return {PIXELS: self._images.pixels_of(batch.elements)}
        given = _tokens(batch, [one.name for one in self._model.get_inputs()])
        for one in self._model.get_inputs():
            if one.name.startswith("past_"):
                _, heads, _, width = one.shape
                given[one.name] = np.zeros((1, heads, 0, width), np.float32)
        if self._encoder is not None and batch.source is not None:
            source = _tokens(batch.source, [one.name for one in self._encoder.get_inputs()])
            names = [one.name for one in self._encoder.get_outputs()]
            given |= dict(zip(names, self._encoder.run(None, source), strict=True))
            given[SOURCE_MASK] = source[MASK]
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


def _tokens(batch: Batch, names: Sequence[str]) -> Arrays:
    ids = batch.elements.numpy().astype(np.int64)
    given = {IDS: ids, MASK: np.ones_like(ids)}
    if TYPES in names:
        kinds = batch.token_type_ids
        given[TYPES] = np.zeros_like(ids) if kinds is None else kinds.numpy().astype(np.int64)
    return given
