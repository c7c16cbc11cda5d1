"""Rows as one readable HTML page: no scripts, nothing loaded, light and dark."""

import html
import math
import re
from collections.abc import Iterable

from glassformer.verify.row import Row
from glassformer.verify.text import summary

NOTES = {
    "A": "course chapter 9",
    "B": "slides after Jurafsky & Martin",
    "C": "module with demos",
    "D": "lecture CS-433",
    "E": "technical note",
}
"""What each note is, in a few words."""
LEAST, MOST = -18, 1
"""The bar's scale: powers of ten from left to right."""

STYLE = """
:root { color-scheme: light dark; --ink: #1d2327; --soft: #66717a; --line: #e3e6e8; --paper: #fdfdfc; --card: #ffffff;
  --good: #2f7d5b; --bad: #b3372f; --track: #eceff0; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7e9; --soft: #97a2aa; --line: #2d3438; --paper: #14181a;
  --card: #1a1f22; --good: #63b592; --bad: #ec7d74; --track: #2a3135; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 76rem; margin: 0 auto; padding: 3rem 1.5rem 5rem; }
h1 { font-weight: 600; font-size: 1.7rem; margin: 0 0 .3rem; letter-spacing: -.01em; }
h2 { font-weight: 600; font-size: 1.1rem; margin: 2.8rem 0 .6rem; }
h2 small { font-weight: 400; color: var(--soft); margin-left: .5rem; }
p { color: var(--soft); margin: 0 0 .4rem; max-width: 46rem; }
.verdict { font-weight: 600; color: var(--good); } .verdict.bad { color: var(--bad); }
nav { margin-top: .8rem; }
nav a { display: inline-block; color: inherit; margin-right: 1rem; text-underline-offset: .2em; }
.card { overflow-x: auto; border: 1px solid var(--line); border-radius: .6rem; background: var(--card); }
table { border-collapse: collapse; width: 100%; }
th { text-align: left; font-weight: 500; font-size: .8rem; color: var(--soft); padding: .55rem .9rem; }
td { padding: .5rem .9rem; border-top: 1px solid var(--line); vertical-align: top; }
td.formula { font-family: "STIX Two Math", "Cambria Math", "Latin Modern Math", Georgia, serif; font-size: 1.05rem; }
td.formula small, td.name small { display: block; font: .78rem/1.4 system-ui, sans-serif; color: var(--soft); }
code { font: .8rem/1.5 ui-monospace, "SF Mono", Menlo, monospace; color: var(--soft); overflow-wrap: break-word; }
td.error { width: 13rem; font-variant-numeric: tabular-nums; font-size: .85rem; white-space: nowrap; }
.bar { position: relative; height: .4rem; margin-top: .35rem; border-radius: .2rem; background: var(--track); }
.bar i { position: absolute; inset: 0 auto 0 0; border-radius: .2rem; background: var(--good); }
.bar b { position: absolute; top: -.2rem; bottom: -.2rem; width: 2px; background: var(--ink); }
tr.bad .bar i { background: var(--bad); } td.passed { color: var(--good); } tr.bad td.passed { color: var(--bad); }
@media (max-width: 62rem) { main { padding: 2rem 1rem 4rem; } thead { display: none; } table, tbody { display: block; }
  tr { display: grid; grid-template-columns: 1fr auto; gap: .3rem .9rem; padding: .7rem .9rem;
    border-top: 1px solid var(--line); }
  tr:first-child { border: 0; } td { padding: 0; border: 0; }
  td.passed { grid-area: 1 / 2; } td.formula, td.function, td.error { grid-column: 1 / 3; width: auto; }
  td.formula { overflow-wrap: anywhere; } }
"""


def page(rows: Iterable[Row], title: str) -> str:
    """A self-contained HTML document: rows grouped by note, each error as a bar on a log scale
    beside its tolerance."""
    rows = list(rows)
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(_group(row), []).append(row)
    names = sorted(groups, key=lambda name: (not name.startswith("Note "), name))
    good = all(row.passed for row in rows)
    links = "".join(f'<a href="#{_anchor(name)}">{html.escape(name)}</a>' for name in names)
    head = (
        f'<!doctype html><html lang="en"><head><meta '
        f'charset="utf-8"><title>{html.escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, '
        f'initial-scale=1"><style>{STYLE}</style></head>'
    )
    intro = (
        f"<h1>{html.escape(title)}</h1><p "
        f'class="verdict{"" if good else " bad"}">{html.escape(summary(rows))}</p>'
        "<p>Each row runs a production function in float64 beside an independent NumPy "
        "implementation and gives the "
        f"largest absolute difference. The bar is its logarithm from 10<sup>{LEAST}</sup> to "
        f"10<sup>{MOST}</sup>, the "
        f"upright line is the tolerance. A row is listed under the first note it comes "
        f"from.</p><nav>{links}</nav>"
    )
    sections = "".join(_section(name, groups[name]) for name in names)
    return f"{head}<body><main>{intro}{sections}</main></body></html>\n"


def _group(row: Row) -> str:
    found = re.match(r"Notes? ([A-E])\b", row.note)
    return f"Note {found[1]}" if found else row.note


def _anchor(name: str) -> str:
    return name.lower().replace(" ", "-")


def _section(name: str, rows: list[Row]) -> str:
    about = NOTES.get(name.removeprefix("Note "), "")
    passed = sum(row.passed for row in rows)
    count = f"{about + ' · ' if about else ''}{passed} of {len(rows)} passed"
    body = "".join(_line(row) for row in rows)
    return (
        f"<section "
        f'id="{_anchor(name)}"><h2>{html.escape(name)}<small>{html.escape(count)}</small></h2>'
        '<div class="card"><table><thead><tr><th>Equation</th><th>Formula</th><th>Computed by</th>'
        f"<th>Largest "
        f"error</th><th>Verdict</th></tr></thead><tbody>{body}</tbody></table></div></section>"
    )


def _line(row: Row) -> str:
    detail = f"<small>{html.escape(row.detail)}</small>" if row.detail else ""
    return (
        f'<tr{"" if row.passed else " class=bad"}><td class="name">{html.escape(row.equation)}'
        f"<small>{html.escape(row.note)}</small></td><td "
        f'class="formula">{html.escape(row.formula)}{detail}</td>'
        f'<td class="function"><code>{_name(row.function)}</code></td><td '
        f'class="error">{_number(row.max_abs_error)} '
        f'≤ {_number(row.tolerance)}<div class="bar"><i '
        f'style="width:{_place(row.max_abs_error):.1f}%"></i>'
        f'<b style="left:{_place(row.tolerance):.1f}%"></b></div></td>'
        f'<td class="passed">{"passed" if row.passed else "failed"}</td></tr>'
    )


def _name(function: str) -> str:
    """A dotted name that may break before a dot or an underscore, not inside a word."""
    return re.sub(r"(?=[._])", "<wbr>", html.escape(function))


def _number(value: float) -> str:
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "∞"
    return f"{value:.1e}".replace("e-0", "e-").replace("e+0", "e+")


def _place(value: float) -> float:
    """Percent of the scale at which a value stands; 0 for what is below it."""
    if value <= 0:
        return 0.0
    power = math.log10(value) if math.isfinite(value) else MOST
    return 100 * min(1.0, max(0.0, (power - LEAST) / (MOST - LEAST)))
