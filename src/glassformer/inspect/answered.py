"""Pictures with what was asked about them, what is right and what a model answered, as one readable
HTML page.

Nothing is loaded from anywhere and nothing is scripted; it is light or dark as the reader's system
is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from glassformer.inspect.images import picture
from glassformer.inspect.picture import STYLE

ANSWERED_STYLE = """
.cards { display: grid; gap: 1.2rem; margin-top: 1rem; }
.cards { grid-template-columns: repeat(auto-fill, minmax(var(--least, 17rem), 1fr)); }
.card { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: .9rem; min-width: 0; }
.card img { width: 100%; image-rendering: pixelated; border-radius: .35rem; display: block; }
.card dl { display: grid; grid-template-columns: 1fr max-content; gap: .15rem .8rem; margin: .7rem 0 0; }
.card dt { color: var(--soft); font-size: .9rem; } .card dd { margin: 0; text-align: right; font-weight: 550; }
.card dt.said { grid-column: 1 / -1; color: var(--ink); font-weight: 550; font-size: 1rem; }
.wrong { color: var(--mark); } .right { font-weight: 400; color: var(--soft); }
.drawn figure { display: flex; flex-wrap: wrap; align-items: end; gap: .5rem; margin: 0; }
.drawn img { width: 8rem; image-rendering: pixelated; border-radius: .35rem; } .drawn img.real { width: 3.5rem; }
.drawn figcaption { flex-basis: 100%; font-size: .9rem; } .cards.drawn { --least: 12rem; }
td.value { text-align: right; padding: 0 .6rem; } .scores th { text-align: left; max-width: none; }
.scores td { height: 2rem; } .scores thead th { text-align: right; } .scores thead th:first-child { text-align: left; }
"""


@dataclass(frozen=True)
class Answered:
    """A question, its right answer and what was answered; a question "" is what the picture shows
    as a whole."""

    question: str
    gold: str
    found: str


def answered_html(
    title: str,
    about: str,
    scores: Sequence[tuple[str, float, float]],
    cards: Sequence[tuple[np.ndarray, Sequence[Answered]]],
    drawn: Sequence[tuple[str, np.ndarray, np.ndarray]] = (),
) -> str:
    """A self-contained HTML document: shares of right answers (what was asked for, the model's, a
    guess without looking), then pictures uint8 [H, W, C] with all that was asked about each, then
    what was drawn: the words, the picture drawn from them, and a real one.
    """
    value = lambda share: f'<td class="value">{share:.1%}</td>'  # noqa: E731
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th>{value(own)}{value(blind)}</tr>'
        for name, own, blind in scores
    )
    head = (
        '<tr><th></th><th scope="col">answered right</th><th scope="col">without looking</th></tr>'
    )
    shown = "".join(_card(pixels, answers) for pixels, answers in cards)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}{ANSWERED_STYLE}</style></head><body><main><h1>{escape(title)}</h1><p>{escape(about)}</p>"
        f'<div class="wide"><table '
        f'class="scores"><thead>{head}</thead><tbody>{rows}</tbody></table></div>'
        f'<div class="cards">{shown}</div>{_drawn(drawn)}</main></body></html>\n'
    )


def _drawn(drawn: Sequence[tuple[str, np.ndarray, np.ndarray]]) -> str:
    if not drawn:
        return ""
    shown = "".join(
        f'<figure><img alt="drawn: {escape(words)}" src="{picture(made)}"><img alt="a real '
        f'one" class="real" '
        f'src="{picture(real)}"><figcaption>{escape(words)}</figcaption></figure>'
        for words, made, real in drawn
    )
    about = (
        "What another model drew from words that it never saw together; beside each, "
        "smaller, a real picture."
    )
    return f'<h2>Drawn from words</h2><p>{about}</p><div class="cards drawn">{shown}</div>'


def _card(pixels: np.ndarray, answers: Sequence[Answered]) -> str:
    listed = "".join(map(_answer, answers))
    said = next((answer.gold for answer in answers if not answer.question), "")
    return (
        f'<section class="card"><img alt="{escape(said)}" '
        f'src="{picture(pixels)}"><dl>{listed}</dl></section>'
    )


def _answer(answer: Answered) -> str:
    found = escape(answer.found)
    if answer.found != answer.gold:
        found = (
            f'<span class="wrong">{found or "nothing"}</span> <span class="right">not '
            f"{escape(answer.gold)}</span>"
        )
    if not answer.question:
        return f'<dt class="said">{found}</dt>'
    return f"<dt>{escape(answer.question)}</dt><dd>{found}</dd>"
