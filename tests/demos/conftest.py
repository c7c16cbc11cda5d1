"""What demos run with a few steps share."""

import socket

import pytest

from glassformer.demos import demo
from glassformer.recipe import read_recipe


@pytest.fixture
def quick(monkeypatch):
    """No network, and float32, since bfloat16 is slow for small models on some machines."""

    def refuse(*arguments, **options):
        raise AssertionError("the demo opened a socket")

    monkeypatch.setattr(socket, "socket", refuse)
    change = "train.precision=float32"
    monkeypatch.setattr(
        demo, "read_recipe", lambda path, changes: read_recipe(path, [*changes, change])
    )
