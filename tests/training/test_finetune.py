"""Runs that are tuned: LoRA, a frozen trunk, a head that is kept, new tokens; what they save, and that
they go on exactly."""

import json
import random
import shutil

import pytest
import torch

import glassformer as gf
from every import slow_but
from glassformer import finetune
from glassformer.core.errors import CheckpointError, ConfigError
from glassformer.core.manifest import digest
from glassformer.models.weights import check_model, load_model, load_tensors, read_config
from glassformer.tokenizers.text import Tokenizer
from glassformer.training.folder.checkpoints import Checkpoints
from glassformer.training.plan.plan import make_plan
from small_runs import go, hashes, losses, pair_recipe, recipe, stopped_after
from small_senses import picture_recipe
from small_tasks import LEARNING, class_recipe, masked_recipe, slash, tag_file, tag_recipe, words

LORA = {"finetune.method": "lora", "finetune.rank": 2, "finetune.targets": ["q_proj", "up_proj"]}
FROZEN = {"finetune.method": "frozen"}
WORDS = {"processor.tokenizer": {"kind": "word"}, "model": {"dropout": 0.2}}


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    """A language model of the words of the toy tasks."""
    folder = tmp_path_factory.mktemp("decoder")
    tag_file(folder)
    text = (folder / "tags.txt").read_text().replace("/LOW", "").replace("/HIGH", "")
    (folder / "text.txt").write_text(text.replace("/END", " ."))
    train = {"data.train.path": str(folder / "text.txt"), "train.optimizer.learning_rate": 0.01}
    go(recipe(folder, **WORDS, **train), folder / "lm")
    return folder / "lm"


def tuned(make, folder, base, **changes):
    """A recipe that begins with `base`, a decoder, and reads words."""
    train = {"init_from": str(base), "save.every": 3, **changes.pop("train", {})}
    model = {"architecture": "decoder", "pool": "last"} if make is not recipe else {}
    return make(folder, **{**WORDS, "model": WORDS["model"] | model, "train": train, **changes})


CONFIGS = {
    "lora": LORA | {"finetune.dropout": 0.3},
    "lora of all, averaged": LORA
    | {"finetune.targets": ["all"], "save.keep_last": 2, "save.average_checkpoints": 2}
    | {"optimizer.kind": "muon", "optimizer.layer_decay": 0.7, "micro_batches": 2},
    "lora of integers": LORA | {"finetune.quantize": "int8"},
    "frozen": FROZEN
    | {"finetune.train_also": ["*norm*"], "micro_batches": 2}
    | {"parallel_micro_batches": 2},
}


@pytest.mark.parametrize("name", slow_but(CONFIGS, "lora of all, averaged", "frozen"))
def test_killed_and_resumed_is_uninterrupted(tmp_path, decoder, name):
    """Also when the folder that it began with is gone."""
    start = tmp_path / "start"
    shutil.copytree(decoder, start)
    made = tuned(tag_recipe, tmp_path, start, train={"evaluate.every": 3, **CONFIGS[name]})
    go(made, tmp_path / "whole")
    for step in (5, 7):
        with stopped_after(step):
            go(made, tmp_path / "cut", resume=step > 5)
        shutil.rmtree(start, ignore_errors=True)
    go(made, tmp_path / "cut", resume=True)
    files = ["base.safetensors", *(["adapter_model.safetensors"] if "lora" in name else [])]
    for file in files:
        assert digest(tmp_path / "cut" / file) == digest(tmp_path / "whole" / file)
    assert hashes(tmp_path / "cut") == hashes(tmp_path / "whole")
    assert losses(tmp_path / "cut") == losses(tmp_path / "whole")


@pytest.fixture(scope="module")
def lora(tmp_path_factory, decoder):
    """A tagger tuned by LoRA, and what it said."""
    folder = tmp_path_factory.mktemp("lora")
    made = tuned(tag_recipe, folder, decoder, train=LORA)
    return folder / "run", go(made, folder / "run")[1], made


def test_a_checkpoint_holds_what_is_trained(lora, decoder):
    run, said, _ = lora
    newest = max((run / "checkpoints").glob("step-*"))
    saved = load_tensors(newest / "model.safetensors")
    assert {name.split(".")[-1] for name in saved if "head." not in name} == {"lora_a", "lora_b"}
    assert {name for name in saved if "head." in name} == {"head.proj.weight", "head.proj.bias"}
    n = sum(tensor.numel() for tensor in saved.values())
    assert f"{n:,} are trained" in said
    optimizer = load_tensors(newest / "optimizer.safetensors")
    assert {key.split(":")[0] for key in optimizer} == saved.keys()
    assert json.loads((newest / "state.json").read_text())["base"] == digest(
        run / "base.safetensors"
    )
    base, trunk = (
        load_tensors(f / n) for f, n in ((run, "base.safetensors"), (decoder, "model.safetensors"))
    )
    assert all(torch.equal(base[name], tensor) for name, tensor in trunk.items())


