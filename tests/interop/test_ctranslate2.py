"""Runs and published models converted for CTranslate2, and compared there."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import glassformer as gf
import published_families as families
import small_runs
import tiny
from glassformer.core.batch import Positions
from glassformer.core.errors import ConfigError
from glassformer.interop.parity import compare_outputs
from glassformer.interop.targets.ctranslate2 import ENGINES, fitting, plan
from glassformer.layers.heads import pool
from glassformer.recipe.recipe import Recipe
from glassformer.run.export import export_run

library = pytest.importorskip("ctranslate2", reason="the target of these tests")
ROTARY = {
    **{"position": "rotary", "norm": "rms", "gated": True, "activation": "silu"},
    **{"bias": False, "attention_bias": False, "tied": False, "epsilon": 1e-6},
}
QUICK = ("bert-no-pooler", "bart")
CASES = (
    *("gpt2", "gpt2-relu", "llama", "llama-biases", "llama-linear", "qwen2", "qwen3", "qwen3-bias"),
    *(
        "gemma",
        "gemma-untied",
        "bert",
        "roberta",
        "distilbert",
        "t5",
        "t5-gated-silu",
        "bart-scaled",
    ),
)


def never_ending(folder: Path) -> Path:
    """The folder with a row of zeros for the end symbol: its score is 0, and another is larger.

    Random weights may choose it after few tokens, where the comparison stops.
    """
    end, file = gf.load(folder).tokenizer.specials["eos"], folder / "model.safetensors"
    tensors = load_file(file)
    for tensor in tensors.values():
        if tensor.dim() == 2 and len(tensor) == tiny.VOCABULARY:
            tensor[end] = 0
    save_file(tensors, file)
    return folder


def compare(run, folder: Path):
    """Compare in CTranslate2, on the CPU in float32: logits or vectors, and greedy tokens."""
    model, engine = run.model, ENGINES[run.model.config.architecture][0]
    theirs = getattr(library, engine)(str(folder), device="cpu", compute_type="float32")
    names = json.loads(next(folder.glob("*vocabulary.json")).read_text())
    greedy = {"beam_size": 1, "return_end_token": True}
    searches = {"max_input_length": 0, "min_decoding_length": 0, **greedy}

    def translate(batch, length, more, **options):
        """Translate after this number of tokens of the target, whose first one is added there."""
        source = [names[i] for i in batch.source.elements[0]]
        begin = [names[i] for i in batch.elements[0, 1:length]]
        given = {"max_decoding_length": len(begin) + more, **searches, **options}
        return theirs.translate_batch([source], [begin], **given)[0]

    def encode(batch):
        kinds = batch.token_type_ids
        given = {} if kinds is None else {"token_type_ids": kinds.tolist()}
        found = theirs.forward_batch(batch.elements.tolist(), **given)
        if model.config.pooler:
            return torch.from_numpy(np.array(found.pooler_output))
        hidden = torch.from_numpy(np.array(found.last_hidden_state))
        if not model.config.one_output:
            return hidden
        return pool(hidden, Positions.pad([hidden.shape[1]]), model.config.pool)

    def outputs(batch):
        if engine == "Encoder":
            return encode(batch)
        if engine == "Generator":
            return torch.from_numpy(np.array(theirs.forward_batch(batch.elements.tolist())))
        ends = range(1, batch.elements.shape[1] + 1)
        found = (translate(batch, end, 1, return_logits_vocab=True) for end in ends)
        return torch.from_numpy(np.stack([np.array(one.logits[0][-1]) for one in found]))[None]

    def continued(batch, n):
        length = batch.elements.shape[1]
        if engine == "Translator":
            return [names.index(x) for x in translate(batch, length, n).hypotheses[0][length - 1 :]]
        prompt = [names[i] for i in batch.elements[0]]
        options = {"max_length": n, "include_prompt_in_result": False, **greedy}
        return theirs.generate_batch([prompt], **options)[0].sequences_ids[0]

    return compare_outputs("CTranslate2", model, run.task, outputs, continued)


@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in CASES)]
)
def test_a_published_model_computes_the_same_there(name, tmp_path):
    folder = never_ending(families.complete(name, tmp_path / name))
    export_run(folder, "ctranslate2", tmp_path / "out")
    parity = compare(gf.load(folder), tmp_path / "out")
    # float32, sums of about ten terms
    assert parity.difference <= 1e-5 * max(1.0, parity.scale)
    assert parity.same_tokens == parity.tokens
    assert (parity.tokens >= 64) == (not name.startswith(("bert", "roberta", "distil")))


def test_a_trained_run_is_exported(tmp_path, cli):
    """With a tokenizer that has no unknown symbol."""
    own = {
        "model": {"position": "learned", "activation": "gelu_tanh", "max_length": 24},
        "processor.tokenizer": {"kind": "bpe", "vocab_size": 270},
        "train": {"steps": 2, "evaluate.every": 2},
    }
    small_runs.go(small_runs.recipe(tmp_path, **own), tmp_path / "run")
    out = tmp_path / "out"
    said = cli("export", tmp_path / "run", "--to", "ctranslate2", "--out", out, "--json")
    assert (said.code, said.json["class"]) == (0, "GPT2LMHeadModel")
    assert said.json["parity"] is None
    parity = compare(gf.load(tmp_path / "run"), out)
    assert parity.difference <= 1e-5 * max(1, parity.scale)
    assert parity.same_tokens == parity.tokens > 0
    written = {"README.md", "manifest.json", "config.json", "model.bin", "tokenizer.json"}
    assert {path.name for path in out.iterdir()} == {*written, "vocabulary.json"}


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (ROTARY | {"window": 3}, r"LlamaForCausalLM, differs in window=3 \(not None\);"),
        (ROTARY | {"d_head": 6}, r"LlamaForCausalLM, differs in d_head=6 \(not 2\);"),
        (ROTARY | {"activation": "relu"}, r"differs in activation='relu' \(not 'silu'\);"),
        (
            ROTARY | {"rotary_factor": 2.0, "rotary_wavelengths": (4.0, 16.0)},
            r"differs in rotary_wavelengths=\(4\.0, 16\.0\) \(not None\);",
        ),
        ({"epsilon": 1e-3}, r"GPT2LMHeadModel, differs in epsilon=0\.001 \(not 1e-05\);"),
    ],
    ids=str,
)
def test_what_the_converter_would_lose_is_told(fields, sentence):
    with pytest.raises(ConfigError, match=sentence):
        fitting(tiny.config(**fields), "text-generation")


def test_the_plan_names_the_class_or_the_task(tmp_path):
    found = plan(Recipe.parse(small_runs.values(tmp_path, model=ROTARY)))
    assert (found.name, found.differences) == ("LlamaForCausalLM", ())
    with pytest.raises(ConfigError, match="has no models for task='token-classification'"):
        fitting(tiny.config(), "token-classification")
