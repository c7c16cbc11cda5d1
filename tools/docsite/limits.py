"""The page docs/limits.md from the list docs/limits.yaml: python -m docsite.limits"""

from pathlib import Path

import yaml

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGE = """# Limits

This page lists what people look for and what is not here. A test tries each line and sees that it
is refused.

| not here | known from | instead |
| --- | --- | --- |
{rows}
"""


def entries() -> list[dict]:
    """Return what is not here, a record each; docs/limits.yaml explains the fields."""
    return yaml.safe_load((DOCS / "limits.yaml").read_text(encoding="utf-8"))


def render() -> str:
    """Return the page of all entries."""
    rows = [f"| {one['what']} | {one['known']} | {one['instead']} |" for one in entries()]
    return PAGE.format(rows="\n".join(rows))


if __name__ == "__main__":
    (DOCS / "limits.md").write_text(render(), encoding="utf-8", newline="\n")
