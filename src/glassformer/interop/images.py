"""`preprocessor_config.json` of a published model of images to our configuration of images."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassformer.core.errors import CheckpointError, ConfigError
from glassformer.core.files import read_json
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
        **_resize(own, size),
        "interpolation": FILTERS[own.get("resample", 2)],
        "mean": mean,
        "std": std,
    }


def _resize(own: Mapping[str, Any], size: list[int]) -> dict[str, Any]:
    """How images become the model's size: `stretch`, or `crop` where the shorter side is resized;
    ValueError: they would be of another size."""
    given, cut = own.get("size", size), own.get("crop_size", size)
    shorter = given.get("shortest_edge") if isinstance(given, dict) else None
    crops = bool(own.get("do_center_crop", shorter is not None))
    cut = _sides(cut) if crops else size
    sides = size if shorter else _sides(given)
    if cut != size or (sides != size and not crops):
        raise ValueError(
            f"images of {cut[0]} x {cut[1]} of {sides[0]} x {sides[1]}; the model's own size, "
            f"{size[0]} x {size[1]}, is known"
        )
    if shorter:
        return {"resize": "crop", "resize_to": shorter}
    return {"resize": "stretch", "resize_to": None if sides == size else sides}


def _sides(given: Any) -> list[int]:
    """Height and width of a size, which may be one number."""
    if isinstance(given, dict):
        return [given["height"], given["width"]]
    return [given, given] if isinstance(given, int) else list(given)
