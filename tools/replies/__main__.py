"""python -m replies make DIR | record DIR OUT [CASE ...] | compare OLD NEW [ACCEPTED]."""

import argparse
import os
import sys
from pathlib import Path

from replies.compare import compare


def main() -> int:
    """Run one of the three commands; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m replies", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    made = commands.add_parser("make", help="data and runs in a new folder")
    made.add_argument("folder", type=Path)
    made.add_argument("run", nargs="*", help="only these runs")
    kept = commands.add_parser("record", help="the replies of the code that Python finds")
    kept.add_argument("folder", type=Path)
    kept.add_argument("out", type=Path)
    kept.add_argument("case", nargs="*", help="only cases whose names fit: 'http/*'")
    held = commands.add_parser("compare", help="differences that are not accepted")
    held.add_argument("old", type=Path)
    held.add_argument("new", type=Path)
    held.add_argument("accepted", type=Path, nargs="?", help="rules, see compare.py")
    held.add_argument("--case", action="append", help="only cases whose names fit")
    given = parser.parse_args()
    if given.command == "compare":
        return compare(given.old, given.new, given.accepted, given.case or ["*"])
    if given.command == "make":
        from replies.make import make

        given.folder.mkdir(parents=True, exist_ok=False)
        os.chdir(given.folder)
        make(given.run)
        return 0
    from replies.record import record

    out = given.out.absolute()
    os.chdir(given.folder)
    record(out, given.case)
    return 0


if __name__ == "__main__":
    sys.exit(main())
