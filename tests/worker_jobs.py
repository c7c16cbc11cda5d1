"""Functions for workers, beside those that render chat templates."""

import os
import sys

from glassformer.core.errors import DataError
from glassformer.processors.tokens import template_rendering as template_rendering


def modules():
    return sorted(sys.modules)


def number(*_):
    return os.getpid()


def spin():
    while True:
        pass


def grow():
    return len(bytearray(1 << 30))


def leave():
    os._exit(3)


def refuse():
    raise DataError("no such thing")
