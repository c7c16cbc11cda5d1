"""B6, B8: what is loaded is exactly what was saved, or an error names what is not; others may read
and train meanwhile."""

import math
from pathlib import Path

import pytest
import torch

from glassformer.core.errors import CheckpointError
from glassformer.recipe.train import OptimizerConfig
from glassformer.training.folder.part_files import Part, load_parts, names_in
from glassformer.training.loop.optimizer import Optimizer
from properties.shared_folder import read_while_trained, saved_over_its_source, trained_twice
from properties.strict_loading import strict_loading
from variants import VARIANTS, made

CASES = [*VARIANTS]
ARCHITECTURES = ("causal learned", "patches", "mixture of both")


def load(optimizer: Optimizer, state: dict[str, torch.Tensor], folder: Path) -> None:
    """Fill an optimizer from a file of this state."""
    file = Part(state).save(folder, "optimizer")
    try:
        load_parts(optimizer.blank(names_in([file])), [file])
    finally:
        file.unlink()


def strict_optimizer(variant: str, kind: str, folder: Path, every: int = 1) -> int:
    """Drop, rename, retype and reshape each tensor of an optimizer's state; the number of them."""
    model, _ = made(variant)
    optimizer = Optimizer(model, OptimizerConfig(kind=kind))
    for parameter in optimizer.parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer.step(1.0)
    state, cases = optimizer.state(), 0
    for key in [*state][::every]:
        others, value = {k: v for k, v in state.items() if k != key}, state[key]
        alone = [other for other in others if other.startswith(key.rpartition(":")[0] + ":")]
        changes = {
            "renamed": others | {f"x{key}": value},
            "of another role": others | {f"{key}2": value},
            "as halves": others | {key: value.half()},
            "as doubles": others | {key: value.double()},
            "with an axis more": others | {key: value[None]},
        }
        if alone:  # a parameter that got no gradient yet has none at all
            changes["dropped"] = others
        for how, changed in changes.items():
            cases += 1
            with pytest.raises(CheckpointError) as caught:
                load(Optimizer(model, OptimizerConfig(kind=kind)), changed, folder)
            assert key in str(caught.value), (variant, how)
    poisoned = Optimizer(model, OptimizerConfig(kind=kind))
    for parameter in poisoned.parameters:
        parameter.grad = torch.full_like(parameter, math.nan)
    poisoned.step(0.0)
    load(poisoned, state, folder)
    assert all(torch.equal(one, state[key]) for key, one in poisoned.state().items())
    return cases


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_a_foreign_state_of_an_optimizer_is_refused_by_name(tmp_path, kind):
    assert strict_optimizer("causal learned", kind, tmp_path, every=9) > 10


@pytest.mark.slow
@pytest.mark.reliability
def test_every_tensor_of_every_architecture(tmp_path, table):
    """Quick: `test_a_foreign_state_of_an_optimizer_is_refused_by_name`, tests/test_properties.py."""
    cases, problems = strict_loading(CASES, tmp_path)
    assert problems == []
    assert cases > 15_000
    states = sum(
        strict_optimizer(variant, kind, tmp_path)
        for variant in ARCHITECTURES
        for kind in ("adamw", "muon")
    )
    table(
        "B6",
        f"{cases} wrong tensors of {len(CASES)} architectures, {states} of optimizers: each "
        "is one error with its name; 0 leftovers of NaN",
    )


@pytest.mark.slow
@pytest.mark.reliability
def test_readers_and_a_second_trainer(tmp_path, table):
    """Quick: tests/test_hostile_files.py."""
    loads, problems = read_while_trained(tmp_path, 200)
    refused, more = trained_twice(tmp_path, 10)
    written, others = saved_over_its_source(tmp_path, 50)
    assert [*problems, *more, *others] == []
    assert refused == 10
    table(
        "B8",
        f"{loads} models opened while 200 replaced them: 0 not whole; 10 of 10 second "
        f"trainers refused; weights written {written} times over the file that they are read from",
    )
