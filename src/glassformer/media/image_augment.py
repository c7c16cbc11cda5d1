"""Image augmentation, a function of (seed, step, sample).

    shift and flip -> window (scale) -> policy -> colour -> erase                        one sample
    mixup: a weighted mean of two images; cutmix: a rectangle of another                 two samples

Windows, operations and colours are Pillow's. Sources: Zhong et al. 2020, Random Erasing; Cubuk et
al. 2020, RandAugment; Müller & Hutter 2021, TrivialAugment; Zhang et al. 2018, mixup; Yun et al.
2019, CutMix.
"""

from collections.abc import Callable
from typing import Annotated, Self

import numpy as np
from jaxtyping import Bool, Float, Float32, Int64, Shaped, UInt8
from PIL import Image, ImageEnhance, ImageOps
from pydantic import Field, model_validator

from glassformer.core.random_stream import RandomStream
from glassformer.core.record import Record

Pixels = UInt8[np.ndarray, "N H W C"]
Each = Float[np.ndarray, "N"]
Share = Annotated[float, Field(ge=0, le=1)]
PositiveShare = Annotated[float, Field(gt=0, le=1)]
Alpha = Annotated[float, Field(ge=0, le=100)]
Boxes = Float[np.ndarray, "4 N"]
"""Rectangles: top, left, bottom, right, each as a share of the side of the image."""
BILINEAR = Image.Resampling.BILINEAR
ENHANCERS = {
    "brightness": ImageEnhance.Brightness,
    "contrast": ImageEnhance.Contrast,
    "saturation": ImageEnhance.Color,
    "sharpness": ImageEnhance.Sharpness,
}


def _warp(image: Image.Image, *matrix: float) -> Image.Image:
    return image.transform(
        image.size, Image.Transform.AFFINE, matrix, BILINEAR, fillcolor=_grey(image)
    )


def _grey(image: Image.Image) -> tuple[int, ...]:
    return (128,) * len(image.getbands())


OPERATIONS: dict[str, Callable[[Image.Image, float], Image.Image]] = {
    "nothing": lambda image, s: image,
    "rotate": lambda image, s: image.rotate(30 * s, BILINEAR, fillcolor=_grey(image)),
    "shear_x": lambda image, s: _warp(image, 1, 0.3 * s, -0.15 * s * image.height, 0, 1, 0),
    "shear_y": lambda image, s: _warp(image, 1, 0, 0, 0.3 * s, 1, -0.15 * s * image.width),
    "translate_x": lambda image, s: _warp(image, 1, 0, 0.3 * s * image.width, 0, 1, 0),
    "translate_y": lambda image, s: _warp(image, 1, 0, 0, 0, 1, 0.3 * s * image.height),
    **{
        name: lambda image, s, kind=kind: kind(image).enhance(1 + 0.9 * s)
        for name, kind in ENHANCERS.items()
    },
    "posterize": lambda image, s: ImageOps.posterize(image, 8 - round(4 * abs(s))),
    "solarize": lambda image, s: ImageOps.solarize(image, round(256 * (1 - abs(s)))),
    "invert": lambda image, s: ImageOps.invert(image),
    "equalize": lambda image, s: ImageOps.equalize(image),
    "autocontrast": lambda image, s: ImageOps.autocontrast(image),
}
"""Operations of a policy and their ranges, those of RandAugment, by a strength s from -1 to 1."""
WEIGHTS = tuple(0.25 if name == "invert" else 1.0 for name in OPERATIONS)
"""Their relative frequencies; a negative is rarely realistic."""
SCALE_ASPECT, ERASE_ASPECT, ERASED = (3 / 4, 4 / 3), (0.3, 3.3), (0.02, 0.33)
"""Aspect ratio of a window and of an erased rectangle, and the share of the area that is erased."""


