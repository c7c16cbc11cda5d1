"""The page of all fields is what the code has; a recipe is shown resolved, and reads back."""

import json

import pytest
import yaml

from docsite.fields import PAGE, render
from glassformer.core.errors import ConfigError
from glassformer.recipe.fields import SECTIONS, field_rows
from glassformer.recipe.named import FOLDER
from glassformer.recipe.reading import read_recipe

RECIPES = sorted(FOLDER.glob("*.yaml"))


def test_the_page_is_what_the_code_has():
    assert PAGE.read_text() == render(), "run PYTHONPATH=tools python -m docsite.fields"


def test_every_field_has_a_meaning():
    assert [f"{row.section}.{row.name}" for row in field_rows() if not row.description] == []


def test_an_unknown_section_is_named():
    with pytest.raises(ConfigError, match=r"no section 'trian'.*train"):
        list(field_rows("trian"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_shown_recipe_reads_back(path, tmp_path):
    recipe = read_recipe(path)
    shown = tmp_path / "shown.yaml"
    shown.write_text(recipe.yaml())
    assert read_recipe(shown) == recipe


def test_the_commands(cli):
    shown = cli("recipe", "show", RECIPES[0], "train.steps=7")
    assert yaml.safe_load(shown.out)["train"]["steps"] == 7
    lines = cli("recipe", "fields", "train", "--json").out.splitlines()
    assert [json.loads(line)["name"] for line in lines] == [row.name for row in field_rows("train")]
    assert set(SECTIONS) >= {"model", "data", "train"}
