"""The chat template of a published model: it comes in with it, is learned with, and goes out with it."""

import json

import gguf
import pytest
import transformers

import glassformer as gf
import published_families as families
from chat_templates import STYLES
from glassformer.run.export import export_run
from glassformer.run.folder import import_published
from small_chat import RECIPE, rows, written

STYLE = STYLES["names"]
TALK = [{"role": "user", "content": "the cat"}, {"role": "assistant", "content": "sat"}]


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    folder = families.complete("llama", tmp_path_factory.mktemp("published") / "llama")
    config = {"chat_template": STYLE, "bos_token": "<bos>", "eos_token": "<eos>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def test_it_comes_in_is_learned_with_and_goes_out(published, tmp_path):
    run = import_published(published, tmp_path / "run")
    file = tmp_path / "run" / "chat_template.jinja"
    assert file.read_text() == STYLE
    listed = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert "chat_template.jinja" in json.dumps(listed)
    answer = run.chat(TALK[:1], max_new_tokens=3, temperature=0)
    assert gf.load(published).chat(TALK[:1], max_new_tokens=3, temperature=0) == answer

    path = written(tmp_path / "talk.jsonl", [{"messages": TALK}] * 12)
    train = {**RECIPE["train"], "steps": 2, "finetune": {"keep_head": True}}
    recipe = {**RECIPE, "processor": {"input": "messages"}, "train": train}
    changes = {"data.train.path": path, "train.init_from": tmp_path / "run"}
    tuned = gf.train(recipe, changes, run=tmp_path / "tuned")
    assert tuned.processor.template.text == STYLE
    assert tuned.recipe.processor.tokenizer.new_tokens == []
    assert (tmp_path / "tuned" / "chat_template.jinja").read_text() == STYLE

    out = tmp_path / "out"
    assert export_run(tmp_path / "tuned", out=out).parity.agrees
    theirs = transformers.AutoTokenizer.from_pretrained(out)
    text = theirs.apply_chat_template(TALK[:1], tokenize=False, add_generation_prompt=True)
    assert tuned.processor.template.render(TALK[:1], prompt=True).text == text
    eos = tuned.processor.tokenizer.specials["eos"]
    assert json.loads((out / "generation_config.json").read_text())["eos_token_id"] == [eos]


def test_continued_training_on_text_keeps_it(published, tmp_path):
    import_published(published, tmp_path / "run")
    (tmp_path / "text.txt").write_text("the cat sat on a mat the dog ran " * 40)
    train = {
        **RECIPE["train"],
        "steps": 1,
        "sample": {"tokens": 0},
        "finetune": {"keep_head": True},
    }
    recipe = {"task": "text-generation", "model": {"max_length": 24}, "train": train}
    changes = {"data.train.path": tmp_path / "text.txt", "train.init_from": tmp_path / "run"}
    run = gf.train(recipe, changes, run=tmp_path / "more")
    assert (tmp_path / "more" / "chat_template.jinja").read_text() == STYLE
    assert run.processor.template.text == STYLE


def test_our_own_template_goes_out_with_a_model_that_exports(tmp_path):
    model = {
        "preset": "qwen3",
        "d_model": 16,
        "n_layers": 1,
        "n_heads": 2,
        "n_kv_heads": 2,
        "d_ff": 32,
        "max_length": 24,
    }
    # a few steps: before them all logits are 0, and no token is the likeliest
    train = {**RECIPE["train"], "steps": 6, "sample": {"tokens": 0}}
    processor = {**RECIPE["processor"], "tokenizer": {"kind": "bpe", "vocab_size": 300}}
    recipe = {
        **RECIPE,
        "processor": processor,
        "model": {**model, "max_length": 64},
        "train": train,
    }
    path = written(tmp_path / "talk.jsonl", rows(20))
    run = gf.train(recipe, {"data.train.path": path}, run=tmp_path / "run")
    export_run(tmp_path / "run", out=tmp_path / "out")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    talk = [{"role": "system", "content": "be"}, {"role": "user", "content": "hot up"}]
    ids = theirs.apply_chat_template(talk, add_generation_prompt=True, return_dict=False)
    assert ids == run.processor.template.encode(talk, prompt=True).ids.tolist()
    export_run(tmp_path / "run", to="gguf", out=tmp_path / "gguf", check=False)
    stored = gguf.GGUFReader(tmp_path / "gguf" / "model.gguf").fields["tokenizer.chat_template"]
    assert stored.contents() == run.processor.template.text
