"""Checkpoints of a run: whole or not there, found by looking, checked before they are trusted.

    RUN/checkpoints/step-00000400/   model.safetensors  optimizer.safetensors  state.json
                                     manifest.json
    RUN/checkpoints/best.json        which step has the best validation score (a hint)
    RUN/checkpoints/.quarantine/     damaged checkpoints, and the reason beside each

The weights are those that are trained. Where others are not, the run keeps them once, in
RUN/base.safetensors, and each state has the SHA-256 of that file.

The state is small: everything else is a function of (seed, step).
"""

import re
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from torch import Tensor, no_grad

from glassformer.errors import CheckpointError, ConfigError
from glassformer.files import (
    check_room,
    make_folder,
    patiently,
    read_json,
    remove_folder,
    sweep,
    sync,
    write_json,
    write_text,
    writing,
)
from glassformer.manifest import difference, new_folder
from glassformer.models.transformer import Transformer
from glassformer.models.weights import load_tensors, load_trained, save_tensors, save_trained
from glassformer.recipe.train import SaveConfig
from glassformer.training.retention import kept

STEP_FOLDER = re.compile(r"step-(\d{8,})")
BEST, QUARANTINE = "best.json", ".quarantine"
WEIGHTS = "model.safetensors"
FILES = (WEIGHTS, "optimizer.safetensors", "state.json")


@dataclass(frozen=True)
class State:
    """What resuming needs beside tensors and the recipe; `data` is the fingerprint of the tokens
    trained on, `base` the SHA-256 of RUN/base.safetensors.

    A step `between` two saves was saved because the run was stopped there: it goes with the next
    one, so that stopping changes nothing of what is kept and averaged.
    """

    step: int
    data: str
    tokens: int = 0
    seconds: float = 0.0
    best_step: int | None = None
    best_score: float | None = None
    base: str | None = None
    between: bool = False