def test_the_model_is_merged_and_knows_nothing_of_adapters(lora):
    run, _, _ = lora
    check_model(run)
    plain, base = load_model(run), load_tensors(run / "base.safetensors")
    assert dict(plain.named_parameters()).keys() == base.keys()
    moved = {n for n, p in plain.named_parameters() if not torch.equal(p, base[n])}
    assert {name.split(".")[-2] for name in moved} == {"q_proj", "up_proj", "proj"}
    opened = gf.load(run)
    assert opened.tag("a b c")
    assert "by LoRA of rank 2 on q_proj, up_proj" in (run / "README.md").read_text()
    tuned_model = load_model(run)
    tuned_model.load_state_dict(base, strict=False)
    finetune.load_adapter(tuned_model, run)
    ids = torch.tensor([[1, 2, 3, 4]])
    # float32: the products are added in another order
    torch.testing.assert_close(tuned_model(ids).logits, plain(ids).logits, rtol=1e-4, atol=1e-5)


def test_a_run_opens_at_each_of_its_checkpoints(lora):
    run, _, _ = lora
    step = Checkpoints(run).steps()[-1]
    then, now = gf.load(run, checkpoint=step).model, gf.load(run).model
    assert all(torch.equal(a, b) for a, b in zip(then.parameters(), now.parameters(), strict=True))
    assert all(p.requires_grad for p in then.parameters())


def test_another_base_is_noticed(tmp_path, lora):
    run, _, made = lora
    shutil.copytree(run, tmp_path / "x")
    path = tmp_path / "x" / "base.safetensors"
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    with pytest.raises(CheckpointError, match=r"to which the trained weights .* is not as it was"):
        go(made, tmp_path / "x", resume=True)
    path.unlink()
    with pytest.raises(CheckpointError, match=r"base\.safetensors, .* is missing; restore it"):
        gf.load(tmp_path / "x", checkpoint=8)
    assert gf.load(tmp_path / "x").tag("a b"), "the model itself is whole"


def test_a_changed_adapter_is_noticed(tmp_path, lora):
    run, _, _ = lora
    shutil.copytree(run, tmp_path / "x")
    path = tmp_path / "x" / "adapter_config.json"
    path.write_text(path.read_text().replace('"r": 2', '"r": 3'))
    with pytest.raises(CheckpointError, match=r"adapter_config\.json"):
        gf.load(tmp_path / "x")


def test_another_method_is_another_run(tmp_path, lora, decoder):
    run, _, _ = lora
    other = tuned(tag_recipe, run.parent, decoder, train=LORA | {"finetune.rank": 3, "steps": 9})
    with pytest.raises(ConfigError, match=r"was trained with train.finetune.rank=2, not 3"):
        go(other, run, resume=True)


BASES = {
    "decoder, tags": (None, tag_recipe),
    "decoder, classes": (None, class_recipe),
    "encoder": (masked_recipe, tag_recipe),
    "encoder-decoder": (pair_recipe, pair_recipe),
    "patches": (picture_recipe, picture_recipe),
}


@pytest.mark.parametrize(
    ("name", "how"),
    slow_but(
        [(name, how) for how in ("lora", "frozen") for name in BASES],
        *(("encoder-decoder", "lora"), ("patches", "lora"), ("decoder, tags", "frozen")),
    ),
)
def test_every_kind_of_model_is_tuned(tmp_path, decoder, name, how):
    base_of, make = BASES[name]
    base, how = decoder, {"lora": LORA, "frozen": FROZEN}[how]
    few = {"steps": 2, "evaluate.decode_lines": 2} if make is pair_recipe else {"steps": 2}
    if base_of is not None:
        base = tmp_path / "base"
        go(base_of(tmp_path, train=few), base)
    train = few | {"init_from": str(base), **how}
    if make is pair_recipe and how is FROZEN:
        train["finetune.train_also"] = ["embed"]  # the head is tied to it
    made = make(tmp_path, train=train)
    if base_of is None:
        made = tuned(make, tmp_path, base, train=few | how)
    go(made, tmp_path / "run")
    before, after = (load_tensors(f / "model.safetensors") for f in (base, tmp_path / "run"))
    moved = {n for n in before.keys() & after.keys() if not torch.equal(before[n], after[n])}
    allowed = ("q_proj.weight", "up_proj.weight") if how is LORA else ("embed.",)
    assert all(name.startswith("head.") or any(a in name for a in allowed) for name in moved)
    assert moved or any(name.startswith("head.") for name in after)
    assert make_plan(made).memory["gradients"] < make_plan(made).memory["weights"]


