"""Greedy decoding here beside transformers and llama.cpp, one text at a time on the CPU.

    python bench/decode_vs_peers.py --tokenizer FOLDER [--threads 2] [--prompt 128] [--new 128]

A model of the shape of GPT-2 (124 million parameters) with random weights, in float32. FOLDER has
its tokenizer: vocab.json and merges.txt, encoder.json and vocab.bpe, or tokenizer.json. llama.cpp
takes part if its Python binding is installed. Prints one JSON object: tokens a second of the prompt
(prefill) and of the answer (decode), medians of rounds A B A B ...; our rates as many times those
of each peer; and how many gigabytes of weights a second our decoding reads.
"""

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
import transformers

import glassformer as gf
from glassformer.generate.config import GenerateConfig
from glassformer.generate.decode import decode

FILES = {
    "vocab.json": "vocab.json",
    "merges.txt": "merges.txt",
    "encoder.json": "vocab.json",  # as GPT-2 was first published
    "vocab.bpe": "merges.txt",
    "tokenizer.json": "tokenizer.json",
}
Answer = Callable[[Sequence[int], int], list[int]]
"""So many greedy tokens behind those of a prompt."""


def published(folder: Path, tokenizer: Path) -> Path:
    """A folder with random weights of GPT-2's shape and this tokenizer."""
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config())
    model.save_pretrained(folder)
    for name, target in FILES.items():
        if (tokenizer / name).is_file():
            shutil.copy(tokenizer / name, folder / target)
    return folder


def ours(run: gf.Run) -> Answer:
    def answer(prompt: Sequence[int], n: int) -> list[int]:
        config = GenerateConfig(temperature=0.0, max_new_tokens=n)
        return [step.ids[0] for step in decode(run.model, [list(prompt)], config)]

    return answer


def peer(folder: Path) -> Answer:
    """transformers with its own cache, as `generate` is by default."""
    model = transformers.GPT2LMHeadModel.from_pretrained(folder).eval()

    def answer(prompt: Sequence[int], n: int) -> list[int]:
        ids = torch.tensor([list(prompt)])
        made = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            min_new_tokens=n,
            max_new_tokens=n,
            pad_token_id=0,
        )
        return made[0, len(prompt) :].tolist()

    return answer


def llama(run: gf.Run, folder: Path, threads: int, room: int) -> Answer | None:
    """llama.cpp on the same weights, if it is installed."""
    try:
        import llama_cpp
    except ImportError:
        return None
    gf.export_run(run.folder, "gguf", folder, check=False)
    model = llama_cpp.Llama(
        str(folder / "model.gguf"),
        n_ctx=room,
        n_batch=room,
        n_threads=threads,
        n_threads_batch=threads,
        verbose=False,
    )

    def answer(prompt: Sequence[int], n: int) -> list[int]:
        model.reset()
        made = []
        for token in model.generate(list(prompt), temp=0.0, repeat_penalty=1.0):
            made.append(token)
            if len(made) == n:
                return made
        return made

    return answer


def timed(answer: Answer, prompt: Sequence[int], n: int) -> float:
    begin = time.perf_counter()
    made = answer(prompt, n)
    seconds = time.perf_counter() - begin
    assert len(made) == n, f"{len(made)} tokens in place of {n}"
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--new", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    with tempfile.TemporaryDirectory() as place:
        folder = published(Path(place, "published"), given.tokenizer)
        run = gf.load(folder)
        sides = {"glassformer": ours(run), "transformers": peer(folder)}
        room = given.prompt + given.new + 1
        if other := llama(run, Path(place, "gguf"), given.threads, room):
            sides["llama.cpp"] = other
        prompt = torch.randint(50_000, (given.prompt,)).tolist()
        for answer in sides.values():
            timed(answer, prompt, 2)
        prefill: dict[str, list[float]] = {name: [] for name in sides}
        decoding: dict[str, list[float]] = {name: [] for name in sides}
        for _ in range(given.rounds):
            for name, answer in sides.items():
                first = timed(answer, prompt, 1)
                whole = timed(answer, prompt, given.new + 1)
                prefill[name].append(given.prompt / first)
                decoding[name].append(given.new / (whole - first))
    rates = {
        what: {name: statistics.median(own) for name, own in found.items()}
        for what, found in (("prefill", prefill), ("decode", decoding))
    }
    size = 4 * sum(p.numel() for p in run.model.parameters())
    print(
        json.dumps(
            {
                "threads": given.threads,
                "tokens_per_second": {
                    what: {name: round(rate, 1) for name, rate in own.items()}
                    for what, own in rates.items()
                },
                "times": {
                    what: {name: round(own["glassformer"] / rate, 2) for name, rate in own.items()}
                    for what, own in rates.items()
                },
                "read_gb_per_second": round(rates["decode"]["glassformer"] * size / 1e9, 1),
            }
        )
    )


if __name__ == "__main__":
    main()
