"""The commands that use a trained model."""

import math
import sys
from pathlib import Path
from typing import Any

from glassformer.cli.lines import one_line
from glassformer.cli.terminal import on_terminal, print_json, read_stdin
from glassformer.errors import ConfigError, counted
from glassformer.run import Run, load

MOST_ROWS, MOST_NAMED = 30, 10
"""Classes in a table, and unseen ones that are named; --json has them all."""


def evaluate(
    run: Path,
    data: str | None,
    targets: str | None,
    split: str,
    beams: int | None,
    device: str,
    as_json: bool,
) -> None:
    """`glassformer evaluate`."""
    opened = load(run, device)
    if beams is not None:
        opened.task.check_search()
    scores = opened.evaluate(
        split, data, targets=targets, **({} if beams is None else {"beams": beams})
    )
    if as_json:
        print_json(scores)
        return
    of = scores["data"] or f"{scores['split']} split"
    n, what = (
        (scores["tokens"], "predicted tokens")
        if "tokens" in scores
        else (scores["examples"], "examples")
    )
    print(f"{scores['run']}, {of}: {n:,} {what}")
    for name, value in scores.items():
        if isinstance(value, float):
            signature = scores.get(f"{name}_signature", "")
            print(f"  {name.replace('_', ' '):14} {value:.4f}  {signature}".rstrip())
    if "spans" in scores:
        print(f"  {'spans':14} {scores['spans']:,}")
    _print_unseen(scores.get("unseen_classes", {}))
    _print_table(scores.get("table", []))


def _print_unseen(classes: dict[str, int]) -> None:
    """How often there was a class that the model cannot give, the most frequent of them by name."""
    if not classes:
        return
    named = sorted(classes.items(), key=lambda pair: -pair[1])
    shown = ", ".join(f"{one_line(name)} ({count:,})" for name, count in named[:MOST_NAMED])
    more = f" and {counted(len(named) - MOST_NAMED, 'other')}" if len(named) > MOST_NAMED else ""
    print(
        f"  {'unseen':14} {sum(classes.values()):,} of classes that the model does not know: "
        f"{shown}{more}"
    )


def _print_table(rows: list[dict[str, Any]]) -> None:
    """Scores by group of pairs, or by class, the most frequent classes first."""
    if rows and "class" in rows[0]:
        shown = sorted(rows, key=lambda row: -row["n"])[:MOST_ROWS]
        width = max(5, *(len(one_line(row["class"])) for row in shown))
        print(f"    {'class':{width}} precision   recall       f1        n")
        for row in shown:
            ratios = " ".join(
                f"{row[name]:{size}.4f}"
                for name, size in (("precision", 9), ("recall", 8), ("f1", 8))
            )
            print(f"    {one_line(row['class']):{width}} {ratios} {row['n']:8,}")
        if len(rows) > MOST_ROWS:
            print(f"    and {len(rows) - MOST_ROWS:,} more, with --json")
    else:
        for row in rows:
            print(f"    {row['group']:12} {row['exact_match']:8.2%} of {row['n']:,}")


def generate(
    run: Path,
    prompts: list[str] | None,
    files: dict[str, str],
    options: dict[str, Any],
    streamed: bool,
    scored: bool,
    device: str,
    as_json: bool,
) -> None:
    """`glassformer generate`: prompt and new text on stdout; several prompts are one batch.

    Of a model of sequences of parts, the answer alone.
    """
    _check(prompts, options, streamed, scored)
    opened = load(run, device)
    task = opened.task
    given = prompts if prompts is not None else [_piped() or task.first_prompt]
    watched = on_terminal() and not as_json and task.continues
    if scored:
        for prompt in given:
            _score(opened, prompt, as_json)
    elif streamed or (watched and len(given) == 1 and not files):
        _stream(opened, given[0], options, as_json)
    else:
        _whole(opened, given, files, options, as_json)


def _check(
    prompts: list[str] | None, options: dict[str, Any], streamed: bool, scored: bool
) -> None:
    if scored and (options or streamed):
        name = next(iter(options), "stream").replace("overflow", "window").replace("_", "-")
        raise ConfigError(
            f"--score reads the prompt and writes nothing, so --{name} has no use; leave it out."
        )
    if streamed and prompts is not None and len(prompts) > 1:
        raise ConfigError(
            f"--stream shows one text as it grows, not {len(prompts)}; give one --prompt."
        )


def _piped() -> str:
    return "" if sys.stdin is None or sys.stdin.isatty() else read_stdin()


def _stream(run: Run, prompt: str, options: dict[str, Any], as_json: bool) -> None:
    """The text as it grows; with --json a line for each piece, the last one says why the text
    ended."""
    deltas = run.stream(prompt, **options)
    if as_json:
        for delta in deltas:
            print_json({"text": delta.text, "finish": delta.finish})
            sys.stdout.flush()
        return
    first = next(deltas, None)  # what is wrong with the prompt is said before anything is printed
    sys.stdout.write(prompt if prompt.strip() else "")
    while first is not None:
        sys.stdout.write(first.text)
        sys.stdout.flush()
        first = next(deltas, None)
    print()


def _whole(
    run: Run, prompts: list[str], files: dict[str, str], options: dict[str, Any], as_json: bool
) -> None:
    """Prompt and new text, or an answer alone in one line."""
    continues = run.task.continues
    prompts = prompts if continues else [prompt.strip() for prompt in prompts]
    results = run.generated(prompts, run.options(**options), files)
    for number, (prompt, result) in enumerate(zip(prompts, results, strict=True)):
        if as_json:
            ended = {"finish": result.finish, "tokens": len(result.ids)}
            print_json({"prompt": prompt, **files, "text": result.text, **ended})
        elif not continues:
            print(one_line(result.text))
        else:
            if number:
                print()
            print((prompt if prompt.strip() else "") + result.text)


def _score(run: Run, prompt: str, as_json: bool) -> None:
    """Each token with log p in nats, and their sum."""
    tokens = run.score(prompt)
    known = [token.log_prob for token in tokens if token.log_prob is not None]
    total = math.fsum(known)
    if as_json:
        rows = [{"piece": token.piece, "log_prob": token.log_prob} for token in tokens]
        print_json({"text": prompt, "tokens": rows, "log_prob": total})
        return
    print(f"{'piece':16} {'log p':>9}")
    for token in tokens:
        shown = "-" if token.log_prob is None else f"{token.log_prob:.4f}"
        print(f"'{token.piece}'".ljust(16), f"{shown:>9}")
    print(
        f"{'sum':16} {total:9.4f}  ({-total / len(known):.4f} nats a token, {len(known)} predicted)"
    )
