"""The commands that predict: inputs in, predictions out, in order.

`glassformer tag RUN < lines`: a line for each, or JSON with --json.
`glassformer tag RUN --in FILE --out FILE`: rows of a file with their predictions.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.cli.chat import talk
from glassformer.cli.files import (
    Files,
    predict_file,
    predictions,
    report_skipped,
)
from glassformer.cli.lines import chunks, numbered
from glassformer.cli.outputs import check_output
from glassformer.cli.prompts import (
    is_streamed,
    pairs_of,
    prompts_of,
    save_attention,
    save_picture,
    stream,
)
from glassformer.cli.terminal import print_json
from glassformer.cli.verbs import VERBS, Shared
from glassformer.core.errors import ConfigError, DataError

if TYPE_CHECKING:
    from glassformer.run.run import Run
    from glassformer.tasks.options import Options
    from glassformer.tasks.predictors.predictor import Predictor


def predict(verb: str, shared: Shared, own: dict[str, Any]) -> None:
    """Print the predictions of a run, or write them beside the rows of a file."""
    from glassformer.run import load
    from glassformer.tasks.options import OPTIONS

    options = OPTIONS[verb].parse({name: value for name, value in own.items() if value is not None})
    whole = VERBS[verb].whole
    files = _files(shared, whole)
    options.check("table" if shared.out else "json" if shared.json else "line")
    opening: Any = {"quantize": shared.quantize, "compile": shared.compile}
    run = load(shared.run, shared.device, shared.checkpoint, **opening)
    predictor = run.predictor(verb)  # another task is refused before a line is waited for
    if shared.batch_size is not None:
        predictor.resize(shared.batch_size)
    options = _with_draft(run, options)
    predictor.check(options)
    if files:
        return predict_file(predictor, options, files)
    if verb == "chat":
        return talk(run, predictor, options, shared)
    if verb == "generate" and is_streamed(predictor, shared):
        return stream(predictor, options, prompts_of(predictor, shared)[0], shared.json)
    if whole == ".npy" and shared.out:
        return _write_array(predictor, options, shared, shared.out)
    output = _Output(run, predictor, shared)
    for line, given, found in _predict_lines(predictor, options, shared):
        output.show(line, given, found)
    output.close()


def _files(shared: Shared, whole: str) -> Files | None:
    """The files of --in and --out; None without --in. ConfigError: what has no use beside them, or
    cannot be written; `whole`: suffix of an --out that needs no --in."""
    from glassformer.tasks.options import refuse

    check_output("--show-attention", shared.show_attention, (".html", ".png"), shared.force)
    if shared.out and shared.names:
        raise ConfigError(
            f"--in reads a file of rows, so {shared.names[0]} has no use; leave it out."
        )
    if whole and shared.out and not (shared.inp or shared.field or shared.resume):
        check_output("--out", shared.out, (whole,), shared.force)
        if whole == ".png" and (n := len(shared.prompt or ())) != 1:
            raise ConfigError(f"--out draws one image, of one --prompt, not of {n}; give one.")
        refuse({"json": shared.json and whole == ".npy"})
        return None
    named = ("json", "text", "prompt", "image", "audio", "stream", "show_attention")
    refuse({name: shared.out and getattr(shared, name) for name in named})
    given = shared.inp, shared.out, shared.field, shared.resume
    force = shared.force and not shared.show_attention
    return Files.check(*given, force, vectors=whole == ".npy")


def _write_array(
    predictor: "Predictor[Any]", options: "Options", shared: Shared, path: Path
) -> None:
    """Write the values of all lines as one array."""
    import numpy as np

    from glassformer.core.files import replacing

    found = _predict_lines(predictor, options, shared)
    rows = predictor.gather([one.value for _, _, one in found])
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.save(file, rows)


def _predict_lines(
    predictor: "Predictor[Any]", options: "Options", shared: Shared
) -> Iterator[tuple[str, Any, Any]]:
    """Yield each line, its input, and its prediction or the error of a bad file."""
    for number, rows in _groups(predictor, options, shared):
        given = [(one, f"{predictor.noun} {n}") for n, (_, one) in enumerate(rows, number)]
        found = predictions(predictor, options, given, number)
        for (line, one), prediction in zip(rows, found, strict=True):
            yield line, one, prediction


def _with_draft(run: "Run", options: Any) -> Any:
    """Return choices with an opened draft instead of its name."""
    named, ahead = getattr(options, "draft", None), getattr(options, "draft_tokens", None)
    if named is None and ahead is None:
        return options
    from glassformer.run import load
    from glassformer.run.drafting import NGRAM, drafts_in

    if named == "":
        raise ConfigError("--draft is empty; give a run with the same tokenizer, or ngram.")
    device = next(run.model.parameters()).device.type
    draft = named if named in (None, NGRAM) else load(named, device)
    return options.model_copy(update={"draft": drafts_in(run, draft, ahead)})


def _groups(
    predictor: "Predictor[Any]", options: Any, shared: Shared
) -> Iterator[tuple[int, Sequence[tuple[str, Any]]]]:
    """Lines and inputs that are computed together, each group with the number of its first."""
    if shared.prompt is not None or not predictor.lines:
        yield 1, [("", one) for one in prompts_of(predictor, shared)]
    elif predictor.name == "score":
        yield 1, [("", pair) for pair in pairs_of(options.targets)]
    else:
        size, named = predictor.together, shared.names or shared.text
        predictor.check_files(shared.names)
        parts = [named[at : at + size] for at in range(0, len(named), size)] if named else None
        for number, lines in numbered(parts or chunks(size)):
            where = (f"{predictor.noun} {n}" for n in range(number, number + len(lines)))
            read = map(predictor.from_values, ([line] for line in lines), where)
            yield number, [*zip(lines, read, strict=True)]


class _Output:
    """Output of predictions, and of pictures beside them."""

    def __init__(self, run: "Run", predictor: "Predictor[Any]", shared: Shared):
        self.run, self.predictor, self.shared = run, predictor, shared
        self.attention, self.printed, self.skipped = shared.show_attention, 0, 0

    def show(self, line: str, given: Any, found: Any) -> None:
        """Print a prediction, or say why there is none."""
        if isinstance(found, DataError):
            self.skipped += 1
            print(found, file=sys.stderr)
            return
        if (beside := self.predictor.beside(line, given)) is None:
            return
        values = self.predictor.values(line if given is None else given)
        if self.shared.out:
            save_picture(found, values, self.shared.out, self.shared.json)
        elif self.shared.json or not self.predictor.has_lines:
            print_json({**values, **found.json()})
        else:
            if self.printed and found.between is not None:
                print(found.between)
            print(f"{found.line()}{beside}")
            self.printed += 1
        if self.attention and line.strip():
            save_attention(self.run, line, found.value, self.attention)
            self.attention = None

    def close(self) -> None:
        """Report what was left out; DataError: there was nothing to draw."""
        report_skipped(self.skipped)
        if self.attention:
            raise DataError(
                f"There was no line to draw, so {self.attention} was not written; give a sentence."
            )
