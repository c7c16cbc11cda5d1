"""Encode a large text by the machines of a Dask cluster, all of which see its files and the store.

pip install "dask[distributed]"
python examples/dask_tokens.py TEXT STORE TOKENIZER [SCHEDULER]

TEXT is a file, folder or glob, TOKENIZER a tokenizer.json or a run with one, and SCHEDULER an
address such as tcp://10.0.0.1:8786 (default: a cluster on this machine). A shard of a worker that
is lost is made again, by Dask or by the next start. A training then finds the store:

glassformer train lm data.train.path=TEXT data.store=STORE processor.tokenizer.path=TOKENIZER
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from dask.distributed import Client

from glassformer.data.config import DataConfig
from glassformer.data.shards import Job
from glassformer.data.tokens import store_tokens
from glassformer.tokenizers.text import Tokenizer


def main(text: Path, store: Path, tokenizer: Path, scheduler: str | None = None) -> None:
    with Client(scheduler) as client:

        def each(function: Callable[[Job], int], jobs: Sequence[Job]) -> list[int]:
            return client.gather(client.map(function, jobs, pure=False))

        data = DataConfig.parse({"train": {"path": str(text.absolute())}})
        made = store_tokens(store.absolute(), Tokenizer.load(tokenizer), data, each=each)
    for split, counts in made.counts.items():
        print(f"{split}: {counts['tokens']:,} tokens of {counts['documents']:,} documents")


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    main(*map(Path, sys.argv[1:4]), *sys.argv[4:])
