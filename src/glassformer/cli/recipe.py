"""`glassformer recipe` and `glassformer plan`: fields, and what a training would cost."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from typer import Argument

from glassformer.cli.options import Figures, Json, OptionalCount, Overrides, refuse
from glassformer.cli.outputs import Force, check_output
from glassformer.cli.terminal import print_json


def recipe_of(where: str, overrides: list[str] | None) -> Any:
    """Return the recipe of a name, a YAML file or a run folder."""
    from glassformer.recipe.named import is_name
    from glassformer.recipe.reading import read_recipe

    if not is_name(where) and Path(where).is_dir():
        where = str(Path(where) / "recipe.yaml")
    return read_recipe(where, overrides or [])


def recipe_show(
    where: Annotated[str, Argument(help="A recipe, or a run folder.", metavar="RECIPE|RUN")],
    overrides: Overrides = None,
    json: Json = False,
) -> None:
    """Print a recipe with every default filled in."""
    from glassformer.recipe.init_from import with_init_from

    recipe = recipe_of(where, overrides)
    if not Path(where).is_dir():  # a run's own recipe has taken it over
        recipe = with_init_from(recipe)
    if json:
        print_json(recipe.values())
    else:
        print(recipe.yaml(), end="")


def recipe_list(json: Json = False) -> None:
    """Print the names of the recipes that come with the package."""
    from glassformer.recipe.named import about, recipe_names

    for name in recipe_names():
        if json:
            print_json({"recipe": name, "about": about(name)})
        else:
            print(f"{name:18} {about(name)}")


def recipe_copy(
    recipe: Annotated[str, Argument(help="A name of `recipe list`.", metavar="RECIPE")],
    file: Annotated[Path, Argument(help="The new YAML file.", metavar="FILE")],
    force: Force = False,
) -> None:
    """Copy a recipe into a file of your own, to change it."""
    from glassformer.core.files import write_text
    from glassformer.recipe.named import recipe_file

    source = recipe_file(recipe)
    check_output("FILE", file, (".yaml", ".yml"), force)
    write_text(file, source.read_text(encoding="utf-8"))
    print(f"next: glassformer train {file}")


def recipe_fields(
    section: Annotated[
        str | None, Argument(help="A section, such as train or train.optimizer; default: all.")
    ] = None,
    task: str | None = None,
    json: Json = False,
) -> None:
    """Print every field of a recipe with its default and meaning.

    task: Only the fields that most recipes of this task set.
    """
    from glassformer.recipe.fields import field_rows, show, task_rows

    if section is not None:
        refuse({"task": task}, f"Only the section {section} is printed")
    for row in field_rows(section) if task is None else task_rows(task):
        if json:
            print_json({**vars(row), "default": show(row.default)})
        else:
            print(f"{row.path:36} {show(row.default):14} {row.description}")


def plan(
    recipe: Annotated[str, Argument(help="A recipe.", metavar="RECIPE")],
    overrides: Overrides = None,
    target: str | None = None,
    nodes: OptionalCount = None,
    gpus_per_node: OptionalCount = None,
    hardware: Figures = None,
    json: Json = False,
) -> None:
    """Estimate size, memory and time before training. Parameters by matrix, operations,
    memory, time and disk on this machine.

    target: Also tell whether the model can be exported: transformers, onnx, gguf or
    ctranslate2.
    nodes: Plan for so many machines instead, by stated figures, without measuring.
    gpus_per_node: GPUs of each machine (8).
    """
    own = recipe_of(recipe, overrides)
    if nodes is not None:
        refuse({"target": target}, "--nodes plans a training")
        _plan_cluster(own, nodes, gpus_per_node or 8, hardware or [], json)
        return
    others = {"gpus_per_node": gpus_per_node, "hardware": hardware}
    refuse(others, "Without --nodes, this machine is measured")
    from glassformer.training.plan.plan import make_plan, plan_without_data

    made, export = (make_plan if own.data.train.path else plan_without_data)(own), None
    if target is not None:
        from glassformer.recipe.init_from import with_init_from
        from glassformer.run.export import planned

        export = planned(with_init_from(own), target)
    if json:
        print_json(made.as_json() | ({} if export is None else {"export": asdict(export)}))
        return
    print(made.as_text())
    if export is not None and export.differences:
        print(f"no export to {target}; the nearest class, {export.name}, differs in:")
        print("\n".join(f"  {one}" for one in export.differences))
    elif export is not None:
        print(f"exports to {target} as {export.name}")


def _plan_cluster(
    recipe: Any, nodes: int, gpus_per_node: int, figures: list[str], as_json: bool
) -> None:
    from glassformer.training.plan.cluster import Hardware, plan_cluster

    pairs = (figure.partition("=") for figure in figures)
    hardware = Hardware.parse({name: value for name, _, value in pairs})
    made = plan_cluster(recipe, nodes, gpus_per_node, hardware)
    if as_json:
        print_json(made.as_json())
    else:
        print(made.as_text())
