"""Several processes on this machine that train together, started by torchrun's own agent."""

import logging
import os
import sys
import uuid
from collections.abc import Sequence
from tempfile import TemporaryDirectory

from glassformer.core.signals import TERMINATED

SAVING = 600
"""Seconds for a checkpoint after a signal; torch gives 30."""


def launch(arguments: Sequence[str], processes: int, restarts: int = 0) -> int:
    """Run `glassformer` with these arguments in several processes, and return its exit code; this
    process does nothing else.

    The processor's cores are divided among them, unless OMP_NUM_THREADS says otherwise. If one of
    them fails, all are started again, at most `restarts` times, and go on from the last checkpoint.
    """
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // processes)))
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", str(SAVING))
    logging.disable()  # the processes report what happens
    with TemporaryDirectory(prefix="glassformer-") as logs:
        config = LaunchConfig(
            *(1, 1, processes),
            run_id=uuid.uuid4().hex,
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


def _code(codes: Sequence[int]) -> int:
    """The exit code for those of processes that failed; a signal that killed one is reported.

    The agent ends the others by SIGTERM when one has failed.
    """
    own = [code for code in codes if code != -TERMINATED] or codes
    if (killed := min(own)) < 0:
        sys.stderr.write(
            f"glassformer: a process was killed by signal {-killed}; go on with --resume.\n"
        )
        return 128 - killed
    return max(own)
