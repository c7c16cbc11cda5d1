"""Speculative decoding: cheap guesses at the next tokens, which the model checks in one step.

    text          . . . a b
    proposed              c d e                by a draft
    chosen                c d f                by the model, in one step: c, d and f are the text's

Random numbers depend on (seed, step), so the model's choice at each place is a function of its
logits there: a guess is right if it equals that choice. A draft changes no token and no
probability, greedy or sampled, only the time (Leviathan et al. 2023 accept a guess at random, with
the same law).
"""
