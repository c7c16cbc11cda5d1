"""The documentation site: `make docs` builds it from docs/, the docstrings and the gallery's
answers.

    docs/*.md, README.md ──pages──────┐
    src/glassformer ──reference───────┼──> build/docs-source ──Sphinx, conf──> build/docs
    docs/gallery/*.json ──gallery─────┘

`build/docs-source` is Markdown, so every step can be read. Each file uses only those before it:
docstrings, pages, reference, gallery, conf, __main__; `export` makes the gallery's answers.
"""
