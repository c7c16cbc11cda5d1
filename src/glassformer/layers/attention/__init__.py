"""Attention: the function, its masks, its layouts of keys and values, and the layer."""
