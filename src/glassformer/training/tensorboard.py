"""TensorBoard as a listener of training: an example for other trackers."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError
from glassformer.training.history import Listener


@contextmanager
def tensorboard(run: Path) -> Iterator[Listener]:
    """Write the numbers of every line as TensorBoard's events into the run folder; steps that come
    again replace what was written of them. ConfigError: TensorBoard is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ConfigError(
            "train.tensorboard needs TensorBoard; run pip install 'glassformer[track]'."
        ) from None
    writers: list[SummaryWriter] = []

    def listen(line: Mapping[str, Any]) -> None:
        step = line["step"]
        if not writers:
            writers.append(SummaryWriter(str(run / "tensorboard"), purge_step=step))
        for name, value in line.items():
            if name != "step" and isinstance(value, int | float):
                group, _, rest = name.partition("_")
                ours = group if group == "validation" else "train"
                shown = rest if group == ours else name
                writers[0].add_scalar(f"{ours}/{shown}", value, step)

    try:
        yield listen
    finally:
        for writer in writers:
            writer.close()
