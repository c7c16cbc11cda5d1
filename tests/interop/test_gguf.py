"""Files for llama.cpp: read by the package gguf, and computed from them as llama.cpp does."""

import math
import sys
from itertools import islice, pairwise

import numpy as np
import pytest
import torch

import glassformer as gf
import published_folders
import small_runs
import tiny
from glassformer.core.errors import ConfigError
from glassformer.interop.parity import compare_outputs
from glassformer.interop.targets.gguf import CLASSES, add_tokenizer, fitting, tensors, write
from glassformer.models import Transformer
from glassformer.recipe.recipe import Recipe
from glassformer.run.export import export_run, plan_export
from glassformer.tokenizers.config import TokenizerConfig
from glassformer.tokenizers.frame import Frame
from glassformer.tokenizers.published import published_tokenizer
from glassformer.tokenizers.train import train_tokenizer

gguf = pytest.importorskip("gguf", reason="the independent reader")
ROTARY = {
    **{"position": "rotary", "norm": "rms", "gated": True, "activation": "silu", "n_kv_heads": 2},
    **{"bias": False, "attention_bias": False, "tied": False, "d_head": 4, "epsilon": 1e-3},
}
WIDE = {"rotary_factor": 4.0, "rotary_base": 50.0, "d_head": 8}
CASES = {
    "gpt2": ("gpt2", {"activation": "gelu_tanh", "epsilon": 1e-3}),
    "gpt2-untied": ("gpt2", {"activation": "gelu_tanh", "tied": False, "bias": False}),
    "llama": ("llama", ROTARY),
    "llama-biases": ("llama", ROTARY | {"attention_bias": True, "bias": True, "tied": True}),
    "llama-linear": ("llama", ROTARY | {"rotary_factor": 3.0}),
    "llama-3": ("llama", ROTARY | WIDE | {"rotary_wavelengths": (16.0, 64.0)}),
    "qwen3": ("qwen3", ROTARY | {"qk_norm": True}),
    "gemma": ("gemma", ROTARY | {"embedding_scale": True, "activation": "gelu_tanh", "tied": True}),
}
CONTENT = "text-generation"


