"""glassformer beside transformers' BERT and its Trainer in one run: tagging and classification, on the CPU.

    pip install transformers accelerate
    python bench/encoder_vs_transformers.py --ewt UD_English-EWT --banking77 BANKING77

The folders are those of recipes/ud-tagging.yaml and recipes/banking77.yaml. All sides have the same width, layers,
heads, vocabulary and token ids, float32, and the same number of examples in a batch on average, without padding.
Prints one JSON object of examples per second, medians of rounds A B C D A B C D ...; progress goes to stderr.

ours            the recipe: packed rows, modern architecture, Muon
ours_bert       packed rows, BERT's architecture (as many parameters as the peer), dropout and AdamW as the peer
peer            BertFor...Classification under Trainer: random batches padded to their longest, AdamW
peer_grouped    the same with train_sampling_strategy="group_by_length"; predicting, the examples sorted by length

training        whole steps: making the batch, forward, backward, optimizer
prediction      the test split, each with its model after the training above. Ours from words or texts to probabilities
                in the given order, tokenizing included; the peer from ids to logits, tokenized beforehand
"""

import argparse
import json
import math
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer as PeerTokenizer
from tokenizers.models import WordLevel

from glassformer.data.packing import Example
from glassformer.generate.classify import classify
from glassformer.generate.tag import tag
from glassformer.models.transformer import Transformer
from glassformer.train.classification import ClassificationTask
from glassformer.train.memory import keep_freed_memory
from glassformer.train.optimizer import Optimizer
from glassformer.train.recipe import read_recipe
from glassformer.train.step import training_step
from glassformer.train.tagging import TaggingTask

ROOT = Path(__file__).resolve().parent.parent
SPLIT = "test"
AS_BERT = [
    *("model.preset=bert", "model.size=base", "model.d_model=128", "model.dropout=0.1"),
    *("train.optimizer=adamw", "train.learning_rate=0.001", "train.clip=1.0", "train.label_smoothing=0"),
]
"""What makes a recipe's model and optimizer those of the peer."""
MEGABATCH = 50
"""Batches that `group_by_length` sorts together; only whole ones are a fair sample of lengths."""

Task = TaggingTask | ClassificationTask


def say(text: str) -> None:
    sys.stderr.write(text + "\n")


@dataclass(frozen=True)
class Subject:
    """One of the two jobs: its recipe, task and peer."""

    recipe: str
    task: type[TaggingTask] | type[ClassificationTask]
    model: str
    collator: str
    overrides: tuple[str, ...] = ()


SUBJECTS = {
    "tagging": Subject(
        "ud-tagging.yaml", TaggingTask, "BertForTokenClassification", "DataCollatorForTokenClassification"
    ),
    "classification": Subject(
        "banking77.yaml",
        ClassificationTask,
        "BertForSequenceClassification",
        "DataCollatorWithPadding",
        ("model.pool=first",),  # BERT's, whose head reads its first element
    ),
}


class Ours:
    """A recipe's model, trained step by step."""

    def __init__(self, task: Task):
        self.task, self.step = task, 0
        self.config = task.recipe.train
        self.model = Transformer(task.recipe.model, self.config.seed)
        self.optimizer = Optimizer(self.model, self.config)

    def train(self, steps: int) -> tuple[int, float, float]:
        """Examples, seconds and the mean loss of whole steps."""
        examples, losses, begin = 0, [], time.perf_counter()
        for _ in range(steps):
            batches = self.task.batches(self.step)
            result = training_step(
                self.model,
                self.optimizer.parameters,
                self.optimizer,
                batches,
                seed=self.config.seed,
                step=self.step,
                factor=1.0,
                precision=torch.float32,
                clip=self.config.clip,
                loss=self.task.loss,
            )
            self.step += 1
            losses.append(result.loss)
            examples += sum(documents(batch) for batch in batches)
        return examples, time.perf_counter() - begin, statistics.mean(losses)

    def predict(self) -> tuple[int, float, float]:
        """Examples, seconds and accuracy of the test split."""
        begin = time.perf_counter()
        if isinstance(self.task, TaggingTask):
            sentences = self.task.split(SPLIT)
            found = list(tag(self.model, self.task.words, (sentence.words for sentence in sentences)))
            took = time.perf_counter() - begin
            answers = np.concatenate([tags.classes[:, 0] for tags in found])
            wanted = np.concatenate([self.task.classes.numbers(sentence.tags) for sentence in sentences])
            return len(sentences), took, float((answers == wanted).mean())
        texts = self.task.split(SPLIT)
        answers = classify(self.model, self.task.sequences, [text.text for text in texts]).argmax(1)
        took = time.perf_counter() - begin
        wanted = self.task.classes.numbers(text.labels[0] for text in texts)
        return len(texts), took, float((answers == wanted).mean())


