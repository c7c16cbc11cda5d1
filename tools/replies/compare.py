"""Differences of two recordings, but for those that are accepted.

A difference has a path: `code`, `status`, `out.3` for a line, `out.3.label` for a value in a line
of JSON, `files.out/o.csv.2`, `body.error.message`. An accepted one is explained by a rule:

    - cases: http/predictions/*      of the name
      path: body.*.finish_reason     of the path; left out: any
      was: stop                      regular expression of the whole value; null: absent
      is: null
      changelog: finish_reason is finish, with the words of the command line.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

NUMBER = re.compile(r"-?\d+(?:\.(\d+))?(?:e[+-]?\d+)?")
LAST_DIGITS = 1e-5
"""Relative difference of numbers of float32 that were summed in another order."""
SHOWN = 12
"""Differences of a case that are printed."""
NOT_COMPARED = {"case", "ran"}
ABSENT = object()


@dataclass(frozen=True)
class Difference:
    """A value that is another one; `ABSENT`: there is none."""

    case: str
    path: str
    was: Any
    now: Any

    @property
    def is_small(self) -> bool:
        """Whether only last digits of numbers differ."""
        if ABSENT in (self.was, self.now):
            return False
        was, now = to_text(self.was), to_text(self.now)
        if NUMBER.sub("0", was) != NUMBER.sub("0", now):
            return False
        return all(map(is_near, NUMBER.finditer(was), NUMBER.finditer(now)))

    def __str__(self) -> str:
        signs = {"-": self.was, "+": self.now}
        form = to_text if isinstance(self.was, str) and isinstance(self.now, str) else json.dumps
        lines = [f"    {sign} {form(one)}" for sign, one in signs.items() if one is not ABSENT]
        return "\n".join([f"  {self.path}{'  (last digits)' if self.is_small else ''}", *lines])


def is_near(one: re.Match[str], other: re.Match[str]) -> bool:
    """Whether two numbers are apart by their last digits."""
    decimals = min(len(one[1] or ""), len(other[1] or ""))
    was, now = float(one[0]), float(other[0])
    room = 1.01 * 10.0**-decimals if decimals else 0.0
    return abs(was - now) <= max(room, LAST_DIGITS * max(abs(was), abs(now)))


def to_text(value: Any) -> str:
    """A value as differences show it and rules match it: a text as it is, others as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def differences(case: str, was: Any, now: Any, path: str = "") -> Iterator[Difference]:
    """Yield the differences of two values."""
    was, now = parse(was), parse(now)
    if {type(was), type(now)} == {str, list}:  # a line, and several
        was, now = ([one] if isinstance(one, str) else one for one in (was, now))
    if isinstance(was, dict) and isinstance(now, dict):
        for name in [*was, *(name for name in now if name not in was)]:
            own = was.get(name, ABSENT), now.get(name, ABSENT)
            yield from differences(case, *own, f"{path}.{name}" if path else name)
    elif isinstance(was, list) and isinstance(now, list):
        for place, one, other in align(was, now):
            yield from differences(case, one, other, f"{path}.{place}")
    elif type(was) is not type(now) or to_text(was) != to_text(now):
        yield Difference(case, path, was, now)


def parse(value: Any) -> Any:
    """A text as its lines, a line of JSON as its value."""
    if not isinstance(value, str):
        return value
    if "\n" in value:
        return value.split("\n")
    try:
        return json.loads(value) if value.startswith(("{", "[")) else value
    except ValueError:
        return value


def align(was: list[Any], now: list[Any]) -> Iterator[tuple[int, Any, Any]]:
    """Elements of two lists side by side; the equal ones are left out."""
    if len(was) == len(now):
        yield from ((i, *pair) for i, pair in enumerate(zip(was, now, strict=True)))
        return
    texts = [[to_text(one) for one in own] for own in (was, now)]
    for tag, a, b, c, d in SequenceMatcher(None, *texts, autojunk=False).get_opcodes():
        if tag != "equal":
            for i in range(max(b - a, d - c)):
                one = was[a + i] if a + i < b else ABSENT
                other = now[c + i] if c + i < d else ABSENT
                yield a + i, one, other


def explains(rule: dict[str, Any], one: Difference) -> bool:
    """Whether a rule accepts a difference."""
    if not fnmatchcase(one.case, rule["cases"]) or not fnmatchcase(one.path, rule.get("path", "*")):
        return False
    for name, value in (("was", one.was), ("is", one.now)):
        if name in rule:
            absent = value is ABSENT
            if absent is not (rule[name] is None):
                return False
            if not absent and not re.fullmatch(str(rule[name]), to_text(value), re.DOTALL):
                return False
    return True


def read(path: Path) -> dict[str, dict[str, Any]]:
    """A recording by the names of its cases."""
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {row["case"]: {k: v for k, v in row.items() if k not in NOT_COMPARED} for row in rows}


def say(*lines: object) -> None:
    """Print lines."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def compare(
    old: Path, new: Path, accepted: Path | None = None, wanted: Sequence[str] = ("*",)
) -> int:
    """Print all differences that are not accepted; the exit code: 1 if there are any. `wanted`:
    patterns of the names of cases."""
    rules = [] if accepted is None else yaml.safe_load(accepted.read_text(encoding="utf-8")) or []
    was, now, used = read(old), read(new), Counter[int]()
    equal = small = left = 0
    names = [one for one in dict.fromkeys([*was, *now]) if any(fnmatchcase(one, w) for w in wanted)]
    for case in names:
        found = [*differences(case, was.get(case, ABSENT), now.get(case, ABSENT), "")]
        equal += not found
        rest = []
        for one in found:
            by = next((i for i, rule in enumerate(rules) if explains(rule, one)), None)
            if by is None:
                rest.append(one)
            else:
                used[by] += 1
        if rest:
            more = len(rest) - SHOWN
            say(case, *rest[:SHOWN], *([f"  and {more} more"] if more > 0 else []))
        left += bool(rest)
        small += bool(rest) and all(one.is_small for one in rest)
    for i, rule in enumerate(rules):
        say(f"accepted {used[i]:5}  {rule['cases']}: {rule['changelog']}")
    rest = len(names) - equal - left
    say(f"{len(names)} cases: {equal} equal, {rest} accepted, {left} different")
    if small:
        say(f"{small} of these only in last digits")
    return int(left > 0)
