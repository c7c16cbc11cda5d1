"""A step is the gradient of one mean over all its targets, however it is cut; and it happens whole
or not at all."""

import copy
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from threading import Barrier

import pytest
import torch

from every import slow_but
from glassformer.core.batch import IGNORE, Batch
from glassformer.core.cpu import micro_batch_threads
from glassformer.core.errors import TrainingError
from glassformer.data.collate import Share
from glassformer.layers.dropout import drawn_by
from glassformer.layers.losses import EXCLUSIVE, LossSum, cross_entropy
from glassformer.models import ModelConfig, Transformer
from glassformer.recipe.train import OptimizerConfig
from glassformer.training.loop.optimizer import Optimizer
from glassformer.training.loop.step import TrainingStep, dropout_seed

ROWS, LENGTH, VOCABULARY = 16, 6, 11
CPU = torch.device("cpu")


def model(**changes) -> Transformer:
    sizes = {
        "vocab_size": VOCABULARY,
        "d_model": 8,
        "n_layers": 2,
        "n_heads": 2,
        "max_length": LENGTH,
    }
    made = Transformer(ModelConfig.parse(sizes | changes), seed=1).double()
    with torch.no_grad():
        for p in made.parameters():
            p.mul_(5)
    return made.train()


def batch() -> Batch:
    """Rows with 0 to 6 targets: a mean of means would be far from the mean."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(VOCABULARY, (ROWS, LENGTH + 1), generator=generator)
    targets = tokens[:, 1:].clone()
    for row in range(ROWS):
        targets[row, : row % (LENGTH + 1)] = IGNORE
    return Batch(tokens[:, :-1], targets=targets)


def parts(whole: Batch, n: int) -> list[Batch]:
    rows, size = whole.elements, ROWS // n
    assert whole.targets is not None
    return [
        Batch(rows[i : i + size], targets=whole.targets[i : i + size]) for i in range(0, ROWS, size)
    ]


class Kept(Optimizer):
    """An optimizer that keeps the gradients instead of using them."""

    def step(self, factor: float) -> None:
        self.gradients = {name: p.grad.clone() for p, name in self._names.items()}
        for p in self._names:
            p.grad = None


class Unlearning(Optimizer):
    """An optimizer that leaves everything as it is, gradients too."""

    def step(self, factor: float) -> None:
        pass


def run(made: Transformer, batches: list[Batch], optimizer: Optimizer | None = None, **changes):
    optimizer = optimizer or Kept(made, OptimizerConfig())
    step, options = changes.pop("step", 3), {"max_grad_norm": 0.0} | changes
    return TrainingStep(made, optimizer, **options)(Share(batches), step, 1.0), optimizer


def reference(
    made: Transformer, whole: Batch, smoothing: float = 0.0
) -> tuple[float, dict[str, torch.Tensor]]:
    made = copy.deepcopy(made)
    logits = made(whole).logits.flatten(0, 1)
    assert whole.targets is not None
    loss = torch.nn.functional.cross_entropy(
        logits, whole.targets.flatten(), ignore_index=IGNORE, label_smoothing=smoothing
    )
    loss.backward()
    return loss.item(), {name: p.grad for name, p in made.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("n", [1, 4, 16])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("parallel_micro_batches", [1, 3])
def test_any_cut_of_the_batch_gives_the_gradient_of_one_mean(n, smoothing, parallel_micro_batches):
    made = model()
    loss, gradients = reference(made, batch(), smoothing)
    with micro_batch_threads(parallel_micro_batches, CPU) as threads:
        result, kept = run(
            made,
            parts(batch(), n),
            loss=partial(cross_entropy, smoothing=smoothing),
            threads=threads,
        )
    assert result.loss == pytest.approx(loss, rel=1e-12)
    largest = max(
        gradient.abs().max() for gradient in gradients.values()
    )  # that of the key bias is 0 but for rounding
    for name, gradient in gradients.items():
        assert (kept.gradients[name] - gradient).abs().max() / largest < 1e-12, name
    norm = torch.cat([g.flatten() for g in gradients.values()]).norm()
    assert result.gradient_norm == pytest.approx(norm.item(), rel=1e-12)


def test_a_part_without_targets_is_no_obstacle():
    made, whole = model(), batch()
    empty = Batch(whole.elements[:2], targets=torch.full((2, LENGTH), IGNORE))
    one, kept = run(made, [whole])
    two, also = run(made, [whole, empty])
    assert one == two
    assert all(
        torch.allclose(also.gradients[n], g, rtol=1e-12, atol=0) for n, g in kept.gradients.items()
    )


def test_no_target_at_all_is_refused():
    whole = batch()
    empty = Batch(whole.elements, targets=torch.full((ROWS, LENGTH), IGNORE))
    with pytest.raises(TrainingError, match="no target"):
        run(model(), [empty])


@pytest.mark.parametrize("clip", [0.01, 1e6])
def test_the_gradient_is_clipped_to_the_norm(clip):
    made = model()
    plain, kept = run(made, [batch()])
    clipped, also = run(made, [batch()], max_grad_norm=clip)
    assert clipped.gradient_norm == plain.gradient_norm, (
        "the norm is told as it was before clipping"
    )
    factor = min(1.0, clip / plain.gradient_norm)
    for name, gradient in kept.gradients.items():
        assert torch.allclose(
            also.gradients[name], gradient * factor, rtol=1e-4, atol=0
        )  # clip / (norm + 1e-6)


@pytest.mark.parametrize("changes", [{"dropout": 0.3}, {"attention_dropout": 0.3}])
def test_dropout_is_a_function_of_seed_step_and_part(changes):
    made = model(**changes)

    def loss(**options) -> float:
        torch.rand(1)  # whatever was drawn before
        return run(made, parts(batch(), 4), **options)[0].loss

    assert loss(seed=1, step=2) == loss(seed=1, step=2)
    assert len({loss(seed=1, step=2), loss(seed=1, step=3), loss(seed=2, step=2)}) == 3


@pytest.mark.parametrize("changes", [{}, {"dropout": 0.3}, {"attention_dropout": 0.3}])
def test_parts_computed_at_the_same_time_drop_and_sum_what_one_after_the_other_does(changes):
    made, cut = model(**changes), parts(batch(), 8)
    one, kept = run(made, cut)
    with micro_batch_threads(3, CPU) as threads:
        found = [run(made, cut, threads=threads) for _ in range(5)]
    assert all(result == found[0][0] for result, _ in found), (
        "threads that end in another order change nothing"
    )
    assert found[0][0].loss == pytest.approx(one.loss, rel=1e-12)
    largest = max(gradient.abs().max() for gradient in kept.gradients.values())
    for name, gradient in kept.gradients.items():
        assert all(
            torch.equal(also.gradients[name], found[0][1].gradients[name]) for _, also in found
        ), name
        assert (found[0][1].gradients[name] - gradient).abs().max() / largest < 1e-12, (
            name
        )  # another order of sums


def test_what_is_not_learned_has_no_gradient_from_threads_either():
    made = model()
    optimizer = Unlearning(made, OptimizerConfig())
    made.decoder.blocks[0].requires_grad_(False)
    with micro_batch_threads(2, CPU) as threads:
        result, _ = run(made, parts(batch(), 2), optimizer, threads=threads)
    assert result.loss == pytest.approx(reference(made, batch())[0], rel=1e-12)
    assert {p.grad is not None for p in made.decoder.blocks[1].parameters()} == {True}
    assert {p.grad for p in made.decoder.blocks[0].parameters()} == {None}


def test_an_error_in_a_thread_is_the_step_s_error():
    def broken(logits: torch.Tensor, targets: torch.Tensor) -> LossSum:
        raise TrainingError("broken")

    with micro_batch_threads(2, CPU) as threads, pytest.raises(TrainingError, match="broken"):
        run(model(), parts(batch(), 4), loss=broken, threads=threads)


@pytest.mark.parametrize(("count", "cores", "share"), [(2, 4, 2), (3, 4, 1), (4, 2, 1)])
def test_each_thread_has_its_share_of_the_cores_and_others_keep_theirs(count, cores, share):
    own, there = torch.get_num_threads(), Barrier(count)

    def threads_of(_: int) -> int:
        there.wait(60)  # so that each thread answers once
        return torch.get_num_threads()

    torch.set_num_threads(cores)
    try:
        with micro_batch_threads(count, CPU) as pool:
            assert list(pool.map(threads_of, range(count))) == [share] * count
            assert torch.get_num_threads() == cores
            with ThreadPoolExecutor(1) as later:
                assert later.submit(torch.get_num_threads).result() == cores
    finally:
        torch.set_num_threads(own)


def test_one_part_at_a_time_and_other_devices_need_no_threads():
    with micro_batch_threads(1, CPU) as one, micro_batch_threads(2, torch.device("meta")) as other:
        assert one is other is None


def test_dropout_seeds_differ_and_are_never_negative():
    seeds = {dropout_seed(a, b, c) for a in range(4) for b in range(20) for c in range(4)}
    assert len(seeds) == 4 * 20 * 4
    assert all(0 <= seed < 2**63 for seed in seeds)


def damage(made: Transformer, how: str) -> None:
    name, value = how.split()
    with torch.no_grad():
        if name == "loss":
            made.embed.element.weight[0].fill_(float(value))
        else:  # the loss stays finite, its gradient does not
            made.decoder.blocks[0].attention.q_proj.weight.register_hook(
                lambda g: g.fill_(float(value))
            )


@pytest.mark.parametrize(
    ("how", "kind", "clip"),
    slow_but(
        product(
            ("loss nan", "loss inf", "gradient nan", "gradient inf"), ("adamw", "muon"), (0.0, 1.0)
        ),
        *(("loss nan", "adamw", 0.0), ("loss inf", "muon", 1.0)),
        *(("gradient nan", "muon", 0.0), ("gradient inf", "adamw", 1.0)),
    ),
)
def test_what_is_not_finite_raises_and_changes_nothing(how, kind, clip):
    made = model()
    optimizer = Optimizer(made, OptimizerConfig(kind=kind))
    run(made, [batch()], optimizer, max_grad_norm=clip)
    damage(made, how)
    weights = [p.detach().clone() for p in made.parameters()]
    state = {name: value.clone() for name, value in optimizer.state().items()}
    with pytest.raises(
        TrainingError, match=r"At step 7 the (loss is|gradient's norm is) (nan|inf)\."
    ):
        run(made, parts(batch(), 4), optimizer, max_grad_norm=clip, step=7)
    for p, before in zip(made.parameters(), weights, strict=True):
        assert torch.equal(p.nan_to_num(7, 8, 9), before.nan_to_num(7, 8, 9))
        assert p.grad is None
    assert all(torch.equal(value, state[name]) for name, value in optimizer.state().items())


def test_consistency_is_the_mean_of_two_passes_and_their_divergence():
    """With the same dropout as the step draws; and each part of the step in its own way."""
    made, whole = model(dropout=0.3), batch()
    twin = copy.deepcopy(made)
    result, optimizer = run(made, [whole], consistency=0.7)
    with drawn_by(dropout_seed(0, 3, 0), CPU, False):
        first, second = twin(whole).logits, twin(whole).logits
    assert not torch.equal(first, second)
    each = [cross_entropy(logits, whole.targets).total for logits in (first, second)]
    apart = EXCLUSIVE.divergence(first, second, whole.targets)
    total = (sum(each) / 2 + 0.7 * apart) / whole.n_targets
    assert result.loss == pytest.approx(total.item(), rel=1e-12)
    total.backward()
    for name, p in twin.named_parameters():
        torch.testing.assert_close(optimizer.gradients[name], p.grad)


def test_consistency_of_equal_passes_changes_nothing():
    once, own = run(model(), parts(batch(), 4))
    twice, same = run(model(), parts(batch(), 4), consistency=2.0)
    assert twice.loss == pytest.approx(once.loss, rel=1e-12)
    for name, gradient in own.gradients.items():
        torch.testing.assert_close(same.gradients[name], gradient)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_label_smoothing_spreads_the_target(smoothing):
    logits, targets = torch.randn(3, 4, 7, dtype=torch.float64), torch.randint(7, (3, 4))
    targets[0] = IGNORE
    wanted = torch.zeros(3, 4, 7, dtype=torch.float64).scatter(
        -1, targets.clamp(min=0)[..., None], 1 - smoothing
    )
    wanted = (wanted + smoothing / 7) * (targets != IGNORE)[..., None]
    loss = cross_entropy(logits, targets, smoothing)
    assert loss.total.item() == pytest.approx(
        -(wanted * logits.log_softmax(-1)).sum().item(), rel=1e-12
    )
    assert loss.count == 8