class Peer:
    """transformers' BERT of the same dimensions, fed with the same ids, under its Trainer."""

    def __init__(self, task: Task, subject: Subject, rows: int, grouped: bool, folder: Path):
        model = task.recipe.model
        self.rows, self.grouped, self.folder, self.round = rows, grouped, folder, 0
        pad = task.tokenizer.specials.get("pad", 0)
        torch.manual_seed(0)
        self.model = getattr(transformers, subject.model)(
            transformers.BertConfig(
                vocab_size=model.vocab_size,
                hidden_size=model.d_model,
                num_hidden_layers=model.n_layers,
                num_attention_heads=model.n_heads,
                intermediate_size=model.ff_width,
                max_position_embeddings=model.max_length,
                hidden_dropout_prob=model.dropout,
                attention_probs_dropout_prob=model.attention_dropout,
                num_labels=model.class_count,
                pad_token_id=pad,
            )
        )
        filler = PeerTokenizer(WordLevel({"<pad>": pad}, unk_token="<pad>"))
        self.collator = getattr(transformers, subject.collator)(
            transformers.PreTrainedTokenizerFast(tokenizer_object=filler, pad_token="<pad>")
        )
        self.train_rows = [row_of(example) for example in examples_of(task, "train")]
        self.test_rows = [row_of(example) for example in examples_of(task, SPLIT)]
        self.examples = len(task.split(SPLIT))
        if grouped:
            self.test_rows.sort(key=lambda row: len(row["input_ids"]))

    def trainer(self, steps: int, *callbacks: transformers.TrainerCallback) -> transformers.Trainer:
        """A Trainer as a user makes it, without logs and checkpoints."""
        arguments = transformers.TrainingArguments(
            output_dir=str(self.folder / "peer"),
            per_device_train_batch_size=self.rows,
            per_device_eval_batch_size=self.rows,
            max_steps=steps,
            learning_rate=1e-3,
            train_sampling_strategy="group_by_length" if self.grouped else "random",
            seed=self.round,
            use_cpu=True,
            dataloader_num_workers=0,
            dataloader_pin_memory=False,
            report_to=[],
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
        )
        return transformers.Trainer(
            model=self.model,
            args=arguments,
            train_dataset=self.train_rows,
            data_collator=self.collator,
            callbacks=[*callbacks],
        )

    def train(self, steps: int) -> tuple[int, float, float]:
        """Examples, seconds and the mean loss of whole steps."""
        times: list[float] = []

        class Clock(transformers.TrainerCallback):
            def on_step_begin(self, args: object, state: object, control: object, **more: object) -> None:
                times.append(time.perf_counter())

            def on_step_end(self, args: object, state: object, control: object, **more: object) -> None:
                times.append(time.perf_counter())

        self.round += 1  # another draw of batches
        with redirect_stdout(sys.stderr):  # the trainer prints its own summary
            result = self.trainer(steps, Clock()).train()
        return steps * self.rows, times[-1] - times[0], result.training_loss

    def predict(self) -> tuple[int, float, float]:
        """Examples, seconds and accuracy of the test split."""
        trainer = self.trainer(1)
        with redirect_stdout(sys.stderr):
            begin = time.perf_counter()
            found = trainer.predict(self.test_rows)
            took = time.perf_counter() - begin
        wanted = found.label_ids
        assert isinstance(found.predictions, np.ndarray)
        assert isinstance(wanted, np.ndarray)
        asked = sum(int((np.array(row["labels"]) != -100).sum()) for row in self.test_rows)
        assert int((wanted != -100).sum()) == asked
        right = (found.predictions.argmax(-1) == wanted)[wanted != -100]
        return self.examples, took, float(right.mean())


def documents(batch: Any) -> int:
    """How many examples are packed into a batch."""
    return int(batch.places.document.max()) + 1


def examples_of(task: Task, split: str) -> list[Example]:
    """The examples of a split as our side reads them: ids, targets and where these are asked for."""
    if isinstance(task, TaggingTask):
        numbers = task.classes.numbers
        return [
            Example(pieces.ids, numbers(sentence.tags)[pieces.begin : pieces.end], pieces.at)
            for sentence in task.split(split)
            for pieces in task.words.windows(sentence.words)
        ]
    return [
        Example(part.ids, task.classes.numbers(text.labels))
        for text in task.split(split)
        for part in task.sequences.sequences(text.text)
    ]


def row_of(example: Example) -> dict[str, Any]:
    """An example as the peer's collators take it: a label for each id, -100 where none is asked for, or one of all."""
    assert example.targets is not None
    if example.at is None:
        return {"input_ids": example.ids.tolist(), "labels": int(example.targets[0])}
    labels = np.full(len(example.ids), -100)
    labels[example.at] = example.targets
    return {"input_ids": example.ids.tolist(), "labels": labels.tolist()}


