"""It learns: one batch by heart, a pattern exactly, and a source of random words down to its
entropy."""

import math
import random

import pytest
import torch

from every import slow_but
from glassformer.core.batch import IGNORE, Batch
from glassformer.data.collate import Share
from glassformer.models import ModelConfig, Transformer
from glassformer.training.loop.optimizer import Optimizer
from glassformer.training.loop.schedule import rate_at
from glassformer.training.loop.step import TrainingStep
from small_runs import go, recipe, train_config

CHOICES = {
    "adamw": {"optimizer.learning_rate": 1e-2},
    "muon": {"optimizer.learning_rate": 1e-2, "optimizer.matrix_learning_rate": 0.02},
}


def fit(batches, config: ModelConfig, kind: str, steps: int) -> tuple[Transformer, list[float]]:
    """Train on batches(step) with a short warm-up and a linear end."""
    model = Transformer(config, seed=0)
    values = {"optimizer.kind": kind, "optimizer.weight_decay": 0.0, **CHOICES[kind]}
    values |= {"steps": steps, "schedule.warmup_steps": 5, "schedule.kind": "linear"}
    train = train_config({**values, "schedule.final_fraction": 0.0})
    losses, step_of = [], TrainingStep(model, Optimizer(model, train.optimizer))
    for step in range(steps):
        losses.append(step_of(Share([batches(step)]), step, rate_at(step, train)).loss)
    return model, losses


@pytest.mark.parametrize("kind", CHOICES)
def test_one_batch_is_learned_by_heart(kind):
    tokens = torch.randint(20, (4, 13), generator=torch.Generator().manual_seed(1))
    tokens[:, 0] = torch.arange(4)  # so that each row is known from its beginning
    batch = Batch(tokens[:, :-1], targets=tokens[:, 1:])
    config = ModelConfig(vocab_size=20, d_model=32, n_layers=2, n_heads=2, max_length=12)
    _, losses = fit(lambda step: batch, config, kind, 100)
    assert losses[0] == pytest.approx(math.log(20), abs=0.3)
    assert losses[-1] < 0.05


@pytest.mark.parametrize("kind", slow_but(CHOICES, "adamw"))
def test_copying_is_learned_and_holds_for_new_sequences(kind):
    """a b c d | a b c d: the second half can only be known by attending to the first."""
    half = 4

    def batch(step: int) -> Batch:
        first = torch.randint(1, 9, (16, half), generator=torch.Generator().manual_seed(step))
        tokens = torch.cat([first, torch.zeros(16, 1, dtype=torch.long), first], 1)
        targets = tokens[:, 1:].clone()
        targets[:, : half - 1] = IGNORE  # what is random cannot be learned
        targets[:, half - 1] = IGNORE
        return Batch(tokens[:, :-1], targets=targets)

    config = ModelConfig(
        vocab_size=9, d_model=32, n_layers=2, n_heads=2, max_length=2 * half, position="learned"
    )
    model, _ = fit(batch, config, kind, 120)
    new = batch(10**6)
    with torch.no_grad():
        guessed = model.eval()(new).logits.argmax(-1)
    right = (guessed == new.targets)[new.targets != IGNORE].float().mean()
    assert right > 0.98


def markov_text(folder, words: int) -> float:
    """A text in which each letter allows two next ones, 3 : 1; returns its entropy in nats per
    character."""
    draw, letters, text = random.Random(0), "abcdefgh", "a"
    while len(text) < words:
        at = letters.index(text[-1])
        text += letters[(2 * at + 1) % 8] if draw.random() < 0.75 else letters[(2 * at + 2) % 8]
    (folder / "text.txt").write_text(text)
    return -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))


@pytest.mark.parametrize("kind", slow_but(CHOICES, "muon"))
def test_a_random_source_is_learned_down_to_its_entropy(tmp_path, kind):
    entropy = markov_text(tmp_path, 20_000)
    made = recipe(
        tmp_path,
        model={"d_model": 32, "max_length": 32},
        train={
            "steps": 60,
            "batch_size": 16,
            "optimizer.kind": kind,
            "evaluate.every": 60,
            "evaluate.batches": None,
        }
        | {
            "save.every": 60,
            "schedule.kind": "wsd",
            "schedule.final_fraction": 0.0,
            "optimizer.weight_decay": 0.0,
            **CHOICES[kind],
        },
    )
    result, _ = go(made, tmp_path / "x")
    # 2,000 validation characters: the standard error of their own entropy is about 0.011
    assert entropy - 0.04 < result.scores["loss"] < entropy + 0.04