class AugmentConfig(Record):
    """The `augment.image` section of a recipe."""

    section = "augment.image"

    crop: int = Field(default=0, ge=0, le=1024)
    """Largest random shift in pixels, vertical and horizontal; the border is reflected."""
    scale: tuple[float, float] | None = None
    """Least and largest share of the area in a random crop, resized to the old size, such as [0.35,
    1]."""
    flip: bool = False
    """Mirror half of the images, left to right."""
    erase: Share = 0.0
    """Share of images in which a random rectangle becomes noise."""
    colour: Share = 0.0
    """Largest random relative change of brightness, contrast and saturation."""
    policy: int = Field(default=0, ge=0, le=16)
    """Number of random operations on each image, from RandAugment's list; 0: none."""
    magnitude: PositiveShare = 0.5
    """Largest strength of an operation of policy; uniform from 0 to this."""
    mixup: Alpha = 0.0
    """alpha of the Beta(alpha, alpha) by which two images are blended; 0: none."""
    cutmix: Alpha = 0.0
    """alpha of the Beta(alpha, alpha) for the share of an image that another replaces; 0: none."""
    mix_probability: PositiveShare = 1.0
    """Share of samples that are mixed; with mixup and cutmix, half by each."""

    @property
    def changes(self) -> bool:
        """Whether single images are changed."""
        return any((self.crop, self.scale, self.flip, self.erase, self.colour, self.policy))

    @property
    def mixes(self) -> bool:
        """Whether images of a batch are mixed, together with their targets."""
        return max(self.mixup, self.cutmix) > 0

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.scale and not 0 < self.scale[0] <= self.scale[1] <= 1:
            raise ValueError(
                f"scale={list(self.scale)} is not two shares of the area, the smaller first, up to "
                f"1"
            )
        if self.scale and self.crop:
            raise ValueError(
                f"crop={self.crop} and scale={list(self.scale)} both choose a window; set one of "
                f"them"
            )
        if not self.policy and self.magnitude != 0.5:
            raise ValueError(
                "magnitude is that of the policy's operations; set policy to how many of them"
            )
        if not self.mixes and self.mix_probability != 1:
            raise ValueError("mix_probability is that of mixup and cutmix; set one of them above 0")
        return self


class Augmentation:
    """Augments batches by a configuration; holds no state."""

    def __init__(self, config: AugmentConfig, seed: int) -> None:
        self._config, self._seed = config, seed

    def __call__(self, pixels: Pixels, samples: Int64[np.ndarray, "N"], step: int) -> Pixels:
        """Augment the samples of these numbers at this step, each independently of the batch."""
        config, stream = self._config, RandomStream(self._seed, step, samples)
        if config.crop or config.flip:
            pixels = self._shift(pixels, stream)
        if config.scale or config.policy or config.colour:
            pixels = self._redraw(pixels, stream)
        return self._erase(pixels, stream) if config.erase else pixels

    def _shift(self, pixels: Pixels, stream: RandomStream) -> Pixels:
        crop, (_, height, width, _) = self._config.crop, pixels.shape
        border = (crop, crop)
        padded = np.pad(pixels, ((0, 0), border, border, (0, 0)), "reflect")
        tops, lefts = np.floor(stream.uniform("crop", 2) * (2 * crop + 1)).astype(int)
        moves = zip(padded, tops, lefts, strict=True)
        shifted = np.stack([one[top:, left:][:height, :width] for one, top, left in moves])
        mirrored = stream.uniform("flip", 1)[0] < self._config.flip / 2
        shifted[mirrored] = shifted[mirrored, :, ::-1]
        return shifted

    def _redraw(self, pixels: Pixels, stream: RandomStream) -> Pixels:
        config, (n, height, width, _) = self._config, pixels.shape
        low, high = config.scale or (1.0, 1.0)
        area, *rest = stream.uniform("scale", 4)
        top, left, bottom, right = _rectangles(low + (high - low) * area, SCALE_ASPECT, *rest)
        boxes = np.stack((left * width, top * height, right * width, bottom * height), axis=1)
        ends = np.cumsum(WEIGHTS) / sum(WEIGHTS)
        drawn = np.searchsorted(ends, stream.uniform("operation", config.policy).T, side="right")
        strengths = config.magnitude * (2 * stream.uniform("strength", config.policy).T - 1)
        factors = 1 + config.colour * (2 * stream.uniform("colour", 3).T - 1)
        names, out = [*OPERATIONS], np.empty_like(pixels)
        for i in range(n):
            image = Image.fromarray(pixels[i] if pixels.shape[3] == 3 else pixels[i, ..., 0])
            if config.scale:
                image = image.resize(image.size, BILINEAR, tuple(boxes[i].tolist()))
            for which, strength in zip(drawn[i], strengths[i].tolist(), strict=True):
                image = OPERATIONS[names[which]](image, strength)
            if config.colour:  # all but sharpness
                for kind, factor in zip(ENHANCERS.values(), factors[i].tolist(), strict=False):
                    image = kind(image).enhance(factor)
            out[i] = np.asarray(image).reshape(out[i].shape)
        return out

    def _erase(self, pixels: Pixels, stream: RandomStream) -> Pixels:
        happens, area, aspect, *place = stream.uniform("erase", 5)
        rows = np.flatnonzero(happens < self._config.erase)
        _, height, width, channels = pixels.shape
        least, most = ERASED
        boxes = _rectangles(least + (most - least) * area, ERASE_ASPECT, aspect, *place)
        gone = _inside(boxes[:, rows], height, width)[..., None]
        noise, pixels = stream.noise("noise", rows, height * width * channels), pixels.copy()
        pixels[rows] = np.where(gone, noise.reshape(pixels[rows].shape), pixels[rows])
        return pixels

    def mix(
        self,
        pixels: Shaped[np.ndarray, "N H W C"],
        targets: Int64[np.ndarray, "N"] | Int64[np.ndarray, "N classes"],
        n_classes: int,
        samples: Int64[np.ndarray, "N"],
        step: int,
    ) -> tuple[Shaped[np.ndarray, "N H W C"], Float32[np.ndarray, "N classes"]]:
        """Mix images (uint8 or float32) of a batch, and return the share of each class in each.

        Targets are one class for each, or 0 and 1 for every class. Kind and share are a function of
        (seed, step, sample). The partner is the next in a random order of the batch, so that
        everyone is the partner of one.
        """
        stream, (n, height, width, _) = RandomStream(self._seed, step, samples), pixels.shape
        happens, which, level = stream.uniform("mix", 3)
        mixup, cutmix = self._config.mixup, self._config.cutmix
        cut = which < (0.5 if mixup and cutmix else bool(cutmix))  # 1: all of them, 0: none
        own = np.where(cut, beta_quantile(level, cutmix or 1), beta_quantile(level, mixup or 1))
        own = np.where(happens < self._config.mix_probability, own, 1.0)
        gone = _inside(_rectangles(1 - own, (1, 1), *stream.uniform("cut", 3)), height, width)
        order = np.argsort(stream.uniform("partner", 1)[0], kind="stable")
        partner = np.empty(n, np.int64)
        partner[order] = np.roll(order, -1)
        keep = np.where(cut[:, None, None], ~gone, own[:, None, None]).astype(np.float32)
        values = pixels.astype(np.float32)
        values += (1 - keep)[..., None] * (values[partner] - values)
        classes = np.eye(n_classes)[targets] if targets.ndim == 1 else targets
        classes = classes.astype(np.float32)
        share = np.where(cut, keep.mean(axis=(1, 2)), own).astype(np.float32)[:, None]
        values = np.rint(values) if pixels.dtype == np.uint8 else values
        return values.astype(pixels.dtype), share * classes + (1 - share) * classes[partner]


