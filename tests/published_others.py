"""The files of other programs than transformers, from its models: what nanoGPT, minGPT and llama2.c
would have saved of the same numbers."""

import json
import struct
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


def turned(weight: Tensor, heads: int) -> Tensor:
    """Rows of q or k whose rotary angles turn neighbours, from those that turn halves."""
    width = len(weight) // heads
    order = [h * width + half * width // 2 + i
             for h in range(heads) for i in range(width // 2) for half in (0, 1)]  # fmt: skip
    return weight[order]


def floats(*tensors: Tensor) -> bytes:
    return b"".join(struct.pack(f"<{t.numel()}f", *t.flatten().tolist()) for t in tensors)


def grouped(weight: Tensor, size: int) -> bytes:
    """The bytes of a matrix in int8, which is made what they say."""
    groups = weight.reshape(-1, size)
    scale = groups.abs().amax(1) / 127
    numbers = (groups / scale[:, None]).round()
    weight.copy_((numbers * scale[:, None]).view_as(weight))
    return bytes(int(n) & 255 for n in numbers.flatten().tolist()) + floats(scale)


@torch.no_grad()
def llama2c(oracle: Any, folder: Path, version: int = 0, group: int = 4) -> None:
    """In one of the versions; of version 2 the oracle gets the rounded numbers."""
    config, trunk, tied = oracle.config, oracle.model, oracle.config.tie_word_embeddings
    blocks, heads = trunk.layers, (config.num_attention_heads, config.num_key_value_heads)
    if version == 2:  # groups are of the order in which the file has them, which rows keep
        for name, parameter in oracle.named_parameters():
            if "norm" not in name:
                grouped(parameter, group)
    maps = [turned(b.self_attn.q_proj.weight, heads[0]) for b in blocks]
    maps += [turned(b.self_attn.k_proj.weight, heads[1]) for b in blocks]
    maps += [b.self_attn.v_proj.weight for b in blocks]
    maps += [b.self_attn.o_proj.weight for b in blocks]
    names = ("gate_proj", "down_proj", "up_proj")
    nets = [getattr(b.mlp, name).weight for name in names for b in blocks]
    before = [b.input_layernorm.weight for b in blocks]
    between = [b.post_attention_layernorm.weight for b in blocks]
    words, last = trunk.embed_tokens.weight, trunk.norm.weight
    own = [] if tied else [oracle.lm_head.weight]
    sizes = [config.hidden_size, config.intermediate_size, config.num_hidden_layers, *heads]
    count, length = config.vocab_size, config.max_position_embeddings
    width = config.hidden_size // heads[0]
    if version == 0:
        head = struct.pack("<7i", *sizes, count if tied else -count, length)
        angles = torch.full((2 * length * (width // 2),), 7.0)  # which nobody reads
        ordered = [words, *before, *maps, *between, *nets, last, angles, *own]
        content = head + floats(*ordered)
    else:
        head = b"24ka" + struct.pack("<8i", version, *sizes, count, length)
        head = (head + struct.pack("<Bi", tied, group)).ljust(256, b"\0")
        matrices = [words, *maps, *nets, *own]
        numbers = floats(*matrices)
        if version == 2:
            numbers = b"".join(grouped(m.clone(), group) for m in matrices)
        content = head + floats(*before, *between, last) + numbers
    (folder / "model.bin").write_bytes(content)
