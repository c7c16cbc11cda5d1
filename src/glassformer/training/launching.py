"""Several processes on this machine that train together, started by torchrun's own agent."""

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from glassformer.signals import TERMINATED


def launch(arguments: Sequence[str], processes: int, restarts: int = 0) -> int:
    """Run `glassformer` with these arguments in so many processes; its exit code.

    The processor's cores are divided among them, unless OMP_NUM_THREADS says otherwise. If one of
    them fails, all are started again, at most `restarts` times, and go on from the last checkpoint.
    """
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    with TemporaryDirectory(prefix="glassformer-") as logs, _quiet(), _threads(processes):
        config = LaunchConfig(
            *(1, 1, processes),
            run_id="glassformer",
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",
            max_restarts=restarts,
            monitor_interval=0.1,
            logs_specs=DefaultLogsSpecs(log_dir=logs),
        )
        started = elastic_launch(config, sys.executable)
        try:
            started("-m", "glassformer", *arguments)
        except SignalException as stop:
            return 128 + stop.sigval
        except ChildFailedError as failed:
            return _code([one.exitcode for one in failed.failures.values()])
    return 0


@contextmanager
def _quiet() -> Iterator[None]:
    """Nothing of the agent's log: the processes say themselves what there is to say."""
    before = logging.root.manager.disable
    logging.disable()
    try:
        yield
    finally:
        logging.disable(before)


@contextmanager
def _threads(processes: int) -> Iterator[None]:
    """Each process gets its share of the cores, unless the environment says otherwise."""
    name = "OMP_NUM_THREADS"
    if name in os.environ:
        yield
        return
    os.environ[name] = str(max(1, (os.cpu_count() or 1) // processes))
    try:
        yield
    finally:
        del os.environ[name]


def _code(codes: Sequence[int]) -> int:
    """The exit code for those of processes that failed; who was killed by a signal is told of.

    The agent ends the others by SIGTERM when one has failed.
    """
    own = [code for code in codes if code != -TERMINATED] or codes
    if (killed := min(own)) < 0:
        sys.stderr.write(
            f"glassformer: a process was killed by signal {-killed}; go on with --resume.\n"
        )
        return 128 - killed
    return max(own)
