"""`glassformer demo classify`: the language of a short string, among more than sixty."""

from glassformer.data.labelled import labelled
from glassformer.demos.baselines import letters_bayes
from glassformer.demos.confusions import confused, confused_lines, confused_values
from glassformer.demos.demo import Shown, table, train_and_test
from glassformer.run import Run

EXAMPLES = [
    "I would like a cup of coffee",
    "Ich hätte gern eine Tasse Kaffee",
    "jeg vil gerne have en kop kaffe",
    "chciałbym filiżankę kawy",
    "хотел бы чашку кофе",
    "un café s'il vous plaît",
]


def show(run: Run, terminal: bool) -> Shown:
    """Accuracy on held-out strings beside two baselines, the pairs it confuses, and sentences."""
    scores = run.evaluate("test")
    train, test = train_and_test(run, labelled, lambda row: (row.text, row.labels[0]))
    accuracy = {
        "the most frequent language": scores["baselines"]["scores"]["majority_class"]["accuracy"],
        "naive Bayes on letters (1 to 3)": letters_bayes(train, test),
        "this model": scores["accuracy"],
    }
    pairs = confused(scores["confusion"])
    examples = dict(zip(EXAMPLES, run.classify(EXAMPLES), strict=True))
    values = {name: scores[name] for name in ("macro_f1", "ece")}
    return Shown(
        {"accuracy": accuracy, **values, "confused": confused_values(pairs), "examples": examples},
        [
            f"accuracy on {scores['examples']:,} strings about things it never saw, in "
            f"{len(run.classes)} languages:",
            *table(accuracy),
            *confused_lines(pairs),
            "\nsentences (it has seen names, dates and amounts only):",
            *(f"  {text:36} {label}" for text, label in examples.items()),
            f"\nconfusions, calibration, the worst: {run.folder / 'report.html'} (open it in a "
            "browser)",
        ],
        ("type something in any language", run.classify),
    )
