"""The compiled step of decoding: what the model computes, and the same bits in any company."""

import copy
import ctypes
import platform
import subprocess
from itertools import accumulate
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import tiny
from glassformer.core.batch import Batch
from glassformer.core.errors import ConfigError
from glassformer.layers.attention.ragged import Pool, RaggedCache
from glassformer.layers.attention.sequences import Sequences
from glassformer.layers.feedforward import Activation
from glassformer.layers.heads import LanguageModelHead
from glassformer.layers.linear.linear import Linear
from glassformer.layers.linear.packed import PackedMatrix
from glassformer.models.packing import FORMATS, pack
from glassformer.models.transformer import Memory
from glassformer.native import Program, compiler, library

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C compiler")
CLOSE = {"rtol": 2e-4, "atol": 2e-4}
"""float32 beside float64: logits of up to 100, of sums of some hundred terms each."""
LENGTH = 6
ROOM = 64
"""Slots of a text."""
CONFIGURATIONS = {
    **{position: {"position": position} for position in tiny.POSITIONS},
    **{one: {"activation": one} for one in get_args(Activation)},
    "post-norm": {"norm_placement": "post"},
    "no residual": {"residual": False},
    "root mean square, gated": {"norm": "rms", "gated": True, "bias": False, "activation": "silu"},
    "grouped": {"n_kv_heads": 2, "position": "rotary", "d_head": 6},
    "multi-query": {"n_kv_heads": 1, "position": "alibi", "n_heads": 3, "d_model": 9},
    "window": {"window": 3, "n_kv_heads": 2},
    "window and bias": {"window": 4, "position": "relative"},
    "bias inside": {"position": "relative", "bias_placement": "inside", "scale": "model"},
    "normalized queries": {"scale": "none", "qk_norm": True, "position": "rotary"},
    "concatenated": {"position_combination": "concatenate", "position_width": 3, "tied": False},
    "head": {"tied": False, "head_bias": True, "head_scale": True, "embedding_scale": True},
    "wide heads": {"d_model": 70, "n_heads": 2, "d_head": 67, "d_ff": 130},
    "both": {"architecture": "encoder_decoder", "n_kv_heads": 2},
    "both, normalized": {"architecture": "encoder_decoder", "qk_norm": True, "position": "buckets"},
    "both, post-norm": {"architecture": "encoder_decoder", "norm_placement": "post"},
}


def model_of(name: str):
    """A model in float32 and the same in float64."""
    exact = tiny.model(**CONFIGURATIONS[name])
    return copy.deepcopy(exact).float(), exact


def pool_of(model, n_texts: int = 12, dtype=torch.float32) -> Pool:
    config, n_slots = model.config, n_texts * ROOM
    return Pool(config.depth("decoder"), config.kv_heads, config.head_width, n_slots, dtype)


def text(row, start, length):
    """New elements of the text that has the slots of a row, in a shuffled order if it is odd."""
    slots = np.arange(row * ROOM, (row + 1) * ROOM, dtype=np.int32)
    slots = slots[::-1].copy() if row % 2 else slots
    return Sequences.single(slots[: start + length], length)


def logits_of(program, ids, pool, texts, sources=(), asked=None):
    """Logits of the elements of a step that are asked for, or of all."""
    cache = RaggedCache(pool, texts, sources)
    asked = np.arange(len(ids)) if asked is None else np.array(asked, np.int64)
    return program.logits(Batch(torch.tensor([ids]), cache.new_positions), cache, asked)


def steps(program, model, ids, sources=(), pieces=(1,) * LENGTH, dtype=torch.float32):
    """Logits of each element of several texts of one length, computed piece by piece."""
    pool, found, at = pool_of(model, dtype=dtype), [], 0
    crossed = []
    for row, layers in enumerate(sources):
        crossed.append(text(len(ids) + row, 0, layers[0][0].shape[2]).table[0])
        pool.write([crossed[-1]], layers)
    for n in pieces:
        texts = [text(row, at, n) for row in range(len(ids))]
        own = [Sequences.single(slots, n) for slots in crossed]
        new = ids[:, at : at + n].flatten().tolist()
        found.append(logits_of(program, new, pool, texts, own).unflatten(0, (len(ids), n)))
        at += n
    return torch.cat(found, 1)


@pytest.mark.parametrize("name", CONFIGURATIONS)
@torch.inference_mode()
def test_a_step_computes_what_the_model_does(name):
    model, exact = model_of(name)
    program, ids = Program(model), tiny.tokens(3, LENGTH)
    source, sources = None, []
    if model.encoder is not None:
        source = Batch(tiny.tokens(3, 5, seed=1))
        memory: Memory = model.encode(source)
        layers = model.decoder.source_keys_values(memory.hidden)
        sources = [
            {layer: (k[row : row + 1], v[row : row + 1]) for layer, (k, v) in layers.items()}
            for row in range(3)
        ]
    found = steps(program, model, ids, sources)
    torch.testing.assert_close(found.double(), exact(Batch(ids, source=source)).logits, **CLOSE)
    for pieces in ((LENGTH,), (2, LENGTH - 2)):
        assert torch.equal(steps(program, model, ids, sources, pieces), found)


