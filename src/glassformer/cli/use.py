"""The commands that use a trained model.

Knows: `Run`. Does not know: how it was trained.
"""

import json
import sys
from pathlib import Path
from typing import Any

from glassformer.run import Run, load


def evaluate(run: Path, data: str | None, split: str, device: str, as_json: bool) -> None:
    """`glassformer evaluate`."""
    scores = load(run, device).evaluate(split, data)
    if as_json:
        print(json.dumps(scores))
        return
    print(f"{scores['run']}, {scores['data'] or scores['split'] + ' split'}: {scores['tokens']:,} predicted tokens")
    for name in ("loss", "perplexity", "bits_per_byte"):
        if name in scores:
            print(f"  {name.replace('_', ' '):14} {scores[name]:.4f}")


def generate(
    run: Path,
    prompts: list[str] | None,
    options: dict[str, Any],
    streamed: bool,
    scored: bool,
    device: str,
    as_json: bool,
) -> None:
    """`glassformer generate`: prompt and new text on stdout; several prompts are one batch."""
    opened = load(run, device)
    if prompts is None:
        prompts = [sys.stdin.read() if not sys.stdin.isatty() else "\n"]
        prompts = prompts if prompts[0] else ["\n"]
    if scored:
        return _score(opened, prompts, as_json)
    if streamed and len(prompts) == 1 and not as_json:
        sys.stdout.write(prompts[0])
        for delta in opened.stream(prompts[0], **options):
            sys.stdout.write(delta.text)
            sys.stdout.flush()
        print()
        return None
    for prompt, result in zip(prompts, opened.generated(prompts, opened.options(**options)), strict=True):
        if as_json:
            tokens = len(result.ids)
            print(json.dumps({"prompt": prompt, "text": result.text, "finish": result.finish, "tokens": tokens}))
        else:
            print(prompt + result.text)
    return None


def _score(run: Run, prompts: list[str], as_json: bool) -> None:
    for prompt in prompts:
        tokens = run.score(prompt)
        if as_json:
            rows = [{"piece": token.piece, "log_prob": token.log_prob} for token in tokens]
            print(json.dumps({"text": prompt, "tokens": rows}))
            continue
        for token in tokens:
            print(f"{token.piece!r:16} {'' if token.log_prob is None else f'{token.log_prob:9.4f}'}")
