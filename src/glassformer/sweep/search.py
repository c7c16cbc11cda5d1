"""The next trial of a search, by Optuna's sampler (a tree-structured Parzen estimator).

It is a function of the seed, the number of the trial and the trials before it, so a search that was
killed goes on as if it had not been.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from glassformer.errors import ConfigError
from glassformer.sweep.space import Axis, Changes, Choices, Space
from glassformer.sweep.state import Sweep, Trial

STARTUP = 8
"""Trials that are drawn at random before the sampler follows their scores."""


def library() -> Any:
    """Optuna; ConfigError: it is not installed."""
    try:
        return import_module("optuna")
    except ImportError:
        raise ConfigError(
            "--trials needs Optuna; run pip install 'glassformer[sweep]', or give lists of values "
            "without --trials."
        ) from None


def proposed(space: Space, sweep: Sweep, number: int, seed: int) -> Changes:
    """The values of trial `number`, by those before it."""
    optuna = library()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    axes = {axis.field: _distribution(optuna, axis) for axis in space.axes}
    sampler = optuna.samplers.TPESampler(seed=seed + number, n_startup_trials=STARTUP)
    direction = "maximize" if sweep.higher_is_better else "minimize"
    study = optuna.create_study(sampler=sampler, direction=direction)
    study.add_trials(_told(optuna, sweep.trials[:number], space, axes))
    drawn = study.ask(axes).params
    return {
        axis.field: drawn[axis.field] if isinstance(axis, Choices) else axis.text(drawn[axis.field])
        for axis in space.axes
    }


def _distribution(optuna: Any, axis: Axis) -> Any:
    if isinstance(axis, Choices):
        return optuna.distributions.CategoricalDistribution(axis.values)
    if axis.whole:
        low, high = round(axis.low), round(axis.high)
        return optuna.distributions.IntDistribution(low, high, log=axis.log)
    return optuna.distributions.FloatDistribution(axis.low, axis.high, log=axis.log)


def _told(optuna: Any, trials: Sequence[Trial], space: Space, axes: Mapping[str, Any]) -> list[Any]:
    """Trials as Optuna has them; a text of four digits may lie just outside of its range."""
    found, states = [], optuna.trial.TrialState
    for trial in trials:
        values: dict[str, Any] = dict(trial.changes)
        for axis in space.axes:
            if not isinstance(axis, Choices):
                value = min(max(float(values[axis.field]), axis.low), axis.high)
                values[axis.field] = round(value) if axis.whole else value
        if trial.over and trial.score is not None:
            done = trial.status == "done"
            made = optuna.trial.create_trial(
                state=states.COMPLETE if done else states.PRUNED,
                params=values,
                distributions=dict(axes),
                value=trial.score if done else None,
                intermediate_values={trial.step: trial.score},
            )
            found.append(made)
    return found
