"""docs/notes.md is true: its names exist, and nothing that is verified is missing from it."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from glassformer.verify.row import claims
from glassformer.verify.rows_notes import cases, field_text
from verify.models import noted

PAGE = (Path(__file__).parents[2] / "docs" / "notes.md").read_text(encoding="utf-8")
NAMES = sorted(set(re.findall(r"`(glassformer(?:\.\w+)+)`", PAGE)))


def resolve(name):
    """The module, function or class of a dotted name."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:cut]))
        except ModuleNotFoundError as error:
            if error.name is None or not ".".join(parts[:cut]).startswith(error.name):
                raise
            continue
        for attribute in parts[cut:]:
            found = getattr(found, attribute)
        return found
    raise ModuleNotFoundError(name)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_exists(name):
    assert resolve(name) is not None


def test_a_name_that_does_not_exist_is_noticed():
    with pytest.raises(AttributeError):
        resolve("glassformer.layers.norm.no_such_norm")


@pytest.mark.parametrize("name", sorted({line["function"] for line in claims().values()}))
def test_the_function_of_every_claim_exists(name):
    assert callable(resolve(f"glassformer.{name}"))


def test_every_equation_has_a_line():
    numbers = set(re.findall(r"^\| (\d+) \|", PAGE, flags=re.MULTILINE))
    assert numbers == {str(number) for number in range(1, 20)}


def test_every_function_that_is_verified_is_on_the_page():
    assert {row.function for row in noted()} <= set(NAMES)


def test_every_reading_is_on_the_page_as_it_is_written_in_a_recipe():
    hidden = ("architecture", "head", "n_classes", "n_buckets", "max_distance")
    for name, fields in cases().items():
        if claims()[name]["equation"].startswith("reading: "):
            text = field_text({key: value for key, value in fields.items() if key not in hidden})
            assert f"`{text}`" in PAGE, name
