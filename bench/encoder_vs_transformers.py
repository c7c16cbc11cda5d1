"""glassformer beside transformers' BERT and its Trainer in one run: tagging and classification, on
the CPU.

    make setup                              # transformers and accelerate are in it
    python bench/encoder_vs_transformers.py --ewt UD_English-EWT --banking77 BANKING77

The folders are those of the recipes ud-tagging and banking77. All sides have the same
width, layers, heads, vocabulary and token ids, float32, and the same number of examples in a batch
on average, without padding. Prints one JSON object of examples per second, medians of rounds A B C
D A B C D ...; progress goes to stderr.

ours            the recipe: packed rows, modern architecture, Muon
ours_bert       packed rows, BERT's architecture (as many parameters as the peer), dropout and
                AdamW as the peer
peer            BertFor...Classification under Trainer: random batches padded to their longest,
                AdamW
peer_grouped    the same with train_sampling_strategy="group_by_length"; predicting, the examples
                sorted by length

training        whole steps: making the batch, forward, backward, optimizer
prediction      the test split, each with its model after the training above. Ours from words or
                texts to probabilities in the given order, tokenizing included; the peer from ids
                to logits, tokenized beforehand
"""

import argparse
import json
import math
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from tokenizers.models import WordLevel

from glassformer.core.cpu import keep_freed_memory
from glassformer.data.example import Example
from glassformer.recipe.reading import read_recipe
from glassformer.tasks.objectives.words import WordClasses
from glassformer.tasks.options import ClassifyOptions, TagOptions
from glassformer.tasks.predictors.classify import Classify
from glassformer.tasks.predictors.tag import Tag
from glassformer.tasks.task import Task
from side_by_side import (
    OurTraining,
    PeerTraining,
    Told,
    conditions,
    say,
    task_in,
    trained_and_predicted,
)
from tokenizers import Tokenizer as PeerTokenizer

SPLIT = "test"
AS_BERT = [
    *("model.preset=bert", "model.size=base", "model.d_model=128", "model.dropout=0.1"),
    *(
        "train.optimizer.kind=adamw",
        "train.optimizer.learning_rate=0.001",
        "train.optimizer.max_grad_norm=1.0",
        "train.label_smoothing=0",
    ),
]
"""What makes a recipe's model and optimizer those of the peer."""
MEGABATCH = 50
"""Batches that `group_by_length` sorts together; only whole ones are a fair sample of lengths."""
RATIOS = {
    "ratio": ("ours", "peer"),
    "ratio_bert": ("ours_bert", "peer"),
    "ratio_grouped": ("ours", "peer_grouped"),
    "ratio_bert_grouped": ("ours_bert", "peer_grouped"),
}


@dataclass(frozen=True)
class Subject:
    """One of the two jobs: its recipe and peer."""

    recipe: str
    model: str
    collator: str
    overrides: tuple[str, ...] = ()


SUBJECTS = {
    "tagging": Subject(
        "ud-tagging",
        "BertForTokenClassification",
        "DataCollatorForTokenClassification",
    ),
    "classification": Subject(
        "banking77",
        "BertForSequenceClassification",
        "DataCollatorWithPadding",
        ("model.pool=first",),  # BERT's, whose head reads its first element
    ),
}


class Ours(OurTraining):
    """A recipe's model, which also predicts."""

    task: Task

    def __init__(self, task: Task):
        super().__init__(task, documents)

    def predict(self) -> Told:
        """The test split; its accuracy is noted."""
        records, numbers = (
            self.task.objective.split(SPLIT).records,
            self.task.objective.classes.numbers,
        )
        begin = time.perf_counter()
        given = [self.task.processor.given(record) for record in records]
        if isinstance(self.task.objective, WordClasses):
            found = list(Tag(self.model, self.task).predict_each(given, TagOptions()))
            took = time.perf_counter() - begin
            answers = np.concatenate([tags.classes[:, 0] for tags in found])
            wanted = np.concatenate([numbers(record.tags) for record in records])
        else:
            found = Classify(self.model, self.task).predict_each(given, ClassifyOptions())
            answers = np.array([one.chosen[0] for one in found])
            took = time.perf_counter() - begin
            wanted = numbers(record.labels[0] for record in records)
        return len(records), took, float((answers == wanted).mean())


