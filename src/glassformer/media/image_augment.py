"""Image augmentation, a function of (seed, step, sample).

    window (crop, or scale) and flip -> policy: moves, then tones -> colour -> erase     one sample
    mixup: a weighted mean of two images; cutmix: a rectangle of another                 two samples

Sources: Zhong et al. 2020, Random Erasing; Cubuk et al. 2020, RandAugment; Müller & Hutter 2021,
TrivialAugment; Zhang et al. 2018, mixup; Yun et al. 2019, CutMix.
"""

from typing import Self

import numpy as np
from jaxtyping import Float32, Int64, Shaped
from pydantic import Field, model_validator

from glassformer.media.image_ops import (
    GEOMETRY,
    TONES,
    Boxes,
    Each,
    Pixels,
    coloured,
    inside,
    unmoved,
    warp,
    window_maps,
    windows,
)
from glassformer.random_stream import RandomStream
from glassformer.record import Record

OPERATIONS = ("nothing", *GEOMETRY, *TONES)
"""Operations of a policy."""
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
    erase: float = Field(default=0.0, ge=0, le=1)
    """Share of images in which a random rectangle becomes noise."""
    colour: float = Field(default=0.0, ge=0, le=1)
    """Largest random relative change of brightness, contrast and saturation."""
    policy: int = Field(default=0, ge=0, le=16)
    """Number of random operations on each image, from RandAugment's list; 0: none."""
    magnitude: float = Field(default=0.5, gt=0, le=1)
    """Largest strength of an operation of policy; uniform from 0 to this."""
    mixup: float = Field(default=0.0, ge=0, le=100)
    """alpha of the Beta(alpha, alpha) by which two images are blended; 0: none."""
    cutmix: float = Field(default=0.0, ge=0, le=100)
    """alpha of the Beta(alpha, alpha) for the share of an image that another replaces; 0: none."""
    mix_probability: float = Field(default=1.0, gt=0, le=1)
    """Share of samples that are mixed; with mixup and cutmix, half by each."""

    @property
    def changes(self) -> bool:
        """Whether single images are changed."""
        return bool(
            self.crop or self.scale or self.flip or self.erase or self.colour or self.policy
        )

    @property
    def mixes(self) -> bool:
        """Whether images of a batch are mixed, together with their targets."""
        return self.mixup > 0 or self.cutmix > 0

    @property
    def active(self) -> bool:
        """Whether anything is changed."""
        return self.changes or self.mixes

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
        if not self.policy and self.magnitude != self._default("magnitude"):
            raise ValueError(
                "magnitude is that of the policy's operations; set policy to how many of them"
            )
        if not self.mixes and self.mix_probability != self._default("mix_probability"):
            raise ValueError("mix_probability is that of mixup and cutmix; set one of them above 0")
        return self

    @classmethod
    def _default(cls, name: str) -> float:
        return cls.model_fields[name].default


