"""A run scored on a whole split: loss, what it writes, its tags, its classes."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from glassformer.data.collate import evaluation_windows
from glassformer.data.config import DataConfig
from glassformer.data.sources import capture_stdin
from glassformer.data.split import NAMES
from glassformer.errors import ConfigError, suggest
from glassformer.generate import GenerateConfig
from glassformer.recipe.recipe import SAMPLING, Recipe
from glassformer.run.opened import Opened
from glassformer.tasks.evaluate import evaluate
from glassformer.tasks.fill_mask import masked_batches, masking_of
from glassformer.tasks.media_classification import PerceptionTask
from glassformer.tasks.multimodal_classification import ChoiceTask
from glassformer.tasks.multimodal_generation import AnswerTask
from glassformer.tasks.text_classification import ClassificationTask
from glassformer.tasks.text_to_image import DepictionTask
from glassformer.tasks.text_to_text import transduction_scores
from glassformer.tasks.token_classification import TaggingTask


def _other_form(own: DataConfig, path: str) -> DataConfig:
    """Settings for other data that are written like the run's own."""
    none = {
        "validation_path": None,
        "test_path": None,
        "validation_fraction": 0.0,
        "test_fraction": 0.0,
    }
    labels = {
        "label_path": None,
        "validation_label_path": None,
        "test_label_path": None,
        "split_by": None,
    }
    labels |= {"validation_parts": (), "test_parts": ()}
    return DataConfig.parse(
        own.model_dump() | none | labels | {"path": path, "root": None, "store": None}
    )


class Scored(Opened):
    """A run that can be held against data: its own splits, or other files."""

    def options(self, **changes: Any) -> GenerateConfig:
        """The run's generation defaults with changes; unknown names and bad values are
        ConfigErrors."""
        base = self.recipe.generate.model_dump() if self.recipe else {}
        if (
            "beams" not in changes and SAMPLING & changes.keys()
        ):  # who asks for sampling wants no search
            base |= {"beams": 0, "n_best": 1}
        if changes.get("beams"):  # and who asks for a search no sampling
            if name := min(SAMPLING & changes.keys(), default=""):
                both = (
                    f"{name}={changes[name]} is for sampling and beams={changes['beams']} searches"
                )
                raise ConfigError(f"generate: {both}; leave one of them out.")
            base = {name: value for name, value in base.items() if name not in SAMPLING}
        if "beams" in changes and "n_best" not in changes:
            base |= {"n_best": 1}
        return GenerateConfig.parse({**base, **changes})

    def evaluate(
        self,
        split: str = "validation",
        data: str | None = None,
        batch_size: int | None = None,
        targets: str | None = None,
        **changes: Any,
    ) -> dict[str, Any]:
        """Loss, perplexity and bits per byte over a whole split of the run's own data, or over all
        of `data`.

        An encoder-decoder is scored by its targets' loss and by what it writes; `data` are pairs in
        a file, or sources whose targets are in `targets`.
        """
        if split not in NAMES:
            raise ConfigError(f"There is no split {split!r}; {suggest(split, NAMES)}")
        if self.pair is not None:
            config = self.options(
                **{"overflow": "window", **changes}
            )  # a source too long is no reason to stop
            return self._evaluate_pairs(split, data, targets, config, batch_size or 32)
        if targets is not None:
            raise ConfigError(
                "Only an encoder-decoder has targets beside its data; leave out --targets."
            )
        if self.readers or self.palette is not None:
            with tempfile.TemporaryDirectory(prefix="glassformer-") as scratch:
                scores = self._evaluate_mixture(split, data, Path(scratch), changes)
            return {
                "run": str(self.folder),
                "split": split if data is None else "all",
                "data": data,
                **scores,
            }
        if self.model.config.head != "lm":
            with tempfile.TemporaryDirectory(prefix="glassformer-") as scratch:
                scores = self._evaluate_examples(split, data, Path(scratch))
            return {
                "run": str(self.folder),
                "split": split if data is None else "all",
                "data": data,
                **scores,
            }
        size = batch_size or (self.recipe.train.batch_size if self.recipe else 16)
        with tempfile.TemporaryDirectory(
            prefix="glassformer-"
        ) as scratch:  # a run folder may be read-only
            part = self.tokens(split) if data is None else self._other(data, Path(scratch))
            batches = evaluation_windows(part, size, self.model.config.max_length)
            scores = evaluate(self.model, batches).result(part.n_bytes)
        return {
            "run": str(self.folder),
            "split": split if data is None else "all",
            "data": data,
            **scores,
        }

    def _evaluate_examples(self, split: str, data: str | None, scratch: Path) -> dict[str, Any]:
        """Scores of tags, classes or masked tokens; other data are read in the form of the run's
        own."""
        recipe, config = self._own_recipe(), self.model.config
        if config.elements == "patches":
            return self._evaluate_perception(recipe, split, data, scratch)
        if config.head == "masked_lm":
            part = self.tokens(split) if data is None else self._other(data, scratch)
            masking = masking_of(self.tokenizer, recipe.train)
            return evaluate(self.model, masked_batches(part, masking, config.max_length)).result()
        self._has_head("classify" if config.head == "classify" else "tag", "glassformer evaluate")
        if data is not None:
            recipe, split = (
                replace(recipe, data=capture_stdin(_other_form(recipe.data, data), scratch)),
                "train",
            )
        kind = TaggingTask if config.head == "tag" else ClassificationTask
        return kind(recipe, self.folder, begun=True).split_scores(self.model, split)

    def _evaluate_perception(
        self, recipe: Recipe, split: str, data: str | None, scratch: Path
    ) -> dict[str, Any]:
        """Scores of the classes of pictures or recordings, which are decoded into a folder that is
        removed again."""
        if data is not None:
            recipe, split = replace(recipe, data=_other_form(recipe.data, data)), "train"
        task = PerceptionTask(recipe, self.folder, begun=True)
        task.senses.open(scratch / "arrays", [split])
        return task.split_scores(self.model, split)

    def _evaluate_mixture(
        self, split: str, data: str | None, scratch: Path, changes: dict[str, Any]
    ) -> dict[str, Any]:
        """Scores of what is written of rows of parts, of their classes, or of the pictures that are
        to be drawn."""
        recipe = self._own_recipe()
        if data is not None:
            recipe, split = (
                replace(recipe, data=capture_stdin(_other_form(recipe.data, data), scratch)),
                "train",
            )
        kind = AnswerTask if self.model.config.head == "lm" else ChoiceTask
        task = (kind if self.palette is None else DepictionTask)(recipe, self.folder, begun=True)
        task.open(scratch / "arrays", split)
        if isinstance(task, AnswerTask):
            return task.split_scores(self.model, split, how=self.options(**changes))
        return task.split_scores(self.model, split)

    def _evaluate_pairs(
        self,
        split: str,
        data: str | None,
        targets: str | None,
        config: GenerateConfig,
        batch_size: int,
    ) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(
            prefix="glassformer-"
        ) as scratch:  # a run folder may be read-only
            part = (
                self.pairs(split)
                if data is None
                else self._other_pairs(data, targets, Path(scratch))
            )
            scores = transduction_scores(
                self.model, self._pair(), part, config, batch_size=batch_size
            )
        return {
            "run": str(self.folder),
            "split": split if data is None else "all",
            "data": data,
            **scores,
        }
