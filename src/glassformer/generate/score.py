"""How likely a given text is: the log-probability of each of its tokens.

Knows: models, token ids. Does not know: text.
"""

from collections.abc import Sequence

import torch

from glassformer.batch import IGNORE, Batch
from glassformer.errors import ConfigError
from glassformer.generate.decode import check_ids, check_language_model
from glassformer.losses import token_log_probs
from glassformer.models.transformer import Transformer, evaluating


def score(model: Transformer, ids: Sequence[int]) -> list[float]:
    """log p(x_t | x_1 .. x_{t-1}) in nats for t = 2 .. T; T - 1 numbers.

    A text longer than the context is read in windows that overlap by half, so that every token but those of the first
    window is predicted from at least half a context; each is counted once.
    Errors: fewer than two tokens, an id outside the vocabulary, a model that is no decoder with a language model head.
    """
    check_language_model(model)
    check_ids(ids, model, "The text")
    if len(ids) < 2:
        raise ConfigError(f"A text of {len(ids)} token(s) cannot be scored; at least 2 are needed.")
    context, device = model.config.max_length, next(model.parameters()).device
    tokens, scored, log_probs = torch.tensor(list(ids), device=device), 1, []
    with evaluating(model):
        while scored < len(ids):
            begin = 0 if scored == 1 else max(0, scored - max(1, context // 2))
            window = tokens[begin : begin + context + 1]
            targets = window[1:].clone()
            targets[: scored - begin - 1] = IGNORE
            logits = model(Batch(window[None, :-1])).logits
            log_probs += token_log_probs(logits, targets[None])[0, scored - begin - 1 :].tolist()
            scored = begin + len(window)
    return log_probs
