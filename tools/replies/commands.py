"""Cases that are commands, written as in a shell.

tag runs/tags --json < in/plain.txt      a file as standard input
generate runs/lm <<< 'the cat'           a line as standard input
tty fill runs/masked --text 'a ___'      printed on a terminal
typed chat runs/chat < in/typed.txt      the same, and typed there
copy in/in.csv out/o.csv                 a file, before the command that finds it
cut out/o.csv 70                         all but the first 70 bytes of a file go; -1: the last
{old: ..., new: ...}                     two spellings: `new` where the code knows it
[..., ...]                               several, one after another
"""

import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from replies.plain import normalize, read_files
from replies.tree import command, help_of

HERE = Path(__file__).parent
OUT = Path("out")


def write_inputs() -> None:
    """Write the files of `inputs.yaml` into the folder `in` of the current one."""
    import csv

    import pyarrow as pa
    from pyarrow import parquet

    given = yaml.safe_load((HERE / "inputs.yaml").read_text(encoding="utf-8"))
    folder = Path("in")
    folder.mkdir(exist_ok=True)
    for name, text in given["lines"].items():
        (folder / name).write_text(text, encoding="utf-8")
    for name, rows in given["tables"].items():
        for form in given["forms"][name]:
            path = folder / f"{name}.{form}"
            if form == "parquet":
                parquet.write_table(pa.Table.from_pylist(rows), path)
            elif form == "jsonl":
                path.write_text("".join(f"{plain_json(row)}\n" for row in rows), encoding="utf-8")
            else:
                own = {"delimiter": "\t", "quoting": csv.QUOTE_NONE, "quotechar": None}
                with path.open("w", encoding="utf-8", newline="") as file:
                    form_of: Any = own if form == "tsv" else {}
                    out = csv.DictWriter(file, [*rows[0]], lineterminator="\n", **form_of)
                    out.writeheader()
                    out.writerows(rows)


def plain_json(row: Any) -> str:
    """A row as a line of JSON."""
    import json

    return json.dumps(row, ensure_ascii=False)


def is_known(line: str) -> bool:
    """Whether `--help` knows the command of a line and all its flags."""
    words = shlex.split(line)
    known = help_of(words[0])
    flags = [word for word in words if re.match(r"--[a-z]", word)]
    return bool(known) and all(re.search(rf"{flag}(?![\w-])", known) for flag in flags)


def spell(case: Any) -> Sequence[str]:
    """The lines of a case, in the spelling that the code knows."""
    if isinstance(case, dict):
        new = [case["new"]] if isinstance(case["new"], str) else case["new"]
        return spell(case["new" if is_known(new[-1]) else "old"])
    return [case] if isinstance(case, str) else case


def run_line(line: str) -> tuple[int, str, str]:
    """Run one line: its exit code, what it printed, and its errors."""
    words = shlex.split(line)
    match words:
        case ["copy", source, target]:
            shutil.copy(source, target)
            return 0, "", ""
        case ["cut", target, size]:
            with open(target, "r+b") as file:
                end = file.seek(0, 2)
                file.truncate(int(size) % (end + 1) - (int(size) < 0))
            return 0, "", ""
    given = b""
    if words[-2:-1] == ["<"]:
        given = Path(words[-1]).read_bytes()
        words = words[:-2]
    elif words[-2:-1] == ["<<<"]:
        given = f"{words[-1]}\n".encode()
        words = words[:-2]
    typed = words[0] == "typed"
    terminal = typed or words[0] == "tty"
    said = command(words[terminal:], given, terminal, typed)
    out, err = (one.decode("utf-8", "backslashreplace") for one in (said.out, said.err))
    return said.code, out, err


def reply_of_command(case: Any) -> dict[str, Any]:
    """The reply to a case: exit codes, what was printed, and the files that were written."""
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    lines = [*spell(case)]
    found = [run_line(line) for line in lines]
    codes = [code for code, _, _ in found]
    return {
        "ran": lines,
        "code": codes[0] if len(codes) == 1 else codes,
        "out": normalize("".join(out for _, out, _ in found)),
        "err": normalize("".join(err for _, _, err in found)),
        "files": read_files(OUT),
    }
