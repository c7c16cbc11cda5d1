"""Freed memory is kept, where the C library can be asked to."""

import ctypes
import sys
import types

import pytest

from glassformer.training import memory


def test_is_accepted_by_this_c_library():
    known = sys.platform.startswith("linux") and hasattr(ctypes.CDLL(None), "gnu_get_libc_version")
    assert memory.keep_freed_memory() is known


@pytest.mark.parametrize("problem", [OSError, AttributeError])
def test_elsewhere_it_does_nothing_and_says_so(monkeypatch, problem):
    def missing(name):
        if problem is OSError:
            raise OSError
        return types.SimpleNamespace()

    monkeypatch.setattr(memory.ctypes, "CDLL", missing)
    assert memory.keep_freed_memory() is False


def test_a_refused_option_is_reported(monkeypatch):
    asked = []

    def mallopt(option, value):
        asked.append((option, value))
        return int(option != memory.TOP_PAD)

    monkeypatch.setattr(memory.sys, "platform", "linux")
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: types.SimpleNamespace(mallopt=mallopt))
    assert memory.keep_freed_memory() is False
    assert len(asked) == 3
    assert all(value < 2**31 for _, value in asked)  # a C int
