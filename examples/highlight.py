"""A text in colours by the tags of its words, with a tagger like that of `glassformer demo tag`.

python examples/highlight.py runs/demo-tag FILE.txt [--html OUT.html]
"""

import argparse
import html
import re
from itertools import cycle
from pathlib import Path

import glassformer as gf

parser = argparse.ArgumentParser(description="A text in colours by the tags of its words.")
parser.add_argument("run")
parser.add_argument("file", type=Path)
parser.add_argument("--html", type=Path)
options = parser.parse_args()

run = gf.load(options.run)
source = options.file.read_text(encoding="utf-8")
words = re.findall(r"\w+|[^\w\s]", source)
kind = lambda tag: tag.partition("-")[2] or tag
tags = dict.fromkeys(kind(tag) for tag in run.classes if tag != "O")
colours = dict(zip(tags, cycle(["blue", "green", "purple", "brown", "teal"]), strict=False))
codes = {"blue": 34, "green": 32, "purple": 35, "brown": 33, "teal": 36}

printed, page, rest = "", "", source
for word, tag in run.tag(words):
    before, _, rest = rest.partition(word)
    colour, shown = colours.get(kind(tag)), html.escape(word)
    printed += before + (f"\x1b[{codes[colour]}m{word}\x1b[0m" if colour else word)
    marked = f'<b style="color:{colour}" title="{kind(tag)}">{shown}</b>'
    page += html.escape(before) + (marked if colour else shown)
print("  ".join(f"\x1b[{codes[colour]}m{tag}\x1b[0m" for tag, colour in colours.items()))
print(printed + rest)
if options.html:
    options.html.write_text(
        f"<!doctype html><meta charset=utf-8><pre>{page}{html.escape(rest)}", "utf-8"
    )
