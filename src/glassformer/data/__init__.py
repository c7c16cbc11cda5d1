"""Files to examples to batches, in a reproducible order.

Import from the modules: this file imports nothing, so that reading a configuration does not load
torch.
"""
