"""The norm of a gradient, of which each process may hold a part."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.distributed import all_reduce

from glassformer.axes import Tensor
from glassformer.shards import groups_of, local, mesh_of


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