def test_adapters_learn_what_a_frozen_trunk_cannot(tmp_path, decoder):
    """The tag of a word tells in which half of the alphabet the word before it is."""
    draw = random.Random(0)
    sentences = [words(draw) for _ in range(200)]
    tags = [["LOW" if w in "abcd" else "HIGH" for w in ("a", *s[:-1])] for s in sentences]
    (tmp_path / "before.txt").write_text("".join(map(slash, sentences, tags)))
    train = LEARNING | {"steps": 120, "optimizer.learning_rate": 0.015}
    data = {"data.train.path": str(tmp_path / "before.txt"), "model": {"architecture": "decoder"}}
    accuracy = {}
    for how in (LORA | {"finetune.targets": ["all"], "finetune.rank": 4}, FROZEN):
        made = tag_recipe(tmp_path, train=train | how | {"init_from": str(decoder)}, **data)
        method = how["finetune.method"]
        accuracy[method] = go(made, tmp_path / method)[0].scores["accuracy"]
    assert accuracy["lora"] > 0.85
    assert accuracy["frozen"] < 0.7


def test_a_head_is_kept(tmp_path, decoder):
    made = tuned(class_recipe, tmp_path, decoder)
    go(made, tmp_path / "one")
    keep = {"finetune.keep_head": True, "steps": 1, "optimizer.learning_rate": 1e-9}
    again = tuned(class_recipe, tmp_path, tmp_path / "one", train=keep)
    _, said = go(again, tmp_path / "two")
    assert f"beginning with the model of {tmp_path / 'one'}" in said
    assert read_config(tmp_path / "two").classes == read_config(tmp_path / "one").classes
    one, two = (load_tensors(tmp_path / n / "model.safetensors") for n in ("one", "two"))
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, two[name], rtol=0, atol=1e-8)  # one tiny step
    other = tuned(tag_recipe, tmp_path, tmp_path / "one", train=keep)
    with pytest.raises(
        ConfigError, match=r"keep_head keeps the head of .*, which is 'classify', and task"
    ):
        go(other, tmp_path / "three")
    model = WORDS["model"] | {"architecture": "decoder", "pool": "last", "classes": ["x", "y"]}
    other = tuned(class_recipe, tmp_path, tmp_path / "one", train=keep, model=model)
    with pytest.raises(ConfigError, match=r"model.classes is \('x', 'y'\), and .*keep_head"):
        go(other, tmp_path / "three")


@pytest.mark.parametrize("tied", slow_but([True, False], False))
def test_new_tokens_begin_at_the_mean_of_the_others(tmp_path, tied):
    """Also rows that the old model had beyond its tokenizer."""
    go(
        recipe(tmp_path, model={"tied": tied, "vocab_size": 30, "head_bias": True}),
        tmp_path / "one",
    )
    old = Tokenizer.load(tmp_path / "one")
    tokenizer = {"kind": "character", "new_tokens": ["<|user|>", "<|end|>"]}
    train = {"init_from": str(tmp_path / "one"), "steps": 1, "optimizer.learning_rate": 1e-9}
    train |= {"optimizer.weight_decay": 0.0, "finetune.keep_head": not tied}
    made = recipe(tmp_path, processor={"tokenizer": tokenizer}, train=train)
    _, said = go(made, tmp_path / "two")
    new = Tokenizer.load(tmp_path / "two")
    n = old.vocab_size
    assert f"new tokens by id: <|user|> {n}, <|end|> {n + 1}, beginning at the mean" in said
    assert (new.vocab_size, new.specials["<|end|>"], new.kind) == (n + 2, n + 1, old.kind)
    before, after = (load_tensors(tmp_path / d / "model.safetensors") for d in ("one", "two"))
    for name in (
        ["embed.element.weight"] if tied else ["embed.element.weight", "head.weight", "head.bias"]
    ):
        rows, made_rows = before[name], after[name]
        assert len(made_rows) == max(30, n + 2)
        near = {"rtol": 0, "atol": 1e-6}  # one step of a rate of 1e-9, and float32
        torch.testing.assert_close(made_rows[:n], rows[:n], **near)
        torch.testing.assert_close(made_rows[n:], rows[:n].mean(0).expand_as(made_rows[n:]), **near)
    go(
        recipe(tmp_path, processor={"tokenizer": tokenizer}, train=train | {"steps": 2}),
        tmp_path / "two",
        True,
    )
    again = {"kind": "character", "new_tokens": ["<pad>"]}
    with pytest.raises(ConfigError, match=r"new_tokens adds '<pad>', a token that it has"):
        go(recipe(tmp_path, processor={"tokenizer": again}, train=train), tmp_path / "three")
    with pytest.raises(
        ConfigError, match=r"new_tokens .* would stay at the mean .*train_also=\[embed\]"
    ):
        go(
            recipe(tmp_path, processor={"tokenizer": tokenizer}, train=train | LORA),
            tmp_path / "three",
        )
    with pytest.raises(ConfigError, match="and there is none; use specials"):
        go(recipe(tmp_path, processor={"tokenizer": tokenizer}), tmp_path / "three")


def test_a_tuned_run_is_a_base(tmp_path, lora):
    run, _, _ = lora
    made = tuned(tag_recipe, run.parent, run, train=LORA | {"finetune.keep_head": True})
    go(made, tmp_path / "again")
    base, model = (
        load_tensors(p)
        for p in (tmp_path / "again" / "base.safetensors", run / "model.safetensors")
    )
    assert all(torch.equal(base[name], model[name]) for name in model)
