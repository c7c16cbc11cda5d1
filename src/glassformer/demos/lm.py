"""`glassformer demo lm`: a language model on Python's own documentation."""

from glassformer.demos.baselines import bits_per_byte
from glassformer.demos.results import Shown, table
from glassformer.run import Run

PROMPT = "Return a new"


def show(run: Run) -> Shown:
    """Bits per byte beside n-gram baselines, and a text."""
    assert run.recipe is not None
    stored = run.processor.stored(run.recipe.data, run.folder)
    train, test = stored["train"], stored["validation"]
    bits = bits_per_byte(train.tokens, test.tokens, test.n_bytes, run.model.config.vocab_size)
    bits["this model"] = run.evaluate()["bits_per_byte"]
    text = PROMPT + run.generate(PROMPT)
    lines = [
        "bits per byte of held-out text:",
        *table(bits, "6.3f"),
        f"\n{PROMPT!r} continued:\n",
        "    " + text.strip().replace("\n", "\n    "),
    ]
    return Shown({"bits_per_byte": bits, "text": text}, lines)
