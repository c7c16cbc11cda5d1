"""The commands and overrides of the README, the pages and the recipes are understood, links lead
somewhere, and recipes parse."""

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from glassformer.cli.main import app
from glassformer.recipe.named import FOLDER, is_name, recipe_file, recipe_names
from glassformer.recipe.recipe import SECTIONS, Recipe, read_recipe

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
RECIPES = sorted(FOLDER.glob("*.yaml"))
DEFAULT = FOLDER / "lm.yaml"
OVERRIDE = re.compile(rf"(?:{'|'.join(SECTIONS)})(?:\.\w+)+=(?:'[^']*'|[^\s']*[^\s',:;.])")
OWN_DATA = "Your own"
TAKES_RECIPE = ("train", "plan", "tokenize", "show")
NAMES = "|".join(sorted(recipe_names(), key=len, reverse=True))
NAMED = re.compile(rf"(?:recipes/|(?:{'|'.join(TAKES_RECIPE)}) )({NAMES})\b|`([^`\n]+)`")


def head(recipe: Path) -> list[str]:
    """The comment at the head of a recipe; what goes on in the next line is joined."""
    comment = re.match(r"(?:#.*\n)+", recipe.read_text())
    assert comment, f"{recipe} has no comment at its head"
    whole = re.sub(r"\\\n#\s*|(?<=:)\n#(?=\s+[\w.]+=)", "", comment[0])
    return [line.removeprefix("#").strip() for line in whole.splitlines()]


def page_lines(page: Path) -> list[str]:
    """The lines of a page, a command in one line."""
    return re.sub(r"\\\n\s*", "", page.read_text()).splitlines()


def commands() -> list[list[str]]:
    lines = [line for page in PAGES for line in page_lines(page)]
    lines += [line for recipe in RECIPES for line in head(recipe)]
    found = [re.match(r"(?:echo .*\| )?(glassformer .*)$", line) for line in lines]
    printed = dict.fromkeys(match[1] for match in found if match)
    return [shlex.split(re.split("  +#| [<>] ", line)[0])[1:] for line in printed]


def overrides(text: str) -> list[str]:
    return [shlex.split(one)[0] for one in OVERRIDE.findall(text)]


def printed_overrides() -> dict[str, tuple[Path, list[str]]]:
    """Every list of overrides with its recipe, by where it stands: of a command, of a code span of
    a page (for the recipe that the page named last), and of a line at a recipe's head."""
    found = {}
    for words in commands():
        for number, word in enumerate(words):
            if is_name(word) and number and words[number - 1] in TAKES_RECIPE:
                given = [one for one in words[number + 1 :] if re.match(r"[\w.]+=", one)]
                found[" ".join(words)] = recipe_file(word), given
    for page in PAGES:
        recipe = DEFAULT
        for name, span in re.findall(NAMED, page.read_text()):
            recipe = recipe_file(name) if name else recipe
            if given := overrides(span):
                found[f"{page.name}: {span}"] = recipe, given
    for recipe in RECIPES:
        for line in head(recipe):
            if (given := overrides(line)) and "glassformer" not in line:
                found[f"{recipe.name}: {line}"] = recipe, given
    return found


def files(recipe: Recipe, split: str) -> list[object]:
    """Everything by which a split names files."""
    of = recipe.data.splits[split]
    return [value for value in (of.path, of.targets, of.labels, *of.parts) if value]


def test_there_are_commands_and_overrides_to_check():
    assert len(commands()) >= 60
    printed = printed_overrides()
    assert len(printed) >= 50
    own = [f"{recipe.name}: {line}" for recipe in RECIPES for line in head(recipe)]
    assert all(where in printed for where in own if OWN_DATA in where)


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_a_printed_command_is_understood(words):
    command = get_command(app)
    while words and words[0] in getattr(command, "commands", {}):
        command, words = command.commands[words[0]], words[1:]
    with command.make_context(
        "glassformer", list(words)
    ) as context:  # parses without running; a bad option raises
        assert not context.args


@pytest.mark.parametrize("where", printed_overrides(), ids=str)
def test_printed_overrides_give_a_recipe(where):
    """No data are read: unknown fields, bad values and contradictions raise here. What is said for
    a reader's own data must leave no file of the recipe's data set."""
    path, given = printed_overrides()[where]
    own = read_recipe(path, given)
    if OWN_DATA in where:
        original = read_recipe(path)
        for split in original.data.splits:
            kept = [file for file in files(own, split) if file in files(original, split)]
            assert not kept, f"data.{split} still names {kept}"
        assert own.data.class_names == ()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_parses(recipe):
    assert read_recipe(recipe).model.d_model > 0
