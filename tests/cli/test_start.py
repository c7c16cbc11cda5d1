"""How the program starts: quickly, with help everywhere, and with the conventional exit codes."""

import shlex
import subprocess
import sys

import pytest

import glassformer
from glassformer.core.distributed import launching

COMMANDS = [
    ["demo"],
    ["train"],
    ["evaluate"],
    ["generate"],
    ["tokenize"],
    ["inspect"],
    ["data"],
    ["data", "show"],
    ["plan"],
    ["verify"],
]


def test_help_needs_none_of_the_heavy_libraries():
    """What makes `--help` answer in under 0.3 s, on any machine: these are imported inside commands
    only."""
    program = (
        "import sys, glassformer.cli.main as m; "
        "heavy = [n for n in ('torch', 'numpy', 'pydantic', 'tokenizers', 'rich', 'yaml', "
        "'PIL') if n in sys.modules]; "
        "sys.argv = ['glassformer', 'generate', '--help']\n"
        "try: m.main()\n"
        "except SystemExit: pass\n"
        "heavy += [n for n in ('torch', 'numpy', 'tokenizers', 'yaml') if n in sys.modules]; "
        "sys.exit(str(heavy))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize("command", [[], *COMMANDS], ids=" ".join)
def test_every_command_has_help(cli, command):
    for flag in ("--help", "-h"):
        said = cli(*command, flag)
        assert said.code == 0
        assert said.out.startswith("Usage: glassformer")
        assert "[[" not in said.out


def test_every_option_says_what_it_does(cli):
    """A line of options that ends where its help should begin is an option without any."""
    for command in COMMANDS:
        for line in cli(*command, "--help").out.partition("Options:")[2].splitlines():
            if line.startswith("  --"):
                assert len(line.split()) > 2 or "help" in line, line


def test_python_m_glassformer_and_version():
    done = subprocess.run(
        [sys.executable, "-m", "glassformer", "--version"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, f"glassformer {glassformer.__version__}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["train", "--rum", "x"],
        ["generate"],
        ["generate", "x", "--temperature", "warm"],
        [],
    ],
)
def test_wrong_usage_is_exit_code_2_and_no_traceback(cli, arguments):
    said = cli(*arguments)
    assert said.code == 2
    assert "Usage: glassformer" in said.err + said.out
    assert "Traceback" not in said.err


def test_an_unknown_option_comes_with_a_suggestion(cli):
    assert "--temperature" in cli("generate", "x", "--temprature", "1").err


def test_debug_shows_the_error_itself_wherever_it_stands(cli, tmp_path):
    from glassformer.core.errors import GlassformerError

    for arguments in (
        ["--debug", "evaluate", tmp_path / "no"],
        ["evaluate", tmp_path / "no", "--debug"],
    ):
        with pytest.raises(GlassformerError):
            cli(*arguments)


def test_several_processes_get_the_options_that_concern_them(cli, recipe, tmp_path, monkeypatch):
    asked, run = list[tuple](), tmp_path / "run"
    monkeypatch.setattr(launching, "launch", lambda *given: asked.append(given) or 3)
    options = ["train.steps=4", "--run", run, "--debug", "--json"]
    said = cli("train", recipe, *options, "--processes", "2", "--max-restarts", "5")
    given = ["train", str(recipe), "train.steps=4", "--run", str(run), "--json", "--debug"]
    assert (said.code, asked) == (3, [(given, 2, 5)])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["train.stepps=4"], "Unknown key train.stepps; did you mean 'steps'?"),
        (["train.distributed.shard=2"], "shard=2 times tensor=1 does not divide the 3 processes"),
        (["--run", "TRAINED"], "already holds a run at step 6; add --resume"),
    ],
)
def test_what_several_processes_cannot_do_is_told_once(
    refused, recipe, trained, tmp_path, monkeypatch, options, told
):
    """Each of their starts would tell it again."""
    monkeypatch.setattr(launching, "launch", lambda *given: pytest.fail("processes are started"))
    options = [trained if one == "TRAINED" else one for one in options]
    command = ["train", recipe, "--run", tmp_path / "run", *options]
    assert told in refused(
        *command, "--processes", "3", "--max-restarts", "5", code=2, keep=tmp_path
    )


def test_what_nobody_foresaw_is_still_one_sentence(cli, monkeypatch, tmp_path):
    def broken(*arguments, **options):
        raise ZeroDivisionError("by\nzero")

    monkeypatch.setattr("glassformer.run.load", broken)
    said = cli("evaluate", tmp_path)
    assert said.code == 1
    assert said.err.count("\n") == 1
    assert "ZeroDivisionError: by zero" in said.err
    monkeypatch.setattr(
        "glassformer.run.load", lambda *a, **options: (_ for _ in ()).throw(MemoryError())
    )
    assert "Out of memory" in cli("evaluate", tmp_path).err


def test_a_reader_that_leaves_is_no_error(trained):
    """`glassformer tokenize RUN | head -1` with more text than a pipe holds."""
    command = (
        f"yes 'the fox' | head -40000 | {shlex.quote(sys.executable)} -m "
        f"glassformer tokenize {shlex.quote(str(trained))} | head -1"
    )
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stdout == "t|h|e| |f|o|x|\\n\n"
    assert done.stderr == ""