class Augmentation:
    """Augments batches by a configuration; holds no state."""

    def __init__(self, config: AugmentConfig, seed: int) -> None:
        self._config, self._seed = config, seed

    def __call__(self, pixels: Pixels, samples: Int64[np.ndarray, "N"], step: int) -> Pixels:
        """Augment the samples of these numbers at this step, each independently of the batch."""
        config, stream = self._config, RandomStream(self._seed, step, samples)
        if config.crop or config.flip:
            moves = (
                np.floor(stream.uniform("crop", 2) * (2 * config.crop + 1)).astype(np.int64)
                - config.crop
            )
            pixels = windows(
                pixels, *moves, mirrored=stream.uniform("flip", 1)[0] < config.flip / 2
            )
        if config.scale or config.policy:
            pixels = self._drawn(pixels, stream)
        if config.colour:
            pixels = coloured(pixels, *(1 + config.colour * (2 * stream.uniform("colour", 3) - 1)))
        return self._erased(pixels, stream) if config.erase else pixels

    def _drawn(self, pixels: Pixels, stream: RandomStream) -> Pixels:
        """Window and policy: all moves as one warp, so that pixels are interpolated once; then the
        tones."""
        n, height, width, _ = pixels.shape
        maps, rounds = self._windows(stream, n, height, width), self._policy(stream)
        for chosen, strength in rounds:
            for name, maps_of in GEOMETRY.items():
                rows = np.flatnonzero(chosen == OPERATIONS.index(name))
                maps[rows] = maps[rows] @ maps_of(strength[rows], height, width)
        pixels = pixels.copy()
        moved = np.flatnonzero((maps != np.eye(3)).any(axis=(1, 2)))
        pixels[moved] = warp(pixels[moved], maps[moved])
        for chosen, strength in rounds:
            for name, tone in TONES.items():
                rows = np.flatnonzero(chosen == OPERATIONS.index(name))
                pixels[rows] = tone(pixels[rows], strength[rows])
        return pixels

    def _windows(self, stream: RandomStream, n: int, height: int, width: int) -> np.ndarray:
        if self._config.scale is None:
            return unmoved(n)
        (low, high), (area, aspect, *place) = self._config.scale, stream.uniform("scale", 4)
        boxes = _rectangles(low + (high - low) * area, SCALE_ASPECT, aspect, *place)
        return window_maps(boxes, height, width)

    def _policy(self, stream: RandomStream) -> list[tuple[np.ndarray, Each]]:
        """For each round the operation (an index into OPERATIONS) and strength of each sample."""
        up_to = np.cumsum(WEIGHTS) / sum(WEIGHTS)
        which = np.searchsorted(
            up_to, stream.uniform("operation", self._config.policy), side="right"
        )
        strength = self._config.magnitude * (
            2 * stream.uniform("strength", self._config.policy) - 1
        )
        return list(zip(which, strength, strict=True))

    def _erased(self, pixels: Pixels, stream: RandomStream) -> Pixels:
        happens, area, aspect, *place = stream.uniform("erase", 5)
        rows = np.flatnonzero(happens < self._config.erase)
        _, height, width, channels = pixels.shape
        boxes = _rectangles(
            ERASED[0] + (ERASED[1] - ERASED[0]) * area, ERASE_ASPECT, aspect, *place
        )
        gone = inside(boxes[:, rows], height, width)[..., None]
        noise = stream.noise("noise", rows, height * width * channels).reshape(
            -1, height, width, channels
        )
        pixels = pixels.copy()
        pixels[rows] = np.where(gone, noise, pixels[rows])
        return pixels

    def mixed(
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
        cut, own = self._shares(stream)
        gone = inside(_rectangles(1 - own, (1, 1), *stream.uniform("cut", 3)), height, width)
        order = np.argsort(stream.uniform("partner", 1)[0], kind="stable")
        partner = np.empty(n, np.int64)
        partner[order] = np.roll(order, -1)
        keep = np.where(cut[:, None, None], ~gone, own[:, None, None]).astype(np.float32)
        values = pixels.astype(np.float32)
        values += (1 - keep)[..., None] * (values[partner] - values)
        classes = (
            np.eye(n_classes, dtype=np.float32)[targets]
            if targets.ndim == 1
            else targets.astype(np.float32)
        )
        share = np.where(cut, keep.mean(axis=(1, 2)), own).astype(np.float32)[:, None]
        values = np.rint(values) if pixels.dtype == np.uint8 else values
        return values.astype(pixels.dtype), share * classes + (1 - share) * classes[partner]

    def _shares(self, stream: RandomStream) -> tuple[np.ndarray, Each]:
        """Whether a sample is cut (or blended), and the share of its own."""
        config = self._config
        happens, which, level = stream.uniform("mix", 3)
        cut = (
            which < 0.5
            if config.mixup and config.cutmix
            else np.full(len(which), config.cutmix > 0)
        )
        own = np.where(
            cut, beta_quantile(level, config.cutmix or 1), beta_quantile(level, config.mixup or 1)
        )
        return cut, np.where(happens < config.mix_probability, own, 1.0)


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
    return np.stack(((1 - tall) * down, (1 - wide) * right, tall, wide))
