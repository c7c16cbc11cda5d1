"""Templates of data settings that try to compute, to reach attributes, or to grow."""

import time

from glassformer.core.errors import GlassformerError
from glassformer.data.formats.records import fill_template

SECRET = "the secret"
LARGEST = 10_000
"""Characters of a template and the values of its row, many times over."""


class Row(dict[str, str]):
    """A row that must give nothing but its cells."""

    secret = SECRET


def payloads() -> list[str]:
    """80 templates."""
    inner = [
        *("a.__class__", "a.__class__.__mro__", "a!r", "a!s", "a:>999999999", "a:{b}", "0", "a[0]"),
        *("__class__", "secret", ".secret", "self.secret", "a.secret", "row.secret", "a|length"),
        *("a.__init__.__globals__", "lambda: 1", "a if b else c", "7*7", "a*999999999", "a()"),
        *("config", "os.environ", "__import__('os')", "a.format(a)", "b['a']", "range(10**9)"),
    ]
    marks = ("{%s}", "{{%s}}", "{%% %s %%}")
    made = [mark % one for one in inner for mark in marks][:74]
    loops = "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}"
    return [*made, loops, "{" * 5000, "}" * 5000, "{a" * 3000, "{a}" * 100, "${a}#{a}%(a)s"]


def templates() -> tuple[int, float, list[str]]:
    """The number of templates, the longest time in seconds, and what should not be."""
    row, slowest, problems = Row(a="{b}", b="{a}"), 0.0, list[str]()
    for template in payloads():
        begin = time.process_time()
        try:
            said = fill_template(template, row, "row 1", "target")
        except GlassformerError as error:
            said = str(error).replace(template, "")
        except Exception as error:  # noqa: BLE001 - this is what is looked for
            said = SECRET
            problems.append(f"{template[:60]!r}: {error!r}")
        slowest = max(slowest, time.process_time() - begin)
        if SECRET in said or "<class" in said or "49" in said or len(said) > LARGEST:
            problems.append(f"{template[:60]!r}: {said[:100]!r}")
    return len(payloads()), slowest, problems
