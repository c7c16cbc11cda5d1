"""A step of decoding as one call of a small C program, compiled for the processor at hand.

A step of one text has some 600 small operations, and torch takes longer to begin each than to
compute it; the program's time is that of reading the weights. `step.c` is the step, `library`
compiles it with the system's C compiler, `program` describes a model to it. Without a compiler
models decode by torch.
"""

from glassformer.native.library import compiler
from glassformer.native.program import Program, fits

__all__ = ["Program", "compiler", "fits"]
