"""Computation without gradients: one pool of keys and values, one engine, and the ways to choose
tokens.

Import from the modules: this file imports nothing.
"""
