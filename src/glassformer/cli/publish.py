"""`glassformer import` and `glassformer export`: models of other programs, and for them."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from glassformer.cli.options import Json, NewRun, RunFolder
from glassformer.cli.terminal import print_json
from glassformer.core.errors import ConfigError


def import_(
    path: Annotated[
        Path, Argument(help="The folder of a published model, or OWNER/NAME.", metavar="PATH")
    ],
    run: NewRun = None,
    adapter: Annotated[
        Path | None, Option(help="Folder of an adapter that is merged.", metavar="PATH")
    ] = None,
    json: Json = False,
) -> None:
    """Import a published model as a run.

    Folders in the layout of the transformers library, with config.json, safetensors and tokenizer:
    GPT-2, Llama, Mistral, Qwen 2 and 3, Gemma, BERT, RoBERTa, DistilBERT, sentence embeddings, T5,
    BART, Marian, ViT, nanoGPT and minGPT. OWNER/NAME that is no path here is downloaded from the
    Hugging Face Hub.

    run: The new run folder.
    adapter: One that peft, or a run with method=lora, wrote.
    """
    if run is None:
        raise ConfigError(f"Give the new run a folder: glassformer import {path} --run runs/mine.")
    from glassformer.interop.configuration import published_keys
    from glassformer.interop.generation import not_read
    from glassformer.interop.hub import find_model
    from glassformer.run.folder import import_published

    with find_model(path) as (folder, origin):
        opened = import_published(folder, run, origin, adapter)
        ignored = not_read(folder, published_keys(folder) or {})
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
        f"({config.depths}, {config.d_model} wide, context {config.max_length})"
    )
    use = opened.task.objective.card().use
    print(use.replace(f"evaluate {run}", f"evaluate {run} --data PATH"))
    if ignored:
        print(f"not taken over from the generation settings: {', '.join(ignored)}")


def export(
    run: RunFolder,
    to: str = "transformers",
    out: Path | None = None,
    no_check: bool = False,
    json: Json = False,
) -> None:
    """Export a model for another program; transformers and onnxruntime run it for comparison.

    For transformers, a folder that the library loads as it is, where one of its classes computes
    the same; else the nearest class and the fields in which it differs are named. For onnx, graphs
    of any model of text, images or audio. For gguf (llama.cpp) and ctranslate2, models of the
    classes that they know.

    to: The program: transformers, onnx, gguf or ctranslate2.
    out: The new folder.
    no_check: Do not run the model in transformers or onnxruntime.
    """
    if out is None:
        raise ConfigError(f"Give a new folder: glassformer export {run} --to {to} --out DIR.")
    from glassformer.run.export import export_run

    exported = export_run(run, to, out, check=not no_check)
    if json:
        print_json({"run": str(run), "out": str(out), **exported.values})
        return
    print(f"{out}: {exported.name}")
    print(exported.parity or "not compared")
