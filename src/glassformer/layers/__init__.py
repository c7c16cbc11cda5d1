"""Tensors to tensors: each file is one idea of the notes, first as a pure function, then as a
module."""
