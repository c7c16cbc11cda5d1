"""`glassformer demo classify`: in which of more than sixty languages is a short string?"""

from glassformer.data.labelled import labelled
from glassformer.demos.baselines import majority, naive_bayes
from glassformer.demos.confusions import confused, confused_lines, confused_values
from glassformer.demos.demo import Demo, Shown, Training, table
from glassformer.demos.languages import write_languages
from glassformer.run import Run

EXAMPLES = (
    "I would like a cup of coffee",
    "Ich hätte gern eine Tasse Kaffee",
    "jeg vil gerne have en kop kaffe",
    "chciałbym filiżankę kawy",
    "хотел бы чашку кофе",
    "un café s'il vous plaît",
)


def show(run: Run, terminal: bool) -> Shown:
    """Accuracy on held-out strings beside two baselines, the pairs it confuses, and sentences."""
    assert run.recipe is not None
    folder, scores = run.folder, run.evaluate("test")
    rows = list(labelled(run.recipe.data))
    train, test = (
        [(row.text, row.labels[0]) for row in rows if row.split == split]
        for split in ("train", "test")
    )
    accuracy = {
        "the most frequent language": majority(
            (label for _, label in train), (label for _, label in test)
        ),
        "naive Bayes on letters (1 to 3)": naive_bayes(train, test, "letters"),
        "this model": scores["accuracy"],
    }
    pairs = confused(scores["confusion"])
    examples = dict(zip(EXAMPLES, run.classify(list(EXAMPLES)), strict=True))
    return Shown(
        {
            "accuracy": accuracy,
            "macro_f1": scores["macro_f1"],
            "ece": scores["ece"],
            "confused": confused_values(pairs),
            "examples": examples,
        },
        [
            f"accuracy on {scores['examples']:,} strings about things it never saw, in "
            f"{len(run.classes)} languages:",
            *table(accuracy),
            *confused_lines(pairs),
            "\nsentences (it has seen names, dates and amounts only):",
            *(f"  {text:36} {label}" for text, label in examples.items()),
            f"\nconfusions, calibration, the worst: {folder / 'report.html'} (open it in a "
            "browser)",
        ],
        [
            f'echo "zwei Wochen" | glassformer classify {folder} --top-k 3',
            f"glassformer evaluate {folder} --split test",
        ],
        ("type something in any language", run.classify),
    )


DEMO = Demo(
    "A classifier that tells the language of a short string, among more than sixty, from names "
    "and phrases of CLDR.",
    (Training("classify", write_languages),),
    show,
)
