"""Megabytes that installing glassformer without extras needs beyond torch.

python bench/install_size.py

Sums the files of each distribution that the package needs and torch does not, as they are installed
here; bytecode apart, which pip compiles at the installation.
"""

from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement


def needed(name: str) -> set[str]:
    """The distributions that one needs, itself included, without extras."""
    found, todo = set[str](), [name]
    while todo:
        name = todo.pop().lower().replace("_", "-")
        if name not in found:
            found.add(name)
            rows = map(Requirement, distribution(name).requires or [])
            todo += [r.name for r in rows if not r.marker or r.marker.evaluate({"extra": ""})]
    return found


def files_of(name: str) -> list[Path]:
    """The files of a distribution; those of the package itself also where it is editable."""
    if name == "glassformer":
        import glassformer

        return [file for file in Path(glassformer.__file__).parent.rglob("*") if file.is_file()]
    of = distribution(name)
    return [path for file in of.files or [] if (path := Path(str(of.locate_file(file)))).is_file()]


def main() -> None:
    rows = []
    for name in needed("glassformer") - needed("torch"):
        sizes = [(file.suffix == ".pyc", file.stat().st_size / 1e6) for file in files_of(name)]
        rows.append(
            (sum(s for code, s in sizes if not code), sum(s for code, s in sizes if code), name)
        )
    for files, bytecode, name in sorted(rows, reverse=True):
        print(f"{name:24}{files:8.1f}{bytecode:8.1f}")
    files, bytecode = sum(row[0] for row in rows), sum(row[1] for row in rows)
    print(f"{'MB beyond torch':24}{files:8.1f}{bytecode:8.1f}   together {files + bytecode:.1f}")


if __name__ == "__main__":
    main()
