"""The model card of a run, `README.md`: what the model is, from what, how good, how to use it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer import __version__
from glassformer.core.errors import amount, plural
from glassformer.data.config import DataConfig
from glassformer.layers.lora import plain_parameters
from glassformer.metrics.scores import NAMES, verdict
from glassformer.models.transformer import Transformer
from glassformer.recipe.train import TrainConfig
from glassformer.tasks.task import Task


@dataclass(frozen=True)
class Origin:
    """Origin of a model beside its task: the fingerprint of its training data, the software and the
    machine, baselines of the validation split, the steps whose weights it is the mean of."""

    data: str
    environment: str
    baselines: dict[str, Any]
    averaged: Sequence[int] = ()


def card(
    model: Transformer, task: Task, run: Path, step: int, scores: dict[str, Any], origin: Origin
) -> str:
    """Return the card in Markdown, with the metadata of the ecosystem."""
    config, train, of = model.config, task.recipe.train, task.objective.card()
    n = sum(value.numel() for _, value in plain_parameters(model))
    mean = f" (mean of the weights of steps {', '.join(map(str, origin.averaged))})"
    return f"""---
library_name: glassformer
pipeline_tag: {task.recipe.task}
tags: [glassformer, transformer, {config.architecture}]
---

# {run.name}

{config.described} with {n:,} \
parameters ({config.depths},
{config.d_model} wide, {amount(config.n_heads, "head")}, context {config.max_length}), \
trained from {_weights(train)}.

- **Data**: {_files(task.recipe.data.train.path)}: {task.feed.extent}; fingerprint \
of the encoded data `{origin.data}`
- **{of.reads}**: {of.tokenizer}
- **Training**: step {step:,} of {train.steps:,}{mean if origin.averaged else ""}, {of.step} a \
step, {train.optimizer.kind}, seed {train.seed};
  every field is in `recipe.yaml`
- **Environment**: glassformer {__version__}, {origin.environment}

## Evaluation on the validation split

{_evaluation(task, scores, origin.baselines)}

## Use

```
{of.use}
```

## Limits

The model repeats the patterns of its training data, their errors and prejudices included; \
what it says is not checked.
The scores hold for data like these: on others, measure them with `glassformer evaluate RUN --data`.
It reads at most {config.max_length:,} {plural(task.processor.unit)} at once.
"""


def _weights(train: TrainConfig) -> str:
    """Name the weights that training began with, and the part of them that it changed."""
    if train.init_from is None:
        return "random weights"
    tuned = train.finetune
    what = "model" if tuned.keep_head else "trunk"
    how = {
        "full": "",
        "lora": f" by LoRA of rank {tuned.rank} on {', '.join(tuned.targets)}",
        "frozen": ", which stayed as it was",
    }
    rounded = " beside weights of 8 bits" if tuned.quantize == "int8" else ""
    return f"the {what} of `{Path(train.init_from).name}`{how[tuned.method]}{rounded}"


def _files(path: str | list[str] | None) -> str:
    paths = path if isinstance(path, list) else [str(path)]
    return ", ".join(f"`{Path(path).name}`" for path in paths)


def _evaluation(task: Task, scores: dict[str, Any], baselines: Mapping[str, Any]) -> str:
    """Return sentences on the scoring, and a table with a column for the model and each
    baseline."""
    plain = {key: value for key, value in scores.items() if isinstance(value, int | float | str)}
    if not plain:
        return "There was no validation split."
    others = baselines.get("scores", {})
    rows = [["score", "this model", *(NAMES[name] for name in others)]]
    rows += [["---"] * len(rows[0])]
    for key, value in plain.items():
        beside = (_cell(own[key]) if key in own else "" for own in others.values())
        rows.append([key.replace("_", " "), _cell(value), *beside])
    said = f"\n\n{verdict(baselines, scores)}" if baselines else ""
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"{' '.join(_scoring(task, bool(others)))}\n\n{table}{said.rstrip()}"


def _scoring(task: Task, beside: bool) -> Iterator[str]:
    """Yield sentences on the scoring."""
    train = task.recipe.train
    yield f"Measured on {_validation(task.recipe.data)}, in {train.precision}."
    if (n := train.evaluate.batches) is not None:
        yield f"Of these, {n:,} batches spread evenly."
    yield from task.objective.explain_scores()
    if beside:
        yield "The baselines learned from the training split and are scored on the same inputs."


def _validation(data: DataConfig) -> str:
    held_out = data.validation
    if held_out.path is not None:
        return _files(held_out.path)
    if held_out.where is not None:
        return f"the files of {_files(data.train.path)} that `data.validation.where` chooses"
    return f"a share of {held_out.fraction:g} of the data, which training never saw"


def _cell(value: int | float | str) -> str:
    if isinstance(value, str):
        return f"`{value}`".replace("|", "\\|")  # as a cell of a table has it
    return f"{value:,.4f}" if isinstance(value, float) else f"{value:,}"
