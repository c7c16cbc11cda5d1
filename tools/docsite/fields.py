"""The page docs/recipe.md from the records of a recipe: python -m docsite.fields"""

from collections.abc import Iterable
from pathlib import Path

from glassformer.core.record import Record
from glassformer.recipe.fields import COMMON, OF_INPUT, rows_of, sections, show
from glassformer.recipe.pipelines import PIPELINES

PAGE = Path(__file__).parents[2] / "docs" / "recipe.md"
EXTRA = {"model": "Also `preset` and `size`, which fill in the fields of a known model."}
"""What a section holds beside its fields."""
HEAD = """# The recipe

This page is made by `PYTHONPATH=tools python -m docsite.fields`; a test keeps it equal to the code.

A recipe is one YAML file: the task and sections of fields. Every field can be changed on the
command line by its full name, `train.optimizer.learning_rate=0.001`. `glassformer recipe show
RECIPE` prints a recipe with every default filled in, also those that depend on other fields.
`processor.input` sets the kind of record if it differs from the task's usual one: documents,
messages, text, words, pairs, image, audio, or parts (text, images and audio in one sequence).

## Tasks
"""


def render() -> str:
    """Return the page of all fields."""
    lines = [HEAD, "| task | input | head | architectures |", "| --- | --- | --- | --- |"]
    for name, of in PIPELINES.items():
        kinds = ", ".join(of.architectures)
        lines.append(f"| `{name}` | {of.input} | {' or '.join(of.heads)} | {kinds} |")
    lines += ["", "## Fields that most recipes of a task set", ""]
    lines.append(f"All tasks: {_listed(COMMON)}. Beside them, by input:")
    lines += ["", "| input | fields |", "| --- | --- |"]
    lines += [f"| {name} | {_listed(fields)} |" for name, fields in OF_INPUT.items()]
    shown_as: dict[type[Record], str] = {}
    for path, (record, about) in sections().items():
        lines += ["", f"##{'#' * path.count('.')} {path}", "", about]
        if record in shown_as:
            lines += ["", f"The fields of `{shown_as[record]}`."]
            continue
        shown_as[record] = path
        if path in EXTRA:
            lines += ["", EXTRA[path]]
        rows = list(rows_of(path, record))
        if rows:
            lines += ["", "| field | type | default | for | meaning |"]
            lines.append("| --- | --- | --- | --- | --- |")
        lines += [
            f"| `{row.name}` | {_cell(row.type)} | {_cell(show(row.default))} | "
            f"{row.only or 'all'} | {_cell(row.description)} |"
            for row in rows
        ]
    return "\n".join(lines) + "\n"


def _listed(fields: Iterable[str]) -> str:
    return ", ".join(f"`{field}`" for field in fields)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8", newline="\n")
