"""The compiled step of decoding: what the model computes, and the same bits in any company."""

import copy
import ctypes
import platform
import subprocess
from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import tiny
from glassformer.batch import Batch
from glassformer.errors import ConfigError
from glassformer.layers.feedforward import Activation
from glassformer.layers.heads import LanguageModelHead
from glassformer.layers.linear import Linear
from glassformer.layers.segments import PAGE, Pool, Segment
from glassformer.models.packing import FORMATS, pack
from glassformer.models.transformer import Memory
from glassformer.native import Program, compiler, library

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C compiler")
CLOSE = {"rtol": 2e-4, "atol": 2e-4}
"""float32 beside float64: logits of up to 100, of sums of some hundred terms each."""
LENGTH = 6
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


def pool_of(model, n_pages: int = 12) -> Pool:
    config = model.config
    return Pool(config.depth("decoder"), config.kv_heads, config.head_width, n_pages)


def steps(program, model, ids, sources=()):
    """Logits of each element of several texts of one length, computed step by step."""
    pool, found = pool_of(model), []
    crossed = []
    for row, layers in enumerate(sources):
        slot = (len(ids) + row) * PAGE
        pool.write(slot, layers)
        crossed.append((slot, layers[0][0].shape[2]))
    for at in range(ids.shape[1]):
        texts = [Segment(row * PAGE, at, 1) for row in range(len(ids))]
        own = [Segment(slot, n - 1, 1) for slot, n in crossed]
        found.append(program.logits(ids[:, at].tolist(), pool, texts, own))
    return torch.stack(found, 1)


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
    found = steps(Program(model), model, ids).double()
    # fp16 has inputs in float32; of the others each input is rounded to 8 bits, of 2⁻⁷ of the
    # largest, whose errors are independent: some 2 % of the spread of logits behind 4 products.
    error, spread = (found - want).std(), want.std()
    assert error < (1e-5 if bits == "fp16" else 0.02) * spread


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
    texts = [Segment(row * PAGE, 0, 1) for row in range(40)]
    found = program.logits(ids, pool, texts)
    want = in_float64(model)(Batch(torch.tensor(ids)[:, None])).logits[:, 0]
    error, spread = (found - want).std(), want.std()
    assert error < (1e-5 if bits in (None, "fp16") else 0.02) * spread  # see above
    for n in (1, 2, 3, 4, 7, 8, 9, 15, 16, 31):
        assert torch.equal(program.logits(ids[:n], pool, texts[:n]), found[:n])


@pytest.mark.parametrize("bits", [None, *FORMATS])
@given(st.data())
def test_bits_depend_neither_on_other_texts_nor_on_threads(bits, data):
    model = copy.deepcopy(tiny.model(d_model=96, n_heads=3, d_ff=100, vocab_size=50)).float()
    if bits is not None:
        pack(model, bits)
    program, pool = Program(model), pool_of(model, 30)
    lengths = data.draw(st.lists(st.integers(0, 31), min_size=2, max_size=9))
    pool.numbers.normal_(generator=torch.Generator().manual_seed(1))
    texts = [Segment(row * PAGE, length, 1) for row, length in enumerate(lengths)]
    ids = [length % 50 for length in lengths]
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(data.draw(st.sampled_from([1, 2, 3])))
        together = program.logits(ids, pool, texts)
        torch.set_num_threads(1)
        row = data.draw(st.integers(0, len(texts) - 1))
        alone = program.logits([ids[row]], pool, [texts[row]])
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(together[row : row + 1], alone)


def test_several_elements_of_one_text_in_one_step_are_those_of_single_steps():
    model, _ = model_of("grouped")
    program, ids = Program(model), [3, 1, 4, 1, 5]
    single, both = pool_of(model), pool_of(model)
    want = [program.logits([id], single, [Segment(0, at, 1)]) for at, id in enumerate(ids)]
    found = program.logits(ids, both, [Segment(0, at, 1) for at in range(len(ids))])
    assert torch.equal(found, torch.cat(want))
    assert torch.equal(single.numbers, both.numbers)


def test_what_is_no_number_stays_none():
    for bits in (None, *FORMATS):
        model = copy.deepcopy(tiny.model(vocab_size=50, d_model=64)).float()
        if bits is not None:
            pack(model, bits)
        with torch.no_grad():
            model.embed.element.weight[7] = torch.nan
        program, pool = Program(model), pool_of(model)
        found = program.logits([7, 8], pool, [Segment(0, 0, 1), Segment(PAGE, 0, 1)])
        assert found[0].isnan().all()
        assert found[1, :7].isfinite().all()


def test_changed_weights_are_noticed():
    model, _ = model_of("learned")
    program = Program(model)
    assert program.current
    with torch.no_grad():
        model.decoder.blocks[0].attention.out_proj.weight.mul_(2)
    assert not program.current


@pytest.mark.parametrize("machine", ["x86-64", "haswell"])
def test_other_processors_compute_the_same(machine, tmp_path, monkeypatch):
    """The code for processors without AVX-512, and that without any intrinsics."""
    if platform.machine() != "x86_64" or not torch.cpu._is_avx2_supported():
        pytest.skip("another processor")
    target = tmp_path / "step.so"
    command = [compiler(), *library.FLAGS, f"-march={machine}", str(library.SOURCE)]
    subprocess.run([*command, "-o", str(target), "-lm"], check=True, timeout=60)
    other = ctypes.CDLL(str(target)).decoder_step
    other.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    ids = torch.randint(0, 50, (3, LENGTH))
    for bits in (None, *FORMATS):
        model = copy.deepcopy(tiny.model(d_model=96, n_heads=3, d_ff=100, vocab_size=50)).float()
        if bits is not None:
            pack(model, bits)
        want = steps(Program(model), model, ids)
        with monkeypatch.context() as patch:
            patch.setattr(library, "decoder_step", lambda: other)
            found = steps(Program(model), model, ids)
        # Inputs in bfloat16 or float32, by what the processor has.
        bound = 0.02 if bits in ("bf16", "int8", "int4") else 1e-5
        assert (found - want).std() < bound * want.std(), bits


def test_refusals(monkeypatch):
    with pytest.raises(ConfigError, match=r"predict the next token, .* this one has head=none"):
        Program(copy.deepcopy(tiny.model(architecture="encoder", head="none")).float())
    with pytest.raises(ConfigError, match=r"this one has head=lm, torch.float64 on cpu; leave out"):
        Program(tiny.model())
    library.decoder_step.cache_clear()
    monkeypatch.setenv("CC", "false")
    monkeypatch.setattr(library, "compiler", lambda: "/bin/false")
    with pytest.raises(ConfigError, match=r"/bin/false cannot compile .* leave out compile"):
        library.decoder_step()
    monkeypatch.setattr(library, "compiler", lambda: None)
    with pytest.raises(ConfigError, match="this system has none"):
        library.decoder_step()
