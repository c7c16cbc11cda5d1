"""`glassformer import`: models of other programs."""

from pathlib import Path
from typing import Annotated

from typer import Argument

from glassformer.cli.options import Json, NewRun
from glassformer.cli.terminal import print_json
from glassformer.errors import ConfigError


def import_(
    path: Annotated[Path, Argument(help="The folder of a published model.", metavar="PATH")],
    run: NewRun = None,
    json: Json = False,
) -> None:
    """Import a published model as a run.

    Folders in the layout of the transformers library, with config.json, safetensors and tokenizer:
    GPT-2, Llama, Mistral, Qwen 2 and 3, Gemma, BERT, RoBERTa, DistilBERT, sentence embeddings, T5,
    BART, Marian, ViT.

    run: The new run folder.
    """
    if run is None:
        raise ConfigError(f"Give the new run a folder: glassformer import {path} --run runs/mine.")
    from glassformer.run.folder import import_published

    opened = import_published(path, run)
    config = opened.model.config
    values = {
        "run": str(run),
        "task": opened.task.recipe.task,
        "parameters": opened.model.n_parameters,
        "layers": config.n_layers,
        "d_model": config.d_model,
        "max_length": config.max_length,
    }
    if json:
        print_json(values)
        return
    print(
        f"{run}: {values['task']}, {config.architecture} of {values['parameters']:,} parameters "
        f"({config.n_layers} layers, {config.d_model} wide, context {config.max_length})"
    )
    print(opened.task.card().use)
