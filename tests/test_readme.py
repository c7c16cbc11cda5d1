"""The README, the pages and the recipes are true: every fenced block runs, commands and overrides are
understood, links lead somewhere, and recipes parse.

A block of `bash` or `python` is run, in the order of its page and in a folder that has the files it
names (`small_published`); a command that trains takes two steps, and what is asked of the address
of `glassformer serve` is asked of a server of the runs that it names. A block of another language
is no code.
"""

import contextlib
import io
import re
import shlex
import shutil
import subprocess
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.main import get_command

from glassformer.cli.main import app
from glassformer.recipe.named import FOLDER, is_name, recipe_file, recipe_names
from glassformer.recipe.reading import read_recipe
from glassformer.recipe.recipe import SECTIONS, Recipe
from small_published import published

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
RECIPES = sorted(FOLDER.glob("*.yaml"))
DEFAULT = FOLDER / "lm.yaml"
OVERRIDE = re.compile(rf"(?:{'|'.join(SECTIONS)})(?:\.\w+)+=(?:'[^']*'|[^\s']*[^\s',:;.])")
OWN_DATA = "Your own"
TAKES_RECIPE = ("train", "plan", "tokenize", "show")
NAMES = "|".join(sorted(recipe_names(), key=len, reverse=True))
BLOCK = re.compile(r"^```(\w*)(?: \d+)?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
CODE, NO_CODE = ("bash", "python"), ("text", "floors", "rooms", "walls", "walk")
TWO_STEPS = ["train.steps=2", "train.schedule.warmup_steps=0", "train.device=cpu"]
TWO_STEPS += ["train.batch_size=4", "train.evaluate.batches=1", "train.sample.tokens=2"]
SMALLER = {
    "lm": ["model.n_layers=2", "generate.max_new_tokens=8"],
    "transduce": ["model.n_layers=1", "generate.max_new_tokens=8"],
}
SLOW = ("published-models", "scaling")
"""Pages whose commands the README has too: exports, and two processes."""
NOT_RUN = {
    "glassformer demo ": "trains for minutes; tests/demos runs it with few steps",
    "glassformer inspect ": "serves until it is stopped; tests/cli runs it",
    "python bench/": "needs a peer",
    "pip ": "needs a network",
    "glassformer sweep --trials ": "needs Optuna; tests/sweep/test_search.py runs it",
    "python -m glassformer.run.harness ": "needs the harness; tests/test_harness.py runs it",
    "make ": "is compared with the Makefile",
    "python -m glassformer.demos ": "writes thousands of images; tests/demos runs it",
}
"""Beginnings of commands that are only parsed here, and why."""
RUNS = {
    "demo-lm": "lm data.train.path=YOUR_TEXT processor.tokenizer.kind=character model.n_heads=4",
    "mine": "lm data.train.path=YOUR_TEXT",
    "pairs": "transduce data.train.path=pairs.tsv",
    "pos": "ud-tagging data.root=PATH",
    "bank": "banking77 data.root=PATH",
    "mlm": "mlm data.train.path=YOUR_TEXT",
    "lm": "lm data.train.path=YOUR_TEXT processor.tokenizer.kind=byte processor.tokenizer.vocab_size=null",
    "chat": "chat data.train.path=talks.jsonl train.init_from=runs/lm",
    "de": "transduce data.train.path=pairs.tsv",
    "digits": "spoken-digits data.root=PATH",
    "fashion": "fashion-mnist data.root=PATH",
    "vqa": "easy-vqa data.root=PATH",
}
"""How runs are made that a page names and does not train, in this order."""
NEEDED = {'"response_format"': "llguidance", '"grammar"': "llguidance"}
"""Packages without which what is asked of the server with these fields is only parsed."""
SERVED = "localhost:8000"
"""Where a page finds its server."""
NAMED = re.compile(rf"(?:recipes/|(?:{'|'.join(TAKES_RECIPE)}) )({NAMES})\b|`([^`\n]+)`")


def head(recipe: Path) -> list[str]:
    """The comment at the head of a recipe; what goes on in the next line is joined."""
    comment = re.match(r"(?:#.*\n)+", recipe.read_text())
    assert comment, f"{recipe} has no comment at its head"
    whole = re.sub(r"\\\n#\s*|(?<=:)\n#(?=\s+[\w.]+=)", "", comment[0])
    return [line.removeprefix("#").strip() for line in whole.splitlines()]


def page_lines(page: Path) -> list[str]:
    """The lines of a page, a command in one line."""
    return re.sub(r"\\\n\s*", "", page.read_text()).splitlines()


@cache
def commands() -> list[list[str]]:
    lines = [line for page in PAGES for line in page_lines(page)]
    lines += [line for recipe in RECIPES for line in head(recipe)]
    found = [re.match(r"(?:echo .*\| )?(glassformer .*)$", line) for line in lines]
    prose = "\n".join(BLOCK.sub("", page.read_text()) for page in PAGES)
    spans = re.findall(r"`(glassformer [^`]+ runs/[^`]+)`", prose)
    printed = dict.fromkeys([*(match[1] for match in found if match), *spans])
    return [shlex.split(re.split("  +#| [<>] ", line)[0])[1:] for line in printed]


def overrides(text: str) -> list[str]:
    return [shlex.split(one)[0] for one in OVERRIDE.findall(text)]


@cache
def printed_overrides() -> dict[str, tuple[Path, list[str]]]:
    """Every list of overrides with its recipe, by where it stands: of a command, of a code span of
    a page (for the recipe that the page named last), and of a line at a recipe's head."""
    found = {}
    for words in commands():
        for number, word in enumerate(words):
            if is_name(word) and number and words[number - 1] in TAKES_RECIPE:
                given = [one for one in words[number + 1 :] if re.match(r"[\w.]+=", one)]
                found[" ".join(words)] = recipe_file(word), given
    for page in PAGES:
        recipe = DEFAULT
        for name, span in re.findall(NAMED, page.read_text()):
            own = re.match(rf"glassformer (?:{'|'.join(TAKES_RECIPE)}) ({NAMES})\b", span)
            recipe = recipe_file(own[1] if own else name) if own or name else recipe
            if given := overrides(span):
                found[f"{page.name}: {span}"] = recipe, given
    for recipe in RECIPES:
        for line in head(recipe):
            if (given := overrides(line)) and "glassformer" not in line:
                found[f"{recipe.name}: {line}"] = recipe, given
    return found


def files(recipe: Recipe, split: str) -> list[object]:
    """Everything by which a split names files."""
    of = recipe.data.splits[split]
    return [value for value in (of.path, of.targets, of.labels, *of.parts) if value]


def test_there_are_commands_and_overrides_to_check():
    assert len(commands()) >= 60
    printed = printed_overrides()
    assert len(printed) >= 50
    own = [f"{recipe.name}: {line}" for recipe in RECIPES for line in head(recipe)]
    assert all(where in printed for where in own if OWN_DATA in where)


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_a_printed_command_is_understood(words):
    command = get_command(app)
    while words and words[0] in getattr(command, "commands", {}):
        context = command.context_class(command)
        _, command, words = command.resolve_command(context, list(words))
    with command.make_context(
        "glassformer", list(words)
    ) as context:  # parses without running; a bad option raises
        assert not context.args


@pytest.mark.parametrize("where", printed_overrides(), ids=str)
def test_printed_overrides_give_a_recipe(where):
    """No data are read: unknown fields, bad values and contradictions raise here. What is said for
    a reader's own data must leave no file of the recipe's data set."""
    path, given = printed_overrides()[where]
    own = read_recipe(path, given)
    if OWN_DATA in where:
        original = read_recipe(path)
        for split in original.data.splits:
            kept = [file for file in files(own, split) if file in files(original, split)]
            assert not kept, f"data.{split} still names {kept}"
        assert own.data.class_names == ()


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as code hosts and the site make them."""
    heads = re.findall(r"^#+ (.*)$", BLOCK.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    prose = BLOCK.sub("", page.read_text())
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", prose):
        there = page.parent / target if target else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), f"{target}#{anchor}"


def test_an_anchor_that_is_not_there_is_noticed():
    assert "seven-design-principles" in anchors(ROOT / "docs" / "architecture.md")
    assert "six-design-principles" not in anchors(ROOT / "docs" / "architecture.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_is_run_or_says_that_it_is_no_code(page):
    for language, text in BLOCK.findall(page.read_text()):
        assert language in (*CODE, *NO_CODE), text
        hidden = re.search(r"^(glassformer|python|import|make) ", text, re.MULTILINE)
        assert language in CODE or not hidden, text
    assert not re.search(r"^    \S", BLOCK.sub("", page.read_text()), re.MULTILINE)


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    """A folder with the files that the pages name."""
    return published(tmp_path_factory.mktemp("pages"))


def shortened(words: list[str]) -> list[str]:
    """A command that trains, with two steps and small files."""
    trains = words[0] in ("train", "sweep") and "--resume" not in words
    return [*words, *TWO_STEPS, *SMALLER.get(words[1], ())] if trains else words


def prepare(text: str, cli) -> None:
    """Make the runs that a block names and does not train; a run that it trains is made anew."""
    named = set(re.findall(r"runs/([\w-]+)", text))
    trained = set(re.findall(r'(?:--run |run=")runs/([\w-]+)', text))
    for name in trained:
        shutil.rmtree(Path("runs", name), ignore_errors=True)
    for name in RUNS:
        folder = Path("runs", name)
        if name in named - trained and not folder.exists():
            done = cli(*shortened(["train", *RUNS[name].split(), "--run", f"{folder}"]))
            assert done.code == 0, done.err


def run_line(line: str, cli) -> None:
    """Run one line of a block: a command, perhaps with a pipe or files for its input and output."""
    line = re.split(r"\s+#", line)[0]
    if any(line.startswith(begin) for begin in NOT_RUN):
        if line.startswith("make "):
            makefile = (ROOT / "Makefile").read_text()
            assert re.search(rf"^{line.split()[1]}:", makefile, re.MULTILINE), line
        return
    if "curl " in line:
        there = all(find_spec(name) for field, name in NEEDED.items() if field in line)
        if there and shutil.which("bash") and shutil.which("curl"):
            strict = line.replace("curl ", "curl --silent --show-error --fail-with-body ")
            done = subprocess.run(["bash", "-c", strict], capture_output=True, check=False)
            assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return
    piped = re.fullmatch(
        r"(?:echo (\".*?\") \| )?glassformer (.*?)(?: < (\S+))?(?: > (\S+))?", line
    )
    assert piped, f"no rule says how to run {line!r}"
    said, command, source, target = piped.groups()
    stdin = Path(source).read_bytes() if source else shlex.split(said or "''")[0].encode()
    done = cli(*shortened(shlex.split(command)), stdin=stdin)
    assert done.code == 0, f"{line}\n{done.err}"
    if target:
        Path(target).write_text(done.out)


def run_page(page: Path, cli) -> int:
    """Run the blocks of a page in order; the number of those."""
    names: dict[str, object] = {}
    blocks = [block for block in BLOCK.findall(page.read_text()) if block[0] in CODE]
    with contextlib.ExitStack() as stack:
        address = SERVED
        for language, text in blocks:
            prepare(text, cli)
            if language == "python":
                with contextlib.redirect_stdout(io.StringIO()):
                    code = few_steps(text).replace(SERVED, address)
                    exec(compile(code, str(page), "exec"), names)
                continue
            for line in re.sub(r"\\\n\s*", "", text).splitlines():
                if line.startswith("glassformer serve "):
                    folders = re.split(r"\s+#", line)[0].split()[2:]
                    address = stack.enter_context(served(folders))
                else:
                    run_line(line.replace(SERVED, address), cli)
    return len(blocks)


@contextlib.contextmanager
def served(folders: list[str]):
    """A server of runs in a thread, as long as the body takes; its host and port."""
    from glassformer.serve.api.listener import Server, listening
    from glassformer.serve.api.server import application, open_service

    service = open_service(folders, threads=1, compile=False)
    service.log.stream = None
    with listening("127.0.0.1", 0) as listener:
        app = application(service)
        with Server(app, listener, service.calls, service.log).beside():
            yield "{}:{}".format(*listener.getsockname())
    service.engine.close()


def few_steps(text: str) -> str:
    return re.sub(r'("train.steps": )\d+', r'\g<1>2, "train.schedule.warmup_steps": 0', text)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.slow if page.stem in SLOW else (), id=page.stem)
        for page in PAGES
    ],
)
def test_every_block_runs(page, workplace, cli, monkeypatch):
    monkeypatch.chdir(workplace)
    run_page(page, cli)


def test_a_block_that_does_not_run_is_noticed(workplace, cli, monkeypatch, tmp_path):
    monkeypatch.chdir(workplace)
    page = tmp_path / "page.md"
    for block in (
        "python\nimport nothing_like_it",
        "bash\nglassformer evaluate runs/none",
        "bash\nls",
    ):
        page.write_text(f"```{block}\n```\n")
        with pytest.raises((ImportError, AssertionError)):
            run_page(page, cli)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_parses(recipe):
    assert read_recipe(recipe).model.d_model > 0
