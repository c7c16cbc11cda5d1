"""What a release needs is there, and says the same version everywhere."""

import re
from pathlib import Path

import yaml

import glassformer as gf

ROOT = Path(__file__).parent.parent


def test_the_version_is_the_same_everywhere():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["version"] == gf.__version__
    assert cited["license"] == "MIT"
    assert re.fullmatch(r"\d+\.\d+\.\d+", gf.__version__)


def test_workflows_use_commands_that_are_there():
    """They cannot run here; their targets and files can be checked."""
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for file in (ROOT / ".github" / "workflows").glob("*.yml"):
        for job in yaml.safe_load(file.read_text())["jobs"].values():
            steps = [step["run"] for step in job["steps"] if "run" in step]
            made = [target for step in steps for target in re.findall(r"\bmake ([\w-]+)", step)]
            made += job.get("strategy", {}).get("matrix", {}).get("target", [])
            assert set(made) <= set(targets)
    for line in (ROOT / "Dockerfile").read_text().splitlines():
        if line.startswith("COPY"):
            assert all((ROOT / name).exists() for name in line.split()[1:-1])
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    copied = re.findall(r"^COPY (.*) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert {f"!{name}" for line in copied for name in line.split()} <= set(ignored)
