"""Log-probability of answers to prompts, as evaluation harnesses score them.

    The sky is          blue       log p(blue | The sky is)            whether it is the likeliest
                        green

What all prompts begin with is computed once, a prompt once for all of its answers.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from glassformer.axes import Float, Int, Tensor
from glassformer.batch import IGNORE, Batch, Positions, padded_rows
from glassformer.errors import ConfigError
from glassformer.layers.cache import Cache
from glassformer.losses import at_least_float32, token_log_probs
from glassformer.models.transformer import Features, Transformer, evaluating
from glassformer.runtime.prompts import check_ids, check_language_model, check_numbers
from glassformer.tokenizers.text import Tokenizer

Ids = tuple[int, ...]
Pair = tuple[Ids, Ids]
"""The ids of a prompt and of its answer."""
Rows = Sequence[tuple[int, Ids]]
"""Answers, each with the number of its prompt in the batch."""
Told = tuple[list[float], bool]
LOGITS, TOKENS = 1 << 26, 1 << 13
"""Numbers in the logits, and tokens of prompts in caches, that are in memory at once, about."""


@dataclass(frozen=True)
class Likelihood:
    """log p of each token of an answer in nats, and whether each is the likeliest."""

    log_probs: tuple[float, ...]
    greedy: bool

    @property
    def log_prob(self) -> float:
        """log p of the answer."""
        return math.fsum(self.log_probs)


def likelihoods(
    model: Transformer, pairs: Sequence[Pair], begin: int | None = None
) -> list[Likelihood]:
    """log p(answer | prompt) of each pair, in order, whatever else is asked for.

    `begin`: the symbol that answers of an encoder-decoder begin with, whose prompts are sources;
    None for a decoder. ConfigError: an empty prompt or answer, a pair longer than the model, an id
    outside the vocabulary, a model that predicts no next token.
    """
    check_language_model(model)
    _check(model, pairs, begin is None)
    of = dict[Ids, list[int]]()
    for number, (prompt, _) in enumerate(pairs):
        of.setdefault(prompt, []).append(number)
    prompts, found = sorted(of, key=len), dict[int, Likelihood]()
    with evaluating(model):
        shared = _shared(model, prompts) if begin is None else None
        for at in _chunks(list(map(len, prompts))):
            batch = prompts[at]
            numbers = [number for prompt in batch for number in of[prompt]]
            rows = [(row, pairs[n][1]) for row, prompt in enumerate(batch) for n in of[prompt]]
            told = (
                _continued(model, batch, rows, shared)
                if begin is None
                else _answered(model, batch, rows, begin)
            )
            for number, (log_probs, greedy) in zip(numbers, told, strict=True):
                found[number] = Likelihood(tuple(log_probs), greedy)
    return [found[number] for number in range(len(pairs))]


def split_answer(tokenizer: Tokenizer, prompt: str, answer: str) -> Pair:
    """The ids of a prompt, behind the symbols of a text's beginning, and of the answer behind it.

    Spaces at the end of the prompt belong to the answer, since tokens begin with a space; the
    answer's ids are those of the whole behind as many as the prompt has. ConfigError: an answer
    without a token of its own, or an empty prompt where no symbol begins a text.
    """
    kept = prompt.rstrip()
    before = tokenizer.encode(kept).tolist()
    ids = tokenizer.encode(prompt + answer).tolist()[len(before) :]
    if not ids:
        raise ConfigError(f"The answer {answer!r:.60} has no token of its own; give another.")
    frame = tokenizer.frame_or("", "").begin
    context = [*frame, *before] or list(beginning(tokenizer))
    if not context:
        raise ConfigError("The prompt is empty, and this tokenizer has no symbol that begins one.")
    return tuple(context), tuple(ids)


def beginning(tokenizer: Tokenizer) -> Ids:
    """The symbol behind which a text's first token is predicted: of its frame, or that which ends
    the document before it; none if there is none."""
    frame, specials = tokenizer.frame_or("", "").begin, tokenizer.specials
    named = [specials[role] for role in ("eos", "bos") if role in specials]
    return frame or tuple(named[:1])


def prompt_ids(tokenizer: Tokenizer, text: str) -> tuple[Ids, int]:
    """Return the ids of a prompt, and how many of them are before its text; a text without a token
    is the beginning of one."""
    first = tokenizer.frame_or("", "").begin
    ids = (*first, *tokenizer.encode(text).tolist())
    if ids:
        return ids, len(first)
    ids = beginning(tokenizer)
    return ids, len(ids)


def cut(pair: Pair, longest: int) -> Pair:
    """A pair without the beginning of a prompt that is too long beside its answer."""
    prompt, answer = pair
    return prompt[max(0, len(prompt) + len(answer) - 1 - longest) :], answer


def rolling(ids: Sequence[int], begin: int, longest: int) -> list[Pair]:
    """A text as pairs that predict each token once, each from as many before it as fit.

    The first pair begins with the symbol `begin`; each predicts `longest` tokens, the last the rest
    with a full context. Source: Gao et al. 2021, A framework for few-shot language model
    evaluation.
    """
    whole, found = (begin, *ids), list[Pair]()
    for done in range(0, len(ids), longest):
        end = min(done + longest, len(ids))
        first = max(0, end - longest)
        found.append((tuple(whole[first : done + 1]), tuple(whole[done + 1 : end + 1])))
    return found


def _check(model: Transformer, pairs: Sequence[Pair], together: bool) -> None:
    longest = model.config.max_length
    for number, (prompt, answer) in enumerate(pairs, 1):
        check_ids([*prompt, *answer] if together else answer, model, "The text")
        if not prompt or not answer:
            raise ConfigError(f"Pair {number} has no prompt or no answer; give both a token.")
        sizes = (len(prompt) + len(answer) - 1,) if together else (len(prompt), len(answer))
        if max(sizes) > longest:
            raise ConfigError(
                f"Prompt {number} has {len(prompt)} tokens and its answer {len(answer)}, and the "
                f"context is {longest}; shorten the prompt, or give fewer shots."
            )


def _shared(model: Transformer, prompts: Sequence[Ids]) -> Cache | None:
    """What all of several prompts begin with, but for one token at least, in a cache of one row."""
    least, most = min(prompts, default=()), max(prompts, default=())  # all others are between them
    same = (i for i, (a, b) in enumerate(zip(least, most, strict=False)) if a != b)
    length = min(next(same, len(least)), len(least) - 1)
    if len(prompts) < 2 or length < 1:
        return None
    ids = torch.tensor([prompts[0][:length]], device=next(model.parameters()).device)
    cache = model.features(Batch(ids), cache=Cache()).cache
    assert isinstance(cache, Cache)
    return cache


def _continued(
    model: Transformer, prompts: Sequence[Ids], rows: Rows, shared: Cache | None
) -> list[Told]:
    """By a decoder: the first token of each answer from its prompt, the others behind it."""
    known = 0 if shared is None or shared.positions is None else shared.positions.length
    device = next(model.parameters()).device
    every = torch.zeros(len(prompts), dtype=torch.long, device=device)
    cache = Cache() if shared is None else shared.selected(every)
    batch = _behind([p[known:] for p in prompts], [known] * len(prompts)).to(device)
    features = model.features(batch, cache=cache)
    last = torch.tensor([len(p) - known - 1 for p in prompts], device=device)
    hidden = features.hidden[torch.arange(len(prompts), device=device), last]
    logits = model.head(hidden[:, None], features.positions)
    of = torch.tensor([row for row, _ in rows], device=device)
    firsts = torch.tensor([[answer[0]] for _, answer in rows], device=device)
    found = list[Told]()
    for at in _chunks([1] * len(rows), model.config.vocab_size):
        found += _told(logits[of[at]], firsts[at])
    longer = [number for number, (_, answer) in enumerate(rows) if len(answer) > 1]
    longer.sort(key=lambda number: len(rows[number][1]))
    rest = _behind_prompts(model, features, prompts, [rows[number] for number in longer])
    for number, (log_probs, greedy) in zip(longer, rest, strict=True):
        first, right = found[number]
        found[number] = [*first, *log_probs], right and greedy
    return found


def _behind_prompts(
    model: Transformer, features: Features, prompts: Sequence[Ids], rows: Rows
) -> Iterator[Told]:
    """All tokens of answers but the first, behind prompts that are in the cache."""
    assert features.cache is not None
    sizes, longest = [len(answer) - 1 for _, answer in rows], len(prompts[-1])
    for at in _chunks(sizes, model.config.vocab_size, longest):
        part, device = rows[at], features.hidden.device
        batch = _behind([a[:-1] for _, a in part], [len(prompts[row]) for row, _ in part])
        assert isinstance(features.cache, Cache)
        cache = features.cache.selected(torch.tensor([row for row, _ in part], device=device))
        new = model.features(batch.to(device), cache=cache)
        wanted = padded_rows([answer[1:] for _, answer in part], IGNORE).to(device)
        yield from _told(model.head(new.hidden, new.positions), wanted)


def _answered(model: Transformer, prompts: Sequence[Ids], rows: Rows, begin: int) -> Iterator[Told]:
    """By an encoder-decoder, whose sources the prompts are."""
    device = next(model.parameters()).device
    memory = model.encode(Batch.padded(prompts).to(device))
    sizes, longest = [len(answer) for _, answer in rows], len(prompts[-1])
    for at in _chunks(sizes, model.config.vocab_size, longest):
        part = rows[at]
        index = torch.tensor([row for row, _ in part], device=device)
        batch = Batch.padded([[begin, *answer[:-1]] for _, answer in part]).to(device)
        features = model.features(batch, memory.selected(index))
        wanted = padded_rows([answer for _, answer in part], IGNORE).to(device)
        yield from _told(model.head(features.hidden, features.positions), wanted)


def _behind(rows: Sequence[Ids], before: Sequence[int]) -> Batch:
    """Rows of ids that follow so many elements each, padded to the longest."""
    places = Positions.padded([len(row) for row in rows])
    assert places.valid is not None
    position = places.position + torch.tensor(before)[:, None]
    position = position.where(places.valid, 0)  # or padding would be outside a learned table
    return Batch(padded_rows(rows), Positions(position, valid=places.valid))


def _chunks(lengths: Sequence[int], width: int = 0, before: int = 0) -> Iterator[slice]:
    """Rows of these lengths, padded to the longest, in groups within the limits, of one at least.

    `width`: numbers in the logits of a token; `before`: tokens in the cache of a row.
    """
    begin = longest = 0
    for at, length in enumerate(lengths):
        longest, n = max(longest, length), at + 1 - begin
        if n > 1 and (n * longest * width > LOGITS or n * (before + longest) > TOKENS):
            yield slice(begin, at)
            begin, longest = at, length
    if lengths:
        yield slice(begin, len(lengths))


def _told(logits: Float[Tensor, "B T V"], targets: Int[Tensor, "B T"]) -> list[Told]:
    """log p of the targets of each row that are not IGNORE, and whether all are the likeliest."""
    log_probs, known = token_log_probs(logits, targets), targets != IGNORE
    check_numbers(log_probs)
    right = (at_least_float32(logits).argmax(-1) == targets) | ~known
    lengths = known.sum(1).tolist()
    return [
        (row[:length], greedy)
        for row, length, greedy in zip(
            log_probs.tolist(), lengths, right.all(1).tolist(), strict=True
        )
    ]
