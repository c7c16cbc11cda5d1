"""Scores and samples of a model between its training steps, and which checkpoint is the best."""

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from glassformer.core.errors import ElsewhereError, GlassformerError, TrainingError, printable
from glassformer.metrics.scores import SCORES
from glassformer.models.transformer import Transformer
from glassformer.training.folder.checkpoints import Checkpoints, State
from glassformer.training.folder.history import evaluations
from glassformer.training.folder.model_card import Origin
from glassformer.training.folder.model_files import export
from glassformer.training.folder.models import fill_mean, model_to_fill
from glassformer.training.folder.saving import Saving
from glassformer.training.loop.setup import SetUp

SHOWN = {name: score.form for name, score in SCORES.items() if score.logged}
"""Scores that are shown after the loss."""
REMEDY = (
    "Try a lower train.optimizer.learning_rate, more train.schedule.warmup_steps or "
    "train.precision=float32."
)


class Validation:
    """Evaluations of one run; `scores` are those of the last one.

    `whole` returns the model with all of its weights. All processes call each method.
    """

    def __init__(self, own: SetUp, saving: Saving, whole: Callable[[], Transformer]):
        self.task, self.machine, self.processes = own.task, own.machine, own.processes
        self.config, self.saving, self.whole = own.task.recipe.train, saving, whole
        self.checkpoints, self.history, self.say = saving.checkpoints, saving.history, saving.say
        self.scores = next((one.scores for one in reversed(evaluations(self.history.lines))), {})

    def evaluate(self, state: State) -> tuple[State, bool]:
        """Score the validation split; return the new state, and whether it is the best so far.
        Without such a split, False."""
        begin = time.perf_counter()
        scores = self.task.objective.scores(self.whole(), self.machine.precision, self.processes)
        if scores is None:
            return state, False
        if not math.isfinite(scores["loss"]):
            why = f"After step {state.step} the validation loss is {scores['loss']}"
            raise failure(why, self.checkpoints)
        self.scores, better = scores, self._is_better(scores, state)
        state = replace(state, seconds=state.seconds + time.perf_counter() - begin)
        if better:
            best = scores[self.config.evaluate.best]
            state = replace(state, best_step=state.step, best_score=best)
        self._log(f"step {state.step}", scores, state, better)
        return state, better

    def average(self, state: State, origin: Origin) -> State:
        """Try the mean of the last checkpoints as the final model; it is taken if it scores better
        than the best. Return the new state."""
        done = any(  # before this run was resumed
            "averaged" in line for line in self.history.lines if line["step"] == state.step
        )
        steps = self.processes.from_first(lambda: [] if done else self.checkpoints.regular())
        steps = steps[-self.config.save.average_checkpoints :]
        if not steps:
            return state
        run = self.saving.run
        mean = model_to_fill(self.task.recipe, run, state.base, self.machine.device)
        self.processes.each(lambda: fill_mean(self.checkpoints, steps, mean))
        scores = self.task.objective.scores(mean, self.machine.precision, self.processes)
        better = scores is None or self._is_better(scores, state)
        if better:
            self.scores = scores or {}
            state = replace(state, best_score=self.scores.get(self.config.evaluate.best))
            origin = replace(origin, averaged=tuple(steps))
            given = mean, self.task, run, state.step, self.scores, origin
            self.processes.from_first(lambda: export(*given))
        if scores is not None:
            what = f"mean of the checkpoints at {', '.join(map(str, steps))}"
            self._log(what, scores, state, better, averaged=steps, averaged_taken=better)
        else:
            self.history.add(step=state.step, averaged=steps, averaged_taken=better)
        return state

    def _is_better(self, scores: dict[str, Any], state: State) -> bool:
        best, now = state.best_score, scores[self.config.evaluate.best]
        if best is None:
            return True
        return now > best if SCORES[self.config.evaluate.best].higher_is_better else now < best

    def _log(
        self, what: str, scores: dict[str, Any], state: State, better: bool, **values: Any
    ) -> None:
        named = {f"validation_{name}": value for name, value in scores.items()}
        self.history.add(step=state.step, seconds=round(state.seconds, 3), **named, **values)
        shown = [f"{name} {scores[name]:{how}}" for name, how in SHOWN.items() if name in scores]
        best = " (best so far)" if better else ""
        self.say(
            f"{what}: validation loss {scores['loss']:.4f}{best}{''.join(f', {s}' for s in shown)}"
        )
        self.saving.report()

    def sample(self, step: int) -> None:
        """Show a text or a prediction of the model."""
        model = self.whole()
        self.processes.from_first(lambda: self._write_sample(model, step))

    def _write_sample(self, model: Transformer, step: int) -> None:
        try:
            sample = self.task.objective.sample(model)
        except GlassformerError as error:  # a sample is not worth losing a run
            self.say(f"no sample at step {step}: {error}")
            return
        if sample is None:
            return
        self.history.add(step=step, **sample.values)
        shown = printable(sample.text.strip()).replace("\n", "\n    ")
        self.say(f"    {shown}\n")


def failure(why: str, checkpoints: Checkpoints) -> GlassformerError:
    """Return the error of a run that cannot continue; all processes raise it, the first reports
    it."""
    if not checkpoints.processes.first:
        return ElsewhereError(TrainingError.exit_code)
    steps = checkpoints.steps()
    last = "none was saved before"
    if steps:
        last = f"the last good checkpoint is {checkpoints.path(steps[-1])}"
    return TrainingError(f"{why}; {last}. {REMEDY}")
