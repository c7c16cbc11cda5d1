"""A model's decoder and head in the structures of `step.c`, and a step of them.

program = Program(model)
logits = program.logits(batch, cache, asked)
"""

import ctypes
from collections.abc import Callable
from threading import local
from typing import get_args

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from glassformer.core.axes import Float, Int, Tensor
from glassformer.core.batch import Batch, Positions
from glassformer.core.errors import ConfigError
from glassformer.layers.attention.multi_head import Attention
from glassformer.layers.attention.ragged import RaggedCache
from glassformer.layers.block import Block
from glassformer.layers.feedforward import Activation
from glassformer.layers.heads import LanguageModelHead
from glassformer.layers.linear.linear import Linear
from glassformer.layers.linear.packed import OF_LOGITS, PackedRows
from glassformer.layers.norm import LayerNorm, Norm
from glassformer.models.account import Account, weights_of
from glassformer.models.packing import is_packed, pack
from glassformer.models.transformer import Transformer
from glassformer.native import library
from glassformer.native.matrices import UNIT, WHOLE, in_units

MOST = 256
"""Rows that go through the blocks together."""
FORMATS = ("fp32", "bf16", "fp16", "int8", "int4")


class Program:
    """The decoder and head of a model on a CPU, with copies of its matrices in the format in which
    they are packed, or in float32, in the order in which they are read.

    It computes what the model does, in other orders of summation; with matrices of 8 and 4 bits the
    inputs of a product are rounded to 8 bits, with those of bfloat16 to bfloat16. Matrices that are
    parameters are converted (see `models.packing`); whether anything else that was copied has
    changed is found by comparing it, in `current`. ConfigError: another kind of model, adapters
    beside the weights, a weight that no equation of `step.c` has, or no C compiler.
    """

    def __init__(self, model: Transformer):
        if not fits(model):
            weight = next(model.parameters())
            raise ConfigError(
                "Decoding steps are compiled for models that predict the next token, in float32 "
                f"on a CPU; this one has head={model.config.head}, {weight.dtype} on "
                f"{weight.device}; leave out compile."
            )
        config, stack, head = model.config, model.decoder, model.head
        assert stack is not None
        assert isinstance(head, LanguageModelHead)
        self._library = library.program()
        self._run = self._library.decoder_step
        if not is_packed(model):
            pack(model, "fp32")
        self._model, self._stack, self._kept = model, stack, list[Tensor]()
        self._scratch = local()
        """Memory of each thread, kept from step to step."""
        self._checks: list[Callable[[], bool]] = []
        """Whether each thing that was copied is what it was."""
        self._account = Account("A compiled step", weights_of(model))
        # computed by torch with each step, or once for a source
        self._account.take_known("embed.", "source_embed.", "encoder.", "decoder.bias.")
        crossed = [f"decoder.blocks.{i}.cross" for i in range(config.n_layers)]
        self._account.take_known(*(f"{one}.{of}_" for one in crossed for of in "kv"))
        blocks = [one for one in stack.blocks if isinstance(one, Block)]
        self._blocks = (library.Block * len(blocks))(*map(self._block, blocks))
        self._decoder = library.Decoder(
            blocks=self._blocks,
            norm=self._norm(stack.norm),
            head=self._head(head),
            n_blocks=len(blocks),
            d_model=config.d_model,
            d_ff=config.ff_width,
            n_heads=config.n_heads,
            n_kv_heads=config.kv_heads,
            d_head=config.head_width,
            pre_norm=config.norm_placement == "pre",
            residual=config.residual,
            activation=get_args(Activation).index(config.activation),
            window=config.window or 0,
            scale=blocks[0].attention.scale,
            head_factor=head.factor,
        )
        self._account.finish()
        del self._account

    def __deepcopy__(self, memo: dict[int, object]) -> None:
        """None: a copy of the model has no compiled step."""

    @property
    def current(self) -> bool:
        """Whether all that was copied of the model equals what it was."""
        return all(check() for check in self._checks)

    @property
    def keys(self) -> torch.dtype:
        """See `CompiledStep`: float32 beside matrices of float32, else float16."""
        block = self._blocks[0]
        return torch.float32 if block.qkv.format == FORMATS.index("fp32") else torch.float16

    def logits(
        self, batch: Batch, cache: RaggedCache, asked: Int[np.ndarray, "N"]
    ) -> Float[Tensor, "N V"]:
        """See `CompiledStep`."""
        logits = torch.empty(len(asked), self._decoder.head.rows)
        self._compute(batch, cache, asked, logits=logits.data_ptr())
        return logits

    def likeliest(self, batch: Batch, cache: RaggedCache, k: int) -> tuple[np.ndarray, np.ndarray]:
        """See `CompiledStep`."""
        n, k = batch.elements.shape[1], min(k, self._decoder.head.rows)
        log_probs, ids = np.empty((n, k), np.float32), np.empty((n, k), np.int64)
        chosen = {"ids": ids.ctypes.data, "log_probs": log_probs.ctypes.data}
        self._compute(batch, cache, np.arange(n), k=k, **chosen)
        return log_probs, ids

    def _compute(
        self, batch: Batch, cache: RaggedCache, asked: Int[np.ndarray, "N"], **results: int
    ) -> None:
        """Run a step on new elements; `results`: fields of `library.Step` for what it returns."""
        assert batch.positions is not None
        where, numbers = batch.positions, cache.pool.numbers
        x = self._model.embed(batch.elements, where, parts=batch.parts)[0]
        tables, first, ends = cache.tables
        angles = None if self._stack.rotation is None else self._stack.rotation(where)
        cos, sin = (one[0, 0] for one in angles) if angles else (None, None)
        bias, bias_of = self._biases(ends[0])
        given = {"x": x, "cos": cos, "sin": sin, "pool": numbers, "tables": tables}
        given |= {"first": first[0], "ends": ends[0], "source": first[-1], "source_ends": ends[-1]}
        given |= {"bias": bias, "bias_of": bias_of, "asked": asked}
        known = {name: one for name, one in given.items() if one is not None}
        read = {name: torch.as_tensor(one).contiguous() for name, one in known.items()}
        step = library.Step(
            n=len(x),
            most=MOST,
            threads=torch.get_num_threads(),
            slots=numbers.shape[3],
            halves=numbers.dtype == torch.float16,
            bias_width=0 if bias is None else bias.shape[2],
            n_asked=len(asked),
            **{name: one.data_ptr() for name, one in read.items()},
            **results,
        )
        places = ctypes.addressof(self._decoder), ctypes.addressof(step)
        needed, memory = self._run(*places), getattr(self._scratch, "memory", torch.empty(0))
        if len(memory) < needed:
            memory = self._scratch.memory = torch.empty(needed)
        step.memory = memory.data_ptr()
        self._run(*places)

    def _biases(self, ends: np.ndarray) -> tuple[Tensor | None, np.ndarray]:
        """Return the bias of scores for each different number of keys in `ends`, [U, H, S], and for
        each element the number of its own; None: the model has none."""
        if (bias := self._stack.bias) is None:
            return None, ends
        different, index = np.unique(ends, return_inverse=True)
        query = Positions(torch.from_numpy(different)[None] - 1)
        table = bias(query, Positions.arange(int(different[-1])))[0] * self._stack.bias_factor
        return table.float().transpose(0, 1), index

    def _block(self, block: Block) -> library.Block:
        own, feed, cross = block.attention, block.feedforward, block.cross
        made = library.Block(
            attention_norm=self._norm(block.attention_norm),
            cross_norm=self._norm(block.cross_norm),
            feedforward_norm=self._norm(block.feedforward_norm),
            q_norm=self._norm(own.q_norm),
            k_norm=self._norm(own.k_norm),
            qkv=self._matrix(own.q_proj, own.k_proj, own.v_proj),
            out=self._matrix(own.out_proj),
            up=self._matrix(feed.up_proj),
            down=self._matrix(feed.down_proj),
        )
        if feed.gate_proj is not None:
            made.gate = self._matrix(feed.gate_proj)
        if isinstance(cross, Attention):
            made.cross_q_norm = self._norm(cross.q_norm)
            made.cross_q, made.cross_out = self._matrix(cross.q_proj), self._matrix(cross.out_proj)
        return made

    def _norm(self, norm: Norm | None) -> library.Norm:
        if norm is None:
            return library.Norm()
        centred = isinstance(norm, LayerNorm)
        bias = self._copy(norm, "bias") if centred else None
        return library.Norm(
            self._at(self._copy(norm, "weight")), self._at(bias), norm.epsilon, centred
        )

    def _matrix(self, *layers: Linear) -> library.Matrix:
        """Linear maps of one input, their rows below each other."""
        bits, rows = set[str](), list[Tensor]()
        for layer in layers:
            packed = layer.packed
            assert packed is not None
            bits.add((packed.whole if isinstance(packed, PackedRows) else packed).bits)
            rows.append(packed.matrix)
            self._account.take(packed)
            self._checks.append(lambda layer=layer, packed=packed: layer.packed is packed)
        biases = [own for layer in layers if (own := self._copy(layer, "bias")) is not None]
        return self._packed(
            torch.cat(rows) if len(rows) > 1 else rows[0],
            bits.pop() if len(bits) == 1 else "fp32",
            torch.cat(biases) if biases else None,
        )

    def _head(self, head: LanguageModelHead) -> library.Matrix:
        bias, packed = self._copy(head, "bias"), head.packed
        self._checks.append(lambda: head.packed is packed)
        self._account.take(packed, head.weight)
        if packed is not None:
            return self._packed(packed.matrix, OF_LOGITS[packed.bits], bias)
        made = self._packed(head.weight, "fp32", bias)
        shape, address = head.weight.shape, ctypes.addressof(made)

        def holds() -> bool:
            now, threads = head.weight.detach().contiguous(), torch.get_num_threads()
            alike = now.shape == shape and now.dtype == torch.float32
            return alike and bool(self._library.holds(address, now.data_ptr(), threads))

        self._checks.append(holds)
        self._head_matrix = made  # which stays at its address
        return made

    def _copy(self, module: nn.Module, name: str) -> Tensor | None:
        """A copy of a vector of a module, with which it is compared from now on."""
        numbers: Tensor | None = getattr(module, name)
        if numbers is None:
            self._checks.append(lambda: getattr(module, name) is None)
            return None
        self._account.take(numbers)
        copy = numbers.detach().clone()
        self._checks.append(lambda: torch.equal(getattr(module, name), copy))
        return copy

    def _packed(self, weight: Tensor, bits: str, bias: Tensor | None) -> library.Matrix:
        """A matrix in a format, in the order that `product.h` reads."""
        rows, inputs = weight.shape
        weight = F.pad(weight.detach(), (0, -inputs % WHOLE, 0, -rows % UNIT))
        made = library.Matrix(
            bias=self._at(None if bias is None else F.pad(bias.detach(), (0, -rows % UNIT))),
            rows=rows,
            columns=weight.shape[1],
            format=FORMATS.index(bits),
            inputs=inputs,
        )
        numbers, scale = in_units(weight, bits)
        made.scale = self._at(scale)
        made.numbers = self._at(numbers)
        return made

    def _at(self, numbers: Tensor | None) -> int | None:
        """The address of numbers, which are kept."""
        if numbers is None:
            return None
        self._kept.append(numbers.detach().contiguous())
        return self._kept[-1].data_ptr()


def fits(model: Transformer) -> bool:
    """Whether the decoding step of a model can be compiled: it predicts the next token and is in
    float32 (before it was packed) on a CPU."""
    weight = next(model.parameters())
    plain = weight.dtype == torch.float32 and weight.device.type == "cpu"
    return model.config.predicts_next and plain
