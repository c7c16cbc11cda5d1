"""Files to batches, in a reproducible order: readers, splits, the token store.

Import from the modules: this file imports nothing, so that reading a configuration does not load
torch.
"""
