"""The files of the page: found by a table of those that there are, so that no path is ever put
together."""

import hashlib
from pathlib import Path, PurePosixPath

STATIC = Path(__file__).parent / "static"
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".json": "application/json",
}
"""Files that are given out, by their ending."""


class Files:
    """What is given out, by its path in an address; `/` is the page itself."""

    def __init__(self, folder: Path = STATIC):
        self.folder = folder
        self._files = self._table()

    def find(self, path: str) -> tuple[bytes, str] | None:
        """The content of a file as it is now, and its ETag; None: there is no such file."""
        if path not in self._files:
            self._files = (
                self._table()
            )  # written since: whoever works on the pages reloads and sees them
        file = self._files.get(path)
        if file is None:
            return None
        try:
            content = file.read_bytes()
        except OSError:
            return None
        return content, f'"{hashlib.sha256(content).hexdigest()[:20]}"'

    def _table(self) -> dict[str, Path]:
        found = {
            f"/{file.relative_to(self.folder).as_posix()}": file
            for file in sorted(self.folder.rglob("*"))
            if file.suffix in KINDS and file.is_file()
        }
        return found | ({"/": found["/index.html"]} if "/index.html" in found else {})


def kind_of(path: str) -> str:
    """The media type of a path in an address."""
    return KINDS[PurePosixPath(path).suffix or ".html"]
