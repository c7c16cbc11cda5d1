"""Demos with few data and few steps."""

import socket

import pytest

from glassformer.demos import audio, catalog, classify, shapes, tag, translate, vision, vqa
from glassformer.recipe import read_recipe

FEW = {"train": 60, "validation": 8, "test": 40}


@pytest.fixture
def few(monkeypatch):
    """Little data, tiny models, no network, and float32, since bfloat16 is slow for small models
    on some machines."""

    def refuse(*arguments, **options):
        raise AssertionError("the demo opened a socket")

    def small(path, changes):
        sizes = ["model.d_model=16", "model.n_layers=1", "model.n_heads=2", "train.batch_size=8"]
        sizes = [] if path.stem in ("tag", "classify") else sizes
        return read_recipe(path, [*changes, *sizes, "train.precision=float32"])

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(catalog, "read_recipe", small)
    monkeypatch.setattr(vqa, "CARDS", 3)
    monkeypatch.setattr(shapes, "DRAWN_COUNTS", FEW)
    for module in (audio, classify, shapes, tag, translate, vision):
        monkeypatch.setattr(module, "COUNTS", FEW)