def in_float64(model):
    """The same, its packed matrices as what their bits stand for."""
    exact = copy.deepcopy(model)
    exact.tie = lambda: None  # the head has a matrix of its own
    for module in exact.modules():
        if getattr(module, "packed", None) is not None:
            if isinstance(module, Linear | LanguageModelHead):
                module.weight = torch.nn.Parameter(module.packed.matrix, requires_grad=False)
            module.packed = None
    return exact.double()


@pytest.mark.parametrize("bits", FORMATS)
@torch.inference_mode()
def test_matrices_of_few_bits(bits):
    model = copy.deepcopy(tiny.model(d_model=96, n_heads=3, d_ff=160, vocab_size=50)).float()
    for one in model.parameters():
        one.mul_(0.3)
    pack(model, bits)
    exact, ids = in_float64(model), torch.randint(0, 50, (3, LENGTH))
    want = exact(Batch(ids)).logits
    program = Program(model)
    found = steps(program, model, ids).double()
    # fp16 has inputs in float32; of the others each input is rounded to 8 bits, of 2⁻⁷ of the
    # largest, whose errors are independent: some 2 % of the spread of logits behind 4 products.
    error, spread = (found - want).std(), want.std()
    assert error < (1e-5 if bits == "fp16" else 0.02) * spread
    assert program.keys == torch.float16
    rounded = steps(program, model, ids, dtype=torch.float16).double()
    # keys and values of 11 bits; an input at the edge of two integers of 8 bits may change
    assert 0 < (rounded - found).std() < (2**-9 if bits == "fp16" else 0.02) * spread


@pytest.mark.parametrize("bits", [None, *FORMATS])
@torch.inference_mode()
def test_products_of_many_rows(bits):
    """Columns of more than one block, no whole units of rows, and tiles of every width."""
    sizes = {"n_layers": 1, "d_model": 96, "n_heads": 3, "d_ff": 1120, "vocab_size": 53}
    model = copy.deepcopy(tiny.model(**sizes)).float()
    for one in model.parameters():
        one.mul_(0.3)
    if bits is not None:
        pack(model, bits)
    program, pool, ids = Program(model), pool_of(model, 40), torch.randint(0, 53, (40,)).tolist()
    texts = [text(row, 0, 1) for row in range(40)]
    found = logits_of(program, ids, pool, texts)
    want = in_float64(model)(Batch(torch.tensor(ids)[:, None])).logits[:, 0]
    error, spread = (found - want).std(), want.std()
    assert error < (1e-5 if bits in (None, "fp16") else 0.02) * spread  # see above
    for n in (1, 2, 3, 4, 7, 8, 9, 15, 16, 31):
        assert torch.equal(logits_of(program, ids[:n], pool, texts[:n]), found[:n])


@pytest.mark.parametrize("bits", [None, *FORMATS])
@given(st.data())
def test_bits_depend_neither_on_other_texts_nor_on_threads(bits, data):
    model = copy.deepcopy(tiny.model(d_model=96, n_heads=3, d_ff=100, vocab_size=50)).float()
    if bits is not None:
        pack(model, bits)
    program = Program(model)
    pool = pool_of(model, 30, program.keys)
    lengths = data.draw(st.lists(st.integers(0, 22), min_size=2, max_size=9))
    pool.numbers.normal_(generator=torch.Generator().manual_seed(1))
    sizes = data.draw(st.lists(st.integers(1, 9), min_size=len(lengths), max_size=len(lengths)))
    texts = [text(row, *both) for row, both in enumerate(zip(lengths, sizes, strict=True))]
    ids = [i % 50 for one in texts for i in one.places[0].tolist()]
    ends = [*accumulate(sizes)]
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(data.draw(st.sampled_from([1, 2, 3])))
        together = logits_of(program, ids, pool, texts, asked=[end - 1 for end in ends])
        torch.set_num_threads(1)
        row = data.draw(st.integers(0, len(texts) - 1))
        last = Sequences.single(texts[row].table[0], 1)
        alone = logits_of(program, [ids[ends[row] - 1]], pool, [last])
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(together[row : row + 1], alone)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_rows_beyond_those_that_go_together(dtype, monkeypatch):
    model, _ = model_of("both")
    program, ids = Program(model), [3, 1, 4, 1, 5, 2, 6]
    single, both = pool_of(model, dtype=dtype), pool_of(model, dtype=dtype)
    source = text(1, 0, 4).table[0]
    for pool in (single, both):
        pool.numbers[..., source, :] = 1.0
    of = lambda n: [Sequences.single(source, n)]
    want = [logits_of(program, [id], single, [text(0, at, 1)], of(1)) for at, id in enumerate(ids)]
    monkeypatch.setattr("glassformer.native.program.MOST", 3)
    found = logits_of(program, ids, both, [text(0, 0, 7)], of(7), asked=[0, 2, 3, 5, 6])
    assert torch.equal(found, torch.cat(want)[[0, 2, 3, 5, 6]])
    assert torch.equal(single.numbers, both.numbers)


