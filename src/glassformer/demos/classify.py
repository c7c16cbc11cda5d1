"""`glassformer demo classify`: in which of more than sixty languages is a short string?"""

from typing import Any

from glassformer.cli.terminal import ask, print_json
from glassformer.demos.languages import languages
from glassformer.errors import counted
from glassformer.run import Run
from glassformer.tasks.baselines import majority, naive_bayes
from glassformer.training.loop import Result
from glassformer.training.progress import clock

ABOUT = (
    "A classifier that tells the language of a short string, among more than sixty, from "
    "names and phrases of CLDR."
)
RECIPE: dict[str, dict[str, Any]] = {
    "model": {
        "preset": "modern",
        "size": "tiny",
        "architecture": "encoder",
        "head": "classify",
        "pool": "mean",
        "n_layers": 2,
        "n_heads": 2,
        "d_model": 96,
        "max_length": 128,
        "dropout": 0.1,
        "embedding_norm": True,
    },
    "data": {"path": "builtin:languages"},
    "tokenizer": {"kind": "bpe", "vocab_size": 6000},
    "train": {
        "steps": 2200,
        "batch_tokens": 2048,
        "optimizer": "muon",
        "learning_rate": 0.01,
        "schedule": "wsd",
        "final_fraction": 0.0,
        "warmup_steps": 20,
        "piece_dropout": 0.05,
        "weight_decay": 0.0,
        "max_grad_norm": 0.0,
        "evaluate_every": 500,
        "save_every": 500,
        "sample_every": 1000,
        "best": "accuracy",
    },
}
EXAMPLES = (
    "I would like a cup of coffee",
    "Ich hätte gern eine Tasse Kaffee",
    "jeg vil gerne have en kop kaffe",
    "chciałbym filiżankę kawy",
    "хотел бы чашку кофе",
    "un café s'il vous plaît",
)


def show(run: Run, result: Result, as_json: bool) -> None:
    """Its score on strings it never saw beside two simple ones, the pairs it confuses, and some
    sentences."""
    folder = run.folder
    scores = run.evaluate("test")
    data = list(languages())
    train, test = (
        [(text, label) for split, text, label, _ in data if split == of] for of in ("train", "test")
    )
    guesses = {
        "the commonest language": majority(
            (label for _, label in train), (label for _, label in test)
        ),
        "naive Bayes on letters (1 to 3)": naive_bayes(train, test, "letters"),
        "this model": scores["accuracy"],
    }
    pairs = confused(scores["confusion"])
    examples = dict(zip(EXAMPLES, run.classify(list(EXAMPLES)), strict=True))
    if as_json:
        rows = [{"gold": gold, "predicted": found, "n": n} for n, gold, found in pairs]
        values = {"accuracy": guesses, "macro_f1": scores["macro_f1"], "ece": scores["ece"]}
        return print_json(
            {
                "run": str(folder),
                "steps": result.steps,
                **values,
                "confused": rows,
                "examples": examples,
            }
        )
    print(f"\ntrained {counted(result.steps, 'step')} in {clock(result.seconds)}")
    print(
        f"told right, of {scores['examples']:,} strings about things it never saw, in "
        f"{len(run.classes)} languages:"
    )
    for label, value in guesses.items():
        print(f"  {label:32} {value:7.2%}")
    print("\nmost often confused:")
    for n, gold, found in pairs[:5]:
        print(f"  {n:3} times {gold} taken for {found}")
    print("\nsentences (it has seen names, dates and amounts only):")
    for text, label in examples.items():
        print(f"  {text:36} {label}")
    print(f"\nconfusions, calibration, the worst: {folder / 'report.html'} (open it in a browser)")
    print("try next:")
    print(f'  echo "zwei Wochen" | glassformer classify {folder} --top-k 3')
    print(f"  glassformer evaluate {folder} --split test")
    ask("type something in any language", run.classify)
    return None


def confused(confusion: dict[str, Any]) -> list[tuple[int, str, str]]:
    """How often a class was taken for another, the most frequent first."""
    names = confusion["names"]
    pairs = [
        (n, names[gold], names[found])
        for gold, row in enumerate(confusion["counts"])
        for found, n in enumerate(row)
        if n and gold != found
    ]
    return sorted(pairs, key=lambda pair: (-pair[0], *pair[1:]))
