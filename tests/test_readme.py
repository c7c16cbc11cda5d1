"""The commands of the README and the pages exist, links lead somewhere, and recipes parse."""

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from glassformer.cli.main import app
from glassformer.recipe.recipe import read_recipe

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands() -> list[list[str]]:
    texts = [page.read_text() for page in PAGES]
    lines = [line for text in texts for line in re.findall(r"^glassformer .*$", text, flags=re.M)]
    lines = list(dict.fromkeys(lines))
    return [shlex.split(re.split("  #| < ", line)[0])[1:] for line in lines]


def test_there_are_commands_to_check():
    assert len(commands()) >= 8


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_a_printed_command_is_understood(words):
    command = get_command(app)
    while words and words[0] in getattr(command, "commands", {}):
        command, words = command.commands[words[0]], words[1:]
    with command.make_context(
        "glassformer", list(words)
    ) as context:  # parses without running; a bad option raises
        assert not context.args


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize(
    "recipe", sorted((ROOT / "recipes").glob("*.yaml")), ids=lambda path: path.stem
)
def test_a_recipe_parses(recipe):
    assert read_recipe(recipe).model.d_model > 0
