"""The pages of docs/ as the site has them: links to files of the repository become links to pages.

A page says `[lm](../src/glassformer/recipes/lm.yaml)`, which a code host can follow. On the site
the file is a page of its own below `files/`, a folder of the package is its page of the reference,
and the README is `overview`. Names in backticks that begin with `glassformer.` become links to the
reference.
"""

import posixpath
import re
from collections.abc import Callable
from pathlib import Path

FENCED = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]+)?\)")
DOTTED = re.compile(r"(?<!`)`(glassformer(?:\.\w+)+)`(?!`)")
WITHOUT_PAGES = {"tests", "bench"}
"""Folders that are named on a page, but are not part of the site."""
LEXERS = {".py": "python", ".yaml": "yaml", ".sh": "bash", ".yml": "yaml"}
HIDDEN = """
```{{toctree}}
:hidden:
:caption: {caption}

{pages}
```
"""


class Pages:
    """The pages of a repository's site by their paths, made from README.md and docs/*.md."""

    def __init__(self, root: Path):
        self.root = root
        self.pages: dict[str, str] = {}
        self._add("README.md")
        for page in sorted((root / "docs").glob("*.md")):
            self._add(f"docs/{page.name}")
        self.pages["index.md"] += toctrees(self.pages["index.md"])

    def _add(self, path: str) -> str:
        """Make the page of a Markdown file of the repository, once; its path on the site."""
        site = place(path)
        if site not in self.pages:
            self.pages[site] = ""  # pages may link to each other
            text = (self.root / path).read_text(encoding="utf-8")
            orphan = "---\norphan: true\n---\n" if site.startswith("files/") else ""
            self.pages[site] = orphan + self._linked(text, path, site)
        return site

    def _linked(self, text: str, path: str, site: str) -> str:
        """The text of a page with the links of the site."""

        def link(found: re.Match[str]) -> str:
            image, label, target, anchor = found.groups()
            wanted = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
            if image:
                return f"![{label}]({_relative(wanted.removeprefix('docs/'), site)})"
            there = self._page_of(wanted)
            return f"[{label}]({_relative(there, site)}{anchor or ''})" if there else label

        def changed(prose: str) -> str:
            return DOTTED.sub(r"{any}`\1`", LINK.sub(link, prose))

        return outside_code(text, changed)

    def _page_of(self, path: str) -> str | None:
        """The page of a file or folder of the repository; None: the site does not have it."""
        file = self.root / path
        if path in WITHOUT_PAGES:
            return None
        if path == "docs":
            return "index.md"
        if path.startswith("src/glassformer/") and any(file.glob("*.py")):
            own = path.removeprefix("src/").replace("/", ".")
            return "commands.md" if own == "glassformer.cli" else f"api/{own}.md"
        if file.is_dir():
            return self._folder(path)
        return self._add(path) if file.suffix == ".md" else self._file(path)

    def _file(self, path: str) -> str:
        """Make the page of a file: its text."""
        site, file = place(path), self.root / path
        text = file.read_text(encoding="utf-8").rstrip("\n")
        lexer = LEXERS.get(file.suffix, "text")
        self.pages[site] = f"---\norphan: true\n---\n# {path}\n\n````{lexer}\n{text}\n````\n"
        return site

    def _folder(self, path: str) -> str:
        """Make the page of a folder: links to its files."""
        site = f"files/{path}/index.md"
        files = [f for f in sorted((self.root / path).iterdir()) if f.suffix in LEXERS]
        links = [f"- [{f.name}](/{self._file(f'{path}/{f.name}')})" for f in files]
        self.pages[site] = f"---\norphan: true\n---\n# {path}\n\n" + "\n".join(links) + "\n"
        return site


def place(path: str) -> str:
    """Where the page of a file of the repository is on the site."""
    if path == "README.md":
        return "overview.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"files/{path}" if path.endswith(".md") else f"files/{path}.md"


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """A page of Markdown, changed outside its fenced blocks."""
    parts = FENCED.split(text)
    parts[::2] = map(change, parts[::2])
    return "".join(parts)


def toctrees(index: str) -> str:
    """The navigation of the site: the links of each section of the index, in their order."""
    sections = re.split(r"^## ", index, flags=re.MULTILINE)[1:]
    found = []
    for section in sections:
        links = re.findall(r"\[([^\]]+)\]\(([\w-]+)\.md", section)
        mine = [f"{label[0].upper()}{label[1:]} <{name}>" for label, name in links]
        found.append(HIDDEN.format(caption=section.splitlines()[0], pages="\n".join(mine)))
    return "".join(found)


def _relative(path: str, page: str) -> str:
    return posixpath.relpath(path, posixpath.dirname(page) or ".")
