"""`glassformer tag`: lines of words, or of parts, in; a tag for each word out, in order.

The/DET cats/NOUN          by default; the tag stands behind the last slash
The <TAB> DET              with --columns: a line for each word, an empty one behind each sentence
{"words": ..., "tags": ...}  with --json: probabilities too, and the spans that tags mark
"""

from typing import TYPE_CHECKING

from glassformer.cli.lines import chunks, numbered, one_line
from glassformer.cli.options import Count, Device, Json, RunFolder
from glassformer.cli.terminal import print_json
from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from glassformer.generate.tag import Tags

TOGETHER = 1 << 10
"""Lines that are tagged together, if they are there already."""


def tag(
    run: RunFolder,
    columns: bool = False,
    top_k: Count = 1,
    punctuation: bool = False,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Tag the words of each line of standard input. Words are separated by spaces; a line may have
    any length.

    columns: Print a line for each word: word, TAB, tag (CoNLL).
    top_k: With --json: print the K likeliest tags, or all.
    punctuation: Split punctuation marks off as words (for raw text).
    """
    from glassformer.processors.word_tokenizer import split_punctuation
    from glassformer.run import load

    if columns and json:
        raise ConfigError("--columns and --json are two forms of the same; leave one of them out.")
    if top_k > 1 and not json:
        raise ConfigError(
            f"--top-k={top_k} lists several tags of each word, which only --json can hold; add "
            "--json."
        )
    opened = load(run, device)
    processor, names = opened.processor, [one_line(name) for name in opened.classes]
    if punctuation and "parts" in processor.capabilities:
        raise ConfigError(
            "--punctuation cuts lines of words, and this model reads lists of parts; leave it out."
        )
    opened.tagged([])  # a model that does not tag is refused before a line is waited for
    for number, lines in numbered(chunks(TOGETHER)):
        inputs = [
            split_punctuation(line) if punctuation else processor.from_line(line, n) or []
            for n, line in enumerate(lines, number)
        ]
        for given, tags in zip(inputs, opened.tagged(inputs, top_k), strict=True):
            _print(processor.words(given), tags, names, columns, json)


def _print(words: list[str], tags: "Tags", names: list[str], columns: bool, as_json: bool) -> None:
    if as_json:
        found = tags.as_json(names)
        for span in found.get("spans", ()):
            span["text"] = " ".join(words[span["start"] : span["end"]])
        print_json({"words": words, **found})
        return
    rows = zip(words, tags.labels(names), strict=True)
    if columns:
        print("".join(f"{word}\t{name}\n" for word, name in rows))
    else:
        print(" ".join(f"{word}/{name}" for word, name in rows))
