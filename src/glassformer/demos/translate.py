"""`glassformer demo translate`: dates as people write them in many languages, to ISO 8601."""

from collections.abc import Iterator
from typing import Any

from glassformer.cli.terminal import ask, print_json
from glassformer.errors import counted
from glassformer.files import write_text
from glassformer.inspect.alignment import CrossAttention, cross_attention
from glassformer.inspect.picture import attention_html
from glassformer.processors.word_spans import NUMBERS_AND_NAMES
from glassformer.run import Run
from glassformer.training.loop import Result
from glassformer.training.progress import clock

ABOUT = (
    "An encoder-decoder that reads dates as people write them in many languages and writes "
    "them in ISO 8601."
)
RECIPE: dict[str, dict[str, Any]] = {
    "model": {
        "preset": "modern",
        "size": "tiny",
        "architecture": "encoder_decoder",
        "n_layers": 2,
        "n_heads": 2,
        "d_model": 96,
        "d_ff": 192,
        "max_length": 64,
        "embedding_norm": True,
    },
    "data": {"path": "builtin:dates"},
    "tokenizer": {"kind": "character"},
    "train": {
        "steps": 1300,
        "batch_size": 128,
        "optimizer": "muon",
        "learning_rate": 0.01,
        "schedule": "wsd",
        "final_fraction": 0.0,
        "warmup_steps": 20,
        "weight_decay": 0.0,
        "max_grad_norm": 0.0,
        "evaluate_every": 325,
        "evaluate_batches": 8,
        "decode_lines": None,
        "save_every": 325,
        "sample_every": 325,
        "best": "exact_match",
    },
    "generate": {"beams": 1, "max_new_tokens": 12},
}
EXAMPLES = (
    "Donnerstag, 3. Mai 2091",
    "2019年12月24日",
    "le 1er août 1944",
    "четверг, 9 мая 1945 г.",
)


def show(run: Run, result: Result, as_json: bool) -> None:
    """Exact matches on dates it never saw, the hardest languages, an alignment, then a prompt at
    which to try it."""
    scores, folder = run.evaluate("test"), run.folder
    picture = folder / "attention.html"
    outputs = run.translate(list(EXAMPLES))
    attention = _attention(run, EXAMPLES[0], outputs[0])
    write_text(picture, attention_html(attention, f"{EXAMPLES[0]} to {outputs[0]}"))
    examples = dict(zip(EXAMPLES, outputs, strict=True))
    if as_json:
        rows = {
            "exact_match": scores["exact_match"],
            "languages": scores["table"],
            "examples": examples,
        }
        return print_json({"run": str(folder), "steps": result.steps, **rows})
    table = sorted(scores["table"], key=lambda row: row["exact_match"])
    print(f"\ntrained {counted(result.steps, 'step')} in {clock(result.seconds)}")
    print(
        f"exact matches on held-out days: {scores['exact_match']:.2%} in {len(table)} "
        f"languages; the hardest:"
    )
    for row in table[:5]:
        print(f"  {row['group']:20} {row['exact_match']:8.2%} of {row['n']}")
    print()
    for source, output in examples.items():
        print(f"  {source:28} -> {output}")
    print("\nwhat each part of the last layer's output looked at:\n")
    print("\n".join(f"  {line}" for line in drawn(attention)))
    print(
        f"\nthe same for every layer and head: {picture}   curves, samples, languages: "
        f"{folder / 'report.html'}"
    )
    print("try next:")
    print(f'  echo "24 décembre 2031" | glassformer translate {folder} --scores')
    print(f"  glassformer verify {folder}")
    ask("type a date in any language", run.translate)
    return None


def _attention(run: Run, source: str, output: str) -> CrossAttention:
    assert run.pair is not None
    return cross_attention(run.model, run.pair, source, output, NUMBERS_AND_NAMES)


def drawn(attention: CrossAttention) -> Iterator[str]:
    """A line for each part of the output, a column for each of the source: the darker, the more it
    was looked at."""
    words = attention.source.words
    yield f"{'':8}" + " ".join(words)
    for part, row in zip(
        attention.target.words, attention.words([len(attention.patterns) - 1]), strict=True
    ):
        cells = [
            " ░▒▓█"[min(4, int(5 * float(mass)))] * len(word)
            for word, mass in zip(words, row, strict=True)
        ]
        yield f"{part:>6}  " + " ".join(cells)
