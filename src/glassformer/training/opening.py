"""What a run says before its first step: the machine, the model, the data."""

from collections.abc import Iterator

from torch import nn

from glassformer.layers.lora import plain_parameters
from glassformer.tasks.task import Task


def opening(task: Task, machine: str, model: nn.Module) -> Iterator[str]:
    """Sentences on a run that begins or goes on."""
    train = task.recipe.train
    yield f"computing on {machine}"
    every = sum(value.numel() for _, value in plain_parameters(model))
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    some = f"; {trained:,} are trained ({trained / every:.1%})" if train.finetune.partial else ""
    yield f"{every:,} parameters{some}"
    if symbols := task.recipe.processor.tokenizer.new_tokens:
        ids = (f"{symbol} {task.processor.tokenizer.specials[symbol]}" for symbol in symbols)
        begin = "" if train.init_from is None else ", beginning at the mean of the others"
        yield f"new tokens by id: {', '.join(ids)}{begin}"
    yield from task.opening()
    if train.schedule.warmup_steps >= train.steps:
        yield (
            f"the warm-up of {train.schedule.warmup_steps} steps does not end within "
            f"{train.steps} steps, so the peak learning rate is never reached; consider a smaller "
            "train.schedule.warmup_steps"
        )
