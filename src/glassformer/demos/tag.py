"""`glassformer demo tag`: Python source highlighted by meaning, from the standard library's own
files."""

from collections.abc import Sequence
from typing import Any

from glassformer.cli.terminal import on_terminal, print_json
from glassformer.demos.codetags import TAGS
from glassformer.demos.codewords import split_code
from glassformer.demos.python_code import CodeChunk, code_chunks, held_out_file
from glassformer.errors import counted
from glassformer.files import write_text
from glassformer.inspect.highlight import coloured, legend, page
from glassformer.run import Run
from glassformer.tasks.baselines import majority, most_frequent_tag
from glassformer.training.loop import Result
from glassformer.training.progress import clock

ABOUT = (
    "A tagger that reads Python source and says what each name means: function, parameter, "
    "attribute, import, ..."
)
RECIPE: dict[str, dict[str, Any]] = {
    "model": {
        "preset": "modern",
        "size": "tiny",
        "architecture": "encoder",
        "head": "tag",
        "n_layers": 3,
        "n_heads": 2,
        "d_model": 96,
        "max_length": 512,
        "embedding_norm": True,
    },
    "data": {"path": "builtin:python-code"},
    "tokenizer": {"kind": "bpe", "vocab_size": 2000},
    "train": {
        "steps": 500,
        "batch_tokens": 4096,
        "optimizer": "muon",
        "learning_rate": 0.01,
        "schedule": "wsd",
        "final_fraction": 0.0,
        "warmup_steps": 20,
        "weight_decay": 0.0,
        "max_grad_norm": 0.0,
        "evaluate_every": 250,
        "save_every": 250,
        "sample_every": 250,
        "best": "accuracy",
    },
}
SHOWN = 30
"""Lines of the held-out file on the terminal, or names where it is piped."""


def show(run: Run, result: Result, as_json: bool) -> None:
    """Its score on files it never saw beside two simple ones, and one of these files in colours."""
    folder = run.folder
    scores = _scores(run)
    name, source = held_out_file()
    words, spans = split_code(source)
    tags = [tag for _, tag in run.tag(words)]
    picture = folder / "highlight.html"
    write_text(picture, page(source, spans, tags, TAGS, f"{name}, tagged by {folder.name}"))
    if as_json:
        return print_json({"run": str(folder), "steps": result.steps, **scores, "file": name})
    print(
        f"\ntrained {counted(result.steps, 'step')} in {clock(result.seconds)}; words tagged "
        f"right in held-out files:"
    )
    print(f"  {'':36} {'names':>8} {'all words':>10}")
    for label, own in scores["accuracy"].items():
        print(f"  {label:36} {own['names']:8.2%} {own['all']:10.2%}")
    print("\nof its names, found again, by meaning:")
    print("  " + "  ".join(f"{tag} {share:.0%}" for tag, share in scores["recall"].items()))
    print(f"\nfrom {name}, a file it never saw:\n")
    print(_excerpt(source, spans, tags))
    print(f"the whole file in colours: {picture}   curves, confusions: {folder / 'report.html'}")
    print("try next:")
    print(f"  python examples/highlight.py {folder} YOUR_FILE.py --html YOUR_FILE.html")
    print(f'  echo "total = price * count" | glassformer tag {folder} --json')
    return None


def _scores(run: Run) -> dict[str, Any]:
    """Accuracies on names, whose meaning their letters do not give, and on all words but layout;
    two baselines."""
    chunks = code_chunks()
    train, test = (
        [chunk for chunk in chunks if chunk.split == split] for split in ("train", "test")
    )
    found = [[tag for _, tag in sentence] for sentence in run.tag([chunk.words for chunk in test])]
    guesses = ("the commonest tag", "each word's most frequent tag", "this model")
    accuracy: dict[str, dict[str, float]] = {guess: {} for guess in guesses}
    right: dict[str, list[bool]] = {tag: [] for tag in NAMES}
    for what, chosen in (("names", frozenset(NAMES)), ("all", frozenset(TAGS) - {"layout"})):
        learned, asked = _only(train, chosen), _only(test, chosen)
        own = [
            (gold, tag)
            for chunk, tags in zip(test, found, strict=True)
            for gold, tag in zip(chunk.tags, tags, strict=True)
            if gold in chosen
        ]
        commonest = majority(
            (t for _, tags in learned for t in tags), (t for _, tags in asked for t in tags)
        )
        accuracy["the commonest tag"][what] = commonest
        accuracy["each word's most frequent tag"][what] = most_frequent_tag(learned, asked)
        accuracy["this model"][what] = sum(gold == tag for gold, tag in own) / len(own)
        if what == "names":
            for gold, tag in own:
                right[gold].append(gold == tag)
    return {
        "accuracy": accuracy,
        "recall": {tag: sum(own) / len(own) for tag, own in right.items() if own},
    }


NAMES = TAGS[:9]
"""Tags of names."""


def _only(chunks: Sequence[CodeChunk], chosen: frozenset[str]) -> list[tuple[list[str], list[str]]]:
    """Words and tags of chunks, those with a tag that is asked for."""
    kept = (
        [(w, t) for w, t in zip(chunk.words, chunk.tags, strict=True) if t in chosen]
        for chunk in chunks
    )
    return [([w for w, _ in pairs], [t for _, t in pairs]) for pairs in kept]


def _excerpt(source: str, spans: Sequence[tuple[int, int]], tags: Sequence[str]) -> str:
    """Lines of the file from its first definition on: in colours, or where there are none, names
    with their tags."""
    begin = source.rfind("\n", 0, max(source.find("def "), 0)) + 1
    end = begin + sum(len(line) for line in source[begin:].splitlines(keepends=True)[:SHOWN])
    within = [i for i, (start, stop) in enumerate(spans) if begin <= start and stop <= end]
    if on_terminal():
        inside = [(spans[i][0] - begin, spans[i][1] - begin) for i in within]
        return f"{legend(TAGS)}\n\n{coloured(source[begin:end], inside, [tags[i] for i in within], TAGS)}"
    named = [i for i in within if tags[i] in NAMES]
    return "\n".join(f"  {source[slice(*spans[i])]:24} {tags[i]}" for i in named[:SHOWN])
