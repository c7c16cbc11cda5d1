"""A text in colours by the tags of its words, with a tagger like that of `glassformer demo tag`.

python examples/highlight.py runs/demo-tag FILE.txt [--html OUT.html]
"""

import argparse
import re
from pathlib import Path

import glassformer as gf
from glassformer.pages.highlight import coloured, highlight_html, legend

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("run")
parser.add_argument("file", type=Path)
parser.add_argument("--html", type=Path)
options = parser.parse_args()

run = gf.load(options.run)
source = options.file.read_text(encoding="utf-8")
found = [*re.finditer(r"\w+|[^\w\s]", source)]
spans = [word.span() for word in found]
tags = [tag.partition("-")[2] or tag for _, tag in run.tag([word[0] for word in found])]
names = list(dict.fromkeys(tag.partition("-")[2] or tag for tag in run.classes))
print(legend(names))
print(coloured(source, spans, tags, names))
if options.html:
    made = highlight_html(source, spans, tags, names, options.file.name)
    options.html.write_text(made, encoding="utf-8")
