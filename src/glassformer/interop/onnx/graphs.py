"""The graphs of a Transformer, traced from the model by torch's exporter.

model     input_ids [B, T], attention_mask [B, T] (or pixels, or patches)  ->  logits
model     the same, with past keys and values [B, G, P, K] and a mask [B, P + T]  ->  logits and
          present keys and values [B, G, P + T, K]; P = 0 begins
encoder   input_ids [B, S], attention_mask [B, S]  ->  keys and values of cross-attention
decoder   like a model with past keys and values, beside those of the encoder
features  samples [B, N]  ->  patches
"""

import logging
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.core.batch import Batch, Positions
from glassformer.core.errors import ConfigError
from glassformer.layers.attention.cache import Cache, Layers
from glassformer.layers.lora import plain_parameters
from glassformer.media.audio import AudioReader, log_mel
from glassformer.media.image import ImageReader
from glassformer.models.account import Account
from glassformer.models.transformer import Transformer

IDS, MASK, TYPES = "input_ids", "attention_mask", "token_type_ids"
SOURCE_MASK = "encoder_attention_mask"
PIXELS, PATCHES, SAMPLES = "pixels", "patches", "samples"
TOKENS = dict.fromkeys((IDS, MASK, TYPES, SOURCE_MASK), torch.int64)
DTYPES = TOKENS | {PIXELS: torch.uint8}
"""Types of the inputs that are not float32."""
SIZES = {"batch": 5, "length": 4, "past": 3, "total": 7, "source": 6}
"""Sizes of the inputs that are traced; the graph computes any others."""
OPSET = 20

Named = dict[str, Tensor]
Shape = tuple[int | str, ...]
"""Numbers, and names of sizes that may differ."""


class Graph(nn.Module):
    """A function of named tensors; `module` has the weights that it uses."""

    def __init__(
        self,
        compute: Callable[[Named], Iterable[Tensor]],
        inputs: dict[str, Shape],
        outputs: Sequence[str],
        module: nn.Module | None = None,
    ):
        super().__init__()
        self.compute, self.inputs, self.outputs, self.module = compute, inputs, outputs, module
        self.eval()

    def forward(self, *values: Tensor) -> tuple[Tensor, ...]:
        """Compute the outputs in their order."""
        return tuple(self.compute(dict(zip(self.inputs, values, strict=True))))

    @torch.no_grad()
    def save(self, file: Path) -> None:
        """Write the graph; weights of more than 1.5 GB go into FILE.data beside it. ConfigError:
        the library is not installed."""
        library = _library()
        dynamic = (
            {axis: size for axis, size in enumerate(shape) if isinstance(size, str)}
            for shape in self.inputs.values()
        )
        with _quiet():
            program = torch.onnx.export(
                self,
                tuple(_example(name, shape) for name, shape in self.inputs.items()),
                dynamo=True,
                verbose=False,
                opset_version=OPSET,
                input_names=[*self.inputs],
                output_names=self.outputs,
                dynamic_shapes=(tuple(dynamic),),
                custom_translation_table={torch.ops.aten.cos.default: _cosine},
            )
        assert program is not None
        # Each operation names the line of code and the folder that it comes from.
        library.ir.passes.common.ClearMetadataAndDocStringPass()(program.model)
        program.save(file)


def graphs(model: Transformer, images: ImageReader | None = None) -> dict[str, Graph]:
    """Return the graphs of a model by their names; a model of images reads pixels."""
    model = _plain(model)
    config = model.config
    if config.is_encoder_decoder:
        return {"encoder": _encoder(model), "decoder": _decoder(model)}
    if config.predicts_next:
        return {"model": _decoder(model)}
    if not config.reads_patches:
        read, inputs = _tokens, _token_shapes(model, "length")
    elif images is None:
        read = lambda given: Batch(given[PATCHES])
        inputs = {PATCHES: ("batch", config.max_length, config.patch_width)}
    else:
        read = lambda given: Batch(images.patches(images.normalize(given[PIXELS])))
        inputs = {PIXELS: ("batch", *images.shape)}
    outputs = ["vectors" if config.gives_vectors else "logits"]
    return {"model": Graph(lambda given: [model(read(given)).logits], inputs, outputs, model)}


def features(audio: AudioReader) -> Graph:
    """Return the graph of the normalized log-mel patches that a model of audio reads."""
    c, (mean, std) = audio.config, audio.normal

    def compute(given: Named) -> Iterator[Tensor]:
        bands = log_mel(given[SAMPLES], audio.filters, c.window, c.hop, c.floor)
        yield audio.patches((bands - mean) / std)

    return Graph(compute, {SAMPLES: ("batch", c.n_samples)}, [PATCHES])


