"""`glassformer demo lm`: a language model on Python's own documentation."""

from glassformer.demos.baselines import bits_per_byte
from glassformer.demos.demo import Demo, Shown, Training, table
from glassformer.demos.python_text import write_documents
from glassformer.run import Run

PROMPT = "Return a new"


def show(run: Run, terminal: bool) -> Shown:
    """Bits per byte beside n-gram baselines, and a text."""
    assert run.recipe is not None
    folder, stored = run.folder, run.processor.stored(run.recipe.data, run.folder)
    train, test = stored["train"], stored["validation"]
    bits = bits_per_byte(train.tokens, test.tokens, test.n_bytes, run.model.config.vocab_size)
    bits["this model"] = run.evaluate()["bits_per_byte"]
    text = PROMPT + run.generate(PROMPT)
    return Shown(
        {"bits_per_byte": bits, "text": text},
        [
            "bits per byte of held-out text:",
            *table(bits, "6.3f"),
            f"\n{PROMPT!r} continued:\n",
            "    " + text.strip().replace("\n", "\n    "),
            f"\ncurves and samples: {folder / 'report.html'} (open it in a browser)",
        ],
        [
            f'glassformer generate {folder} --prompt "If the file" --temperature 0.7 --seed 2',
            f"glassformer verify {folder}",
            "glassformer train task=text-generation model.preset=modern model.size=tiny "
            "data.train.path=YOUR_TEXT "
            "--run runs/mine",
        ],
    )


DEMO = Demo(
    "A language model on Python's own documentation: the language reference and docstrings.",
    (Training("lm", write_documents),),
    show,
)
