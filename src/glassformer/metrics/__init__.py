"""One definition of every score: of predicted tokens, written text, spans and classes.

Import from the modules: this file imports nothing.
"""
