"""Tensors to tensors: each file is one idea of the notes, the pure function first and the module
second."""
