"""What pyproject.toml declares is imported or used, and what is imported is declared."""

import ast
import re
import sys
import tomllib
from functools import cache
from importlib import import_module
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path

from every import of_every

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
USED = {
    "accelerate": ("bench/vision_vs_peers.py", "accelerate"),  # by the Trainer of transformers
    "basedpyright": ("Makefile", "basedpyright"),
    "hatch-fancy-pypi-readme": ("pyproject.toml", "hooks.fancy-pypi-readme"),
    "hatchling": ("pyproject.toml", "hatchling.build"),
    "llguidance": ("src/glassformer/serve/api/formats.py", 'import_module("llguidance")'),
    "optuna": ("src/glassformer/sweep/space.py", 'import_module("optuna")'),
    "protobuf": ("src/glassformer/tokenizers/sentencepiece.py", "sentencepiece_model_pb2"),
    "ruff": ("Makefile", "ruff"),
    "pytest-timeout": ("pyproject.toml", "timeout = "),
    "pytest-xdist": ("Makefile", "-n 2"),
    "types-PyYAML": ("pyproject.toml", "[tool.basedpyright]"),
    "tensorboard": ("src/glassformer/training/folder/history.py", "torch.utils.tensorboard"),
    "anywidget": ("src/glassformer/serve/explorer/notebook.py", 'import_module("anywidget")'),
    "furo": ("tools/docsite/conf.py", "furo"),
    "myst-parser": ("tools/docsite/conf.py", "myst_parser"),
    "seqeval": ("tests/metrics/test_metrics_spans.py", 'importorskip("seqeval'),
}
"""What is used without an import statement: the file and the text that use it."""
MODULES = {"PyYAML": "yaml", "pillow": "PIL", "scikit-learn": "sklearn"}
EXTRAS = {
    name: of
    for name, of in PROJECT["optional-dependencies"].items()
    if name not in ("dev", "docs", "all")
}


def name_of(requirement: str) -> str:
    return re.split(r"[<>=!\[ ]", requirement)[0]


@cache
def imports(folder: str) -> set[str]:
    """The top modules that the files of a folder import, also inside functions."""
    found = set()
    for file in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Import():
                    found |= {one.name.partition(".")[0] for one in node.names}
                case ast.ImportFrom() if node.module and not node.level:
                    found.add(node.module.partition(".")[0])
    return found


def is_used(name: str, folders: tuple[str, ...]) -> bool:
    if name in USED:
        file, text = USED[name]
        return text in (ROOT / file).read_text(encoding="utf-8")
    module = MODULES.get(name, name.replace("-", "_"))
    return any(module in imports(folder) for folder in folders)


@of_every(PROJECT["dependencies"])
def test_a_dependency_is_imported(requirement):
    assert is_used(name_of(requirement), ("src",))
    assert re.search(r">=\d", requirement), "its oldest version is named"


def test_an_extra_is_imported_and_asked_for_by_its_name():
    source = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "src").rglob("*.py"))
    for extra, requirements in EXTRAS.items():
        assert all(is_used(name_of(one), ("src",)) for one in requirements), extra
        assert f"'glassformer[{extra}]'" in source


def test_all_extras_are_all():
    [everything] = PROJECT["optional-dependencies"]["all"]
    assert everything == f"glassformer[{','.join(EXTRAS)}]"


@of_every(
    [*PROJECT["optional-dependencies"]["dev"], *PROJECT["optional-dependencies"]["docs"]],
)
def test_what_developers_install_is_used(requirement):
    assert is_used(name_of(requirement), ("src", "tests", "bench", "tools"))


def test_what_the_package_imports_is_declared():
    distributions = packages_distributions()
    declared = {name_of(one).lower() for one in PROJECT["dependencies"]}
    declared |= {name_of(one).lower() for of in EXTRAS.values() for one in of}
    ours = {"glassformer"} | set(sys.stdlib_module_names)
    for module in imports("src") - ours:
        found = distributions.get(module, [module])
        names = {name.lower().replace("_", "-") for name in found}
        assert names & declared, f"{module} is imported and not declared"


def test_what_benches_take_from_the_package_is_there():
    """Names; `make test-slow` looks at calls, too."""
    asked = {
        (node.module, name.name)
        for folder in ("bench", "examples", "tools")
        for file in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("glassformer")
        for name in node.names
    }
    gone = [
        f"{module}.{name}"
        for module, name in sorted(asked)
        if not hasattr(import_module(module), name) and find_spec(f"{module}.{name}") is None
    ]
    assert len(asked) > 100
    assert not gone


def pins(name: str) -> dict[str, str]:
    """The versions that a file pins."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    found = (re.match(r"([\w.-]+)==([\w.]+)", line) for line in lines)
    return {line[1].lower().replace("_", "-"): line[2] for line in found if line}


def test_pinned_versions_fit_the_declared_ranges():
    pinned, oldest = pins("constraints.txt"), pins("constraints-oldest.txt")
    for requirement in [*PROJECT["dependencies"], *(one for of in EXTRAS.values() for one in of)]:
        name, least = requirement.lower().split(">=")
        assert number(pinned[name]) >= number(least), requirement
        assert number(oldest[name]) == number(least), f"{requirement}: run tools/pins.sh"


def test_the_lock_file_has_the_pinned_versions_and_their_hashes():
    pinned, locked = pins("constraints.txt"), pins("requirements.lock")
    declared = [name_of(one).lower() for of in EXTRAS.values() for one in of]
    declared += [name_of(one).lower() for one in PROJECT["dependencies"]]
    assert set(declared) - set(locked) == {"torch"}, "run tools/pins.sh"
    for name, version in locked.items():
        assert pinned.get(name, version) == version, f"{name}: run tools/pins.sh"
    for entry in re.split(r"\n(?! )", (ROOT / "requirements.lock").read_text().strip()):
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry


def number(version: str) -> tuple[int, ...]:
    found = [int(part) for part in re.findall(r"\d+", version)[:3]]
    return tuple(found + [0] * (3 - len(found)))
