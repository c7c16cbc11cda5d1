"""Log-probability of each token of a given text, alone or as the target of a source."""

from collections.abc import Sequence

import torch

from glassformer.batch import IGNORE, Batch, padded_rows
from glassformer.errors import ConfigError
from glassformer.losses import token_log_probs
from glassformer.models.transformer import Transformer, evaluating
from glassformer.runtime.prompts import check_ids, check_language_model, check_source, half


def score(
    model: Transformer, ids: Sequence[int], source: Batch | None = None, prefix: Sequence[int] = ()
) -> list[float]:
    """log p(x_t | prefix, x_1 .. x_{t-1}, source) in nats for each x of `ids`; without a prefix for
    t = 2 .. T only.

    A text longer than the context is read in windows that overlap by half, so that every token but
    those of the first window is predicted from at least half a context; each is counted once.
    Errors: nothing to predict, an id outside the vocabulary, a model without a language model head,
    an encoder-decoder without a source (of one row) or another model with one.
    """
    check_language_model(model)
    check_source(source, 1, model)
    whole, scored, least = [*prefix, *ids], len(prefix or ids[:1]), 1 if prefix else 2
    check_ids(whole, model, "The text")
    if len(ids) < least:
        raise ConfigError(
            f"A text of {len(ids)} token(s) cannot be scored; at least {least} are needed."
        )
    context, device = model.config.max_length, next(model.parameters()).device
    tokens, log_probs = torch.tensor(whole, device=device), []
    with evaluating(model):
        memory = None if source is None else model.encode(source.to(device))
        while scored < len(whole):
            begin = 0 if not log_probs and scored <= context else max(0, scored - half(context))
            window = tokens[begin : begin + context + 1]
            targets = window[1:].clone()
            targets[: scored - begin - 1] = IGNORE
            features = model.features(Batch(window[None, :-1]), memory)
            logits = model.head(features.hidden, features.positions)
            log_probs += token_log_probs(logits, targets[None])[0, scored - begin - 1 :].tolist()
            scored = begin + len(window)
    return log_probs


def forced(
    model: Transformer, targets: Sequence[Sequence[int]], source: Batch, first: int
) -> list[list[float]]:
    """log p of every token of each target that begins behind the token `first`, given its row of
    `source`, in nats.

    Errors: those of `score`, an empty target, and one longer than the context.
    """
    check_language_model(model)
    check_source(source, len(targets), model)
    context, device = model.config.max_length, next(model.parameters()).device
    for target in targets:
        check_ids([first, *target], model, "The target")
        if not 0 < len(target) <= context:
            raise ConfigError(
                f"A target of {len(target)} tokens cannot be scored; give 1 to {context}."
            )
    wanted = padded_rows(targets, IGNORE).to(device)
    inputs = Batch.padded([[first, *target[:-1]] for target in targets]).to(device)
    with evaluating(model):
        features = model.features(inputs, model.encode(source.to(device)))
        log_probs = token_log_probs(model.head(features.hidden, features.positions), wanted)
    return [row[: len(target)] for row, target in zip(log_probs.tolist(), targets, strict=True)]
