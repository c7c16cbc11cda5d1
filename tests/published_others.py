"""The files of other programs than transformers, from its models: what nanoGPT and minGPT
would have saved of the same numbers."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

CONV1D = ("c_attn.weight", "c_proj.weight", "c_fc.weight")


def state_of(oracle: Any) -> dict[str, Tensor]:
    """A GPT-2's tensors as those of ordinary linear maps."""
    return {
        name: (value.T if name.endswith(CONV1D) else value).contiguous().clone()
        for name, value in oracle.state_dict().items()
    }


def nanogpt(oracle: Any, folder: Path, bias: bool = True) -> None:
    """Compiled, with the buffers of slow attention."""
    config = oracle.config
    if not bias:
        for name, parameter in oracle.named_parameters():
            if name.endswith("bias"):
                parameter.data.zero_()
    state = {n: v for n, v in state_of(oracle).items() if bias or not n.endswith("bias")}
    n = config.n_positions
    mask = torch.tril(torch.ones(n, n)).view(1, 1, n, n)
    state |= {f"transformer.h.{i}.attn.bias": mask.clone() for i in range(config.n_layer)}
    save_file({f"_orig_mod.{n}": v for n, v in state.items()}, folder / "model.safetensors")
    keys = {"n_layer": config.n_layer, "n_head": config.n_head, "n_embd": config.n_embd}
    keys |= {"block_size": n, "vocab_size": config.vocab_size, "bias": bias, "dropout": 0.1}
    (folder / "config.json").write_text(json.dumps({"model_type": "nanogpt"} | keys))


def mingpt(oracle: Any, folder: Path) -> None:
    config = oracle.config
    save_file(state_of(oracle), folder / "model.safetensors")
    keys = {"n_layer": config.n_layer, "n_head": config.n_head, "n_embd": config.n_embd}
    keys |= {"block_size": config.n_positions, "vocab_size": config.vocab_size}
    keys |= {"embd_pdrop": 0.1, "resid_pdrop": 0.1, "attn_pdrop": 0.1}
    (folder / "config.json").write_text(json.dumps({"model_type": "mingpt"} | keys))