def beta_quantile(level: Each, alpha: float) -> Each:
    """Quantile of Beta(alpha, alpha) at `level`.

    The lower half is x = u^p / 2 with p = max(1, 1 / alpha), where u has the finite density u^(p
    alpha - 1) (1 - x)^(alpha - 1), up to a factor. The upper half is its mirror image.
    """
    power = max(1.0, 1 / alpha)
    u = np.linspace(0, 1, 4097)
    density = u ** (max(1.0, alpha) - 1) * (1 - u**power / 2) ** (alpha - 1)
    below = np.append(0, np.cumsum(density[1:] + density[:-1]))
    lower = np.interp(np.minimum(level, 1 - level), below / (2 * below[-1]), u) ** power / 2
    return np.where(level <= 0.5, lower, 1 - lower)


def _rectangles(
    area: Each, aspects: tuple[float, float], aspect: Each, down: Each, right: Each
) -> Boxes:
    """Rectangles of an area, all as shares of the image; aspect and place are uniform in [0, 1).

    The aspect ratio is log-uniform between `aspects`, as far as the rectangle fits into the image.
    """
    logs = np.log(np.maximum(area, 1e-12))
    low, high = np.maximum(logs, np.log(aspects[0])), np.minimum(-logs, np.log(aspects[1]))
    root = np.exp((low + (high - low) * aspect) / 2)
    tall, wide = np.minimum(np.sqrt(area) / root, 1), np.minimum(np.sqrt(area) * root, 1)
    top, left = (1 - tall) * down, (1 - wide) * right
    return np.stack((top, left, np.minimum(top + tall, 1), np.minimum(left + wide, 1)))


def _inside(boxes: Boxes, height: int, width: int) -> Bool[np.ndarray, "N H W"]:
    """Whether each pixel lies in the rectangle, with edges rounded to whole pixels."""
    top, left, bottom, right = boxes[:, :, None]
    ys, xs = np.arange(height), np.arange(width)
    row = (ys >= np.rint(top * height)) & (ys < np.rint(bottom * height))
    column = (xs >= np.rint(left * width)) & (xs < np.rint(right * width))
    return row[:, :, None] & column[:, None, :]
