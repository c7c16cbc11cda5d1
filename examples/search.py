"""Search for a learning rate and a dropout with Optuna; bad trials are stopped early.

pip install optuna
python examples/search.py TEXT FOLDER [TRIALS]
"""

import sys
from pathlib import Path

import optuna

import glassformer as gf

STEPS, EVERY = 200, 50


def main(text: Path, folder: Path, trials: int = 8) -> optuna.Study:
    def loss_of(trial: optuna.Trial) -> float:
        losses = []

        def listener(line: dict) -> None:
            if "validation_loss" in line:
                losses.append(line["validation_loss"])
                trial.report(losses[-1], line["step"])
                if trial.should_prune():
                    raise optuna.TrialPruned

        rate = trial.suggest_float("learning_rate", 1e-4, 1e-1, log=True)
        changes = {
            "data.train.path": text,
            "train.steps": STEPS,
            "train.evaluate.every": EVERY,
            "train.optimizer.learning_rate": rate,
            "model.dropout": trial.suggest_float("dropout", 0.0, 0.3),
        }
        gf.train("lm", changes, folder / f"trial-{trial.number}", listener=listener)
        return min(losses)

    pruner = optuna.pruners.MedianPruner(n_startup_trials=3)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0), pruner=pruner)
    study.optimize(loss_of, n_trials=trials)
    print(f"best: {study.best_params}, validation loss {study.best_value:.4f}")
    print(f"open it with: glassformer inspect {folder / f'trial-{study.best_trial.number}'}")
    return study


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:]))