def compare(subject: Subject, data: Path, folder: Path, batch: int, steps: int, rounds: int) -> dict[str, object]:
    """Examples per second of all sides, in turn."""
    folder.mkdir()
    common = [f"data.root={data}", "train.batch_tokens=null", f"train.batch_size={batch}"]
    task = subject.task(read_recipe(ROOT / "recipes" / subject.recipe, common), folder, begun=False)
    task.store()
    overrides = [*common, *AS_BERT, *subject.overrides]
    as_bert = subject.task(read_recipe(ROOT / "recipes" / subject.recipe, overrides), folder, begun=True)
    as_bert.store()
    n, order = len(task._batches.examples), task._batches.order
    rows = round(n / order.batches)
    together = max(1, min(n // (4 * rows), MEGABATCH))
    steps = math.ceil(steps / together) * together
    sides: dict[str, Ours | Peer] = {
        "peer": Peer(as_bert, subject, rows, False, folder),
        "ours": Ours(task),
        "peer_grouped": Peer(as_bert, subject, rows, True, folder),
        "ours_bert": Ours(as_bert),
    }
    say(f"{n:,} examples, {order.padding:.0%} padding in our rows, {rows} a batch, {steps} steps a round")
    for side in sides.values():
        side.train(3)
    losses: dict[str, list[float]] = {name: [] for name in sides}
    training = in_turn({name: lambda side=side: side.train(steps) for name, side in sides.items()}, rounds, losses)
    scores: dict[str, list[float]] = {name: [] for name in sides}
    prediction = in_turn({name: side.predict for name, side in sides.items()}, rounds, scores)
    fallen = all(own[-1] < own[0] for own in losses.values()) if rounds > 1 else None
    return {
        "training": training,
        "prediction": prediction,
        "train_loss_by_round": {name: [round(loss, 3) for loss in own] for name, own in losses.items()},
        "every_loss_fell": fallen,
        "test_accuracy": {name: round(own[-1], 4) for name, own in scores.items()},
        "parameters": {name: sum(p.numel() for p in side.model.parameters()) for name, side in sides.items()},
        "examples_a_batch": {"ours": round(n / order.batches, 1), "peer": rows},
        "steps_a_round": steps,
    }


def in_turn(
    sides: dict[str, Callable[[], tuple[int, float, float]]], rounds: int, noted: dict[str, list[float]]
) -> dict[str, float]:
    """Medians of examples per second, with ratios; what else each side tells is added to `noted`."""
    speeds: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds):
        for name, side in sides.items():
            examples, seconds, note = side()
            speeds[name].append(examples / seconds)
            noted[name].append(note)
        shown = ", ".join(f"{name} {own[-1]:,.0f} ({noted[name][-1]:.3f})" for name, own in speeds.items())
        say(f"round {number + 1}: {shown}")
    medians = {name: round(statistics.median(own), 1) for name, own in speeds.items()}
    of = lambda ours, peer: round(medians[ours] / medians[peer], 3)  # noqa: E731
    return {
        **medians,
        "ratio": of("ours", "peer"),
        "ratio_bert": of("ours_bert", "peer"),
        "ratio_grouped": of("ours", "peer_grouped"),
        "ratio_bert_grouped": of("ours_bert", "peer_grouped"),
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--ewt", type=Path, help="the folder of the English Web Treebank")
    arguments.add_argument("--banking77", type=Path, help="the folder of BANKING77")
    arguments.add_argument("--batch", type=int, default=32, help="examples in a batch")
    arguments.add_argument("--steps", type=int, default=50, help="steps of each side in a round, at least")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--only", choices=tuple(SUBJECTS))
    arguments.add_argument("--threads", type=int, help="threads of torch")
    given = arguments.parse_args()
    folders = {"tagging": given.ewt, "classification": given.banking77}
    wanted = [given.only] if given.only else [name for name, folder in folders.items() if folder]
    if not wanted or any(folders[name] is None for name in wanted):
        arguments.error("give --ewt FOLDER and --banking77 FOLDER, or one of them")
    if given.threads:
        torch.set_num_threads(given.threads)
    keep_freed_memory()
    transformers.logging.set_verbosity_error()
    result: dict[str, object] = {
        "machine": {"cpu": platform.machine(), "load_before": os.getloadavg()[0], "date": time.strftime("%Y-%m-%d")},
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "threads": torch.get_num_threads(),
    }
    with tempfile.TemporaryDirectory() as name:
        for job in wanted:
            say(job)
            path = Path(name) / job
            result[job] = compare(SUBJECTS[job], folders[job], path, given.batch, given.steps, given.rounds)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
