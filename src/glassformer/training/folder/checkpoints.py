"""Checkpoints of a run: whole or not there, found by looking, checked before they are trusted.

    RUN/checkpoints/step-00000400/   model.safetensors  optimizer.safetensors  state.json
                                     manifest.json
                                     of a divided model, files of parts: see `part_files`
    RUN/checkpoints/best.json        which step has the best validation score (a hint)
    RUN/checkpoints/.quarantine/     damaged checkpoints, and the reason beside each

The weights are those that are trained. Where others are not, the run keeps them once, in
RUN/base.safetensors, and each state has the SHA-256 of that file.

The state is small: everything else is a function of (seed, step).
"""

import re
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from glassformer.core.distributed.processes import ALONE, Processes
from glassformer.core.errors import CheckpointError, ConfigError
from glassformer.core.files import (
    make_folder,
    read_json,
    remove_folder,
    sweep,
    sync,
    write_json,
    write_text,
    writing,
)
from glassformer.core.manifest import (
    NAME,
    Entry,
    begin_folder,
    difference,
    digest,
    drop_folder,
    end_folder,
    entries,
    temporary_of,
)
from glassformer.recipe.train import SaveConfig
from glassformer.training.folder.part_files import Part, part_files

STEP_FOLDER = re.compile(r"step-(\d{8,})")
BEST, QUARANTINE = "best.json", ".quarantine"
WEIGHTS, OPTIMIZER, STATE = "model", "optimizer", "state.json"
"""The stems of the files of tensors, and the state."""


@dataclass(frozen=True)
class State:
    """State of a run beside tensors and the recipe; `data` is the fingerprint of the tokens trained
    on, `base` the SHA-256 of RUN/base.safetensors.

    A step `between` two saves was saved because the run was stopped there: the next save removes
    it, so that stopping changes nothing of what is kept and averaged.
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

    def __init__(self, run: Path, keep: SaveConfig | None = None, processes: Processes = ALONE):
        """`processes`: those that save together."""
        self.folder, self.keep = run / "checkpoints", keep or SaveConfig()
        self.processes = processes

    def steps(self) -> list[int]:
        """Return the steps that have a folder, in order."""
        if not self.folder.is_dir():
            return []
        found = (STEP_FOLDER.fullmatch(entry.name) for entry in self.folder.iterdir())
        return sorted(int(match[1]) for match in found if match)

    def path(self, step: int) -> Path:
        """Return the folder of a step."""
        return self.folder / f"step-{step:08d}"

    def weights(self, step: int) -> list[Path]:
        """Return the files of the weights of a step.

        ConfigError: there is no such step, and which there are; CheckpointError: they are damaged.
        """
        self._check_there(step)
        return self.files(step, WEIGHTS)

    def seal(self, step: int) -> str:
        """Return the SHA-256 of the manifest of a step. ConfigError: there is no such step."""
        self._check_there(step)
        return digest(self.path(step) / NAME)

    def _check_there(self, step: int) -> None:
        if step not in (steps := self.steps()):
            there = f"it has {', '.join(map(str, steps))}" if steps else "it has none"
            raise ConfigError(
                f"There is no checkpoint of step {step} in {self.folder.parent}; {there}."
            )

    def files(self, step: int, stem: str) -> list[Path]:
        """Return files of a step; CheckpointError: they are missing, or not as they were saved."""
        files = part_files(self.path(step), stem)
        names = [file.name for file in files]
        _raise(difference(self.path(step), names, only=names))
        return files

    def check(self, step: int) -> None:
        """Raise CheckpointError unless the files of a step are as they were saved."""
        _raise(difference(self.path(step), [STATE]))
        for stem in (WEIGHTS, OPTIMIZER):
            part_files(self.path(step), stem)

    def save(self, weights: Part | None, optimizer: Part | None, state: State) -> None:
        """Write a checkpoint as one step, each process its parts; once nothing can undo it, remove
        those that are not to be kept.

        CheckpointError: one of the processes cannot write it; those before are unchanged.
        """
        path, own = self.path(state.step), {WEIGHTS: weights, OPTIMIZER: optimizer}
        parts = {stem: part for stem, part in own.items() if part is not None}
        of = self.processes
        try:
            of.from_first(partial(self._begin, path))
            written = of.each(partial(_write, path, parts, state if of.first else None))
            of.from_first(partial(self._end, path, written, state))
        finally:
            if of.first:
                drop_folder(path)

    def _begin(self, path: Path) -> None:
        with writing(path):
            make_folder(self.folder)
            begin_folder(path)

    def _end(self, path: Path, written: Sequence[dict[str, list[Entry]]], state: State) -> None:
        files = {name: entry for own in written for name, entry in own.items()}
        with writing(path):
            for name in files:
                if not (temporary_of(path) / name).is_file():
                    raise CheckpointError(
                        f"Cannot write {path}: another process wrote {name}, which is not seen "
                        "here; choose a folder that all processes share."
                    )
            end_folder(path, files)
        with suppress(OSError, CheckpointError):  # it is tried again after the next save
            self._tidy(state)

    def regular(self, newest: int | None = None) -> list[int]:
        """Return the steps up to `newest` without those at which a run was stopped."""
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
        keep = to_keep(self.regular(state.step), self.keep, state.best_step)
        for step in self.steps():
            if step not in keep:
                remove_folder(self.path(step))

    def sweep(self) -> None:
        """Remove the unfinished files of a trainer that was killed while saving."""
        sweep(self.folder, lambda name: name == BEST or bool(STEP_FOLDER.fullmatch(name)))

    def first(
        self, resume: bool, data: str, say: Callable[[str], None], named: int | None = None
    ) -> State:
        """Return the state of the newest whole checkpoint, of the one of the step that is `named`,
        or of the beginning; ConfigError: it is of other data, or there is none of that step."""
        if named is not None:
            self._check_there(named)
            self.check(named)
            state, passed = self.state(named), {}
        elif resume and self.steps():
            state, passed = self.newest()
        else:
            return State(0, data)
        if state.data != data:
            raise ConfigError(
                f"The content of data.train.path is not what {self.folder.parent} was trained on; "
                "restore it or choose another --run."
            )
        for step, reason in passed.items():
            say(f"passed over: {reason} It is kept as {self._quarantine(step, reason)}.")
        return replace(state, between=False)

    def go_on_from(self, step: int) -> None:
        """Remove the checkpoints after a step, the newest first: a run that is killed meanwhile can
        still continue."""
        with writing(self.folder):
            for later in reversed(self.steps()):
                if later > step:
                    remove_folder(self.path(later))

    def _quarantine(self, step: int, reason: str) -> Path:
        """Move a damaged checkpoint out of the way, the reason beside it."""
        folder, number = self.folder / QUARANTINE, 1
        while (place := folder / f"{self.path(step).name}-{number}").exists():
            number += 1
        with writing(place):
            make_folder(folder)
            write_text(place.with_suffix(".txt"), f"{reason}\n")
            self.path(step).rename(place)
            sync(folder)
            sync(self.folder)
        return place

    def newest(self) -> tuple[State, dict[int, str]]:
        """Return the state of the newest whole checkpoint, and a sentence for each newer one that
        had to be passed over.

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
        """Return the state of a step."""
        path = self.path(step) / STATE
        try:
            state = State(**read_json(path))
        except (OSError, ValueError, TypeError):
            raise CheckpointError(f"{path} is not readable; the checkpoint is damaged.") from None
        if state.step != step:
            raise CheckpointError(f"{path} is of step {state.step}; the folder was renamed.")
        return state


