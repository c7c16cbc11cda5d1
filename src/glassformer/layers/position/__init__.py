"""Positions as vectors, as score biases and as rotations."""
