"""Record the reply to every case, each as a line of JSON."""

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import yaml

from replies.commands import reply_of_command, write_inputs
from replies.methods import METHODS, reply_of_method
from replies.plain import normalize
from replies.servers import Servers, reply_to_request
from replies.tree import package, prepare

HERE = Path(__file__).parent
FILES = ("tag-classify", "verbs", "files", "http", "generate", "translate", "others", "training")
FILES += ("explorer",)
KEPT = ("data", "recipes", "runs")
"""Folders that no reply may change."""


def cases(wanted: Sequence[str]) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Yield the name of every case that fits one of these patterns, and a function of its reply."""
    for stem in FILES:
        text = (HERE / "cases" / f"{stem}.yaml").read_text(encoding="utf-8")
        groups = yaml.safe_load(text)
        servers = Servers(groups.pop("servers", {}))
        try:
            for group, own in groups.items():
                for name, case in own.items():
                    path = f"{stem}/{group}/{name}"
                    if is_wanted(path, wanted):
                        yield path, reply_of(case, servers)
        finally:
            servers.close()
    for name in METHODS:
        if is_wanted(f"methods/{name}", wanted):
            yield f"methods/{name}", lambda name=name: reply_of_method(name)


def is_wanted(name: str, wanted: Sequence[str]) -> bool:
    """Whether a name fits one of these patterns, or there is none."""
    return not wanted or any(fnmatch(name, one) for one in wanted)


def reply_of(case: Any, servers: Servers) -> Callable[[], dict[str, Any]]:
    """Return the function that computes the reply to a case: to a request, or to commands."""
    is_request = isinstance(case, list) and case[0] in servers.commands
    return lambda: reply_to_request(servers, case) if is_request else reply_of_command(case)


def record(out: Path, wanted: Sequence[str]) -> None:
    """Write the replies of the current folder's runs; a failure of the tool is a reply too."""
    sys.stderr.write(f"replies of {package()}\n")
    os.environ["COLUMNS"] = "100"
    prepare()
    write_inputs()
    before, count = snapshot(), 0
    with out.open("w", encoding="utf-8") as file:
        for name, call in cases(wanted):
            try:
                found = call()
            except Exception:  # noqa: BLE001 - the other cases are recorded too
                found = {"failed": normalize(traceback.format_exc())}
                sys.stderr.write(f"{name} failed: {found['failed'].splitlines()[-1]}\n")
            file.write(json.dumps({"case": name, **found}, ensure_ascii=False) + "\n")
            count += 1
    for path in sorted(before.items() ^ snapshot().items()):
        sys.stderr.write(f"a reply changed {path[0]}\n")
    sys.stderr.write(f"{out}: {count} replies\n")


def snapshot() -> dict[str, tuple[int, int]]:
    """Size and time of every file that no reply may change."""
    paths = (path for folder in KEPT for path in Path(folder).rglob("*") if path.is_file())
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in paths}
