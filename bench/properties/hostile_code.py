"""Code in the files of a run: whether any of it runs, or connects, while the run is opened."""

import io
import os
import pickle
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np

FORBIDDEN = (
    *("pickle.find_class", "os.system", "subprocess.Popen", "socket.connect", "os.exec"),
    *("os.posix_spawn", "ctypes.dlopen"),
)
"""Audit events of code that runs, and of connections."""
HOOKED = f"""
import sys
import glassformer as gf, tokenizers  # imported before the hook, as other programs are
from glassformer.core.errors import GlassformerError
gf.load(sys.argv[1]).look("the cat")
BAD = {FORBIDDEN!r}
seen = []
def hook(event, arguments):
    if event in BAD:
        seen.append((event, str(arguments)[:200]))
sys.addaudithook(hook)
for folder in sys.argv[1:]:
    try:
        run = gf.load(folder, accept_changed=True)
        run.look("the cat")
    except GlassformerError:
        pass
print(seen)
"""

NAMES = (
    *("model.safetensors", "config.json", "tokenizer.json", "recipe.yaml", "manifest.json"),
    "generation_config.json",
)


def hostile_code(run: Path, place: Path, every: int = 1) -> tuple[int, list[str]]:
    """The number of files that hold code, of every k-th kind in each file, and what was run or
    asked of the system."""
    canary, folders = place / "canary", [run]
    for first, name in enumerate(NAMES):
        for kind, raw in [*payloads(canary).items()][first % every :: every]:
            folder = Path(shutil.copytree(run, place / f"{name}-{kind}"))
            (folder / name).write_bytes(raw)
            folders.append(folder)
    done = subprocess.run(
        [sys.executable, "-c", HOOKED, *map(str, folders)], capture_output=True, text=True
    )
    problems = [] if done.stdout.strip() == "[]" else [done.stdout + done.stderr]
    return len(folders) - 1, problems + ["the canary was made"] * canary.exists()


def payloads(canary: Path) -> dict[str, bytes]:
    """Files of five kinds, which make a file when what reads them runs their code."""

    class Evil:
        def __reduce__(self) -> tuple:
            return os.system, (f"touch {canary}",)

    zipped, array = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:  # as torch.save writes it
        archive.writestr("archive/data.pkl", pickle.dumps(Evil()))
    np.save(array, np.array([Evil()], dtype=object), allow_pickle=True)
    return {
        "pickle": pickle.dumps(Evil()),
        "archive": zipped.getvalue(),
        "array": array.getvalue(),
        "yaml": f"!!python/object/apply:os.system ['touch {canary}']\n".encode(),
        "module": f"!!python/module:os\nx: !!python/name:os.system {canary}\n".encode(),
    }
