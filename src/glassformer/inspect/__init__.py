"""Recorded activations, read, edited and explained.

    look(model, Batch(ids), edits=[Zero("*.0.attention.z", head=1)])  ->  seen: points by name
    lens(seen), ledger(seen, 17), attribute(seen, "occlusion", 17)    ->  explanations
    cross_attention(model, tokenizer, "ein Haus", "a house").align()  ->  pairs of words

Import from the modules: this file imports nothing.
"""