def test_keys_of_16_bits_are_rounded_as_by_torch():
    """Halfway cases, the smallest and largest numbers, and those beyond, which are cut."""
    values = torch.tensor([0.0, -1.0, 1 + 2**-11, 1 + 3 * 2**-11, 2**-24, 2**-25, 3e-6, 65504.0])
    values = torch.cat([values, torch.tensor([-65519.0, 7e4, -1e30, torch.nan]), torch.randn(20)])
    model = copy.deepcopy(tiny.model(d_model=32, n_heads=1, n_layers=1, norm_placement="pre"))
    model = model.float()
    with torch.no_grad():
        block = model.decoder.blocks[0].attention
        block.v_proj.weight.zero_()
        block.v_proj.bias.copy_(values)
    program, pool = Program(model), pool_of(model, dtype=torch.float16)
    logits_of(program, [1], pool, [text(0, 0, 1)])
    want = values.clamp(-65504, 65504).half()
    torch.testing.assert_close(pool.numbers[0, 1, 0, 0], want, rtol=0, atol=0, equal_nan=True)


def test_what_is_no_number_stays_none():
    for bits in (None, *FORMATS):
        model = copy.deepcopy(tiny.model(vocab_size=50, d_model=64)).float()
        if bits is not None:
            pack(model, bits)
        with torch.no_grad():
            model.embed.element.weight[7] = torch.nan
        program, pool = Program(model), pool_of(model)
        found = logits_of(program, [7, 8], pool, [text(0, 0, 1), text(1, 0, 1)])
        assert found[0].isnan().all()
        assert found[1, :7].isfinite().all()


@pytest.mark.parametrize("tied", [True, False])
def test_whatever_it_copied_is_compared(tied):
    """A change of any parameter that stays, or of a packed matrix, and the change back."""
    model = copy.deepcopy(tiny.model(tied=tied, qk_norm=True, vocab_size=40)).float()
    program = Program(model)
    assert program.current
    copied = [
        (name, one)
        for name, one in model.named_parameters()
        if not name.startswith("embed") or (tied and one is model.head.weight)
    ]
    assert len(copied) == 26 + tied
    for name, one in copied:
        before, last = one.data.clone(), one.data.flatten()[-1:]
        last += 1
        assert not program.current, name
        one.data.copy_(before)
        assert program.current
    layer = model.decoder.blocks[1].feedforward.up_proj
    packed, layer.packed = layer.packed, PackedMatrix(layer.matrix, "fp32")
    assert not program.current
    layer.packed = packed
    assert program.current


@pytest.mark.parametrize("machine", ["x86-64", "haswell", "alderlake"])
def test_other_processors_compute_the_same(machine, tmp_path, monkeypatch):
    """The code for processors without AVX-512, without and with VNNI, and that without any
    intrinsics."""
    about = Path("/proc/cpuinfo")
    known = about.read_text().split() if about.exists() else []
    needed = {"x86-64": "lm", "haswell": "avx2", "alderlake": "avx_vnni"}[machine]
    if platform.machine() != "x86_64" or needed not in known:
        pytest.skip("another processor")
    target = tmp_path / "step.so"
    command = [compiler(), *library.FLAGS, f"-march={machine}", str(library.SOURCE)]
    subprocess.run([*command, "-o", str(target), "-lm"], check=True, timeout=60)
    other = library.with_types(ctypes.CDLL(str(target)))
    ids = torch.randint(0, 50, (3, LENGTH))
    for bits in (None, *FORMATS):
        model = copy.deepcopy(tiny.model(d_model=96, n_heads=3, d_ff=100, vocab_size=50)).float()
        if bits is not None:
            pack(model, bits)
        program = Program(model)
        want = steps(program, model, ids, dtype=program.keys)
        with monkeypatch.context() as patch:
            patch.setattr(library, "program", lambda: other)
            found = steps(Program(model), model, ids, dtype=program.keys)
        # Inputs in bfloat16 or float32, by what the processor has; keys of 11 bits.
        bound = 1e-5 if bits is None else 2**-9 if bits == "fp16" else 0.02
        assert (found - want).std() < bound * want.std(), bits


def test_refusals(monkeypatch):
    with pytest.raises(ConfigError, match=r"predict the next token, .* this one has head=none"):
        Program(copy.deepcopy(tiny.model(architecture="encoder", head="none")).float())
    with pytest.raises(ConfigError, match=r"this one has head=lm, torch.float64 on cpu; leave out"):
        Program(tiny.model())
    library.program.cache_clear()
    monkeypatch.setenv("CC", "false")
    monkeypatch.setattr(library, "compiler", lambda: "/bin/false")
    with pytest.raises(ConfigError, match=r"/bin/false cannot compile .* leave out compile"):
        library.program()
    monkeypatch.setattr(library, "compiler", lambda: None)
    with pytest.raises(ConfigError, match="this system has none"):
        library.program()
