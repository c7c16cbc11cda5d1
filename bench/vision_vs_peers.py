"""glassformer beside transformers' Vision Transformer and its Trainer in one run: classes of
pictures, on the CPU.

    make setup                              # transformers and accelerate are in it
    python bench/vision_vs_peers.py --fashion-mnist FASHION --cifar10 CIFAR

The folders are those of the recipes fashion-mnist and cifar10. All sides have the
same width, layers, heads, patches and batch size, float32, and the same pictures, decoded
beforehand into arrays of uint8; no torchvision. The process keeps freed memory, as ours does and
the peer by itself would not. Prints one JSON object of pictures per second, medians of rounds A B C
A B C ...; progress goes to stderr.

ours            the recipe: modern architecture, Muon, pictures changed at every step (moved,
                flipped, erased)
ours_vit        ViT's architecture (exactly as many parameters as the peer), AdamW as the peer,
                pictures as they are
peer            ViTForImageClassification under Trainer, which is given normalized batches by a
                collator

training        whole steps: making the batch, forward, backward, clipping, optimizer
prediction      test pictures, each with its model after the training above: from uint8 to
                probabilities (peer: logits)
"""

import argparse
import json
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import transformers
from torch.utils.data import Dataset

from glassformer.core.cpu import keep_freed_memory
from glassformer.data.arrays import ArraySplit
from glassformer.models.presets import vit
from glassformer.processors.media.image import ImageProcessor
from glassformer.processors.media.processor import ROWS, MediaInputs
from glassformer.recipe.reading import read_recipe
from glassformer.recipe.recipe import Recipe
from glassformer.recipe.train import TrainConfig
from glassformer.tasks.evaluate import EVERYTHING
from glassformer.tasks.task import Task
from side_by_side import (
    OurTraining,
    PeerTraining,
    Told,
    conditions,
    parameters_of,
    say,
    task_in,
    trained_and_predicted,
)

RECIPES = {"fashion_mnist": "fashion-mnist", "cifar10": "cifar10"}
RATIOS = {"ratio": ("ours", "peer"), "ratio_vit": ("ours_vit", "peer")}


def as_vit(recipe: Recipe) -> Recipe:
    """The same with the peer's architecture, optimizer and loss, and pictures as they are."""
    own = recipe.model
    model = vit(
        "tiny",
        d_model=own.d_model,
        n_layers=own.n_layers,
        n_heads=own.n_heads,
        d_ff=own.d_ff,
        n_classes=None,
    )
    other = {
        "optimizer.kind": "adamw",
        "optimizer.learning_rate": 1e-3,
        "optimizer.max_grad_norm": 1.0,
        "label_smoothing": 0.0,
    }
    train = TrainConfig.parse(recipe.train.model_dump() | other)
    return replace(recipe, model=model, train=train, augment=None)


class Ours(OurTraining):
    """A recipe's model, which also predicts."""

    task: Task

    def __init__(self, task: Task, test: MediaInputs):
        super().__init__(task, lambda batch: len(batch.elements))
        self.test, self.wanted = test, labels_of(task, test)

    def predict(self) -> Told:
        """The accuracy is noted."""
        begin = time.perf_counter()
        chosen = range(len(self.test.records))
        rows = self.task.objective.probabilities(self.model, self.test, EVERYTHING, chosen)
        answers = np.array([row.argmax() for row in rows])
        took = time.perf_counter() - begin
        return len(answers), took, float((answers == self.wanted).mean())


class Peer(PeerTraining):
    """transformers' Vision Transformer of the same dimensions, fed with the same pictures, under
    its Trainer."""

    def __init__(self, task: Task, test: MediaInputs, folder: Path):
        assert isinstance(task.processor, ImageProcessor)
        model, train, reader = task.recipe.model, task.recipe.train, task.processor.reader
        height, width, channels = reader.shape
        torch.manual_seed(0)
        peer = transformers.ViTForImageClassification(
            transformers.ViTConfig(
                image_size=(height, width),
                patch_size=reader.config.patch_size,
                num_channels=channels,
                hidden_size=model.d_model,
                num_hidden_layers=model.n_layers,
                num_attention_heads=model.n_heads,
                intermediate_size=model.ff_width,
                hidden_act=model.activation,
                layer_norm_eps=model.epsilon,
                hidden_dropout_prob=model.dropout,
                attention_probs_dropout_prob=model.attention_dropout,
                num_labels=model.class_count,  # pyright: ignore[reportCallIssue]
            )
        )
        self.mean, self.std = (
            torch.tensor(number).view(-1, 1, 1)
            for number in (reader.config.mean, reader.config.std)
        )
        super().__init__(
            peer,
            train.batch_size,
            Pictures(task, task.objective.split("train")),
            self.collate,
            folder,
            per_device_eval_batch_size=ROWS,
            remove_unused_columns=False,
            learning_rate=train.optimizer.learning_rate,
            lr_scheduler_type="constant",
            weight_decay=train.optimizer.weight_decay,
            adam_beta1=train.optimizer.beta1,
            adam_beta2=train.optimizer.beta2,
            max_grad_norm=train.optimizer.max_grad_norm,
        )
        self.test = Pictures(task, test)

    def collate(self, rows: list[tuple[np.ndarray, int]]) -> dict[str, torch.Tensor]:
        """A batch of pictures, normalized as ours are."""
        pixels = torch.from_numpy(np.stack([pixels for pixels, _ in rows])).float()
        return {
            "pixel_values": pixels.mul_(1 / (255 * self.std)).sub_(self.mean / self.std),
            "labels": torch.tensor([label for _, label in rows]),
        }

    def predict(self) -> Told:
        """The accuracy is noted."""
        found, took = self.predicted(self.test)
        assert isinstance(found.predictions, np.ndarray)
        return len(self.test), took, float((found.predictions.argmax(1) == found.label_ids).mean())


