"""The features of audio in ONNX operations: samples to the patches that a model reads."""

import numpy as np

from glassformer.interop.onnx.graph import Graph, floats, number, sizes
from glassformer.media.audio import AudioReader

SAMPLES, PATCHES = "samples", "patches"


def features(audio: AudioReader) -> Graph:
    """Samples, float32 [B, N], to normalized log-mel patches [B, T, P].

    The Fourier transform of `log_mel` is a product with a matrix here.
    """
    g, c = Graph(), audio.config
    samples = g.input(SAMPLES, np.float32, "batch", c.n_samples)
    before = (c.n_fft - c.hop) // 2 - (c.n_fft - c.window) // 2
    after = max(0, c.frames * c.hop + c.window - before - c.n_samples)
    heard = g.op("Pad", samples, sizes([0, before, 0, after]))
    slots = np.arange(c.frames)[:, None] * c.hop + np.arange(c.window)
    frames = g.op("Gather", heard, slots, axis=1)
    angle = np.outer(np.arange(c.window), np.arange(c.n_fft // 2 + 1)) * (2 * np.pi / c.n_fft)
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(c.window) / c.window)
    power = ""
    for wave in (np.cos, np.sin):
        part = g.op("MatMul", frames, (hann[:, None] * wave(angle)).astype(np.float32))
        square = g.op("Mul", part, part)
        power = g.op("Add", power, square) if power else square
    bands = g.op("MatMul", power, floats(audio.filters.T))
    log = g.op("Log", g.op("Max", bands, number(c.floor)))
    mean, std = map(floats, audio.normal)
    normal = g.op("Div", g.op("Sub", log, mean), std)
    (rows, columns), (p, q) = c.grid, c.patch_size
    cut = g.transpose(g.reshape(normal, 0, rows, p, columns, q), 0, 1, 3, 2, 4)
    g.output(PATCHES, g.reshape(cut, 0, rows * columns, p * q), "batch", rows * columns, p * q)
    return g
