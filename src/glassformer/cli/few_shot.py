"""`glassformer generate --shots`: the likeliest label of each text, by zero- and few-shot prompts.

0.9312 <TAB> good            of --prompt, of lines of standard input, or of the rows of --in
accuracy, and baselines      of --in with labels
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from glassformer.cli.lines import chunks, numbered
from glassformer.cli.scores import print_scores
from glassformer.cli.terminal import print_json
from glassformer.core.errors import ConfigError, one_line

if TYPE_CHECKING:
    from glassformer.tasks.few_shot import FewShot

    Text = tuple[str, str | None]

Shots = Annotated[
    Path | None,
    Option("--shots", help="Table of labelled texts: examples in prompts, whose labels answer."),
]
NumberOfShots = Annotated[
    int | None,
    Option("--n-shots", min=0, help="Examples in a prompt, balanced over labels; default 5."),
]
Template = Annotated[
    str | None,
    Option("--template", help=r'Form of an example; default "Text: {text}\nLabel: {label}".'),
]
Asked = Annotated[
    Path | None,
    Option("--in", help="With --shots: table of texts; of its labels, print the accuracy."),
]
N_SHOTS = 5
TOGETHER = 256
"""Lines that are answered together, if they are there already."""


def ask_labels(
    folder: Path,
    shots: Path,
    prompts: Sequence[str] | None,
    inp: Path | None,
    how: tuple[int | None, str | None, int | None],
    device: str,
    as_json: bool,
) -> None:
    """Print the label of each text, or the accuracy over a labelled table; `how`: number of shots,
    template and seed."""
    from glassformer.run import load
    from glassformer.tasks.few_shot import examples_of, is_labelled

    if prompts and inp is not None:
        raise ConfigError("--prompt and --in both give texts; leave one of them out.")
    n, template, seed = how
    form = template and template.replace("\\n", "\n").replace("\\t", "\t")
    run, n = load(folder, device), N_SHOTS if n is None else n
    asked = run.few_shot(shots, n, template=form, seed=seed)
    if inp is not None and is_labelled(inp):
        scores = asked.evaluate(examples_of(inp))
        _say_shots(len(asked.shots), scores["shots"])
        about = {"run": str(folder), "data": str(inp)}
        _print_scores(about | scores, as_json)
        return
    for texts in _texts(prompts, inp):
        made = asked.fitting([text for text in texts if text[0].strip()])
        _say_shots(len(asked.shots), len(made.shots))
        _print_labels(made, texts, as_json)


def _texts(prompts: Sequence[str] | None, inp: Path | None) -> "Iterator[Sequence[Text]]":
    """Texts that are answered together: of a table all, that all have the same shots."""
    if prompts:
        yield [(text, None) for text in prompts]
    elif inp is not None:
        from glassformer.tasks.few_shot import texts_of

        yield texts_of(inp)
    else:
        for _, lines in numbered(chunks(TOGETHER)):
            yield [(line, None) for line in lines]


def _say_shots(wanted: int, used: int) -> None:
    if used < wanted:
        sys.stderr.write(
            f"{used} of {wanted} shots, since no more fit into the model beside the longest text\n"
        )


def _print_labels(asked: "FewShot", texts: "Sequence[Text]", as_json: bool) -> None:
    """Print the likeliest label of each text with its probability; an empty line stays empty."""
    found = iter(asked.choose([text for text in texts if text[0].strip()]))
    for text, pair in texts:
        one = next(found) if text.strip() else None
        if as_json:
            about = {"text": text} | ({} if pair is None else {"pair": pair})
            print_json({**about, "shots": len(asked.shots), **(asdict(one) if one else {})})
        elif one is None:
            print()
        else:
            print(f"{one.probabilities[one.label]:.4f}\t{one_line(one.label)}")


def _print_scores(scores: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(scores)
        return
    of = f"{scores['examples']:,} examples, {scores['shots']} shots"
    print(f"{scores['run']}, {scores['data']}: {of}")
    print_scores(scores)
