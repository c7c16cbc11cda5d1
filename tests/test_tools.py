"""tools/browser.sh: it says what is there, installs where it can, and is never in the way."""

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "tools" / "browser.sh"
BASH = shutil.which("bash") or ""
NONE = (
    "browser: none, so its tests are skipped; install chromium, or name one in "
    "GLASSFORMER_CHROMIUM.\n"
)
APT = """case "$*" in
  "update -qq") ;;
  *"{package} fonts-dejavu") echo "#!{bash}" > "{folder}/{package}"; chmod +x "{folder}/{package}" ;;
  *) exit 100 ;;
esac"""

pytestmark = pytest.mark.skipif(not BASH, reason="needs bash")


@pytest.fixture
def machine(tmp_path):
    """A machine that has these programs, and no others but a shell's; runs the script on it."""

    def program(name: str, text: str) -> None:
        file = tmp_path / name
        file.write_text(f"#!{BASH}\n{text}\n")
        file.chmod(0o755)

    def run(*arguments: str, programs: dict[str, str], **environment: str) -> str:
        (tmp_path / "chmod").symlink_to(shutil.which("chmod") or "")
        for name, text in programs.items():
            program(name, text.replace("{folder}", str(tmp_path)).replace("{bash}", BASH))
        environ = {"PATH": str(tmp_path), **environment}
        done = subprocess.run(
            [BASH, str(SCRIPT), *arguments], env=environ, capture_output=True, text=True, check=True
        )
        return done.stdout.replace(str(tmp_path), "")

    return run


@pytest.mark.parametrize("name", ["chromium", "chromium-headless-shell", "google-chrome"])
def test_one_on_the_path_is_found(machine, name):
    assert machine(programs={name: ""}) == f"browser: /{name}\n"


def test_the_one_that_is_named_comes_first(machine, tmp_path):
    own = shutil.copy(BASH, tmp_path / "own")
    assert machine("find", programs={"chromium": ""}, GLASSFORMER_CHROMIUM=own) == "/own\n"


@pytest.mark.parametrize("package", ["chromium-headless-shell", "chromium"])
def test_root_of_a_debian_gets_the_smallest_there_is(machine, package):
    known = {
        "apt-cache": f'[ "$2" = {package} ]',
        "apt-get": APT.replace("{package}", package),
        "id": "echo 0",
    }
    assert machine(programs=known) == f"browser: /{package}, installed now\n"


@pytest.mark.parametrize(
    "programs",
    [
        {"id": "echo 0"},  # no Debian
        {"id": "echo 1000", "apt-get": "echo wrong; exit 0", "apt-cache": ""},  # not root
        {"id": "echo 0", "apt-get": "exit 100", "apt-cache": ""},  # no network
        {"id": "echo 0", "apt-get": "", "apt-cache": "exit 100"},  # no such package
    ],
)
def test_whoever_cannot_have_one_is_told_what_to_do(machine, programs):
    assert machine(programs=programs) == NONE


def test_find_prints_nothing_where_there_is_none(machine):
    assert machine("find", programs={}) == ""
