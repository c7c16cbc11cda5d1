"""Text to text by an encoder-decoder: lines in, for each the best lines out, whatever their number
and lengths.

texts ─ ids ─ cut if too long ─ sorted by length ─> batches ─ beams or samples ─> joined
                                                                  ─ in the texts' order
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from glassformer.batch import Batch
from glassformer.errors import ConfigError
from glassformer.models.transformer import Transformer
from glassformer.processors.pair_tokenizer import PairTokenizer
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.decode import beam_steps, decode
from glassformer.runtime.hypotheses import Hypothesis, normalized
from glassformer.tasks.predict.gradually import Steps, by_length, finish
from glassformer.tasks.predict.scores import likelihoods
from glassformer.tasks.predict.stop import StopStrings
from glassformer.tasks.predict.text import Finish


@dataclass(frozen=True)
class Transduction:
    """The target of a text: text, token ids with the end's, log p of each, their score, and why it
    ended.

    `ids` and `log_probs` are whole where a stop string cut the text. The score is that of beam
    search.
    """

    text: str = ""
    ids: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    score: float = 0.0
    finish: Finish = "end"


def transduce(
    model: Transformer,
    tokenizer: PairTokenizer,
    texts: Sequence[str],
    config: GenerateConfig,
    batch_size: int = 32,
    first: int = 1,
) -> list[list[Transduction]]:
    """The `n_best` transductions of each text, best first (one, if they are sampled); a text alone
    or among others.

    A target gets at most `max_new_tokens`, the model's context, and 20 tokens more than
    `length_ratio` times its source. A text of nothing but spaces becomes one empty text with score
    0. One longer than the context is a ConfigError that names it, counted from `first`; with
    `overflow` "window" it is cut into pieces of whole words, and the i-th best of the text is the
    i-th best of each piece.
    Errors: also a model that is no encoder-decoder.
    """
    return finish(transduce_steps(model, tokenizer, texts, config, batch_size, first))


def transduce_steps(
    model: Transformer,
    tokenizer: PairTokenizer,
    texts: Sequence[str],
    config: GenerateConfig,
    batch_size: int = 32,
    first: int = 1,
) -> Steps[list[list[Transduction]]]:
    """Transduce texts step by step; see `transduce`."""
    _check(model, batch_size)
    pieces = [
        list(_pieces(tokenizer, text, model.config.max_length, config, number))
        if text.strip()
        else []
        for number, text in enumerate(texts, first)
    ]
    rows = [ids for own in pieces for ids in own]
    call = partial(_hypotheses, model, tokenizer, config, batch_size)
    if not config.beams:
        whole = yield from by_length(rows, len, batch_size, call)
    else:  # sentences take the places of others, the longest first
        whole = yield from by_length(rows, lambda ids: -len(ids), len(rows) or 1, call)
    found = iter(whole)
    return [
        _joined([next(found) for _ in own], tokenizer, config) if own else [Transduction()]
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
) -> Iterator[list[int]]:
    """The ids of a text, if too long in pieces: halved between words, and inside a word that alone
    is too long."""
    ids = tokenizer.source_ids(text).tolist()
    if len(ids) <= context:
        yield ids
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


def _hypotheses(
    model: Transformer,
    tokenizer: PairTokenizer,
    config: GenerateConfig,
    at_once: int,
    sources: list[list[int]],
) -> Steps[list[list[Hypothesis]]]:
    """The hypotheses for each source; the limit of a target depends on its own source alone."""
    most, ends = min(config.max_new_tokens, model.config.max_length), config.ends(tokenizer.eos)
    ratio = config.length_ratio
    limits = [most if ratio is None else min(most, int(ratio * len(ids)) + 20) for ids in sources]
    source, prompts = Batch.padded(sources), [[tokenizer.bos]] * len(sources)
    if config.beams:
        best: dict[int, list[Hypothesis]] = {}
        for events in beam_steps(model, prompts, config, ends, source, limits, at_once=at_once):
            best |= {event.request: [*event.hypotheses] for event in events if event.finish}
            yield
        return [best[row] for row in range(len(prompts))]
    ids, log_probs = [[[] for _ in prompts] for _ in range(2)]
    for step in decode(model, prompts, config, ends, source, limits=limits):
        for row, token, log_prob in zip(step.rows, step.ids, step.log_probs, strict=True):
            ids[row].append(token)
            log_probs[row].append(log_prob)
        yield
    penalty = config.length_penalty
    return [
        [Hypothesis(row, gains, normalized(sum(gains), len(gains), penalty), row[-1] in ends)]
        for row, gains in zip(ids, log_probs, strict=True)
    ]


def _joined(
    parts: list[list[Hypothesis]], tokenizer: PairTokenizer, config: GenerateConfig
) -> list[Transduction]:
    """The i-th best of a text from the i-th best of its pieces; pieces that have fewer give their
    last."""
    most = max(len(part) for part in parts)
    ranks = [[part[min(i, len(part) - 1)] for part in parts] for i in range(most)]
    return [_transduction(rank, tokenizer, config) for rank in ranks]


def _transduction(
    parts: list[Hypothesis], tokenizer: PairTokenizer, config: GenerateConfig
) -> Transduction:
    stops = StopStrings(config.stop)
    text = stops.push(" ".join(tokenizer.target.decode(part.ids) for part in parts)) + stops.flush()
    ids = [token for part in parts for token in part.ids]
    log_probs = [log_prob for part in parts for log_prob in part.log_probs]
    score = normalized(sum(log_probs), len(log_probs), config.length_penalty)
    finish: Finish = "end" if all(part.finished for part in parts) else "length"
    return Transduction(text, ids, log_probs, score, "stop" if stops.stopped else finish)
