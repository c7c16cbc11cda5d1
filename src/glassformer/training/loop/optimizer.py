"""The optimizers: AdamW with decay groups, and Muon for the matrices of the blocks.

adamw   every parameter by AdamW                     (Loshchilov & Hutter 2019)
muon    matrices inside blocks by Muon, the rest by AdamW   (Jordan et al. 2024)
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed import all_gather_into_tensor, all_reduce

from glassformer.core.axes import Float
from glassformer.core.distributed.processes import ALONE, Processes
from glassformer.core.distributed.shards import groups_of, local, mesh_of, own, whole
from glassformer.core.errors import CheckpointError
from glassformer.recipe.train import OptimizerConfig


class Optimizer:
    """One or two torch optimizers over the parameters of a model that need a gradient, with one
    rate for both."""

    def __init__(self, model: nn.Module, config: OptimizerConfig, processes: Processes = ALONE):
        """`processes`: those that have the same gradients, and share work that is not cheap."""
        trained = {p: name for name, p in model.named_parameters() if p.requires_grad}
        self._names: dict[Tensor, str] = {**trained}
        self.parameters = [*trained]
        """What is trained."""
        depths: dict[str, int] = {}
        for name, _ in model.named_parameters():
            if found := BLOCK.match(name):
                depths[found[1]] = max(depths.get(found[1], 0), int(found[2]) + 1)
        adamw: dict[tuple[float, float, Any], list[Tensor]] = defaultdict(list)
        muon: dict[float, list[Tensor]] = defaultdict(list)
        for parameter, name in trained.items():
            share = layer_share(name, depths, config.layer_decay)
            if config.kind == "muon" and is_block_matrix(name, parameter):
                muon[share].append(parameter)
            else:
                decay = config.weight_decay if parameter.ndim >= 2 else 0.0
                adamw[share, decay, mesh_of(parameter)].append(parameter)
        self._parts: list[tuple[torch.optim.Optimizer, float]] = []
        if adamw:
            groups = [
                {"params": ps, "share": share, "weight_decay": decay}
                for (share, decay, _), ps in adamw.items()
            ]
            betas = config.beta1, config.beta2
            optimizer = torch.optim.AdamW(groups, lr=config.learning_rate, betas=betas, fused=True)
            self._parts.append((optimizer, config.learning_rate))
        if muon:
            groups = [{"params": ps, "share": share} for share, ps in muon.items()]
            rates = {"lr": config.matrix_learning_rate, "weight_decay": config.weight_decay}
            optimizer = Muon(groups, **rates, processes=processes)
            self._parts.append((optimizer, config.matrix_learning_rate))

    def step(self, factor: float) -> None:
        """Update the parameters by their gradients, at `factor` times the peak rates, and forget
        the gradients."""
        for part, peak in self._parts:
            for group in part.param_groups:
                group["lr"] = peak * factor * group["share"]
            part.step()
            part.zero_grad()

    def state(self) -> dict[str, Tensor]:
        """Every tensor that the next step depends on, by parameter name and role; those of divided
        parameters are divided alike."""
        return {
            f"{self._names[parameter]}:{role}": value
            for part, _ in self._parts
            for parameter, roles in part.state.items()
            for role, value in roles.items()
        }

    def blank(self, keys: Iterable[str]) -> dict[str, Tensor]:
        """Begin a state of these keys, instead of the present one: zeros that are divided as the
        parameters are, to be filled.

        CheckpointError: keys of other parameters, or of another optimizer.
        """
        keys = {*keys}
        named = {key.rpartition(":")[0] for key in keys}
        wanted: dict[str, tuple[Tensor, dict[str, Tensor], str]] = {}
        for part, _ in self._parts:
            part.state.clear()
            for parameter in (one for group in part.param_groups for one in group["params"]):
                if (name := self._names[parameter]) in named:
                    for role in MUON if isinstance(part, Muon) else ADAMW:
                        wanted[f"{name}:{role}"] = parameter, part.state[parameter], role
        for key in sorted(keys ^ wanted.keys()):
            what = "is missing" if key in wanted else "is of no parameter that it trains so"
            raise CheckpointError(
                f"The optimizer state {key!r} {what}; resume with the run's own recipe and "
                "checkpoints."
            )
        for _, (parameter, state, role) in sorted(wanted.items()):
            state[role] = (
                torch.zeros((), dtype=torch.float32, device=parameter.device)
                if role == "step"
                else torch.zeros_like(parameter.detach())
            )
        return self.state()


ADAMW, MUON = ("step", "exp_avg", "exp_avg_sq"), ("momentum",)
"""What each optimizer keeps of a parameter."""


BLOCK = re.compile(r"(\w+)\.blocks\.(\d+)\.")


def layer_share(name: str, depths: Mapping[str, int], decay: float) -> float:
    """Return the factor of a parameter's rate: 1 in head and final norm, decay^k in the k-th block
    from the end of its stack.

    The embedding lies below the first block of the deepest stack, so it has decay^(depth + 1)
    (Clark et al. 2020; Bao et al. 2022).
    """
    if found := BLOCK.match(name):
        return decay ** (depths[found[1]] - int(found[2]))
    deepest = max(depths.values(), default=0)
    return decay ** (deepest + 1) if name.startswith(("embed.", "source_embed.")) else 1.0


def is_block_matrix(name: str, parameter: Tensor) -> bool:
    """True for the weight matrices of the blocks; embeddings, heads, norms and biases are not."""
    return ".blocks." in name and parameter.ndim == 2


class Muon(torch.optim.Optimizer):
    """Momentum whose direction is orthogonalized: W <- W - η √max(1, m/n) NS(g + μ M), with M <- μ
    M + g.

    Source: Jordan et al. 2024. Matrices of one shape are orthogonalized together. Of several
    processes, each orthogonalizes its share of them whole; those that are divided are gathered.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
        processes: Processes = ALONE,
    ):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        self._processes = processes

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # pyright: ignore
        """Update every matrix that has a gradient."""
        for group in self.param_groups:
            shapes: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    shapes[parameter.shape].append(parameter)
            for shape, parameters in shapes.items():
                factor = group["lr"] * max(1.0, shape[0] / shape[1]) ** 0.5
                kept = 1 - group["lr"] * group["weight_decay"]
                for parameter, update in self._updates(parameters, group["momentum"]):
                    local(parameter).mul_(kept).sub_(own(update, parameter), alpha=factor)

    def _updates(self, parameters: list[Tensor], mu: float) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield matrices of one shape with their orthogonalized directions.

        Copies: all of them together. Of divided matrices one for each process at a time, because
        each process holds all whole directions of a round.
        """
        group, rank, n = self._processes.group, self._processes.rank, self._processes.count
        together = len(parameters)
        if groups := groups_of(parameters[0]):
            group = groups[-1]
            rank, n = group.rank(), group.size()
            together = n
        for begin in range(0, len(parameters), together):
            some = parameters[begin : begin + together]
            size = -(-len(some) // n)
            mine = local(some[0]).new_zeros(size, *some[0].shape)
            for at, parameter in enumerate(some):
                direction = whole(self._direction(parameter, mu))  # all processes ask for it
                if at // size == rank:
                    mine[at % size] = direction
            updates = orthogonalize(mine).contiguous()
            if n > 1:
                own_updates, updates = updates, updates.new_empty(n * size, *some[0].shape)
                all_gather_into_tensor(updates, own_updates, group=group)
            yield from zip(some, updates, strict=False)

    def _direction(self, parameter: Tensor, mu: float) -> Tensor:
        """Return g + μ M, after M <- μ M + g."""
        gradient, state = parameter.grad, self.state[parameter]
        assert gradient is not None
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(parameter)
        momentum = state["momentum"].mul_(mu).add_(gradient)
        return gradient.add(momentum, alpha=mu)


def clip_gradients(parameters: Iterable[Tensor], most: float) -> float:
    """Scale the gradients to a norm of at most `most`; the norm of all of them before."""
    by_mesh: dict[Any, list[Tensor]] = defaultdict(list)
    by_groups: dict[tuple[Any, ...], list[Tensor]] = defaultdict(list)
    for parameter in parameters:
        if (gradient := parameter.grad) is not None:
            by_mesh[mesh_of(parameter)].append(parameter)
            by_groups[groups_of(gradient)].append(local(gradient))
    norms = []
    for groups, parts in by_groups.items():
        norm = nn.utils.get_total_norm(parts)
        for group in groups:
            all_reduce(norm.square_(), group=group)
            norm.sqrt_()
        norms.append(norm)
    norm = norms[0] if len(norms) == 1 else torch.stack(norms).norm()
    for some in by_mesh.values():
        nn.utils.clip_grads_with_norm_(some, most, norm)
    return float(norm)


def orthogonalize(x: Float[Tensor, "N M K"], steps: int = 5) -> Float[Tensor, "N M K"]:
    """The nearest (semi-)orthogonal matrices, roughly: singular values go to about 1 by a quintic
    Newton-Schulz.

    X <- a X + (b A + c A²) X with A = X Xᵀ and (a, b, c) = (3.4445, -4.7750, 2.0315) (Jordan et al.
    2024).
    """
    wide = x.shape[1] <= x.shape[2]
    x = x if wide else x.mT
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    if x.shape[2] >= 2 * x.shape[1]:
        x = _polynomial(x @ x.mT, steps) @ x
    else:
        for _ in range(steps):
            a = x @ x.mT
            x = torch.baddbmm(x, torch.baddbmm(a, a, a, beta=-4.7750, alpha=2.0315), x, beta=3.4445)
    return x if wide else x.mT


def _polynomial(a: Float[Tensor, "N M M"], steps: int) -> Float[Tensor, "N M M"]:
    """Return the factor by which the steps multiply X, from A = X Xᵀ: far less work if X is much
    wider than high.

    X' = Q X with Q = a I + b A + c A² gives A' = Q A Q; all of them are polynomials in A, so the
    products commute.
    """
    eye = torch.eye(a.shape[1], dtype=a.dtype, device=a.device)
    product = eye.expand_as(a)
    for step in range(steps):
        q = torch.baddbmm(a, a, a, beta=-4.7750, alpha=2.0315).add_(eye, alpha=3.4445)
        product = q @ product if step else q
        if step + 1 < steps:
            a = q @ a @ q
    return product
