"""What a tape recorded, read and explained.

    seen = look(model, Batch(ids), edits=[Zero("*.0.attention.z", head=1)])
                          every point of a pass by its name
    lens(seen); ledger(seen, 17); attribute(seen, "integrated_gradients", 17)
                          what its answer is made of
    pharaoh(cross_attention(model, tokenizer, "ein Haus", "a house").align())
                          which words belong together

Import from the modules: this file imports nothing.
"""
