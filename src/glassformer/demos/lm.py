"""`glassformer demo lm`: a language model on Python's own documentation."""

from typing import Any

from glassformer.cli.terminal import print_json
from glassformer.errors import counted
from glassformer.run import Run
from glassformer.tasks.unigram import baselines
from glassformer.training.loop import Result
from glassformer.training.progress import clock

ABOUT = "A language model on Python's own documentation: the language reference and docstrings."
RECIPE: dict[str, dict[str, Any]] = {
    "model": {"preset": "modern", "size": "tiny", "max_length": 128},
    "data": {"path": "builtin:python", "validation_fraction": 0.05},
    "tokenizer": {"kind": "bpe", "vocab_size": 2048},
    "train": {
        "steps": 600,
        "batch_size": 16,
        "micro_batches": 2,
        "parallel_micro_batches": 2,
        "optimizer": "muon",
        "schedule": "wsd",
        "final_fraction": 0.0,
        "warmup_steps": 20,
        "weight_decay": 0.0,
        "evaluate_every": 200,
        "save_every": 200,
        "sample_every": 200,
        "sample_tokens": 40,
        "sample_prompt": "The",
    },
    "generate": {"max_new_tokens": 60, "temperature": 0.8},
}
PROMPT = "Return a new"


def show(run: Run, result: Result, as_json: bool) -> None:
    """Its score beside simple guesses, and a text."""
    folder = run.folder
    guesses = baselines(run.tokens("train"), run.tokens("validation"), run.model.config.vocab_size)
    bits = {**dict(guesses), "this model": run.evaluate()["bits_per_byte"]}
    text = PROMPT + run.generate(PROMPT)
    if as_json:
        return print_json(
            {"run": str(folder), "steps": result.steps, "bits_per_byte": bits, "text": text}
        )
    print(
        f"\ntrained {counted(result.steps, 'step')} in {clock(result.seconds)}; bits per byte "
        f"of text it never saw:"
    )
    for label, value in bits.items():
        print(f"  {label:28} {value:6.3f}")
    print(f"\n{PROMPT!r} continued:\n")
    print("    " + text.strip().replace("\n", "\n    "))
    print(f"\ncurves and samples: {folder / 'report.html'} (open it in a browser)")
    print("try next:")
    print(f'  glassformer generate {folder} --prompt "If the file" --temperature 0.7 --seed 2')
    print(f"  glassformer verify {folder}")
    print(
        "  glassformer train model.preset=modern model.size=tiny data.path=YOUR_TEXT --run "
        "runs/mine"
    )
    return None
