"""Depiction: texts to pictures, which a decoder draws pixel by pixel in the colours of a palette
(Image GPT, DALL-E).

<bos> a large red circle <eos> <eos>   pixel pixel pixel ...       loss on the pixels alone
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from glassformer.batch import Batch
from glassformer.data.arrays import ArraySplit, arrays_of, stamp_of, store_arrays
from glassformer.data.example import Example
from glassformer.data.parts import Mixed
from glassformer.data.pictures import Picture
from glassformer.errors import DataError, counted
from glassformer.generate.config import GenerateConfig
from glassformer.generate.draw import brief, draw
from glassformer.losses import LossSum, cross_entropy
from glassformer.media.palette import Palette, PaletteConfig
from glassformer.models.transformer import Transformer
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.evaluate import evaluate
from glassformer.tasks.examples import split_of
from glassformer.tasks.multimodal import MixtureTask, shown
from glassformer.tasks.part_files import picture
from glassformer.tasks.task import WHOLE, Card, Sample

ARRAY = "pixels"
SHOWN = 3
_SHADES = " .:-=+*#%@"


class DepictionTask(MixtureTask):
    """A picture for each text."""

    def __init__(self, recipe: Recipe, run: Path, begun: bool):
        """`begun`: the run has a tokenizer and a palette; otherwise train.init_from or the training
        rows give them."""
        assert recipe.palette is not None
        self._config: PaletteConfig = recipe.palette
        made = run if begun else recipe.train.init_from
        self._palette = None if made is None else Palette.load(made)
        self._width = 0
        self._pixels: dict[str, tuple[ArraySplit, dict[str, int]]] = {}
        super().__init__(recipe, run, begun)

    @property
    def palette(self) -> Palette:
        """The palette of the training pictures, which are read first."""
        assert self._palette is not None, "store comes first"
        return self._palette

    @property
    def _vocab_size(self) -> int:
        return self.tokenizer.text.vocab_size + self._config.colours

    def _filled(self, recipe: Recipe) -> Recipe:
        """The recipe with the length of a sequence: that of the longest text and a picture."""
        if "max_length" not in recipe.model.model_fields_set:
            rows = [row for own in self._rows.values() for row in own]
            longest = max(len(self.tokenizer.example(row.parts).ids) for row in rows)
            recipe = recipe.with_model({"max_length": longest + self._config.n_pixels - 1})
        self._width = recipe.model.max_length - self._config.n_pixels + 1
        return recipe

    def _said(self, row: Mixed, parts: Sequence[tuple[str, str | np.ndarray]]) -> Example:
        """What is to be drawn, with nothing yet where the picture stands."""
        if row.image is None:
            raise DataError(
                f"{row.where} has no picture to be drawn; set data.target_image, or leave out "
                f"palette"
            )
        nothing = np.broadcast_to(np.int32(0), self._config.n_pixels)
        return replace(brief(self.tokenizer, parts, self._width), answer=nothing)

    def store(self) -> None:
        """See `Task`. DataError: a picture that cannot be read, unless data.bad_files is skip; a
        text too long."""
        for name in self._rows:
            self._check_lengths(name)
        self._read(self._run / ARRAY, list(self._rows))
        if self._palette is None:
            self._palette = Palette.learn(
                self._config, self._pixels["train"][0].array, self.recipe.train.seed
            )
        self._palette.save(self._run)
        super().store()

    def open(self, folder: Path, split: str) -> None:
        """See `MixtureTask`."""
        super().open(folder, split)
        self._read(folder / ARRAY, [split])

    def _read(self, folder: Path, splits: Sequence[str]) -> None:
        """Decode the pictures of some splits into a folder, or find them there: each once for all
        rows."""
        data, skip = self.recipe.data, self.recipe.data.bad_files == "skip"
        named = {
            s: list(dict.fromkeys(r.image for r in split_of(self._rows, s) if r.image is not None))
            for s in splits
        }
        request = {
            "stamp": stamp_of([data.path, data.validation_path, data.test_path, data.target_image]),
            "files": hashlib.sha256(repr(named).encode(errors="replace")).hexdigest()[:16],
            "settings": self._config.model_dump(mode="json", exclude={"colours"}),
            "skip": skip,
        }
        items = {
            split: [
                partial(_decoded, self._config, picture(path, split_of(self._rows, split)[0].split))
                for path in paths
            ]
            for split, paths in named.items()
        }
        stored = store_arrays(folder, request, items, (*self._config.dims, 3), "uint8", skip)
        for split, paths in named.items():
            rows = arrays_of(stored, split)
            self._pixels[split] = (
                rows,
                {paths[item]: at for at, item in enumerate(rows.kept.tolist())},
            )

    def readable(self, split: str) -> list[int]:
        """See `MixtureTask`."""
        at = self._pixels[split][1]
        found = [i for i, row in enumerate(split_of(self._rows, split)) if row.image in at]
        if not found:
            raise DataError(f"no {split} row has a picture that can be read; see data.bad_files")
        return found

    def sequences(
        self, split: str, numbers: Sequence[int], step: int | None = None
    ) -> list[Example]:
        """See `MixtureTask`: with the colours of their pictures."""
        rows, at = self._pixels[split]
        places = [at[row.image] for row in self.rows(split, numbers) if row.image is not None]
        colours = (self.palette.ids(rows.array[places]) + self.tokenizer.text.vocab_size).astype(
            np.int32
        )
        examples = self._all(split)
        return [replace(examples[i], answer=own) for i, own in zip(numbers, colours, strict=True)]

    @property
    def fingerprint(self) -> str:
        """See `Task`."""
        rows, _ = self._pixels["train"]
        seen = hashlib.sha256(super().fingerprint.encode())
        seen.update(
            "\n".join(row.image or "" for row in split_of(self._rows, "train")).encode(
                errors="replace"
            )
        )
        seen.update(np.ascontiguousarray(rows.array[:: rows.array.size // WHOLE + 1]).tobytes())
        return seen.hexdigest()[:16]

    def opening(self) -> list[str]:
        """See `Task`: also what could not be read."""
        skipped = [sentence for rows, _ in self._pixels.values() for sentence in rows.skipped]
        left = [
            f"left out: {counted(len(skipped), 'picture')} that cannot be read, the first: {first}"
            for first in skipped[:1]
        ]
        return [self.palette.described(), *super().opening(), *left]

    def loss(self, logits: torch.Tensor, targets: torch.Tensor) -> LossSum:
        """See `Task`."""
        return cross_entropy(logits, targets, self.recipe.train.label_smoothing)

    def scores(self, model: Transformer, precision: torch.dtype) -> dict[str, Any] | None:
        """See `Task`."""
        if not self.validated:
            return None
        return self.split_scores(model, "validation", precision, self.recipe.train.evaluate_batches)

    def split_scores(
        self,
        model: Transformer,
        split: str,
        precision: torch.dtype = torch.float32,
        limit: int | None = None,
    ) -> dict[str, Any]:
        """Scores of a split, or of `limit` batches of it: of each pixel, told those before it, and
        `bits_per_pixel`."""
        scores = evaluate(
            model, (batch for _, batch in self.plain_batches(split, limit)), precision
        ).result()
        return scores | {"bits_per_pixel": scores["loss"] / math.log(2)}

    def sample(self, model: Transformer) -> Sample | None:
        """See `Task`: what is drawn for the first validation (else training) rows, in characters
        for its shades."""
        if not self.recipe.train.sample_tokens:
            return None
        texts = [shown(row) for row in self._rows["validation" if self.validated else "train"]]
        texts = list(dict.fromkeys(texts))[:SHOWN]
        how = GenerateConfig.parse(
            {"temperature": self.recipe.generate.temperature, "seed": self.recipe.generate.seed}
        )
        pictures = self.palette.pixels(draw(model, self.tokenizer, self.palette, texts, how))
        text = "\n".join(
            f"{text}\n{in_characters(pixels)}" for text, pixels in zip(texts, pictures, strict=True)
        )
        return Sample(text, {"sample": text})

    def excerpt(self, batch: Batch) -> str:
        """See `Task`: the text."""
        ids = batch.elements[0, : self._width].tolist()
        return self.tokenizer.text.decode(ids)

    def piece(self, index: int) -> str:
        """What an id stands for: a piece of text, or a colour."""
        colour = index - (size := self.tokenizer.text.vocab_size)
        if colour < 0:
            return self.tokenizer.text.piece(index)
        known = self.palette.colours
        return "#{:02x}{:02x}{:02x}".format(*known[colour]) if index < size + len(known) else ""

    def card(self) -> Card:
        """See `Task`."""
        card = self.card_of(
            "text-to-image", f"glassformer generate {self._run} --prompt TEXT --to-image out.png"
        )
        return replace(card, tokenizer=f"{card.tokenizer}; {self.palette.described()}")


def in_characters(pixels: np.ndarray) -> str:
    """A picture, uint8 [H, W, 3], in characters, the darker the denser; two rows of pixels are one
    line."""
    light = pixels[::2].astype(np.float64) @ [0.299, 0.587, 0.114]
    shades = ((255 - light) / 256 * len(_SHADES)).astype(int)
    return "\n".join("".join(_SHADES[shade] for shade in row).rstrip() for row in shades)


def _decoded(config: PaletteConfig, one: Picture) -> np.ndarray:
    return config.fit(one.pixels(), one.where)