class Peer(PeerTraining):
    """transformers' BERT of the same dimensions, fed with the same ids, under its Trainer."""

    def __init__(self, task: Task, subject: Subject, rows: int, grouped: bool, folder: Path):
        model = task.recipe.model
        pad = task.processor.tokenizer.specials.get("pad", 0)
        torch.manual_seed(0)
        peer = getattr(transformers, subject.model)(
            transformers.BertConfig(
                vocab_size=model.vocab_size,
                hidden_size=model.d_model,
                num_hidden_layers=model.n_layers,
                num_attention_heads=model.n_heads,
                intermediate_size=model.ff_width,
                max_position_embeddings=model.max_length,
                hidden_dropout_prob=model.dropout,
                attention_probs_dropout_prob=model.attention_dropout,
                num_labels=model.class_count,  # pyright: ignore[reportCallIssue]
                pad_token_id=pad,
            )
        )
        filler = PeerTokenizer(WordLevel({"<pad>": pad}, unk_token="<pad>"))
        collator = getattr(transformers, subject.collator)(
            transformers.PreTrainedTokenizerFast(tokenizer_object=filler, pad_token="<pad>")
        )
        super().__init__(
            peer,
            rows,
            [row_of(example) for example in examples_of(task, "train")],
            collator,
            folder,
            learning_rate=1e-3,
            train_sampling_strategy="group_by_length" if grouped else "random",
        )
        self.test_rows = [row_of(example) for example in examples_of(task, SPLIT)]
        self.examples = len(task.objective.split(SPLIT).records)
        if grouped:
            self.test_rows.sort(key=lambda row: len(row["input_ids"]))

    def predict(self) -> Told:
        """The test split; its accuracy is noted."""
        found, took = self.predicted(self.test_rows)
        wanted = found.label_ids
        assert isinstance(found.predictions, np.ndarray)
        assert isinstance(wanted, np.ndarray)
        asked = sum(int((np.array(row["labels"]) != -100).sum()) for row in self.test_rows)
        assert int((wanted != -100).sum()) == asked
        right = (found.predictions.argmax(-1) == wanted)[wanted != -100]
        return self.examples, took, float(right.mean())


def documents(batch: Any) -> int:
    """How many examples are packed into a batch."""
    return int(batch.positions.document.max()) + 1


def examples_of(task: Task, split: str) -> list[Example]:
    """The examples of a split as our side reads them: ids, targets and where these are asked
    for."""
    inputs = task.objective.split(split)
    numbers = range(len(inputs.owner))
    targets = task.objective.targets_of(inputs, numbers)
    return [replace(e, **t) for e, t in zip(inputs.examples(numbers), targets, strict=True)]


def row_of(example: Example) -> dict[str, Any]:
    """An example as the peer's collators take it: a label for each id, -100 where none is asked
    for, or one of all."""
    assert example.targets is not None
    if example.at is None:
        return {"input_ids": example.ids.tolist(), "labels": int(example.targets[0])}
    labels = np.full(len(example.ids), -100)
    labels[example.at] = example.targets
    return {"input_ids": example.ids.tolist(), "labels": labels.tolist()}


def compare(
    subject: Subject, data: Path, folder: Path, batch: int, steps: int, rounds: int
) -> dict[str, object]:
    """Examples per second of all sides, in turn."""
    common = [f"data.root={data}", "train.batch_tokens=null", f"train.batch_size={batch}"]
    overrides = [*common, *AS_BERT, *subject.overrides]
    task, as_bert = (
        task_in(read_recipe(subject.recipe, changes), folder / name)
        for name, changes in (("ours", common), ("bert", overrides))
    )
    n, order = len(task.objective.training.owner), task.feed.order
    rows = round(n / order.batches)
    together = max(1, min(n // (4 * rows), MEGABATCH))
    steps = math.ceil(steps / together) * together
    sides: dict[str, Ours | Peer] = {
        "peer": Peer(as_bert, subject, rows, False, folder),
        "ours": Ours(task),
        "peer_grouped": Peer(as_bert, subject, rows, True, folder),
        "ours_bert": Ours(as_bert),
    }
    say(f"{n:,} examples, {rows} a batch, {steps} steps a round")
    return trained_and_predicted(sides, steps, rounds, RATIOS) | {
        "examples_a_batch": {"ours": round(n / order.batches, 1), "peer": rows},
    }


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--ewt", type=Path, help="the folder of the English Web Treebank")
    arguments.add_argument("--banking77", type=Path, help="the folder of BANKING77")
    arguments.add_argument("--batch", type=int, default=32, help="examples in a batch")
    arguments.add_argument(
        "--steps", type=int, default=50, help="steps of each side in a round, at least"
    )
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--only", choices=tuple(SUBJECTS))
    arguments.add_argument("--threads", type=int, help="threads of torch")
    given = arguments.parse_args()
    sys.stderr.write("About 2 to 5 minutes on two cores.\n")
    folders = {"tagging": given.ewt, "classification": given.banking77}
    wanted = [given.only] if given.only else [name for name, folder in folders.items() if folder]
    if not wanted or any(folders[name] is None for name in wanted):
        arguments.error("give --ewt FOLDER and --banking77 FOLDER, or one of them")
    if given.threads:
        torch.set_num_threads(given.threads)
    keep_freed_memory()
    transformers.logging.set_verbosity_error()
    result = conditions()
    with tempfile.TemporaryDirectory() as name:
        for job in wanted:
            say(job)
            path = Path(name) / job
            result[job] = compare(
                SUBJECTS[job], folders[job], path, given.batch, given.steps, given.rounds
            )
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
