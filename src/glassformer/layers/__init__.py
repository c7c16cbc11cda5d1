"""Tensors to tensors: each file is one idea of the notes, the pure function first and the module second.

Knows: shapes and mathematics. Does not know: text, files, architectures, training.
"""
