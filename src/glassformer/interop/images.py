"""`preprocessor_config.json` of a published model of images to our configuration of images."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassformer.errors import CheckpointError, ConfigError
from glassformer.files import read_json
from glassformer.media.image import ImageConfig, ImageReader
from glassformer.models.config import ModelConfig

FILE = "preprocessor_config.json"
FILTERS = {0: "nearest", 2: "bilinear", 3: "bicubic"}
"""Interpolation by the numbers of Pillow."""


def image_reader(folder: Path, model: ModelConfig) -> ImageReader:
    """How images become patches; CheckpointError: no such file, or steps that a reader here does
    not have."""
    path = folder / FILE
    try:
        return ImageReader(ImageConfig.parse(_fields(read_json(path), model)))
    except FileNotFoundError:
        raise CheckpointError(
            f"{folder} holds no {FILE}, which says how images are normalized; download it."
        ) from None
    except ConfigError as error:
        raise CheckpointError(f"{path}: {error}") from None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise CheckpointError(
            f"{path} describes no images that are read here: {str(error)[:200]}."
        ) from None


def _fields(own: Mapping[str, Any], model: ModelConfig) -> dict[str, Any]:
    if model.grid is None or model.patch is None:
        raise ValueError("the model has no grid of patches")
    size = [n * p for n, p in zip(model.grid, model.patch, strict=True)]
    channels = model.patch_width // (model.patch[0] * model.patch[1])
    factor = own.get("rescale_factor", 1 / 255)
    if not own.get("do_rescale", True) or abs(factor * 255 - 1) > 1e-6:  # printed with 16 digits
        raise ValueError(f"pixels times {factor}; 1/255 is known")
    mean, std = own.get("image_mean", [0.5] * channels), own.get("image_std", [0.5] * channels)
    if not own.get("do_normalize", True):
        mean, std = [0.0] * channels, [1.0] * channels
    return {
        "size": size,
        "channels": channels,
        "patch": list(model.patch),
        "resize": _resize(own, size),
        "interpolation": FILTERS[own.get("resample", 2)],
        "mean": mean,
        "std": std,
    }


def _resize(own: Mapping[str, Any], size: list[int]) -> str:
    """`stretch`, or `crop` where the shorter side is resized; ValueError: to another size."""
    given, cut = own.get("size", size), own.get("crop_size", size)
    shorter = given.get("shortest_edge") if isinstance(given, dict) else None
    sides = [given["height"], given["width"]] if isinstance(given, dict) and not shorter else None
    if sides is None:
        sides = [shorter or given] * 2 if isinstance(shorter or given, int) else list(given)
    crops = bool(own.get("do_center_crop", shorter is not None))
    cut = [cut["height"], cut["width"]] if isinstance(cut, dict) else cut
    cut = [cut, cut] if isinstance(cut, int) else list(cut)
    if sides != size or (crops and cut != size):
        raise ValueError(
            f"images resized to {sides[0]} x {sides[1]} and cut to {cut[0]} x {cut[1]}; the "
            f"model's own size, {size[0]} x {size[1]}, is known"
        )
    return "crop" if shorter else "stretch"
