"""What every test shares: shape checks, hypothesis' profile, threads.

This file must not import glassformer: shapes are checked in what is imported after it
(tests/test_shapes_are_checked.py fails if they are not).
"""

import asyncio
import gc
import os
from pathlib import Path

import hypothesis
import jaxtyping
import pytest
import torch

from checked import once_for_each_combination_of_shapes

SOURCE = Path(__file__).parents[1] / "src"
# Only modules that annotate shapes, and not every call: that took two thirds of the tests' time.
jaxtyping.jaxtyped = once_for_each_combination_of_shapes
jaxtyping.install_import_hook(
    [
        ".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        for file in sorted(SOURCE.rglob("*.py"))
        if "from glassformer.core.axes import" in file.read_text(encoding="utf-8")
    ],
    "checked.checked",
)

pytest_plugins = ["command_line", "fake_ranks", "promise_table", "small_chat"]

hypothesis.settings.register_profile(
    "glassformer",
    derandomize=True,  # the same examples everywhere: a failure in CI is a failure here
    deadline=None,  # the first call of a kernel may take long
    max_examples=25,
    phases=[
        p for p in hypothesis.Phase if p is not hypothesis.Phase.explain
    ],  # it traces every line: 3x slower
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    print_blob=True,
)
hypothesis.settings.register_profile(
    "thorough",
    parent=hypothesis.settings.get_profile("glassformer"),
    derandomize=False,
    max_examples=500,
)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "glassformer"))

# Tiny tensors gain nothing from a second thread, and two threads that wait for each other on a busy
# machine are slow: here, and in the processes that tests start.
torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"
# No test pulls the plug, and waiting for a disk took a third of the time of those that train.
os.fsync = lambda handle: os.fstat(handle) and None


def pytest_collection_finish():
    """Collections of garbage leave out what importing and collecting made: half a second each."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items):
    """A test that trains a whole demo takes minutes, and longer where another one runs beside it."""
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.timeout(1500))


@pytest.fixture(autouse=True)
def _same_numbers_every_time():
    """No test depends on which tests ran before it."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # one test left 2; which one is not known


@pytest.fixture(autouse=True)
def _no_loop_of_others(request):
    """Playwright leaves its event loop running in the thread, and `asyncio.run` refuses a second
    one."""
    loop = asyncio._get_running_loop()
    if loop is None or "browser" in request.fixturenames:
        yield
        return
    asyncio._set_running_loop(None)
    yield
    asyncio._set_running_loop(loop)


@pytest.fixture(scope="module")
def no_grad():
    """For files that only look at outputs."""
    with torch.no_grad():
        yield
