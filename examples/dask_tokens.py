"""Encode a large text by the machines of a Dask cluster; this one reads it and writes the store.

pip install "dask[distributed]"
python examples/dask_tokens.py TEXT STORE TOKENIZER [SCHEDULER]

TEXT is a file, folder or glob, TOKENIZER a tokenizer.json or a run with one, and SCHEDULER an
address such as tcp://10.0.0.1:8786 (default: a cluster on this machine). A portion of a worker that
is lost is encoded again by Dask, and after a kill the next start continues with the next shard. A
training then finds the store:

glassformer train lm data.train.path=TEXT data.store=STORE processor.tokenizer.path=TOKENIZER
"""

import sys
from pathlib import Path

from dask.distributed import Client

from glassformer.data.config import DataConfig
from glassformer.data.tokens import store_tokens
from glassformer.tokenizers.text import Tokenizer


def main(text: Path, store: Path, tokenizer: Path, scheduler: str | None = None) -> None:
    data = DataConfig.parse({"train": {"path": str(text.absolute())}})
    with Client(scheduler) as client:
        ahead = 2 * sum(client.ncores().values())
        executor, read = client.get_executor(pure=False), Tokenizer.load(tokenizer)
        made = store_tokens(store.absolute(), read, data, executor=executor, ahead=ahead)
    for split, counts in made.counts.items():
        print(f"{split}: {counts['tokens']:,} tokens of {counts['documents']:,} documents")


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), *sys.argv[4:])
