"""Runs of one recipe with different values of some fields: a grid of them, or a search."""