class Oracle:
    """What llama.cpp computes from the values and tensors of a file, in float64."""

    def __init__(self, path):
        read = gguf.GGUFReader(path)
        self.values = {name: field.contents() for name, field in read.fields.items()}
        self.tensors = {one.name: one.data.astype(np.float64) for one in read.tensors}
        self.kind = self.values["general.architecture"]

    def value(self, name, default=None):
        return self.values.get(f"{self.kind}.{name}", default)

    def affine(self, name, x):
        y = x @ self.tensors[f"{name}.weight"].T
        return y + self.tensors.get(f"{name}.bias", 0)

    def norm(self, name, x):
        own, shift = self.tensors[f"{name}.weight"], self.tensors.get(f"{name}.bias", 0)
        if self.kind == "gpt2":
            x = x - x.mean(-1, keepdims=True)
        epsilon = self.value("attention.layer_norm_rms_epsilon")
        epsilon = self.value("attention.layer_norm_epsilon", epsilon)
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * own + shift

    def rotate(self, x):
        """[T, H, K] turned; neighbours of `llama`, halves of the others."""
        count = x.shape[-1] // 2
        angle = self.value("rope.freq_base") ** (-np.arange(count) / count)
        angle = angle / self.tensors.get("rope_freqs.weight", self.value("rope.scaling.factor", 1))
        turn = np.exp(1j * np.arange(len(x))[:, None] * angle)[:, None]
        cut = (count, 2) if self.kind == "llama" else (2, count)
        pairs = x.reshape(*x.shape[:2], *cut)
        pairs = pairs if self.kind == "llama" else pairs.swapaxes(-1, -2)
        turned = (pairs[..., 0] + 1j * pairs[..., 1]) * turn
        both = np.stack([turned.real, turned.imag], -1)
        return (both if self.kind == "llama" else both.swapaxes(-1, -2)).reshape(x.shape)

    def attention(self, block, x):
        heads, t = self.value("attention.head_count"), len(x)
        if self.kind == "gpt2":
            q, k, v = np.split(self.affine(f"{block}.attn_qkv", x), 3, -1)
        else:
            q, k, v = (self.affine(f"{block}.attn_{one}", x) for one in "qkv")
        groups = self.value("attention.head_count_kv", heads)
        q, k, v = (one.reshape(t, n, -1) for one, n in ((q, heads), (k, groups), (v, groups)))
        if self.kind == "qwen3":
            q, k = (self.norm(f"{block}.attn_{n}_norm", one) for n, one in (("q", q), ("k", k)))
        if self.kind != "gpt2":
            assert q.shape[-1] == self.value("attention.key_length")
            q, k = self.rotate(q), self.rotate(k)
        k, v = (one.repeat(heads // groups, 1) for one in (k, v))
        scores = np.einsum("qhd,khd->hqk", q, k) / math.sqrt(q.shape[-1])
        scores = np.where(np.tri(t, dtype=bool), scores, -np.inf)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        mixed = np.einsum("hqk,khd->qhd", shares, v).reshape(t, -1)
        return self.affine(f"{block}.attn_output", mixed)

    def feedforward(self, block, x):
        up = self.affine(f"{block}.ffn_up", x)
        gate = up if self.kind == "gpt2" else self.affine(f"{block}.ffn_gate", x)
        if self.kind in ("gpt2", "gemma"):
            bent = np.tanh(math.sqrt(2 / math.pi) * (gate + 0.044715 * gate**3))
            made = 0.5 * gate * (1 + bent)
        else:
            made = gate / (1 + np.exp(-gate))
        return self.affine(f"{block}.ffn_down", made if self.kind == "gpt2" else made * up)

    def logits(self, ids):
        x = self.tensors["token_embd.weight"][ids]
        if self.kind == "gpt2":
            x = x + self.tensors["position_embd.weight"][: len(ids)]
        if self.kind == "gemma":
            x = x * math.sqrt(self.value("embedding_length"))
        for i in range(self.value("block_count")):
            x = x + self.attention(f"blk.{i}", self.norm(f"blk.{i}.attn_norm", x))
            x = x + self.feedforward(f"blk.{i}", self.norm(f"blk.{i}.ffn_norm", x))
        head = self.tensors.get("output.weight", self.tensors["token_embd.weight"])
        return self.norm("output_norm", x) @ head.T


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A language model with byte pairs, trained a few steps."""
    folder = tmp_path_factory.mktemp("trained")
    own = {
        "model": ROTARY | {"qk_norm": True, "max_length": 128},
        "processor.tokenizer.kind": "bpe",
    }
    small_runs.go(small_runs.recipe(folder, **own), folder / "run")
    return folder / "run"


def written(name, run, folder):
    """A model of a case with the tokenizer of a run, and the task of it, written as a file."""
    task = gf.load(run).task
    size = {"vocab_size": task.processor.tokenizer.vocab_size, "max_length": 128}
    model = tiny.stir(Transformer(tiny.config(**CASES[name][1] | size))).eval()
    write(model, task, folder)
    return model, task


@pytest.mark.parametrize("name", CASES)
def test_llama_cpps_formula_gives_the_same_logits_from_the_file(name, run, tmp_path):
    model, _ = written(name, run, tmp_path)
    oracle, ids = Oracle(tmp_path / "model.gguf"), tiny.tokens(1, 9)
    assert oracle.kind == CASES[name][0]
    ours = model.double()(ids).logits[0].detach().numpy()
    # float32 weights; some values of the file are float32
    np.testing.assert_allclose(oracle.logits(ids[0].numpy()), ours, rtol=0, atol=1e-5)


def vocabulary(tokenizer, frame, size):
    """The values of a tokenizer in a file, by their names after the prefix."""
    writer = gguf.GGUFWriter(None, "llama")
    add_tokenizer(writer, tokenizer, frame, size)
    return {key.removeprefix("tokenizer.ggml."): of.value for key, of in writer.kv_data[0].items()}


TEXTS = ["The cat  sat,\n\non 12 mats: it's naïve.", " der Kater ", "🙂 x<x>hello", ""]


@pytest.mark.parametrize("name", ["llama", "gemma"])
def test_merging_by_scores_gives_the_same_pieces(name, tmp_path):
    """As llama.cpp: user symbols first, then the neighbours whose piece has the highest score."""
    tokenizer = published_tokenizer(published_folders.published_folder(tmp_path, name), name)
    own = vocabulary(tokenizer, Frame(), tokenizer.vocab_size)
    ids = {piece: i for i, piece in enumerate(own["tokens"])}
    users = [own["tokens"][i] for i, kind in enumerate(own["token_type"]) if kind == 4]

    def merged(text):
        parts = [*text.replace(" ", "▁")]
        while True:
            pairs = [
                (-own["scores"][ids[a + b]], i)
                for i, (a, b) in enumerate(pairwise(parts))
                if a + b in ids
            ]
            if not pairs:
                break
            _, i = min(pairs)
            parts[i : i + 2] = [parts[i] + parts[i + 1]]
        for part in parts:
            yield from [ids[part]] if part in ids else [ids[f"<0x{b:02X}>"] for b in part.encode()]

    def split(text):
        found = [(text.index(user), -len(user), user) for user in users if user in text]
        if not found:
            return list(merged(text))
        at, _, user = min(found)
        return [*merged(text[:at]), ids[user], *split(text[at + len(user) :])]

    for text in TEXTS:
        prefix = " " if own["add_space_prefix"] and text else ""
        assert split(prefix + text) == tokenizer.encode(text).tolist(), text


def test_tokenizers_of_each_kind_are_named_or_refused(tmp_path):
    frame = Frame()
    for kind, words in (("bpe", "gpt-2"), ("byte", "gpt-2")):
        config = TokenizerConfig(kind=kind)
        tokenizer = train_tokenizer(config, ["the cat sat on the mat " * 9])
        own = vocabulary(tokenizer, frame, tokenizer.vocab_size + 2)
        assert own["pre"] == words
        assert own["tokens"][-2:] == [f"[PAD{tokenizer.vocab_size + i}]" for i in (0, 1)]
        assert own["token_type"][-3:] == [3, 5, 5]
        assert own["add_bos_token"] is False
        framed = vocabulary(tokenizer, Frame(begin=(tokenizer.specials["bos"],)), 0)
        assert framed["add_bos_token"] is True
    for kind, sentence in {
        "character": "pre_tokenizer=None",
        "word": "model.type=WordLevel",
    }.items():
        tokenizer = train_tokenizer(TokenizerConfig(kind=kind), ["the cat sat"])
        with pytest.raises(ConfigError, match=sentence):
            vocabulary(tokenizer, frame, 0)
    for family, found in {
        "qwen2": "qwen2",
        "t5": r"model\.type=Unigram \(not BPE\)",
        "bert": r"model\.type=WordPiece \(not BPE\)",
    }.items():
        folder = published_folders.published_folder(tmp_path, family)
        tokenizer = published_tokenizer(folder, family)
        if family == "qwen2":
            assert vocabulary(tokenizer, frame, 0)["pre"] == found
        else:
            with pytest.raises(ConfigError, match=found):
                vocabulary(tokenizer, frame, 0)


def test_what_keeps_a_recipe_from_llama_cpp_is_told_before_training(tmp_path):
    small_runs.text_file(tmp_path)
    own = {"model": ROTARY | {"qk_norm": True}, "processor.tokenizer.kind": "bpe"}
    fitting_ = Recipe.parse(small_runs.values(tmp_path, **own))
    assert plan_export(fitting_, "gguf").name == "Qwen3ForCausalLM"
    assert plan_export(fitting_, "gguf").differences == ()
    changed = own | {"processor.tokenizer.kind": "word", "model.activation": "relu_squared"}
    told = plan_export(Recipe.parse(small_runs.values(tmp_path, **changed)), "gguf").differences
    assert told == (
        "activation='relu_squared' (not 'silu')",
        "processor.tokenizer.kind='word' (not bpe or byte)",
    )
    windowed = tiny.config(**ROTARY | {"window": 3})
    with pytest.raises(
        ConfigError, match=r"The nearest, MistralForCausalLM, differs in window=3 \(not None\)"
    ):
        fitting(windowed, CONTENT)
    with pytest.raises(ConfigError, match="no models for task='text-to-text'"):
        fitting(windowed, "text-to-text")


def test_a_trained_run_is_exported(run, tmp_path, cli):
    out = tmp_path / "out"
    said = cli("export", run, "--to", "gguf", "--out", out, "--json")
    assert (said.code, said.json["class"], said.json["parity"]) == (0, "Qwen3ForCausalLM", None)
    assert {path.name for path in out.iterdir()} == {"README.md", "manifest.json", "model.gguf"}
    values = Oracle(out / "model.gguf").values
    assert values["tokenizer.ggml.merges"][0].count(" ") == 1
    assert values["tokenizer.ggml.tokens"][values["tokenizer.ggml.eos_token_id"]] == "<eos>"
    assert values["qwen3.context_length"] == 128
    for arguments, sentence in {
        ("--to", "gguf", "--out", out): "is there already; give a new folder",
        ("--to", "ggml", "--out", tmp_path / "other"): "There is no target 'ggml'",
    }.items():
        said = cli("export", run, *arguments)
        assert said.code == 2
        assert sentence in said.err


def test_a_weight_without_a_tensor_is_refused(monkeypatch):
    model = tiny.model(**CASES["qwen3"][1])
    monkeypatch.setitem(CLASSES, "Qwen3ForCausalLM", ("gpt2", {}))
    with pytest.raises(
        ConfigError, match=r"no tensor for the weight .*\.attention\.q_proj\.weight"
    ):
        tensors(fitting(model.config, CONTENT), model)


def test_the_missing_package_is_named(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(ConfigError, match=r"pip install 'glassformer\[gguf\]'"):
        export_run(run, "gguf", tmp_path / "out")
    assert not (tmp_path / "out").exists()


TOLD = [
    "It's 12 o'clock, the 3rd of May 2024: we'll see 1234567 of them!",
    "  two  spaces,\ttabs\n\nand lines\r\n",
    "naïve Straße, Привет мир, 你好世界, 🙂🙃 <bos> </s> <|im_start|>",
]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2", "llama-biases", "llama-3", "qwen3", "gemma"])
def test_llama_cpp_computes_the_same(name, run, tmp_path):
    """Logits, 64 greedy tokens, texts as tokens, for models of each architecture."""
    library = pytest.importorskip("llama_cpp", reason="compiled by pip, if it is asked for")
    model, task = written(name, run, tmp_path)
    file, full = str(tmp_path / "model.gguf"), library.GGML_TYPE_F32
    theirs = library.Llama(
        file, n_ctx=128, n_batch=128, logits_all=True, verbose=False, type_k=full, type_v=full
    )
    tokenizer, frame = task.processor.tokenizer, task.processor.reader.frame
    for text in TOLD:
        ours = [*frame.begin, *tokenizer.encode(text).tolist()]
        assert theirs.tokenize(text.encode(), special=False) == ours

    def outputs(batch):
        theirs.reset()
        theirs.eval(batch.elements[0].tolist())
        return torch.from_numpy(theirs.scores[: batch.elements.shape[1]].copy())[None]

    def continued(batch, n):
        found = theirs.generate(batch.elements[0].tolist(), temp=0.0, repeat_penalty=1.0)
        return [*islice(found, n)]

    parity = compare_outputs("llama.cpp", model, task, outputs, continued)
    # it reads GELU from a table of float16: each value is wrong by up to 1e-3 of it
    rough = 4e-3 if CASES[name][0] in ("gpt2", "gemma") else 1e-4
    assert parity.difference <= rough * max(1.0, parity.scale)
    assert parity.same_tokens == parity.tokens >= 64
