"""Models of the Hugging Face Hub, downloaded when a command names one: OWNER/NAME or
OWNER/NAME@REVISION.

A path that is there is never one, nor one below a folder that is there (a mistyped run). Only files
that are read are taken, none of them a pickle, into a temporary folder; of huggingface_hub's own
cache nothing is used.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from glassformer.core.errors import CheckpointError, ConfigError
from glassformer.core.files import scratch_folder

HUB_ID = re.compile(r"([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?:@([\w./-]+))?")
READ = re.compile(
    r"model([.-][\w.-]*)?\.safetensors(\.index\.json)?|[\w-]*config\.json|modules\.json"
    r"|tokenizer\.(json|model)|(vocab|special_tokens_map|added_tokens)\.json|vocab\.txt|merges\.txt"
    r"|spiece\.model|sentencepiece\.bpe\.model|(source|target)\.spm|chat_template\.(jinja|json)"
    r"|\d_Pooling/config\.json"
)
"""Files that an import reads."""
SETTINGS = ("HF_HUB_DISABLE_XET", "HF_HUB_DISABLE_TELEMETRY")
"""Variables of huggingface_hub: without another cache, and without reports."""


@contextmanager
def find_model(path: str | Path) -> Iterator[tuple[Path, str]]:
    """Give the folder of a model for the body, and its name for the card: of the Hub, from which it
    is downloaded, with the commit.

    ConfigError: huggingface_hub is not installed. CheckpointError: no such model there, or no
    network.
    """
    path = Path(path)
    wanted = HUB_ID.fullmatch(path.as_posix())
    if wanted is None or path.exists() or Path(path.parts[0]).exists():
        yield path, path.resolve().name
        return
    name, revision = wanted.groups()
    with scratch_folder() as place:
        folder = place / name.partition("/")[2]
        commit = _download(name, revision, folder)
        yield folder, f"{name} of the Hugging Face Hub, commit {commit}"


def _download(name: str, revision: str | None, folder: Path) -> str:
    """Download the files that are read; returns the commit."""
    for setting in SETTINGS:
        os.environ.setdefault(setting, "1")
    try:
        from huggingface_hub import HfApi, errors
    except ImportError:
        raise ConfigError(
            f"{name} is no folder here, and models of the Hub need huggingface_hub; run pip "
            "install 'glassformer[hub]', or give the folder of a model."
        ) from None
    failed: type[Exception] = getattr(errors, "HTTPError", OSError)  # of the library beneath it
    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT"), library_name="glassformer")
    try:
        of = api.model_info(name, revision=revision, timeout=20)
        commit = str(of.sha)
        files = [one.rfilename for one in of.siblings or [] if READ.fullmatch(one.rfilename)]
        for file in files:
            api.hf_hub_download(name, file, revision=commit, local_dir=folder)
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError):
        raise CheckpointError(
            f"{name} is no folder here, and the Hub has no such model"
            f"{f' or no revision {revision!r} of it' if revision else ''} that you may read; check "
            "the name."
        ) from None
    except (failed, OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:100] or type(error).__name__
        raise CheckpointError(
            f"{name} is no folder here, and cannot be downloaded from the Hub ({reason}); give the "
            "folder of a model, or try again with a network."
        ) from None
    if "config.json" not in files:
        raise CheckpointError(f"{name} on the Hub has no config.json; choose another model.")
    return commit
