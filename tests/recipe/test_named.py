"""Recipes by name, and copies of them."""

import pytest

from glassformer.core.errors import ConfigError
from glassformer.recipe.named import FOLDER, about, recipe_file, recipe_names
from glassformer.recipe.reading import read_recipe, read_yaml
from glassformer.recipe.recipe import Recipe


def test_a_name_is_the_packages_recipe_and_a_path_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert recipe_file("lm") == FOLDER / "lm.yaml"
    (tmp_path / "lm").write_text("task: fill-mask\n")
    (tmp_path / "lm.yaml").write_text("task: text-to-text\n")
    assert read_recipe("lm").task == "text-generation"
    assert read_recipe("./lm").task == "fill-mask"
    assert read_recipe("lm.yaml").task == "text-to-text"


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("ml", "did you mean 'mlm'"),
        ("recipes/lm.yaml", "did you mean 'lm'"),
        ("mine.yaml", "give a YAML file, or a name that `glassformer recipe list` shows"),
        ("nothing-like-it", "known are banking77, chat, cifar10, "),
        ("", "give a YAML file, or a name"),
    ],
)
def test_an_unknown_recipe_is_one_sentence(given, hint):
    with pytest.raises(ConfigError, match="does not exist") as said:
        read_recipe(given)
    assert hint in str(said.value)


@pytest.mark.parametrize("name", recipe_names())
def test_a_copy_of_a_recipe_is_the_recipe(cli, tmp_path, name):
    said = cli("recipe", "copy", name, tmp_path / "my.yaml")
    assert said.code == 0
    assert (tmp_path / "my.yaml").read_bytes() == (FOLDER / f"{name}.yaml").read_bytes()
    assert Recipe.parse(read_yaml(tmp_path / "my.yaml")) == read_recipe(name)
    assert len(about(name)) > 30
    again = cli("recipe", "copy", name, tmp_path / "my.yaml")
    assert again.code == 2
    assert "would replace" in again.err


def test_the_list_has_every_recipe(cli):
    said = cli("recipe", "list")
    assert [line.split()[0] for line in said.out.splitlines()] == recipe_names()
    assert all(line.split(None, 1)[1] for line in said.out.splitlines())
    assert cli("recipe", "list", "--json").out.count('"recipe"') == len(recipe_names())
