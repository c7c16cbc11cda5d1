"""Text to image: a decoder draws pixel by pixel in the colours of a palette (Image GPT, DALL-E).

<bos> a large red circle <eos> <eos>   pixel pixel pixel ...       loss on the pixels alone
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch

from glassformer.core.batch import Batch
from glassformer.core.errors import CheckpointError, ConfigError, DataError
from glassformer.data.arrays import ArraySplit, request_of, store_arrays
from glassformer.data.example import Example
from glassformer.data.records.parts import Mixed
from glassformer.data.records.pictures import Picture
from glassformer.media.palette import FILE, Palette, PaletteConfig
from glassformer.models.transformer import Transformer
from glassformer.processors.inputs import Inputs, Records
from glassformer.processors.media.image import ImageProcessor
from glassformer.processors.parts import PartsProcessor, check_row
from glassformer.processors.parts_inputs import PartsInputs
from glassformer.processors.processor import Processor, ids_of
from glassformer.processors.tokens.elements import Element, EncodedInput, token_elements
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.evaluate import EVERYTHING, Evaluation
from glassformer.tasks.objectives.examples import GeneratedTokens, Rows, preview
from glassformer.tasks.objectives.objective import Card, Sample
from glassformer.tasks.options import DrawOptions
from glassformer.tasks.predictors.draw import Draw, brief

ARRAY, SHOWN = "pixels", 3


class ImageTargets(PartsInputs):
    """Rows of text whose target images could be read, with their stored pixels."""

    has_targets = True

    def __init__(self, inputs: PartsInputs, pixels: ArraySplit, paths: Sequence[str]):
        at = {paths[item]: i for i, item in enumerate(pixels.kept.tolist())}
        super().__init__(inputs.unfilled, [row for row in inputs.records if row.image in at], {})
        self.array, self.skipped = pixels.array, pixels.skipped
        self.rows = np.array([at[row.image] for row in self.records], np.int64)

    def pixels(self, numbers: Sequence[int]) -> np.ndarray:
        """Target images, uint8 [N, H, W, 3]."""
        return self.array[self.rows[list(numbers)]]

    def fingerprint(self) -> Iterator[bytes]:
        """See `Inputs`."""
        yield from super().fingerprint()
        yield np.ascontiguousarray(self.array[:: self.array.size // (1 << 20) + 1]).tobytes()
        yield "\n".join(row.image for row in self.records).encode(errors="replace")


class Pixels(GeneratedTokens):
    """An image for each text."""

    @classmethod
    def resolve(cls, recipe: Recipe, processor: Processor, records: Records) -> Recipe:
        """See `Objective`: a sequence is as long as the longest text and an image."""
        assert isinstance(processor, PartsProcessor)
        if (
            recipe.processor.palette is None
            or recipe.processor.image is not None
            or recipe.processor.audio is not None
        ):
            raise ConfigError(
                "text-to-image draws the images of texts alone and needs processor.palette; "
                "leave out image and audio."
            )
        palette, rows = recipe.processor.palette, list(chain.from_iterable(records.values()))
        recipe = recipe.with_vocabulary(processor.vocab_size + palette.colours)
        lengths = [len(processor.unfilled(row).ids) for row in rows]
        if recipe.max_length_open:
            recipe = recipe.with_model({"max_length": max(lengths) + palette.n_pixels - 1})
        check_rows(rows, lengths, recipe)
        nothing = processor.parts.example([])
        brief(processor.parts, nothing, len(nothing.ids))  # refused without an end symbol
        return recipe

    @property
    def width(self) -> int:
        """Elements of the text in front of an image, its end repeated."""
        return self.recipe.model.max_length - self._config.n_pixels + 1

    def check_folder(self) -> None:
        """Raise CheckpointError for more colours and tokens than the model has."""
        palette, model = Palette.load(self.folder), self.recipe.model
        tokens = self.processor.vocab_size + len(palette.colours)
        if tokens > model.vocab_size or palette.config.n_pixels > model.max_length:
            raise CheckpointError(
                f"{self.folder / FILE} and the tokenizer make {tokens} tokens and images of "
                f"{palette.config.n_pixels} pixels, and the model has {model.vocab_size} and reads "
                f"{model.max_length}; they are of different runs."
            )

    @cached_property
    def _config(self) -> PaletteConfig:
        return self.recipe.processor.palette or self.palette.config

    @cached_property
    def palette(self) -> Palette:
        """The colours: of the run folder, of `train.init_from`, or of the training images."""
        if (self.folder / FILE).is_file():
            return Palette.load(self.folder)
        train = self.recipe.train
        if train.init_from is not None:
            return Palette.load(train.init_from)
        assert isinstance(self.training, ImageTargets)
        return Palette.learn(self._config, self.training.array, train.seed)

    def save(self, folder: Path) -> None:
        """Write the processor's files and the palette."""
        super().save(folder)
        self.palette.save(folder)

    def load_stored(self) -> None:
        """See `Objective`: target images are stored apart, and decoded again."""
        return

    @classmethod
    def data_of(
        cls, recipe: Recipe, inputs: Mapping[str, PartsInputs], folder: Path
    ) -> dict[str, ImageTargets]:
        """See `Objective`: the target images are stored, each once."""
        config = recipe.processor.palette
        assert config is not None
        for of in inputs.values():
            check_rows(of.records, of.lengths, recipe)
        files = {
            split: [
                ImageProcessor.record_at(path, "train")
                for path in dict.fromkeys(row.image for row in of.records)
            ]
            for split, of in inputs.items()
        }

        def pixels(image: Picture) -> np.ndarray:
            return config.fit(image.pixels(), image.where)

        settings = config.model_dump(mode="json", exclude={"colours"})
        request, shape = request_of(files, settings, recipe.data.skips_bad_files), (*config.dims, 3)
        stored = store_arrays(folder / ARRAY, request, files, pixels, shape, "uint8")
        found = {}
        for split, array in stored.items():
            paths = [image.where for image in files[split]]
            found[split] = ImageTargets(inputs[split], array, paths)
            if not found[split].records:
                raise DataError(f"no {split} row has an image that can be read; see data.bad_files")
        return found

    def examples(
        self, inputs: Inputs, numbers: Sequence[int], step: int | None = None
    ) -> list[Example]:
        """See `ExampleObjective`: texts of one length with the colours of their images."""
        assert isinstance(inputs, ImageTargets)
        colours = self.palette.ids(inputs.pixels(numbers)) + self.processor.vocab_size
        return [
            replace(brief(self.processor.parts, e, self.width), answer=row)
            for e, row in zip(inputs.examples(numbers), colours.astype(np.int32), strict=True)
        ]

    @cached_property
    def lengths(self) -> np.ndarray:
        """Elements of each training sequence: its text and its pixels, int64 [N]."""
        own = np.maximum(self.training.lengths, self.width)
        return own + self._config.n_pixels - 1

    def opening(self) -> list[str]:
        """Sentences on the palette and the training data."""
        return [self.palette.summary(), *super().opening()]

    def evaluate(
        self, model: Transformer, split: str, of: Evaluation = EVERYTHING
    ) -> dict[str, Any]:
        """See `Objective`: each pixel given those before it, and `bits_per_pixel`."""
        scores = super().evaluate(model, split, of)
        return scores | {"bits_per_pixel": scores["loss"] / math.log(2)}

    line = "{text}\n{drawn}"

    def rows(self, model: Transformer) -> Rows:
        """See `ExampleObjective`: images for the first texts, in characters for their shades."""
        records, of = self.split(self.shown_split).records, self.recipe.generate
        texts = list(dict.fromkeys(map(preview, records)))[:SHOWN]
        how = DrawOptions.parse({"temperature": of.temperature, "seed": of.seed})
        rows = [
            {"text": text, "drawn": one.line()}
            for text, one in zip(
                texts, Draw(model, self.task).predict_each(texts, how), strict=True
            )
        ]
        return rows, texts

    def make_sample(self, model: Transformer) -> Sample:
        """See `Objective`: also as text for the report."""
        found = super().make_sample(model)
        rows = found.values
        return Sample(found.text, {"samples": rows["samples"], "sample": found.text} | rows)

    def excerpt(self, batch: Batch) -> str:
        """See `Objective`: the text."""
        return self.processor.tokenizer.decode(batch.elements[0, : self.width].tolist())

    def piece(self, index: int) -> str:
        """See `Objective`: a piece of text, or a colour."""
        colour = index - (size := self.processor.vocab_size)
        if colour < 0:
            return self.processor.tokenizer.piece(index)
        known = self.palette.colours
        return "#" + bytes(known[colour].tolist()).hex() if index < size + len(known) else ""

    def encode(self, given: Any) -> EncodedInput:
        """See `Objective`: a text up to the first pixel, or ids of tokens and colours."""
        size = self.processor.vocab_size
        if ids_of(given) is not None:
            found = self.processor.encode(given)
            named = (
                e if e.id is None or e.id < size else Element(self.piece(e.id), e.id, "image")
                for e in found.elements
            )
            return replace(found, elements=tuple(named))
        parts, width = self.processor.named_parts(given), self.width
        ids = brief(self.processor.parts, self.processor.example(parts), width).ids.tolist()
        own = self.processor.encode([{kind: thing} for kind, thing in parts]).elements
        more = token_elements(self.processor.tokenizer, ids[len(own) :])
        return EncodedInput(Batch(torch.tensor([ids])), (*own, *more))

    def outcomes(self) -> tuple[str, ...]:
        """Names of the tokens, then of the colours."""
        size, names = self.processor.vocab_size, list(super().outcomes())
        for i in range(size, size + len(self.palette.colours)):
            names[i] = self.piece(i)
        return tuple(names)

    def example_inputs(self, folder: Path, sampled: Sequence[Any] = ()) -> list[Any]:
        """The latest samples."""
        return list(sampled)

    def next_tokens(self, prompt: Sequence[int], given: Sequence[int]) -> tuple[range, int]:
        """The colours, and the number of pixels left; ConfigError: a token that is no colour."""
        size = self.processor.vocab_size
        colours = range(size, size + len(self.palette.colours))
        if wrong := [index for index in given if index not in colours]:
            raise ConfigError(
                f"Token {wrong[0]} is no colour; those of this model are {colours.start} to "
                f"{colours.stop - 1}."
            )
        return colours, self._config.n_pixels - sum(index in colours for index in prompt)

    def card(self) -> Card:
        """Lines of the model card, the palette among them."""
        card = super().card()
        return replace(card, tokenizer=f"{card.tokenizer}; {self.palette.summary()}")

    @property
    def use(self) -> str:
        """The command that draws an image."""
        return f"glassformer draw {self.folder} --prompt TEXT --out out.png"


def check_rows(rows: Sequence[Mixed], lengths: Sequence[int] | np.ndarray, recipe: Recipe) -> None:
    """Raise DataError for a row without an image to draw, or longer with it than the model."""
    assert recipe.processor.palette is not None
    more, most = recipe.processor.palette.n_pixels - 1, recipe.model.max_length
    for row, length in zip(rows, lengths, strict=True):
        if row.image is None:
            raise DataError(
                f"{row.where} has no image to be drawn; set data.target_image, or another task"
            )
        check_row(row, int(length) + more, most)
