"""A run that begins with another one's trunk has its very bits and its tokenizer; frozen, the trunk
keeps them."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from bare_runs import write_config
from glassformer.core.errors import CheckpointError, ConfigError, DataError
from glassformer.data.config import DataConfig
from glassformer.layers.position.interpolation import interpolate
from glassformer.models import ModelConfig, Transformer
from glassformer.models.weights import (
    load_model,
    load_tensors,
    load_trunk,
    read_config,
    save_weights,
)
from glassformer.recipe.init_from import with_init_from
from glassformer.recipe.reading import read_yaml
from glassformer.recipe.recipe import Recipe
from glassformer.run.encoded_batch import encoded_rows
from glassformer.tokenizers.text import Tokenizer
from glassformer.training.folder.model_files import accept_changed
from glassformer.training.loop.prepare import temporary_task
from glassformer.training.loop.trainer import Trainer
from glassformer.training.plan.plan import make_plan, plan_without_data
from small_drawings import recipe as drawing_recipe
from small_parts import parts_recipe, rows_file
from small_runs import go, hashes, laid, losses, pair_recipe, recipe
from small_senses import AUDIO, picture_folder, picture_recipe, sound_recipe, write_picture
from small_tasks import class_recipe, masked_recipe, tag_recipe


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory) -> Path:
    """A masked language model of another width than the small recipes have."""
    folder = tmp_path_factory.mktemp("pretrained")
    model = {"d_model": 24, "n_layers": 3, "n_heads": 3, "norm": "rms", "max_length": 20}
    go(
        masked_recipe(
            folder, model=model, processor={"tokenizer": {"kind": "bpe", "vocab_size": 280}}
        ),
        folder / "mlm",
    )
    return folder / "mlm"


def first_model(made: Recipe, run: Path) -> Transformer:
    """The model of a run before its first step."""
    found = []
    real = Trainer.go
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Trainer, "go", lambda own, stop: (found.append(own.model), real(own, stop))[1]
        )
        patch.setattr(Trainer, "advance", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            go(made, run)
    return found[0]


def trunk_of(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor for name, tensor in tensors.items() if not name.startswith("head.")}


@pytest.mark.parametrize("made_by", [tag_recipe, class_recipe], ids=["tag", "classify"])
def test_the_trunk_is_the_other_ones_bit_for_bit_and_the_head_is_new(tmp_path, pretrained, made_by):
    made = made_by(tmp_path, model={"dropout": 0.3}, train={"init_from": str(pretrained)})
    model = first_model(made, tmp_path / "x")
    theirs, mine = (
        trunk_of(load_tensors(pretrained / "model.safetensors")),
        dict(model.named_parameters()),
    )
    assert theirs.keys() == trunk_of(mine).keys()
    assert all(torch.equal(mine[name], tensor) for name, tensor in theirs.items())
    fresh = Transformer(model.config, seed=0)
    for name, p in fresh.named_parameters():
        if name.startswith("head."):
            assert torch.equal(mine[name], p), "as without a start"
    assert (tmp_path / "x" / "tokenizer.json").read_bytes() == (
        pretrained / "tokenizer.json"
    ).read_bytes()
    assert (model.config.d_model, model.config.n_layers, model.config.max_length) == (24, 3, 20)
    assert model.config.dropout == 0.3, "how much is dropped is the recipe's own"
    assert len(model.config.classes) > 1


@pytest.mark.parametrize(("there", "asked"), [(True, False), (False, True), (True, True)])
def test_a_tied_head_is_the_embedding_and_stays(tmp_path, there, asked):
    """A head of its own is new, and is what the recipe asks for."""
    go(recipe(tmp_path, model={"tied": there}), tmp_path / "one")
    train = {"init_from": str(tmp_path / "one")}
    model = first_model(recipe(tmp_path, model={"tied": asked}, train=train), tmp_path / "two")
    assert model.config.tied == (there or asked)
    theirs = load_tensors(tmp_path / "one" / "model.safetensors")["embed.element.weight"]
    assert torch.equal(model.head.weight, theirs) == (there or asked)
    assert (model.head.weight is model.embed.element.weight) == (there or asked)


def test_the_recipe_of_the_run_says_what_it_was_made_from(tmp_path, pretrained, monkeypatch):
    monkeypatch.chdir(pretrained.parent)
    made = tag_recipe(tmp_path, train={"init_from": "mlm"})
    _, said = go(made, tmp_path / "x")
    kept = Recipe.parse(read_yaml(tmp_path / "x" / "recipe.yaml"))
    assert kept.train.init_from == str(pretrained)
    assert kept.model == read_config(tmp_path / "x")
    assert kept.processor.tokenizer.path == str(pretrained)
    assert f"beginning with the trunk of {pretrained}" in said
    assert "trained from the trunk of `mlm`" in (tmp_path / "x" / "README.md").read_text()


def test_a_frozen_trunk_keeps_its_bits_while_the_head_learns(tmp_path, pretrained):
    made = tag_recipe(
        tmp_path,
        train={
            "init_from": str(pretrained),
            "finetune.method": "frozen",
            "optimizer.weight_decay": 0.5,
        },
    )
    before = {
        name: p.detach().clone()
        for name, p in first_model(made, tmp_path / "first").named_parameters()
    }
    go(made, tmp_path / "x")
    after = load_tensors(tmp_path / "x" / "model.safetensors")
    assert after.keys() == before.keys()
    for name, tensor in after.items():
        assert torch.equal(tensor, before[name]) != name.startswith("head."), name
    state = load_tensors(
        max((tmp_path / "x" / "checkpoints").glob("step-*")) / "optimizer.safetensors"
    )
    assert {key.split(":")[0] for key in state} == {
        name for name in before if name.startswith("head.")
    }
    go(tag_recipe(tmp_path, train={"init_from": str(pretrained)}), tmp_path / "free")
    free = load_tensors(tmp_path / "free" / "model.safetensors")
    assert not any(
        torch.equal(free[name], before[name]) for name in before if name.endswith("weight")
    )


@pytest.mark.parametrize(
    ("train", "own"),
    [({"finetune.method": "frozen"}, True), ({"optimizer.layer_decay": 0.5}, False)],
    ids=["by its own", "as it began"],
)
def test_a_run_goes_on_when_the_folder_it_began_with_is_gone(tmp_path, pretrained, train, own):
    start = tmp_path / "start"
    shutil.copytree(pretrained, start)
    made = tag_recipe(tmp_path, train={"init_from": str(start), "save.every": 4, **train})
    go(made, tmp_path / "whole")
    real = Trainer.advance

    def advance(self):
        if self.state.step == 4:
            raise KeyboardInterrupt
        real(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "advance", advance)
        with pytest.raises(KeyboardInterrupt):
            go(made, tmp_path / "cut")
    shutil.rmtree(start)
    again = Recipe.parse(read_yaml(tmp_path / "cut" / "recipe.yaml")) if own else made
    go(again, tmp_path / "cut", resume=True)
    assert hashes(tmp_path / "cut") == hashes(tmp_path / "whole")
    assert losses(tmp_path / "cut") == losses(tmp_path / "whole")


def test_a_run_goes_on_when_the_other_one_has_changed(tmp_path, pretrained):
    start = tmp_path / "start"
    shutil.copytree(pretrained, start)
    go(
        tag_recipe(tmp_path, train={"init_from": str(start), "schedule.kind": "constant"}),
        tmp_path / "x",
    )
    shutil.rmtree(start)
    go(masked_recipe(tmp_path, model={"d_model": 8}), start)
    longer = tag_recipe(
        tmp_path, train={"init_from": str(start), "schedule.kind": "constant", "steps": 10}
    )
    assert go(longer, tmp_path / "x", resume=True)[0].steps == 10
    assert read_config(tmp_path / "x").d_model == 24


def test_another_start_is_another_run(tmp_path, pretrained):
    go(tag_recipe(tmp_path, train={"init_from": str(pretrained)}), tmp_path / "x")
    for other in (str(tmp_path), None):
        with pytest.raises(ConfigError, match="was trained with"):
            go(
                tag_recipe(tmp_path, train={"init_from": other, "steps": 9}),
                tmp_path / "x",
                resume=True,
            )


@pytest.mark.parametrize(
    ("changes", "kind", "sentence"),
    [
        (
            {"model": {"architecture": "decoder"}},
            ConfigError,
            r"has model\.architecture='encoder' and the recipe has 'decoder'; make",
        ),
        (
            {"train": {"init_from": "nowhere"}},
            CheckpointError,
            r"nowhere holds no config\.json; give the folder",
        ),
        (
            {"train": {"finetune.method": "frozen", "init_from": None}},
            ConfigError,
            "finetune says what is trained of the model of init_from, which is not set",
        ),
        (
            {"model": {"max_length": 32}, "train": {"length": 24}},
            ConfigError,
            r"train\.length=24 exceeds model\.max_length=20; make the model longer",
        ),
    ],
)
def test_what_cannot_begin(tmp_path, pretrained, changes, kind, sentence):
    train = {"init_from": str(pretrained)} | changes.get("train", {})
    with pytest.raises(kind, match=sentence):
        go(tag_recipe(tmp_path, **changes | {"train": train}), tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_trunk_and_a_head_that_contradict_each_other_are_refused(tmp_path):
    trunk = ModelConfig.parse(SIZES | {"position_combination": "concatenate", "tied": False})
    write_config(tmp_path, trunk)
    save_weights(Transformer(trunk), tmp_path / "model.safetensors")
    accept_changed(tmp_path)
    made = masked_recipe(tmp_path, train={"init_from": str(tmp_path)})
    with pytest.raises(ConfigError, match=r"concatenate.* set tied=false"):
        with_init_from(made)


def test_weights_that_do_not_fit_their_configuration_are_refused(tmp_path, pretrained):
    start = tmp_path / "start"
    shutil.copytree(pretrained, start)
    config = read_config(start).model_copy(update={"d_model": 12})
    save_weights(Transformer(config), start / "model.safetensors")
    with pytest.raises(
        CheckpointError, match=r"has shape .* and this model needs .*; it is of another model"
    ):
        go(tag_recipe(tmp_path, train={"init_from": str(start)}), tmp_path / "x")


SIZES = {
    "vocab_size": 11,
    "d_model": 8,
    "n_layers": 2,
    "n_heads": 2,
    "max_length": 8,
    "architecture": "encoder",
}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"d_model": 4},
            r"embed\.element\.weight has shape \(11, 4\) and this model needs \(11, 8\); its trunk is",
        ),
        ({"n_layers": 1}, r"lacks the parameter encoder\.blocks\.1\..*; its trunk is another one"),
        (
            {"n_layers": 3},
            r"holds encoder\.blocks\.2\..*, which this model does not have; its trunk is another one",
        ),
        ({"bias": False}, r"lacks the parameter .*bias; its trunk is another one"),
    ],
)
def test_a_trunk_that_does_not_fit_changes_nothing(tmp_path, changes, sentence):
    other = Transformer(ModelConfig.parse(SIZES | {"head": "masked_lm"} | changes), seed=5)
    save_weights(other, tmp_path / "other.safetensors")
    model = Transformer(ModelConfig.parse(SIZES | {"head": "tag", "n_classes": 3}), seed=1)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    with pytest.raises(CheckpointError, match=sentence):
        load_trunk(model, tmp_path / "other.safetensors")
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())


def test_a_language_model_begins_with_another(tmp_path):
    go(recipe(tmp_path), tmp_path / "one")
    model = first_model(
        recipe(tmp_path, train={"init_from": str(tmp_path / "one"), "seed": 3}), tmp_path / "two"
    )
    theirs = load_model(tmp_path / "one")
    assert all(
        torch.equal(p, q) for p, q in zip(model.parameters(), theirs.parameters(), strict=True)
    )
    with pytest.raises(
        ConfigError, match="method=frozen leaves nothing to learn: the head is tied"
    ):
        go(
            recipe(
                tmp_path, train={"init_from": str(tmp_path / "one"), "finetune.method": "frozen"}
            ),
            tmp_path / "three",
        )


@pytest.mark.parametrize("shared", [True, False])
def test_an_encoder_decoder_takes_over_both_tokenizers(tmp_path, shared):
    (tmp_path / "pairs.tsv").write_text(
        "".join(f"{'xyz'[i % 3]}y\t{'ab'[i % 2]}c\n" for i in range(40))
    )
    train = {"steps": 2, "evaluate.decode_lines": 0}
    go(
        pair_recipe(tmp_path, processor={"tokenizer": {"shared": shared}}, train=train),
        tmp_path / "one",
    )
    (tmp_path / "pairs.tsv").write_text(
        "xy\tac\nyy\tbc\n" * 20
    )  # a tokenizer made from these would be another one
    train["init_from"] = str(tmp_path / "one")
    made = pair_recipe(tmp_path, processor={"tokenizer": {"shared": not shared}}, train=train)
    go(made, tmp_path / "two")
    for name in ("tokenizer.json", "source_tokenizer.json"):
        one, two = tmp_path / "one" / name, tmp_path / "two" / name
        assert one.exists() == two.exists() == (not shared or name == "tokenizer.json")
        assert (
            not one.exists() or Tokenizer.load(one).fingerprint == Tokenizer.load(two).fingerprint
        )
    shutil.rmtree(tmp_path / "one")
    assert go(made, tmp_path / "two", resume=True)[0].steps == 2


def test_plan_and_data_show_know_the_start(tmp_path, pretrained):
    made = tag_recipe(tmp_path, train={"init_from": str(pretrained)})
    go(made, tmp_path / "x")
    parameters = load_model(tmp_path / "x").n_parameters
    assert make_plan(made).parameters == parameters
    with temporary_task(made) as task:
        row = next(iter(encoded_rows(task, 1, 0)))
    tokenizer = Tokenizer.load(pretrained)
    assert row.pieces == [tokenizer.piece(i) for i in row.ids]
    go(recipe(tmp_path, model={"d_model": 12}), tmp_path / "lm")
    text = recipe(tmp_path, train={"init_from": str(tmp_path / "lm")})
    assert make_plan(text).parameters == load_model(tmp_path / "lm").n_parameters
    without = replace(text, data=DataConfig())
    assert plan_without_data(without).parameters == load_model(tmp_path / "lm").n_parameters


def test_tokenize_and_recipe_show_know_the_start(cli, tmp_path, pretrained):
    made = tag_recipe(tmp_path, train={"init_from": str(pretrained)})
    path = tmp_path / "tag.yaml"
    path.write_text(made.yaml())
    ids = cli("tokenize", path, "--text", "the dog", "--json").json["ids"]
    assert ids == Tokenizer.load(pretrained).encode("the dog").tolist()
    assert cli("recipe", "show", path, "--json").json["model"]["d_model"] == 24


@pytest.fixture(scope="module")
def seeing(tmp_path_factory) -> Path:
    """A run of pictures of 8 x 8 with learned positions."""
    folder = tmp_path_factory.mktemp("seeing")
    go(
        picture_recipe(folder, model={"d_model": 24}, processor={"image": {"patch": 2}}),
        folder / "x",
    )
    return folder / "x"


@pytest.fixture(scope="module")
def answering(tmp_path_factory) -> Path:
    """A run of pictures with questions."""
    folder = tmp_path_factory.mktemp("answering")
    go(parts_recipe(folder), folder / "x")
    return folder / "x"


def test_pictures_are_read_as_the_start_reads_them(tmp_path, seeing):
    data = {"train.path": picture_folder(tmp_path, seed=3)}
    values = picture_recipe(tmp_path, data=data, train={"init_from": str(seeing)}).values()
    model = first_model(Recipe.parse(values | {"processor": {"image": {}}}), tmp_path / "x")
    theirs, mine = (
        trunk_of(load_tensors(seeing / "model.safetensors")),
        dict(model.named_parameters()),
    )
    assert all(torch.equal(mine[name], tensor) for name, tensor in theirs.items())
    assert (tmp_path / "x" / "image.json").read_bytes() == (seeing / "image.json").read_bytes(), (
        "mean and std too"
    )
    assert (model.config.d_model, model.config.max_length, model.config.patch_width) == (24, 16, 4)


def test_pictures_may_be_larger_than_those_of_the_start(tmp_path, seeing):
    """Learned positions are interpolated over the grid."""
    made = picture_recipe(
        tmp_path,
        processor={"image": {"patch": 2, "size": [8, 16]}},
        train={"init_from": str(seeing)},
    )
    model = first_model(made, tmp_path / "x")
    assert model.config.grid == (4, 8)
    other = dict(load_model(seeing).named_parameters())
    name = "embed.position.weight"
    other[name] = interpolate(other[name].detach(), (4, 4), (4, 8))
    for name, parameter in model.named_parameters():
        assert name.startswith("head.") or torch.equal(parameter, other[name]), name


@pytest.mark.parametrize(
    ("image", "sentence"),
    [
        (
            {"patch": 4},
            r"^processor\.image\.patch is 4, and train\.init_from=.*x has 2, with which its weights were trained; leave",
        ),
        ({"patch": [2, 4]}, r"image\.patch is \(2, 4\)"),
        ({"channels": 3}, r"image\.channels is 3"),
        ({"resize": "pad"}, r"image\.resize is 'pad', and .* has 'crop'"),
        ({"mean": [0.5], "std": [0.5]}, r"image\.(mean|std) is \(0\.5,\)"),
    ],
)
def test_pictures_that_would_be_read_otherwise_are_refused(tmp_path, seeing, image, sentence):
    made = picture_recipe(
        tmp_path,
        processor={"image": {"patch": [2, 2], "channels": 1} | image},
        train={"init_from": str(seeing)},
    )
    with pytest.raises(ConfigError, match=sentence):
        go(made, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def turned(path: str, folder: Path) -> str:
    """The same rows with their parts in the other order."""
    rows = [json.loads(line) for line in Path(path).read_text().splitlines()]
    text = "".join(json.dumps(row | {"input": row["input"][::-1]}) + "\n" for row in rows)
    (folder / "turned.jsonl").write_text(text)
    return str(folder / "turned.jsonl")


def test_parts_are_read_as_the_start_reads_them(tmp_path, answering):
    path = rows_file(tmp_path, seed=3)
    model = first_model(
        parts_recipe(tmp_path, data={"train.path": path}, train={"init_from": str(answering)}),
        tmp_path / "x",
    )
    theirs, mine = (
        trunk_of(load_tensors(answering / "model.safetensors")),
        dict(model.named_parameters()),
    )
    assert all(torch.equal(mine[name], tensor) for name, tensor in theirs.items())
    assert any(name.startswith("embed.parts.image") for name in theirs)
    for name in ("image.json", "tokenizer.json"):
        assert (tmp_path / "x" / name).read_bytes() == (answering / name).read_bytes(), (
            "mean, std and words too"
        )
    assert model.config.modality_order == ("image", "text")
    other = parts_recipe(
        tmp_path, data={"train.path": turned(path, tmp_path)}, train={"init_from": str(answering)}
    )
    with pytest.raises(
        DataError, match="line 1 has text before image, and the rows of the model have image before"
    ):
        go(other, tmp_path / "y")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"processor.image": {"size": 16}},
            r"image\.size is 16, and train\.init_from=.* has \(8, 8\), with which its weights were",
        ),
        ({"processor.image": {"patch": 8}}, r"image\.patch is 8, and train\.init_from=.* has 4"),
        (
            {"processor.audio": AUDIO},
            r"^The recipe has a section processor.audio and the model of train\.init_from=.* has none; make",
        ),
        (
            {"processor.image": None},
            r"^The recipe has no section processor.image and the model of train\.init_from=.* has one; make",
        ),
    ],
)
def test_parts_that_would_be_read_otherwise_are_refused(tmp_path, answering, changes, sentence):
    values = parts_recipe(tmp_path, train={"init_from": str(answering)}).values()
    values["processor"]["image"] = {"patch": 4}
    with pytest.raises(ConfigError, match=sentence):
        go(Recipe.parse(laid(values, changes)), tmp_path / "x")


def test_pictures_are_drawn_in_the_colours_of_the_start(tmp_path):
    (tmp_path / "one").mkdir()
    go(drawing_recipe(tmp_path / "one"), tmp_path / "one" / "run")
    made = drawing_recipe(tmp_path, train={"init_from": str(tmp_path / "one" / "run")})
    for picture in tmp_path.glob("*.png"):
        write_picture(picture, np.full((4, 6, 3), 90, np.uint8))
    go(made, tmp_path / "run")
    assert (tmp_path / "run" / "palette.json").read_bytes() == (
        tmp_path / "one" / "run" / "palette.json"
    ).read_bytes()
    values = made.values()
    values["processor"]["palette"]["colours"] = 4
    with pytest.raises(ConfigError, match=r"palette\.colours is 4, and train\.init_from=.* has 5"):
        go(Recipe.parse(values), tmp_path / "other")


def test_positions_that_count_along_rows_reach_no_other_size(tmp_path):
    go(picture_recipe(tmp_path, model={"position": "rotary"}), tmp_path / "r")
    rotary = picture_recipe(
        tmp_path, processor={"image": {"size": 16}}, train={"init_from": str(tmp_path / "r")}
    )
    with pytest.raises(
        CheckpointError,
        match=r"of 2 x 2 patches and this model of 4 x 4, which positions of kind 'rot",
    ):
        go(rotary, tmp_path / "x")


def test_a_run_of_pictures_with_a_start_is_resumed_to_the_bit(tmp_path, seeing):
    train = {"init_from": str(seeing), "save.every": 4, "evaluate.every": 4}
    own = {"processor.image": {"patch": 2}}
    go(
        picture_recipe(tmp_path, train=train | {"steps": 4, "schedule.kind": "constant"}, **own),
        tmp_path / "short",
    )
    made = picture_recipe(tmp_path, train=train | {"schedule.kind": "constant"}, **own)
    go(made, tmp_path / "once")
    go(made, tmp_path / "short", resume=True)
    assert hashes(tmp_path / "short") == hashes(tmp_path / "once")
    assert "the trunk of `x`" in (tmp_path / "short" / "README.md").read_text()


def test_a_start_that_reads_something_else_is_one_sentence(tmp_path, seeing, pretrained):
    with pytest.raises(
        ConfigError, match=r"has model\.elements='patches' and the recipe has 'tokens'; make"
    ):
        go(class_recipe(tmp_path, train={"init_from": str(seeing)}), tmp_path / "a")
    with pytest.raises(
        ConfigError, match=r"has model\.elements='tokens' and the recipe has 'patches'; make"
    ):
        go(picture_recipe(tmp_path, train={"init_from": str(pretrained)}), tmp_path / "b")
    with pytest.raises(
        DataError,
        match=r"audio\.json: No such file or directory; give audio.json, or the folder of a model",
    ):
        go(sound_recipe(tmp_path, train={"init_from": str(seeing)}), tmp_path / "c")
