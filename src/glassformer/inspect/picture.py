"""Cross-attention as one readable HTML page: words by words in large, every layer and head in
small.

Nothing is loaded from anywhere; it is light or dark as the reader's system is, and can be read
without a mouse and without its dozen lines of script.
"""

import base64
import io
from html import escape

import numpy as np
from PIL import Image

from glassformer.inspect import ramp
from glassformer.inspect.alignment import CrossAttention, pharaoh
from glassformer.inspect.drawing import attention_png as attention_png
from glassformer.inspect.drawing import number
from glassformer.processors.word_spans import Side

STYLE = """
:root { color-scheme: light dark; --ink: #1d2327; --soft: #5b656d; --line: #e1e5e8; --paper: #fdfdfc; --card: #ffffff;
  --mark: #b34700; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7e9; --soft: #9aa5ad; --line: #2d3438; --paper: #14181a;
  --card: #1a1f22; --mark: #ffb35c; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 76rem; margin: 0 auto; padding: 3rem 1.5rem 5rem; }
h1 { font-weight: 600; font-size: 1.7rem; line-height: 1.25; margin: 0 0 1rem; overflow-wrap: anywhere; }
h2 { font-weight: 600; font-size: 1.15rem; margin: 3rem 0 .4rem; }
p { color: var(--soft); margin: 0 0 .8rem; max-width: 46rem; }
.pair { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; margin: 0; overflow-wrap: anywhere; }
.pair dt { color: var(--soft); } .pair dd { margin: 0; white-space: pre-wrap; }
code span { white-space: nowrap; }
code, .token { font: .85rem/1.5 ui-monospace, "SF Mono", Menlo, monospace; }
.wide { overflow-x: auto; padding: .5rem; margin: 0 -.5rem; }
table { border-collapse: separate; border-spacing: 3px; }
th { font-weight: 500; padding: .3rem .5rem; white-space: nowrap; max-width: 10rem; overflow: hidden;
  text-overflow: ellipsis; }
thead th { vertical-align: bottom; } tbody th { text-align: right; }
.side thead th.word { writing-mode: vertical-rl; transform: rotate(180deg); padding: .5rem .1rem; text-align: left;
  max-height: 10rem; }
td { min-width: 3.1rem; height: 2.6rem; text-align: center; border-radius: .35rem; font-variant-numeric: tabular-nums;
  font-size: .875rem; }
.dense td { min-width: 1.5rem; height: 1.5rem; font-size: 0; }
td.rest, th.rest { color: var(--soft); font-weight: 400; font-size: .875rem; }
td.rest { padding: 0 .5rem; }
td.best { box-shadow: 0 0 0 2px var(--card), 0 0 0 4px var(--mark); font-weight: 700; }
td:focus { outline: 3px solid var(--ink); outline-offset: 4px; }
output { display: block; min-height: 1.6em; margin: .3rem 0 .6rem; font-variant-numeric: tabular-nums; }
.legend { display: flex; flex-wrap: wrap; gap: .3rem; align-items: center; color: var(--soft); font-size: .875rem; }
.legend b { padding: .1rem .5rem; border-radius: .3rem; font-weight: 500; }
.legend .best { padding: .1rem .5rem; border-radius: .35rem; margin: 0 .3rem 0 1rem;
  box-shadow: 0 0 0 2px var(--mark); color: var(--ink); }
.grid { display: grid; gap: 1.2rem; margin-bottom: 1.4rem;
  --share: calc((100% - (var(--heads) - 1) * 1.2rem) / var(--heads));
  grid-template-columns: repeat(auto-fill, minmax(max(9rem, var(--share)), 1fr)); }
figure { margin: 0; min-width: 0; }
figure img { display: block; width: 100%; image-rendering: pixelated; border: 1px solid var(--line);
  border-radius: .3rem; }
figure.used img { outline: 2px solid var(--mark); outline-offset: 2px; }
figcaption { font-size: .875rem; margin-top: .45rem; } figcaption small { display: block; color: var(--soft);
  font-size: .875rem; overflow-wrap: anywhere; }
.token { display: inline-block; padding: 0 .35rem; margin: 0 .15rem .25rem 0; border: 1px solid var(--line);
  border-radius: .25rem; white-space: pre; background: var(--card); }
summary { cursor: pointer; width: max-content; margin: .4rem 0; }
summary:focus-visible { outline: 3px solid var(--ink); }
"""

