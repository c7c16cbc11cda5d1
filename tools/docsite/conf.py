"""Sphinx's configuration, read from build/docs-source (see `docsite`)."""

import os
from typing import Any

import fastapi.openapi.models  # noqa: F401  # before autodoc writes annotations into pydantic.BaseModel
from docutils import nodes
from latex2mathml.converter import convert
from pygments.lexers.special import TextLexer

from docsite.docstrings import restructured

project = "glassformer"
author = "the glassformer contributors"
project_copyright = author
extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "glassformer"
html_copy_source = False
html_show_sphinx = False
html_show_search_summary = False  # from disk, a page cannot read the others
html_static_path = [os.environ["DOCSITE_STATIC"]]
html_extra_path = [os.environ["DOCSITE_EXTRA"]]
html_css_files = ["site.css"]
html_theme_options = {"top_of_page_buttons": []}
html_math_renderer = "mathml"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
maximum_signature_line_length = 88
python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries = False  # the navigation of every page would have every function


def _mathml(self: Any, node: nodes.math | nodes.math_block) -> None:
    """An equation as MathML, which browsers draw themselves."""
    display = "block" if isinstance(node, nodes.math_block) else "inline"
    self.body.append(convert(node.astext(), display=display))
    raise nodes.SkipNode


def setup(app: Any) -> None:
    """Connect the docstrings and the equations."""

    def docstring(app: Any, what: str, name: str, found: Any, options: Any, lines: list[str]):
        lines[:] = restructured(lines)

    app.connect("autodoc-process-docstring", docstring)
    app.add_html_math_renderer("mathml", (_mathml, None), (_mathml, None))
    for name in ("floors", "rooms", "walls", "walk"):
        app.add_lexer(name, TextLexer)
