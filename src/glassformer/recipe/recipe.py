"""A recipe: one YAML file with a task and the sections processor, model, data, augment, train and
generate, and overrides on top.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from dataclasses import field as own_field
from typing import Any

import yaml

from glassformer.core.errors import ConfigError, amount
from glassformer.core.files import Values
from glassformer.core.record import Record, advise, uses
from glassformer.data.config import DataConfig
from glassformer.models.config import ModelConfig
from glassformer.models.presets import preset
from glassformer.processors.catalogue import processor_named
from glassformer.processors.config import Augmentations, ModelFacts, ProcessorConfig
from glassformer.processors.processor import Processor
from glassformer.recipe.pipelines import PIPELINES, Pipeline, pipeline_of
from glassformer.recipe.train import Precision, TrainConfig
from glassformer.runtime.config import SAMPLING, GenerateConfig

ROUND = 16
"""max_length is rounded up to a multiple of it."""
SECTIONS: dict[str, type[Record]] = {
    "processor": ProcessorConfig,
    "model": ModelConfig,
    "data": DataConfig,
    "augment": Augmentations,
    "train": TrainConfig,
    "generate": GenerateConfig,
}
"""The record of each section."""


@dataclass(frozen=True)
class Recipe:
    """The whole description of a run."""

    task: str
    processor: ProcessorConfig
    model: ModelConfig
    data: DataConfig
    augment: Augmentations
    train: TrainConfig
    generate: GenerateConfig
    max_length_open: bool = own_field(default=False, compare=False)
    """Whether model.max_length is still to be taken from the data."""

    @classmethod
    def parse(cls, values: Values) -> "Recipe":
        """A recipe from plain values: `model.preset` and `model.size` expanded, defaults that
        depend on other fields written; a ConfigError names what is wrong."""
        sections = _sections(values)
        task = values.get("task")
        if task is None:
            raise ConfigError(f"The recipe has no task; add task: {' or '.join(PIPELINES)}.")
        pipeline = pipeline_of(str(task))
        processor = ProcessorConfig.parse({"input": pipeline.input} | sections["processor"])
        model = _model(sections["model"], str(task), pipeline, processor.input)
        train = TrainConfig.parse(sections["train"])
        recipe = cls(
            task=str(task),
            processor=processor,
            model=model,
            data=DataConfig.parse(sections["data"]),
            augment=Augmentations.parse({"seed": train.seed} | sections["augment"]),
            train=train,
            generate=_generation(sections["generate"], pipeline, model),
            max_length_open="max_length" not in sections["model"],
        )
        recipe.check()
        return recipe

    def check(self) -> None:
        """Raise ConfigError for fields that contradict each other or have no use here."""
        for kind in ("image", "audio"):
            if getattr(self.augment, kind) is not None and getattr(self.processor, kind) is None:
                raise ConfigError(
                    f"augment.{kind} changes what processor.{kind} reads, which is not there; "
                    "add it."
                )
        if (self.train.length or 0) > self.model.max_length:
            raise ConfigError(
                f"train.length={self.train.length} exceeds model.max_length="
                f"{self.model.max_length}; make the model longer or the training sequences "
                "shorter."
            )
        dropped = self.model.dropout or self.model.attention_dropout or self.train.finetune.dropout
        if self.train.consistency and not dropped:
            raise ConfigError(
                f"train.consistency={self.train.consistency} compares two passes with different "
                "dropout, and there is none; set model.dropout."
            )
        for section in SECTIONS:
            self._check_use(section, getattr(self, section))

    def _check_use(self, section: str, record: Record) -> None:
        """Raise ConfigError for a field that only other tasks or inputs have."""
        own = {"tasks": self.task, "inputs": self.processor.input}
        for name, field in type(record).model_fields.items():
            value, path = getattr(record, name), f"{section}.{name}"
            if value != field.get_default():
                for kind, known in uses(field).items():
                    if own[kind] not in known:
                        raise ConfigError(
                            f"{path} has no use for {kind[:-1]}={own[kind]!r}, only for "
                            f"{' or '.join(known)}; leave it out."
                        )
            if isinstance(value, Record):
                self._check_use(path, value)

    @classmethod
    def of_model(cls, task: str, processor: Values, model: ModelConfig) -> "Recipe":
        """The recipe of a model that was not trained here: defaults beside its configuration and
        how its inputs are read."""
        recipe = cls.parse({"task": task, "processor": processor})
        generate = _generation({}, PIPELINES[task], model)
        return replace(recipe, model=model, generate=generate, max_length_open=False)

    @property
    def inputs(self) -> type[Processor]:
        """The class that reads its inputs."""
        return processor_named(self.processor.input)

    @property
    def facts(self) -> ModelFacts:
        """Facts of the model that the processor must know."""
        return ModelFacts.of(
            self.model,
            self.train.length,
            overlap=self.data.overlap,
            paired=self.data.pair_field is not None,
            word_at=self.processor.tag_piece if PIPELINES[self.task].words else None,
            speakers=self.data.loss_on == "answers",
        )

    def values(self) -> Values:
        """Plain values, every field of every section explicit."""
        return {"task": self.task} | {
            name: getattr(self, name).model_dump(mode="json") for name in SECTIONS
        }

    def yaml(self) -> str:
        """The resolved recipe as a YAML text."""
        return yaml.safe_dump(self.values(), sort_keys=False, allow_unicode=True)

    @property
    def predicted_fraction(self) -> float:
        """Share of a training sequence's elements at which the head predicts."""
        return self.train.mask_fraction if PIPELINES[self.task].masks else 1.0

    def with_model(self, changes: Values) -> "Recipe":
        """This recipe with fields of its model that follow from its data."""
        model = ModelConfig.parse({**self.model.model_dump(), **changes})
        still = self.max_length_open and "max_length" not in changes
        return replace(self, model=model, max_length_open=still)

    def with_inputs(self, fields: Values) -> "Recipe":
        """This recipe with fields of its model that follow from its inputs; ConfigError: the model
        reads parts of a type that no row has."""
        for kind in self.model.parts:
            if kind not in fields.get("parts", ()):
                raise ConfigError(
                    f"The model reads parts of type {kind!r} and no row has one; give rows that do."
                )
        names = fields.keys() & {"parts", "part_patches"}
        fields = fields | {name: fields[name] | getattr(self.model, name) for name in names}
        return self.with_model(fields) if fields else self

    def with_length(self, longest: int | None) -> "Recipe":
        """This recipe with room for the longest sequence, unless it says how long they may be."""
        if longest is None or not self.max_length_open:
            return self
        return self.with_model({"max_length": -(-longest // ROUND) * ROUND})

    def with_vocabulary(self, vocab_size: int, source_vocab_size: int | None = None) -> "Recipe":
        """This recipe with the tokenizers' vocabularies; ConfigError: it sets one that is too
        small."""
        changed: dict[str, int] = {}
        for field, size in (("vocab_size", vocab_size), ("source_vocab_size", source_vocab_size)):
            own = getattr(self.model, field)
            if size and not own:
                changed[field] = size
            elif size and own < size:
                raise ConfigError(
                    f"model.{field}={own} is smaller than the tokenizer's vocabulary of {size}; "
                    "leave it out or make it at least as large."
                )
        return self.change("model", changed)

    def with_classes(self, names: Sequence[str]) -> "Recipe":
        """This recipe with the classes of its data unless it names its own; ConfigError if their
        number differs."""
        if self.model.classes:
            return self
        if self.model.n_classes not in (None, len(names)):
            raise ConfigError(
                f"model.n_classes={self.model.n_classes} and the training data have "
                f"{len(names)} classes; leave it out."
            )
        return self.change("model", {"classes": tuple(names), "n_classes": len(names)})

    def with_machine(self, precision: Precision, threads: int | None) -> "Recipe":
        """This recipe with the precision and the threads that were chosen on this machine."""
        return self.change("train", {"precision": precision, "threads": threads})

    def change(self, section: str, fields: Values) -> "Recipe":
        """This recipe with other fields of a section."""
        return replace(self, **{section: getattr(self, section).model_copy(update=fields)})

    def for_processes(self, count: int) -> "Recipe":
        """This recipe with a micro-batch for each process that reads other rows; ConfigError: their
        number does not go with it."""
        train, of = self.train, self.train.distributed
        if count % (of.shard * of.tensor):
            raise ConfigError(
                f"train.distributed.shard={of.shard} times tensor={of.tensor} does not divide the "
                f"{amount(count, 'process')}; choose numbers whose product divides them, or start "
                "more by torchrun or --processes."
            )
        readers = count // of.tensor
        parts = -(-train.micro_batches // readers) * readers
        if of.deterministic and (parts != train.micro_batches or parts & (parts - 1)):
            raise ConfigError(
                f"train.distributed.deterministic adds gradients by a tree, so "
                f"train.micro_batches={train.micro_batches} with {amount(count, 'process')} "
                "cannot be; make it a power of two that the number of processes divides."
            )
        if train.batch_tokens is None and parts > train.batch_size:
            raise ConfigError(
                f"train.batch_size={train.batch_size} cannot be divided among {count} processes; "
                "make it larger, or use fewer processes."
            )
        threads = max(1, train.parallel_micro_batches // count)
        update = {"micro_batches": parts, "parallel_micro_batches": threads}
        return self.change("train", update) if count > 1 else self


def _sections(values: Values) -> dict[str, dict[Any, Any]]:
    """The sections of a recipe; ConfigError: an unknown one, or one that holds no fields."""
    for section, content in values.items():
        if section not in ("task", *SECTIONS):
            paths = (path for name, of in SECTIONS.items() for path in of.paths(name))
            remedy = advise(section, paths, ("task", *SECTIONS))
            raise ConfigError(f"Unknown section {section!r} in the recipe; {remedy}")
        if section != "task" and not isinstance(content, dict | None):
            raise ConfigError(f"The section {section} must hold key: value lines, not {content!r}.")
    return {name: values.get(name) or {} for name in SECTIONS}


def _model(section: dict[Any, Any], task: str, pipeline: Pipeline, given: str) -> ModelConfig:
    """The model section, its preset expanded, with the task's head and architecture."""
    model = dict(section)
    name, size = model.pop("preset", None), model.pop("size", None)
    if size is not None and name is None:
        raise ConfigError(
            f"model.size={size!r} needs a model.preset; presets are sizes of a known model."
        )
    ModelConfig.check_keys(model)
    fitting = {"head": pipeline.heads, "architecture": pipeline.architectures}
    if processor_named(given).elements == "patches":
        fitting["elements"] = ("patches",)
    for field, known in fitting.items():
        if field in model and model[field] not in known:
            raise ConfigError(
                f"model.{field}={model[field]!r} is not for task={task!r}; use "
                f"{' or '.join(known)}, or leave it out."
            )
    if name is None:
        return ModelConfig.parse({field: of[0] for field, of in fitting.items()} | model)
    # a preset's own vocabulary and classes are those of published weights; here, the data's
    model = {"vocab_size": 0, "n_classes": None, **model}
    size = None if size is None else str(size)
    own = preset(str(name), size)
    missing = {f: known[0] for f, known in fitting.items() if getattr(own, f) not in known}
    return preset(str(name), size, **missing | model)


def _generation(values: Values, pipeline: Pipeline, model: ModelConfig) -> GenerateConfig:
    """The generate section: beam search for encoder-decoders, greedy answers, unless it sets
    sampling or a search."""
    if not values.keys() & {"beams", *SAMPLING}:
        if model.is_encoder_decoder:
            values = values | {"beams": 5}
        elif pipeline.greedy:
            values = values | {"temperature": 0.0}
    return GenerateConfig.parse(values)
