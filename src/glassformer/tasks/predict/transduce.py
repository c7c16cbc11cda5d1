"""Text to text by an encoder-decoder: lines in, for each the best lines out, whatever their number
and lengths.

texts ─ ids ─ cut if too long ─ sorted by length ─> batches ─ beams or samples ─> joined
                                                                  ─ in the texts' order
"""

from collections.abc import Iterator, Sequence

from glassformer.core.errors import ConfigError
from glassformer.data.example import Example
from glassformer.models.transformer import Transformer
from glassformer.processors.tokens.pair_tokenizer import PairTokenizer
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.hypotheses import normalized
from glassformer.runtime.request import Request
from glassformer.tasks.predict.gradually import Steps
from glassformer.tasks.predict.scores import likelihoods
from glassformer.tasks.predict.stop import StopStrings
from glassformer.tasks.predict.text import Finish, Generated, write


def transduce_steps(
    model: Transformer,
    tokenizer: PairTokenizer,
    texts: Sequence[str],
    config: GenerateConfig,
    batch_size: int = 32,
    first: int = 1,
) -> Steps[list[list[Generated]]]:
    """Return the `n_best` targets of each text, best first (one, if they are sampled), which do not
    depend on the other texts.

    A target gets at most `max_new_tokens`, the model's context, and 20 tokens more than
    `length_ratio` times its source. Its ids have the end's, and are whole if a stop string cut the
    text. A text of spaces becomes one empty text with score 0. With `overflow` "window" a text
    longer than the context is cut into pieces of whole words, and its i-th best is the i-th best of
    each piece. ConfigError: such a text without a window, by its number from `first`; a model that
    is no encoder-decoder.
    """
    _check(model, batch_size)
    pieces = [
        list(_pieces(tokenizer, text, model.config.max_length, config, number))
        if text.strip()
        else []
        for number, text in enumerate(texts, first)
    ]
    how = config.model_copy(update={"stop": ()})  # what is cut is the text of all pieces
    requests = [_request(model, tokenizer, how, source) for own in pieces for source in own]
    found = iter((yield from write(model, tokenizer.target, requests, batch_size=batch_size)))
    return [
        _targets([next(found) for _ in own], config) if own else [Generated(finish="end")]
        for own in pieces
    ]


def score_pairs(
    model: Transformer,
    tokenizer: PairTokenizer,
    pairs: Sequence[tuple[str, str]],
    first: int = 1,
) -> list[list[float]]:
    """log p of each token of every pair's target, the end included, given its source, in nats.

    Errors: a model that is no encoder-decoder; a pair with a side longer than the context, counted
    from `first`.
    """
    _check(model)
    context = model.config.max_length
    sides = [
        (tuple(tokenizer.source_ids(source).tolist()), tuple(tokenizer.target_ids(target).tolist()))
        for source, target in pairs
    ]
    for at, (source, target) in enumerate(sides, first):
        if max(len(source), len(target)) > context:
            raise ConfigError(
                f"Pair {at} has {len(source)} source and {len(target)} target tokens and the "
                f"context {context}; "
                "shorten it, or leave it out."
            )
    return [[*one.log_probs] for one in likelihoods(model, sides, begin=tokenizer.bos)]


def _check(model: Transformer, batch_size: int = 1) -> None:
    architecture = model.config.architecture
    if architecture != "encoder_decoder":
        raise ConfigError(
            f"Only an encoder-decoder turns a text into another; this model has "
            f"architecture={architecture!r}."
        )
    if batch_size < 1:
        raise ConfigError(f"A batch needs at least 1 text, and batch_size={batch_size}; raise it.")


def _pieces(
    tokenizer: PairTokenizer, text: str, context: int, config: GenerateConfig, number: int
) -> Iterator[Example]:
    """Yield a text, or pieces of one that is too long: halved between words, or inside a word that
    is too long itself."""
    ids = tokenizer.source_ids(text)
    if len(ids) <= context:
        yield Example(ids)
        return
    if config.overflow == "refuse":
        raise ConfigError(
            f"Line {number} has {len(ids)} tokens and the context {context}; shorten it, or "
            f"cut it into pieces with "
            "--window (overflow='window' in Python)."
        )
    words = text.split()
    if len(words) == 1 and len(words[0]) == 1:
        raise ConfigError(
            f"Line {number} holds {text.strip()!r}, of which one character has {len(ids)} "
            f"tokens, and the context is "
            f"{context}; train with a larger model.max_length."
        )
    parts, glue = (words, " ") if len(words) > 1 else (list(words[0]), "")
    middle = len(parts) // 2
    for half in (parts[:middle], parts[middle:]):
        yield from _pieces(tokenizer, glue.join(half), context, config, number)


def _request(
    model: Transformer, tokenizer: PairTokenizer, config: GenerateConfig, source: Example
) -> Request:
    """Return the request for a target; its limit depends on its own source only."""
    limit, ratio = model.config.max_length, config.length_ratio
    limit = limit if ratio is None else min(limit, int(ratio * len(source.ids)) + 20)
    ends = config.ends(tokenizer.eos)
    return Request([tokenizer.bos], config, ends, limit=limit, source=source)


def _targets(parts: list[Generated], config: GenerateConfig) -> list[Generated]:
    """Return the i-th best of a text from the i-th best of its pieces; pieces that have fewer give
    their last."""
    ranks = [[part, *part.others] for part in parts]
    most = max(map(len, ranks))
    return [_target([own[min(i, len(own) - 1)] for own in ranks], config) for i in range(most)]


def _target(parts: list[Generated], config: GenerateConfig) -> Generated:
    stops = StopStrings(config.stop)
    text = stops.push(" ".join(part.text for part in parts)) + stops.flush()
    ids = [token for part in parts for token in part.ids]
    log_probs = [log_prob for part in parts for log_prob in part.log_probs]
    score = normalized(sum(log_probs), len(log_probs), config.length_penalty)
    finish: Finish = "end" if all(part.finish == "end" for part in parts) else "length"
    return Generated(text, ids, log_probs, "stop" if stops.stopped else finish, score=score)
