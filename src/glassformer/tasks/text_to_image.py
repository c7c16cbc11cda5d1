"""Text to image: a decoder draws pixel by pixel in the colours of a palette (Image GPT, DALL-E).

<bos> a large red circle <eos> <eos>   pixel pixel pixel ...       loss on the pixels alone
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from glassformer.batch import Batch
from glassformer.data.arrays import arrays_of, stamp_of, store_arrays
from glassformer.data.example import Example
from glassformer.data.formats.contents import source_at
from glassformer.data.pictures import Picture
from glassformer.errors import CheckpointError, ConfigError, DataError
from glassformer.generate.config import GenerateConfig
from glassformer.generate.draw import brief, draw
from glassformer.losses import LossSum, cross_entropy
from glassformer.media.palette import FILE, Palette, PaletteConfig
from glassformer.models.transformer import Transformer
from glassformer.processors.elements import Element, token_elements
from glassformer.processors.inputs import Inputs, Records
from glassformer.processors.parts import PartsProcessor
from glassformer.processors.parts_inputs import PartsInputs, part_of
from glassformer.processors.parts_tokenizer import TEXT
from glassformer.processors.processor import (
    EncodedInput,
    Processor,
    check_hopeless,
    check_length,
    ids_of,
)
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.evaluate import evaluate
from glassformer.tasks.records import RecordTask
from glassformer.tasks.shown import shown
from glassformer.tasks.task import Card, Sample
from glassformer.tasks.text_generation import token_outcomes

ARRAY, SHOWN = "pixels", 3
_SHADES = " .:-=+*#%@"


class ImageTargets(Inputs):
    """Rows of text whose target images could be read, with their stored pixels."""

    def __init__(self, inputs: PartsInputs, array: np.ndarray, at: Mapping[str, int]):
        self.text, self.array = inputs, array
        readable = [i for i, row in enumerate(inputs.records) if row.image in at]
        self.numbers = readable
        self.records = [inputs.records[i] for i in readable]
        self.owner = np.arange(len(readable))
        self.rows = np.array([at[row.image] for row in self.records], np.int64)

    @property
    def lengths(self) -> np.ndarray:
        """See `Inputs`."""
        return self.text.lengths[self.numbers]

    def examples(self, numbers: Sequence[int], step: int | None = None) -> list[Example]:
        """See `Inputs`."""
        return self.text.examples([self.numbers[i] for i in numbers], step)

    def pixels(self, numbers: Sequence[int]) -> np.ndarray:
        """Target images, uint8 [N, H, W, 3]."""
        return self.array[self.rows[list(numbers)]]

    def fingerprint(self) -> Any:
        """See `Inputs`."""
        yield from self.text.fingerprint()
        yield np.ascontiguousarray(self.array[:: self.array.size // (1 << 20) + 1]).tobytes()
        yield "\n".join(row.image for row in self.records).encode(errors="replace")


class TextToImage(RecordTask):
    """An image for each text."""

    pipelines = ("text-to-image",)
    inputs = ("parts",)
    verb = "generate --to-image"
    capabilities = frozenset({"generates", "draws"})
    summary = "draws an image of a text, pixel by pixel"
    sections = frozenset({"palette"})

    @classmethod
    def resolve(cls, recipe: Recipe, processor: Processor, records: Records) -> Recipe:
        """See `Task`: a sequence is as long as the longest text and an image."""
        assert isinstance(processor, PartsProcessor)
        if recipe.palette is None or recipe.image is not None or recipe.audio is not None:
            raise ConfigError(
                "text-to-image draws the images of texts alone and needs the section palette; "
                "leave "
                "out image and audio."
            )
        more = recipe.palette.n_pixels - 1
        recipe = recipe.with_vocabulary(processor.tokenizer.vocab_size + recipe.palette.colours)
        rows = [row for own in records.values() for row in own]
        for row in rows:
            if row.image is None:
                raise DataError(
                    f"{row.where} has no image to be drawn; set data.target_image, or another task"
                )
        lengths = [len(brief(processor.parts, row.parts, 0).ids) for row in rows]
        needed = [n + more for n in lengths]
        if recipe.max_length_open:
            recipe = recipe.with_model({"max_length": max(needed)})
        for row, n in zip(rows, needed, strict=True):
            if n > (most := recipe.model.max_length):
                raise DataError(
                    f"{row.where} has {n} elements and the model {most}; raise model.max_length"
                )
        return recipe

    @property
    def width(self) -> int:
        """Elements of the text in front of an image, its end repeated."""
        return self.recipe.model.max_length - self._config.n_pixels + 1

    def check_folder(self) -> None:
        """See `Task`: the colours and the tokens are as many as the model's, or fewer."""
        palette, model = Palette.load(self.folder), self.recipe.model
        tokens = self.processor.tokenizer.vocab_size + len(palette.colours)
        if tokens > model.vocab_size or palette.config.n_pixels > model.max_length:
            raise CheckpointError(
                f"{self.folder / FILE} and the tokenizer make {tokens} tokens and images of "
                f"{palette.config.n_pixels} pixels, and the model has {model.vocab_size} and reads "
                f"{model.max_length}; they are of different runs."
            )

    @cached_property
    def _config(self) -> PaletteConfig:
        return self.recipe.palette or self.palette.config

    @cached_property
    def palette(self) -> Palette:
        """The colours: of the run folder, of `train.init_from`, or of the training images."""
        if (self.folder / FILE).is_file():
            return Palette.load(self.folder)
        train = self.recipe.train
        if train.init_from is not None:
            palette = Palette.load(train.init_from)
        else:
            assert isinstance(self.training, ImageTargets)
            palette = Palette.learn(self._config, self.training.array, train.seed)
        palette.save(self.folder)
        return palette

    @classmethod
    def data_of(
        cls, recipe: Recipe, inputs: Mapping[str, PartsInputs], folder: Path
    ) -> dict[str, ImageTargets]:
        """See `Task`: the target images are stored, each once."""
        data, config = recipe.data, recipe.palette
        assert config is not None
        skip = data.bad_files == "skip"
        named = {
            split: list(dict.fromkeys(row.image for row in of.records))
            for split, of in inputs.items()
        }
        request = {
            "stamp": stamp_of([data.path, data.validation_path, data.test_path, data.target_image]),
            "files": hashlib.sha256(repr(named).encode(errors="replace")).hexdigest()[:16],
            "settings": config.model_dump(mode="json", exclude={"colours"}),
            "skip": skip,
        }
        items = {
            split: [partial(_decoded, config, path) for path in paths]
            for split, paths in named.items()
        }
        shape = (*config.dims, 3)
        store = store_arrays(folder / ARRAY, request, items, shape, "uint8", skip)
        found = {}
        for split, paths in named.items():
            rows = arrays_of(store, split)
            at = {paths[item]: i for i, item in enumerate(rows.kept.tolist())}
            found[split] = ImageTargets(inputs[split], rows.array, at)
            found[split].skipped = rows.skipped
            if not found[split].records:
                raise DataError(f"no {split} row has an image that can be read; see data.bad_files")
        return found

    def target(self, record: Any, units: slice) -> dict[str, Any]:
        """See `RecordTask`: colours are added batch by batch."""
        return {}

    def answered(self, inputs: ImageTargets, numbers: Sequence[int]) -> list[Example]:
        """Texts of one length with the colours of their images."""
        colours = self.palette.ids(inputs.pixels(numbers)) + self.processor.tokenizer.vocab_size
        eos, width = self.processor.parts.eos, self.width
        examples = inputs.examples(numbers)
        return [
            replace(e, ids=_filled(e.ids, eos, width), answer=row)
            for e, row in zip(examples, colours.astype(np.int32), strict=True)
        ]

    def with_targets(self, numbers: Sequence[int], step: int) -> list[Example]:
        """See `RecordTask`."""
        assert isinstance(self.training, ImageTargets)
        return self.answered(self.training, numbers)

    @cached_property
    def lengths(self) -> np.ndarray:
        """See `RecordTask`."""
        own = np.maximum(self.training.lengths, self.width)
        return own + self._config.n_pixels - 1

    def loss(self, logits: torch.Tensor, targets: torch.Tensor) -> LossSum:
        """See `Task`."""
        return cross_entropy(logits, targets, self.recipe.train.label_smoothing)

    def opening(self) -> list[str]:
        """See `Task`."""
        return [self.palette.described(), *self.data_sentences()]

    def scores(self, model: Transformer, precision: torch.dtype) -> dict[str, Any] | None:
        """See `Task`."""
        if not self.validated:
            return None
        limit = self.recipe.train.evaluate_batches
        return self.evaluate(model, "validation", precision, limit=limit)

    def evaluate(
        self,
        model: Transformer,
        split: str,
        precision: torch.dtype = torch.float32,
        how: GenerateConfig | None = None,
        **limits: int | None,
    ) -> dict[str, Any]:
        """See `Task`: each pixel given those before it, and `bits_per_pixel`."""
        inputs, limit = self.split(split), limits.get("limit")
        groups = inputs.groups(model.config.max_length)
        if limit is not None and limit < len(groups):
            chosen = np.linspace(0, len(groups) - 1, limit).round().astype(int)
            groups = [groups[i] for i in chosen]
        batches = (self.collate([[e] for e in self.answered(inputs, own)]) for own in groups)
        scores = evaluate(model, batches, precision).result()
        return scores | {"bits_per_pixel": scores["loss"] / math.log(2)}

    def draw(
        self, model: Transformer, prompts: Sequence[str], how: GenerateConfig, batch_size: int = 64
    ) -> np.ndarray:
        """See `Task`."""
        found = draw(model, self.processor.parts, self.palette, prompts, how, batch_size)
        return self.palette.pixels(found)

    def sample(self, model: Transformer) -> Sample | None:
        """See `Task`: images drawn for the first texts, in characters for their shades."""
        if not self.recipe.train.sample_tokens:
            return None
        texts = list(dict.fromkeys(shown(row) for row in self.split(self.shown_split).records))
        texts, of = texts[:SHOWN], self.recipe.generate
        how = GenerateConfig.parse({"temperature": of.temperature, "seed": of.seed})
        rows = [
            {"text": text, "drawn": in_characters(pixels)}
            for text, pixels in zip(texts, self.draw(model, texts, how), strict=True)
        ]
        text = "\n".join(f"{row['text']}\n{row['drawn']}" for row in rows)
        return Sample(text, {"samples": rows, "sample": text, "inputs": texts})

    def excerpt(self, batch: Batch) -> str:
        """See `Task`: the text."""
        return self.processor.tokenizer.decode(batch.elements[0, : self.width].tolist())

    def piece(self, index: int) -> str:
        """See `Task`: a piece of text, or a colour."""
        colour = index - (size := self.processor.tokenizer.vocab_size)
        if colour < 0:
            return self.processor.tokenizer.piece(index)
        known = self.palette.colours
        return "#" + bytes(known[colour].tolist()).hex() if index < size + len(known) else ""

    def encode(self, given: Any) -> EncodedInput:
        """See `Task`: a text up to the place of the first pixel, or ids of tokens and colours."""
        size = self.processor.tokenizer.vocab_size
        if ids_of(given) is not None:
            found = self.processor.encode(given)
            named = (
                e if e.id is None or e.id < size else Element(self.piece(e.id), e.id, "image")
                for e in found.elements
            )
            return replace(found, elements=tuple(named))
        parts, width = [given] if isinstance(given, str | Mapping) else list(given), self.width
        texts = [text for kind, text in map(part_of, parts) if kind == TEXT]
        least = sum(map(self.processor.tokenizer.at_least, texts))
        check_hopeless(least, width, "The prompt")
        ids = self.processor.example(parts).ids
        check_length(len(ids), width, "The prompt")
        ids = _filled(ids, self.processor.parts.eos, width).tolist()
        own = self.processor.encode(parts).elements
        more = token_elements(self.processor.tokenizer, ids[len(own) :])
        return EncodedInput(Batch(torch.tensor([ids])), (*own, *more))

    def outcomes(self) -> tuple[str, ...]:
        """See `Task`."""
        size = self.processor.tokenizer.vocab_size
        names = token_outcomes(self)
        last = size + len(self.palette.colours)
        return (*names[:size], *(self.piece(i) for i in range(size, last)), *names[last:])

    def example_inputs(self, folder: Path, sampled: Sequence[Any] = ()) -> list[Any]:
        """See `Task`."""
        return list(sampled)

    def next_tokens(self, prompt: Sequence[int], given: Sequence[int]) -> tuple[range, int]:
        """See `Task`: the colours, as many as the image has pixels left."""
        size = self.processor.tokenizer.vocab_size
        colours = range(size, size + len(self.palette.colours))
        if wrong := [index for index in given if index not in colours]:
            raise ConfigError(
                f"Token {wrong[0]} is no colour; those of this model are {colours.start} to "
                f"{colours.stop - 1}."
            )
        return colours, self._config.n_pixels - sum(index in colours for index in prompt)

    def card(self) -> Card:
        """See `Task`."""
        card = self.card_of(f"glassformer generate {self.folder} --prompt TEXT --to-image out.png")
        return replace(card, tokenizer=f"{card.tokenizer}; {self.palette.described()}")

    def schema(self) -> dict[str, Any]:
        """See `Task`."""
        image = {"type": "string", "description": "a PNG file as a data: address"}
        return {"type": "object", "properties": {"image": image}, "required": ["image"]}


def in_characters(pixels: np.ndarray) -> str:
    """An image, uint8 [H, W, 3], in characters, dark is dense; two rows of pixels a line."""
    light = pixels[::2].astype(np.float64) @ [0.299, 0.587, 0.114]
    shades = ((255 - light) / 256 * len(_SHADES)).astype(int)
    return "\n".join("".join(_SHADES[shade] for shade in row).rstrip() for row in shades)


def _filled(ids: np.ndarray, eos: np.ndarray, width: int) -> np.ndarray:
    return np.concatenate([ids, np.repeat(eos, max(0, width - len(ids)))])


def _decoded(config: PaletteConfig, path: str) -> np.ndarray:
    image = Picture(path, (), None, "train", source_at(path))
    return config.fit(image.pixels(), image.where)
