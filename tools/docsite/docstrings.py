"""Docstrings are plain text with formulas; Sphinx reads reStructuredText. What has a meaning there
is escaped.

A paragraph stays one, an indented part is shown as it stands, `name` becomes a link where the name
is known, and lines that begin with "- " are a list.
"""

import re

SPAN = re.compile(r"(`+)(.+?)\1", re.DOTALL)
NAME = re.compile(r"(?:gf\.)?([A-Za-z_]\w*(?:\.\w+)*)(?:\(\))?")
SPECIAL = re.compile(r"([\\*`|_])")


def restructured(lines: list[str]) -> list[str]:
    """The lines of a docstring as reStructuredText."""
    found: list[str] = []
    for paragraph in re.split(r"\n\s*\n", "\n".join(lines).strip("\n")):
        found += [*_paragraph(paragraph), ""]
    return found


def _paragraph(text: str) -> list[str]:
    """One paragraph: sentences, then perhaps an indented part."""
    lines = text.split("\n")
    plain = next((i for i, line in enumerate(lines) if line.startswith("  ")), len(lines))
    if re.match(r"- |\d+\. ", lines[0]):
        plain = len(lines)  # what goes on in a list is indented
    found = _escaped("\n".join(lines[:plain])).split("\n") if plain else []
    if plain < len(lines):
        found += ["", "::", "", *(f"    {line}" for line in lines[plain:])]
    return found


def _escaped(text: str) -> str:
    """A text without markup but code spans, which become links or code."""
    found, end = [], 0
    for span in SPAN.finditer(text):
        before = SPECIAL.sub(r"\\\1", text[end : span.start()])
        # Two marks of reStructuredText need something between them and a letter.
        found += [before, "\\ " if before[-1:].isalnum() else "", _code(span[2]), "\\ "]
        end = span.end()
    return "".join(found) + SPECIAL.sub(r"\\\1", text[end:])


def _code(span: str) -> str:
    span = " ".join(span.split())
    if NAME.fullmatch(span) and not span.startswith("_"):
        return f":py:obj:`{span.removeprefix('gf.')}`"
    escaped = SPECIAL.sub(r"\\\1", span)
    return f":code:`{escaped}`"
