"""`glassformer generate`."""

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.cli.few_shot import Asked, NumberOfShots, Shots, Template, ask_labels
from glassformer.cli.options import (
    AboutAudio,
    AboutImage,
    AtStep,
    Compile,
    Device,
    Draft,
    DraftTokens,
    Json,
    MaxNewTokens,
    MinNewTokens,
    MinP,
    NoRepeat,
    Penalty,
    Prompts,
    Quantize,
    RunFolder,
    Scored,
    Seed,
    Stop,
    Streamed,
    Temperature,
    ToImage,
    TopK,
    TopP,
    Window,
    given,
    refuse,
)
from glassformer.cli.outputs import Force, check_output
from glassformer.cli.terminal import on_terminal, print_json, read_stdin
from glassformer.core.errors import ConfigError, counted, one_line

if TYPE_CHECKING:
    from glassformer.run import Run

DRAWN = "--to-image draws what a text says, always in the same size"
CHOOSES = "--shots chooses among labels"
CONTINUES = "Without --shots no label is chosen"
OF_TEXT = (
    *("max_new_tokens", "no_repeat_ngram_size", "min_new_tokens", "stop", "overflow"),
    *("draft", "draft_tokens"),
)
"""Options that an image has no use for."""
SIDE = 256
"""Pixels of the longer side of an enlarged image, about."""


