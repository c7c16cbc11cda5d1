"""The demos: a model trained in minutes on data that every machine has.

Knows: the demo recipe. Does not know: steps.
"""

import sys
from pathlib import Path

from glassformer.cli.terminal import print_json
from glassformer.cli.train import finish
from glassformer.errors import ConfigError, suggest
from glassformer.run import load
from glassformer.train import Recipe
from glassformer.train import train as train_recipe
from glassformer.train.baseline import baselines
from glassformer.train.progress import clock

LM = {
    "model": {"preset": "modern", "size": "tiny", "max_length": 128},
    "data": {"path": "builtin:python", "validation_fraction": 0.05},
    "tokenizer": {"kind": "bpe", "vocab_size": 2048},
    "train": {
        "steps": 600,
        "batch_size": 16,
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


def demo(name: str, run: Path | None, steps: int | None, as_json: bool) -> None:
    """`glassformer demo lm`."""
    if name != "lm":
        raise ConfigError(f"There is no demo {name!r}; {suggest(name, ['lm'])}")
    folder = run or Path("runs") / "demo-lm"
    values = {**LM, "train": {**LM["train"], **({"steps": steps} if steps else {})}}
    sys.stderr.write("A language model on Python's own documentation: the language reference and docstrings.\n")
    result = train_recipe(Recipe.parse(values), folder, resume=(folder / "recipe.yaml").is_file())
    if result.interrupted is not None:
        return finish(result, as_json)
    opened = load(folder)
    guesses = baselines(opened.tokens("train"), opened.tokens("validation"), opened.model.config.vocab_size)
    bits = {**dict(guesses), "this model": opened.evaluate()["bits_per_byte"]}
    text = PROMPT + opened.generate(PROMPT)
    if as_json:
        return print_json({"run": str(folder), "steps": result.steps, "bits_per_byte": bits, "text": text})
    print(f"\ntrained {result.steps} steps in {clock(result.seconds)}; bits per byte of text it never saw:")
    for label, value in bits.items():
        print(f"  {label:28} {value:6.3f}")
    print(f"\n{PROMPT!r} continued:\n")
    print("    " + text.strip().replace("\n", "\n    "))
    print(f"\ncurves and samples: {folder / 'report.html'} (open it in a browser)")
    print("try next:")
    print(f'  glassformer generate {folder} --prompt "If the file" --temperature 0.7 --seed 2')
    print(f"  glassformer verify {folder}")
    print("  glassformer train model.preset=modern model.size=tiny data.path=YOUR_TEXT --run runs/mine")
    return None