def _write(path: Path, parts: dict[str, Part], state: State | None) -> dict[str, list[Entry]]:
    """Write the files of this process, and return their sizes and SHA-256."""
    folder = temporary_of(path)
    names = [part.save(folder, stem).name for stem, part in parts.items()]
    if state is not None:
        write_json(folder / STATE, asdict(state))
        names.append(STATE)
    with writing(path):
        return entries(folder, names)


def _raise(found: str | None) -> None:
    if found is not None:
        raise CheckpointError(f"{found}; the checkpoint is damaged.")


def to_keep(steps: Collection[int], save: SaveConfig, best: int | None = None) -> set[int]:
    """Return the steps to keep: the last ones, the best, and older ones by `keep_every` and
    `keep_thinned`."""
    keep = {*sorted(steps)[-save.keep_last :], best}
    if save.keep_every is not None:
        keep |= {step for step in steps if step % save.keep_every == 0}
    if save.keep_thinned:
        keep |= thin(steps, save.every)
    return {step for step in steps if step in keep}


def thin(steps: Collection[int], every: int) -> set[int]:
    """Return the multiples of `every` that are younger than twice their largest power of two times
    `every`.

    With the newest step n, s = k every is kept while n - s < 2 every (k & -k). So a step that is
    removed is never missed later, and of each age a up to n / 3 there is one between a and 3 a.
    """
    newest = max(steps, default=0)
    return {
        step
        for step in steps
        if step % every == 0 and newest - step < 2 * every * (step // every & -(step // every))
    }