def generate(
    run: RunFolder,
    prompt: Prompts = None,
    image: AboutImage = None,
    audio: AboutAudio = None,
    max_new_tokens: MaxNewTokens = None,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    min_p: MinP = None,
    repetition_penalty: Penalty = None,
    no_repeat_ngram_size: NoRepeat = None,
    min_new_tokens: MinNewTokens = None,
    seed: Seed = None,
    stop: Stop = None,
    window: Window = False,
    stream: Streamed = False,
    score: Scored = False,
    to_image: ToImage = None,
    shots: Shots = None,
    n_shots: NumberOfShots = None,
    template: Template = None,
    inp: Asked = None,
    quantize: Quantize = None,
    compile: Compile = False,
    checkpoint: AtStep = None,
    draft: Draft = None,
    n_drafted: DraftTokens = None,
    force: Force = False,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Continue a prompt; answer it about an --image or --audio; with --shots, label texts."""
    files = given({"image": image, "audio": audio})
    opening = {"quantize": quantize, "compile": compile, "checkpoint": checkpoint}
    shown, guided = {"stream": stream, "score": score}, {"draft": draft, "draft_tokens": n_drafted}
    options = {"max_new_tokens": max_new_tokens, "temperature": temperature, "top_k": top_k}
    options |= {"top_p": top_p, "min_p": min_p, "repetition_penalty": repetition_penalty}
    options |= {"no_repeat_ngram_size": no_repeat_ngram_size, "min_new_tokens": min_new_tokens}
    options |= guided | {"seed": seed, "stop": stop, "overflow": "window" if window else None}
    if shots is not None:
        unused = {**options, **files, **shown, **opening, "seed": None}
        refuse({**unused, "to_image": to_image, "force": force}, CHOOSES)
        return ask_labels(run, shots, prompt, inp, (n_shots, template, seed), device, json)
    refuse({"n_shots": n_shots, "template": template, "in": inp}, CONTINUES)
    if to_image is None:
        return _write((run, device, opening), prompt, files, given(options), stream, score, json)
    return _draw(run, prompt or [], to_image, force, options, files | shown | opening, device, json)


def _write(
    opening: tuple[Path, str, dict[str, Any]],
    prompts: list[str] | None,
    files: dict[str, str],
    options: dict[str, Any],
    streamed: bool,
    scored: bool,
    as_json: bool,
) -> None:
    """Print prompts and new texts, several prompts as one batch; or the prompts' scores."""
    if scored:
        unused = {**options, **files, "stream": streamed}
        refuse(unused, "--score reads the prompt and writes nothing")
    if streamed:
        refuse(files, "--stream shows text that continues a text")
        if (count := len(prompts or ())) > 1:
            raise ConfigError(
                f"--stream shows one text as it grows, not {count}; give one --prompt."
            )
    from glassformer.run import load

    folder, device, how = opening
    run = load(folder, device, **how)
    options = _drafting(options, next(run.model.parameters()).device.type)
    if prompts is None:
        prompts = [read_stdin(piped=True) or run.task.first_prompt]
    watched = on_terminal() and not as_json and run.task.continues
    if scored:
        for prompt in prompts:
            _score(run, prompt, as_json)
    elif streamed or (watched and len(prompts) == 1 and not files):
        _stream(run, prompts[0], options, as_json)
    else:
        _whole(run, prompts, files, options, as_json)
    _report_unknown(run, prompts)


def _report_unknown(run: "Run", prompts: Sequence[str]) -> None:
    """Say on standard error what of the prompts the vocabulary lacks."""
    tokenizer: Any = getattr(run.processor, "tokenizer", None)
    unknown = tokenizer and tokenizer.specials.get("unk")
    if unknown is None:
        return
    n = sum(tokenizer.encode(prompt).tolist().count(unknown) for prompt in prompts)
    if n:
        lacks = "is" if n == 1 else "are"
        print(
            f"{counted(n, 'token')} of the prompt {lacks} not in the vocabulary, and read as "
            f"{tokenizer.symbol(unknown)}",
            file=sys.stderr,
        )


def _drafting(options: dict[str, Any], device: str) -> dict[str, Any]:
    """The options with the draft's run in place of its folder."""
    from glassformer.run import load
    from glassformer.run.drafting import NGRAM

    named = options.get("draft")
    if named == "":
        raise ConfigError("--draft is empty; give a run with the same tokenizer, or ngram.")
    opened = {} if named in (None, NGRAM) else {"draft": load(Path(named), device)}
    return options | opened


def _stream(run: "Run", prompt: str, options: dict[str, Any], as_json: bool) -> None:
    """Print the text as it grows; with --json a line for each piece, the last with why it ended."""
    begun = as_json or not prompt.strip()
    for delta in run.stream(
        prompt, **options
    ):  # a bad prompt is refused before anything is printed
        if as_json:
            print_json({"text": delta.text, "finish": delta.finish})
        else:
            sys.stdout.write(delta.text if begun else prompt + delta.text)
        begun = True
        sys.stdout.flush()
    if not as_json:
        print("" if begun else prompt)


def _whole(
    run: "Run", prompts: list[str], files: dict[str, str], options: dict[str, Any], as_json: bool
) -> None:
    """Print each prompt with its new text, or an answer alone in one line."""
    from glassformer.run.drafting import drafts_in

    drafts = drafts_in(options := dict(options), run)
    continues = run.task.continues
    prompts = prompts if continues else [prompt.strip() for prompt in prompts]
    results = run.generated(prompts, run.options(**options), files, drafts)
    for number, (prompt, result) in enumerate(zip(prompts, results, strict=True)):
        if as_json:
            ended = {"finish": result.finish, "tokens": len(result.ids)}
            print_json({"prompt": prompt, **files, "text": result.text, **ended})
        elif continues:
            between = "\n" if number else ""
            print(f"{between}{prompt if prompt.strip() else ''}{result.text}")
        else:
            print(one_line(result.text))


def _score(run: "Run", prompt: str, as_json: bool) -> None:
    """Print each token with log p in nats, and their sum."""
    tokens = run.score(prompt)
    known = [token.log_prob for token in tokens if token.log_prob is not None]
    total = math.fsum(known)
    if as_json:
        print_json({"text": prompt, "tokens": [vars(one) for one in tokens], "log_prob": total})
        return
    print(f"{'piece':16} {'log p':>9}")
    for token in tokens:
        shown = "-" if token.log_prob is None else f"{token.log_prob:.4f}"
        print(f"'{token.piece}'".ljust(16), f"{shown:>9}")
    mean = -total / len(known)
    print(f"{'sum':16} {total:9.4f}  ({mean:.4f} nats a token, {len(known)} predicted)")


def _draw(
    folder: Path,
    prompts: list[str],
    out: Path,
    force: bool,
    options: dict[str, Any],
    unused: dict[str, Any],
    device: str,
    as_json: bool,
) -> None:
    """Draw one prompt into a PNG file, enlarged by a whole number to about `SIDE` pixels."""
    refuse({name: options[name] for name in OF_TEXT} | unused, DRAWN)
    from PIL import Image

    from glassformer.pages.images import write_png
    from glassformer.run import load

    check_output("--to-image", out, (".png",), force)
    if len(prompts) != 1:
        raise ConfigError(
            f"--to-image draws one image, of one --prompt, not of {len(prompts)}; give one."
        )
    pixels = load(folder, device).draw(prompts[0], **given(options))
    height, width, _ = pixels.shape
    factor = max(1, SIDE // max(height, width))
    write_png(Image.fromarray(pixels.repeat(factor, 0).repeat(factor, 1)), out)
    if as_json:
        print_json({"prompt": prompts[0], "image": str(out), "pixels": pixels.tolist()})
    else:
        print(f"{out}: {height} x {width} pixels, {factor} times enlarged")