class Pictures(Dataset[tuple[np.ndarray, int]]):
    """Pictures, uint8 [C, H, W], and their classes, in memory."""

    def __init__(self, task: Task, inputs: MediaInputs):
        self.pixels = np.ascontiguousarray(inputs.array.transpose(0, 3, 1, 2))
        self.labels = labels_of(task, inputs).tolist()

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, i: int) -> tuple[np.ndarray, int]:
        return self.pixels[i], self.labels[i]


def compare(recipe: Recipe, folder: Path, steps: int, rounds: int, asked: int) -> dict[str, object]:
    """Pictures per second of all sides, in turn."""
    modern, plain = task_in(recipe, folder / "ours"), task_in(as_vit(recipe), folder / "vit")
    test = some(plain.objective.split("test"), asked)
    sides: dict[str, Ours | Peer] = {
        "peer": Peer(plain, test, folder),
        "ours": Ours(modern, test),
        "ours_vit": Ours(plain, test),
    }
    parameters = {name: parameters_of(side.model) for name, side in sides.items()}
    assert parameters["ours_vit"] == parameters["peer"], parameters
    (described,) = plain.processor.description()
    say(
        f"{len(plain.objective.training.records):,} {described}, {plain.feed.sequences} a batch, "
        f"{steps} steps a round, {len(test.records):,} to predict"
    )
    say(", ".join(f"{name} has {count:,} parameters" for name, count in parameters.items()))
    return trained_and_predicted(sides, steps, rounds, RATIOS) | {
        "patches": plain.feed.length,
        "pictures_a_batch": plain.feed.sequences,
        "pictures_predicted": len(test.records),
    }


def labels_of(task: Task, inputs: MediaInputs) -> np.ndarray:
    """The number of each class."""
    return np.array([task.objective.classes.numbers(record.labels)[0] for record in inputs.records])


def some(inputs: MediaInputs, most: int) -> MediaInputs:
    """At most so many rows, from everywhere, in memory."""
    n = len(inputs.records)
    chosen = np.linspace(0, n - 1, min(most, n)).astype(int)
    records = [inputs.records[i] for i in chosen]
    stored = ArraySplit(np.array(inputs.array[chosen]), np.arange(len(chosen)), ())
    return MediaInputs(inputs.processor, records, stored)


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--fashion-mnist", type=Path, help="the folder of Fashion-MNIST")
    arguments.add_argument("--cifar10", type=Path, help="the folder of the part of CIFAR-10")
    arguments.add_argument("--batch", type=int, default=100, help="pictures in a batch")
    arguments.add_argument("--steps", type=int, default=6, help="steps of each side in a round")
    arguments.add_argument(
        "--predict", type=int, default=1000, help="test pictures to predict in a round"
    )
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--threads", type=int, help="threads of torch")
    given = arguments.parse_args()
    sys.stderr.write("About 15 minutes on two cores.\n")
    folders = {name: folder for name in RECIPES if (folder := getattr(given, name)) is not None}
    if not folders:
        arguments.error("give --fashion-mnist FOLDER and --cifar10 FOLDER, or one of them")
    if given.threads:
        torch.set_num_threads(given.threads)
    keep_freed_memory()
    transformers.logging.set_verbosity_error()
    result = conditions()
    with tempfile.TemporaryDirectory() as name:
        for job, data in folders.items():
            say(job)
            changes = [f"data.root={data}", f"train.batch_size={given.batch}"]
            recipe = read_recipe(RECIPES[job], changes)
            result[job] = compare(
                recipe, Path(name) / job, given.steps, given.rounds, given.predict
            )
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
