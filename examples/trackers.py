"""Train, and show what training measures in Weights & Biases or MLflow, without a network.

pip install wandb             or mlflow
python examples/trackers.py wandb TEXT RUN
python examples/trackers.py mlflow TEXT RUN
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import glassformer as gf

STEPS = 200


def numbers(line: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a line of metrics.jsonl, without the step."""
    return {
        name: value
        for name, value in line.items()
        if isinstance(value, int | float) and name != "step"
    }


@contextmanager
def wandb_listener(run: Path) -> Iterator[Any]:
    """A listener that writes into RUN-wandb; `wandb sync` sends it when you want it to."""
    import wandb

    folder = run.with_name(f"{run.name}-wandb")
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"project": "glassformer", "name": run.name, "dir": str(folder), "mode": "offline"}
    with wandb.init(**settings) as tracked:
        yield lambda line: tracked.log(numbers(line), step=line["step"])


@contextmanager
def mlflow_listener(run: Path) -> Iterator[Any]:
    """A listener that writes into RUN-mlflow.db, which `mlflow ui --backend-store-uri` shows."""
    import mlflow

    mlflow.set_tracking_uri(f"sqlite:///{run.absolute()}-mlflow.db")
    with mlflow.start_run(run_name=run.name):
        yield lambda line: mlflow.log_metrics(numbers(line), step=line["step"])


LISTENERS = {"wandb": wandb_listener, "mlflow": mlflow_listener}


def main(tracker: str, text: Path, run: Path) -> None:
    changes = {"data.train.path": text, "train.steps": STEPS, "train.evaluate.every": 50}
    with LISTENERS[tracker](run) as listener:
        trained = gf.train("lm", changes, run, listener=listener)
    print(trained.evaluate())


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in LISTENERS:
        sys.exit(__doc__)
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