def _encoder(model: Transformer) -> Graph:
    """A source to the keys and values that each layer of the decoder reads."""
    decoder = model.decoder
    assert decoder is not None
    compute = lambda given: _flat(decoder.source_keys_values(model.encode(_tokens(given)).hidden))
    outputs = [*_cache_shapes(model, "encoder", "source")]
    return Graph(compute, _token_shapes(model, "source"), outputs, model)


def _decoder(model: Transformer) -> Graph:
    """New tokens after past ones to logits and present keys and values."""
    decoder = model.decoder
    assert decoder is not None
    past = _cache_shapes(model, "past_key_values", "past")
    inputs, crossed = _token_shapes(model, "length", "total") | past, dict[str, Shape]()
    if model.encoder is not None:
        inputs.pop(TYPES, None)
        crossed = _cache_shapes(model, "encoder", "source")
        inputs |= {SOURCE_MASK: ("batch", "source"), **crossed}

    def compute(given: Named) -> Iterator[Tensor]:
        own, whole = _layers(given, past), _positions(given[MASK])
        sizes = own[0][0].shape[2], given[IDS].shape[1]
        before, new = (whole.map(lambda t, i=i: t.split(sizes, 1)[i]) for i in (0, 1))
        cache = Cache(before, own, _layers(given, crossed)).advance(new)
        source = _positions(given[SOURCE_MASK]) if crossed else None
        hidden = model.embed(given[IDS], new, given.get(TYPES))
        # The keys and values of the source are in the cache: its vectors are not read.
        yield model.head(decoder(hidden, new, cache, source_positions=source), new)
        yield from _flat(cache.own)

    return Graph(compute, inputs, ["logits", *_cache_shapes(model, "present", "total")], model)


def _plain(model: Transformer) -> Transformer:
    """The model in float32 on the CPU, with adapters merged and integers as their values."""
    plain = Transformer(model.config, seed=None, device="meta")
    own = dict(plain_parameters(model))
    account = Account("An ONNX graph", own)
    account.take(*(own[name] for name, _ in plain.named_parameters()))
    account.finish()
    values = {name: value.to("cpu", torch.float32) for name, value in own.items()}
    plain.load_state_dict(values, strict=False, assign=True)
    plain.tie()
    return plain.eval()


def _tokens(given: Named) -> Batch:
    return Batch(given[IDS], _positions(given[MASK]), token_type_ids=given.get(TYPES))


def _positions(mask: Tensor) -> Positions:
    """Positions 0, 1, 2, ... of the real elements; padding before them has 0."""
    return Positions((mask.cumsum(1) - 1).clamp(min=0), valid=mask.bool())


def _token_shapes(model: Transformer, length: str, total: str | None = None) -> dict[str, Shape]:
    shapes: dict[str, Shape] = {IDS: ("batch", length), MASK: ("batch", total or length)}
    return shapes | ({TYPES: ("batch", length)} if model.config.n_token_types else {})


def _cache_shapes(model: Transformer, name: str, length: str) -> dict[str, Shape]:
    config = model.config
    names = (f"{name}.{i}.{side}" for i in range(config.n_layers) for side in ("key", "value"))
    return dict.fromkeys(names, ("batch", config.kv_heads, length, config.head_width))


def _layers(given: Named, names: Iterable[str]) -> Layers:
    values = [given[name] for name in names]
    return dict(enumerate(zip(values[::2], values[1::2], strict=True)))


def _flat(layers: Layers) -> Iterator[Tensor]:
    return (one for pair in layers.values() for one in pair)


def _example(name: str, shape: Shape) -> Tensor:
    sizes = [SIZES[size] if isinstance(size, str) else size for size in shape]
    return torch.ones(sizes, dtype=DTYPES.get(name, torch.float32))


def _cosine(x: Any) -> Any:
    """cos x = sin(x + π/2): onnxruntime 1.24 has no cosine of float64."""
    op = _library().opset20
    return op.Sin(op.Add(x, math.pi / 2))


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporter's remarks about itself from the terminal."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logger.setLevel(before)


def _library() -> Any:
    try:
        import onnxscript
    except ImportError:
        raise ConfigError(
            "ONNX files are written with the library onnxscript, which is not installed; run pip "
            "install 'glassformer[onnx]'."
        ) from None
    return onnxscript