class Checkpoints:
    """The checkpoints of one run folder."""

    def __init__(self, run: Path, keep: SaveConfig | None = None):
        self.folder, self.keep = run / "checkpoints", keep or SaveConfig()

    def steps(self) -> list[int]:
        """The steps that have a folder, in order."""
        if not self.folder.is_dir():
            return []
        found = (STEP_FOLDER.fullmatch(entry.name) for entry in self.folder.iterdir())
        return sorted(int(match[1]) for match in found if match)

    def path(self, step: int) -> Path:
        """The folder of a step."""
        return self.folder / f"step-{step:08d}"

    def weights(self, step: int) -> Path:
        """The weights of a step, as they were saved.

        ConfigError: there is no such step, and which there are; CheckpointError: they are damaged.
        """
        if step not in (steps := self.steps()):
            there = f"it has {', '.join(map(str, steps))}" if steps else "it has none"
            raise ConfigError(
                f"There is no checkpoint of step {step} in {self.folder.parent}; {there}."
            )
        self.check(step, only=[WEIGHTS])
        return self.path(step) / WEIGHTS

    def check(self, step: int, only: Collection[str] | None = None) -> None:
        """Raise CheckpointError unless the files of a step (None: all) are as they were saved."""
        if found := difference(self.path(step), FILES, only, alone=only is None):
            raise CheckpointError(f"{found}; the checkpoint is damaged.")

    def save(self, model: Transformer, optimizer: dict[str, Tensor], state: State) -> None:
        """Write a checkpoint as one step; once nothing can undo it, let go of those that are not
        to be kept.

        CheckpointError: it cannot be written; those before are as they were.
        """
        path = self.path(state.step)
        tensors = [*optimizer.values(), *(p for p in model.parameters() if p.requires_grad)]
        with writing(path):
            make_folder(self.folder)
            check_room(self.folder, sum(one.nbytes for one in tensors), path)
        with new_folder(path) as folder:
            save_trained(model, folder / WEIGHTS)
            save_tensors(optimizer, folder / "optimizer.safetensors")
            write_json(folder / "state.json", asdict(state))
        with suppress(OSError, CheckpointError):  # it is tried again after the next save
            self._tidy(state)

    def regular(self, newest: int | None = None) -> list[int]:
        """The steps up to `newest` that a run has that was never stopped."""
        steps = [step for step in self.steps() if newest is None or step <= newest]
        return [step for step in steps if step == newest or not self._is_between(step)]

    def _is_between(self, step: int) -> bool:
        try:
            return self.state(step).between
        except CheckpointError:
            return False

    def _tidy(self, state: State) -> None:
        self.sweep()  # what a refused removal left
        if state.best_step is not None:
            write_json(self.folder / BEST, {"step": state.best_step, "score": state.best_score})
        keep = kept(self.regular(state.step), self.keep, state.best_step)
        for step in self.steps():
            if step not in keep:
                remove_folder(self.path(step))

    def sweep(self) -> None:
        """Remove what a trainer that was killed while saving left behind."""
        sweep(self.folder, lambda name: name == BEST or bool(STEP_FOLDER.fullmatch(name)))

    def first(self, resume: bool, data: str, say: Callable[[str], None]) -> State:
        """Where the newest whole checkpoint stands, or the beginning; ConfigError: it is of other
        data."""
        if not (resume and self.steps()):
            return State(0, data)
        state, passed = self.newest()
        if state.data != data:
            raise ConfigError(
                f"The content of data.train.path is not what {self.folder.parent} was trained on; "
                "restore it or choose another --run."
            )
        for step, reason in passed.items():
            say(f"passed over: {reason} It is kept as {self._quarantine(step, reason)}.")
        return replace(state, between=False)

    def _quarantine(self, step: int, reason: str) -> Path:
        """Put a damaged checkpoint where it is none, the reason beside it."""
        folder, number = self.folder / QUARANTINE, 1
        while (place := folder / f"{self.path(step).name}-{number}").exists():
            number += 1
        with writing(place):
            make_folder(folder)
            write_text(place.with_suffix(".txt"), f"{reason}\n")
            patiently(partial(self.path(step).rename, place))
            sync(folder)
            sync(self.folder)
        return place

    def newest(self) -> tuple[State, dict[int, str]]:
        """The newest whole checkpoint's state, and a sentence for each newer one that had to be
        passed over.

        CheckpointError if there is none.
        """
        passed: dict[int, str] = {}
        for step in reversed(self.steps()):
            try:
                self.check(step)
                return self.state(step), passed
            except CheckpointError as error:
                passed[step] = str(error)
        reason = f" ({next(iter(passed.values()))})" if passed else ""
        raise CheckpointError(
            f"{self.folder} holds no whole checkpoint{reason}; train without --resume in a new "
            f"folder."
        )

    def state(self, step: int) -> State:
        """The state of a step."""
        path = self.path(step) / "state.json"
        try:
            state = State(**read_json(path))
        except (OSError, ValueError, TypeError):
            raise CheckpointError(f"{path} is not readable; the checkpoint is damaged.") from None
        if state.step != step:
            raise CheckpointError(f"{path} is of step {state.step}; the folder was renamed.")
        return state

    def load(self, step: int, model: Transformer) -> dict[str, Tensor]:
        """Fill what is trained of the model from a step's checkpoint; returns the optimizer's
        tensors."""
        load_trained(model, self.path(step) / WEIGHTS)
        return load_tensors(self.path(step) / "optimizer.safetensors")

    def load_mean(self, steps: list[int], model: Transformer) -> None:
        """Fill what is trained of the model with the mean of several steps, added up in float64;
        CheckpointError: one of them is damaged."""
        trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        totals: dict[str, Tensor] = {}
        for step in steps:
            load_trained(model, self.weights(step))
            for name, parameter in trained.items():
                value = parameter.detach().cpu().double()
                totals[name] = totals[name].add_(value) if name in totals else value.clone()
        with no_grad():
            for name, parameter in trained.items():
                parameter.copy_((totals[name] / len(steps)).to(parameter.dtype))