SCRIPT = """
for (const table of document.querySelectorAll('table')) {
  const rows = [...table.tBodies[0].rows].map(row => [...row.querySelectorAll('td:not(.rest)')]);
  const say = cell => { document.querySelector('output').textContent = cell.title; };
  table.addEventListener('mouseover', event => { if (event.target.title) say(event.target); });
  table.addEventListener('focusin', event => say(event.target));
  table.addEventListener('keydown', event => {
    const r = rows.findIndex(row => row.includes(event.target)), c = rows[r]?.indexOf(event.target);
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
      Home: [0, -c], End: [0, rows[0].length - 1 - c] }[event.key];
    if (r < 0 || !step || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    const next = rows[r + step[0]]?.[c + step[1]];
    if (next) { event.target.tabIndex = -1; next.tabIndex = 0; next.focus(); }
  });
}
"""

SIDEWAYS, DENSE = 12, 24
"""From so many source words on, their names stand upright; from so many on, numbers are shown only
when asked for."""


def attention_html(look: CrossAttention, title: str) -> str:
    """A self-contained HTML document of a pair's cross-attention: words in large, every head's
    tokens in small.

    The words' numbers are those of `CrossAttention.words()`, the marked cells those of
    `CrossAttention.align()`.
    """
    head = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, '
        f'initial-scale=1"><style>{STYLE}{_shades()}</style></head>'
    )
    intro = (
        f"<h1>{escape(title)}</h1><dl "
        f'class="pair"><dt>source</dt><dd><bdi>{escape(look.source.text)}</bdi></dd>'
        f"<dt>target</dt><dd><bdi>{escape(look.target.text)}</bdi></dd></dl>"
    )
    body = f"{intro}{_words(look)}{_heads(look)}"
    return f"{head}<body><main>{body}</main><script>{SCRIPT}</script></body></html>\n"


def _shades() -> str:
    """One class for each step of the ramp, in both themes, each with the ink that is readable on
    it."""
    light, dark = (
        "".join(
            f".s{i}{{background:{ramp.css(c)};color:{ramp.css(ramp.ink(c))}}}"
            for i, c in enumerate(shades)
        )
        for shades in (ramp.ramp(dark=False), ramp.ramp(dark=True))
    )
    return f"{light}@media (prefers-color-scheme: dark){{{dark}}}"


def _words(look: CrossAttention) -> str:
    """The section of the large table, its legend and the alignment."""
    pairs = look.align()
    if not pairs:
        return "<h2>Words</h2><p>There are no words to compare: a side of the pair is empty.</p>"
    written = " ".join(f"<span>{pharaoh([pair])}</span>" for pair in pairs)
    layer = (
        f"layer {look.best_layer}, the one before the last"
        if len(look.patterns) > 1
        else "the only layer"
    )
    return (
        "<h2>Words</h2><p>Each row is a word of the target, each column a word of the source. "
        "A number is the share of "
        "attention that the source word got while the target word was written, the mean over "
        "the heads of "
        f"{layer}. Under <i>other</i> is what went to tokens of no word, such as the end of "
        f"the source.</p>"
        f'{_table(look, set(pairs))}<output aria-live="polite">&nbsp;</output>{_legend()}'
        "<h2>Alignment</h2><p>Every target word with the source word that it looked at most, "
        "as source-target, counted "
        f"from 0. Attention tells where the model looked, not what it took from "
        f"there.</p><code>{written}</code>"
    )


