"""Any Python file in colours by meaning, with the tagger of `glassformer demo tag`.

python examples/highlight.py runs/demo-tag FILE.py [--html OUT.html]
"""

import argparse
from pathlib import Path

import glassformer as gf
from glassformer.demos.codetags import TAGS
from glassformer.demos.codewords import split_code
from glassformer.pages.highlight import coloured, highlight_html, legend

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("run")
parser.add_argument("file", type=Path)
parser.add_argument("--html", type=Path)
options = parser.parse_args()

run = gf.load(options.run)
source = options.file.read_text(encoding="utf-8")
words, spans = split_code(source)
tags = [tag for _, tag in run.tag(words)]
print(legend(TAGS))
print(coloured(source, spans, tags, TAGS))
if options.html:
    made = highlight_html(source, spans, tags, TAGS, options.file.name)
    options.html.write_text(made, encoding="utf-8")
