"""Recorded activations, read, edited and explained.

    seen = look(model, Batch(ids), edits=[Zero("*.0.attention.z", head=1)])
                          every point of a pass by its name
    lens(seen); ledger(seen, 17); attribute(seen, "integrated_gradients", 17)
                          explanations of its answer
    pharaoh(cross_attention(model, tokenizer, "ein Haus", "a house").align())
                          an alignment of words

Import from the modules: this file imports nothing.
"""