def _table(look: CrossAttention, pairs: set[tuple[int, int]]) -> str:
    words, columns = look.words().double().numpy(), look.source.words
    kind = f"{'side' if len(columns) >= SIDEWAYS else ''} {'dense' if len(columns) >= DENSE else ''}".strip()
    head = "".join(
        f'<th scope="col" class="word" title="{escape(word)}"><bdi>{escape(word)}</bdi></th>'
        for word in columns
    )
    rows = []
    for t, (target, weights) in enumerate(zip(look.target.words, words, strict=True)):
        cells = "".join(
            _cell(float(weight), f"{source} → {target}", best=(s, t) in pairs, first=s == t == 0)
            for s, (source, weight) in enumerate(zip(columns, weights, strict=True))
        )
        rest = f'<td class="rest">{number(max(0.0, 1 - weights.sum()))}</td>'
        rows.append(
            f'<tr><th scope="row" '
            f'title="{escape(target)}"><bdi>{escape(target)}</bdi></th>{cells}{rest}</tr>'
        )
    return (
        f'<div class="wide"><table class="{kind}" aria-label="Attention between words; arrow '
        f'keys move">'
        f'<thead><tr><td></td>{head}<th scope="col" class="rest">other</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _cell(weight: float, name: str, *, best: bool, first: bool) -> str:
    title = escape(f"{name}: {weight:.4f}{', the most of its row' if best else ''}")
    return (
        f'<td class="s{ramp.step(weight)}{" best" if best else ""}" '
        f'tabindex="{0 if first else -1}" title="{title}">'
        f"{number(weight)}</td>"
    )


def _legend() -> str:
    ticks = "".join(f'<b class="s{ramp.step(tick)}">{tick:g}</b>' for tick in ramp.TICKS)
    return f'<div class="legend">{ticks}<span class="best">ringed</span>the most of its row</div>'


def _heads(look: CrossAttention) -> str:
    """The section of small pictures, one for every head of every layer, over tokens."""
    layers, heads = look.patterns.shape[:2]
    rows = ("".join(_figure(look, layer, head) for head in range(heads)) for layer in range(layers))
    grids = "".join(
        f'<div class="grid" style="--heads:{heads}">{figures}</div>' for figures in rows
    )
    return (
        "<h2>Every layer and head</h2><p>The same over tokens: target tokens from top to "
        "bottom, each row the "
        "prediction of its token; source tokens from left to right. Below each stands its "
        "strongest cell. "
        "The layer used above is outlined.</p><details><summary>The tokens in their order</summary>"
        f"<p>target {_tokens(look.target)}</p><p>source {_tokens(look.source)}</p></details>{grids}"
    )


def _tokens(side: Side) -> str:
    return " ".join(f'<span class="token">{_seen(piece)}</span>' for piece in side.pieces)


def _seen(piece: str) -> str:
    """A token in HTML, its spaces visible and its direction its own."""
    return f"<bdi>{escape(piece.replace(' ', '␣'))}</bdi>"


def _figure(look: CrossAttention, layer: int, head: int) -> str:
    pattern = look.patterns[layer, head].double().numpy()
    row, column = np.unravel_index(int(pattern.argmax()), pattern.shape)
    strongest = (
        f"{_seen(look.source.pieces[column])} → {_seen(look.target.pieces[row])} "
        f"{number(pattern.max())}"
    )
    label = f"layer {layer} · head {head}"
    light, dark = (_image(pattern, ramp.ramp(dark=dark)) for dark in (False, True))
    shape = f"aspect-ratio:{min(2.0, max(0.5, pattern.shape[1] / pattern.shape[0])):.3f}"
    return (
        f"<figure{' class=used' if layer == look.best_layer else ''}><picture>"
        f'<source srcset="{dark}" media="(prefers-color-scheme: dark)">'
        f'<img src="{light}" style="{shape}" alt="Attention of {label}"></picture>'
        f"<figcaption>{label}<small>{strongest}</small></figcaption></figure>"
    )


def _image(pattern: np.ndarray, shades: list[ramp.Colour]) -> str:
    """A pattern as a data address: one pixel for each cell."""
    image = Image.fromarray(ramp.steps(pattern))
    image.putpalette([part for shade in shades for part in shade])
    file = io.BytesIO()
    image.save(file, "png")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
