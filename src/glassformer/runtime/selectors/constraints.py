"""What may come next: transforms of the last logits that read the rows written so far.

repetition_penalty ─> no_repeat_ngram_size ─> bad_words_ids ─> min_length ─> min_new_tokens
    ─> forced_bos_token_id ─> forced_eos_token_id ─> suppress_tokens ─> begin_suppress_tokens
    ─> renormalize_logits

Each acts on the result of the previous one, in the order of transformers, and holds for sampling,
greedy decoding and beam search. An excluded token has logit -inf; a forced one has 0, all others
-inf.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch

from glassformer.core.axes import Float, Tensor
from glassformer.core.errors import GlassformerError
from glassformer.runtime.config import GenerateConfig


@dataclass(frozen=True)
class Rows:
    """What the transforms know of a batch: the ids of each row so far (its prompt's included), how
    many of them are new, the ids that end a text, whether the next token of a row is
    its last (empty: none is), and the seed of each row (empty: the configuration's)."""

    seen: Sequence[Sequence[int]]
    new: Sequence[int]
    ends: Sequence[int] = ()
    last: Sequence[bool] = ()
    seeds: Sequence[int] = ()


Logits = Float[Tensor, "B V"]


def repetition_penalty(logits: Logits, rows: Rows, config: GenerateConfig) -> Logits:
    """Divide positive logits of tokens already in the row by the penalty, multiply negative ones.

    Source: Keskar et al. 2019 (CTRL), section 4.1.
    """
    logits, penalty = logits.clone(), config.repetition_penalty
    for row, ids in zip(logits, rows.seen, strict=True):
        index = torch.tensor(sorted(set(ids)), dtype=torch.long, device=row.device)
        row[index] = torch.where(row[index] > 0, row[index] / penalty, row[index] * penalty)
    return logits


def no_repeat_ngram_size(logits: Logits, rows: Rows, config: GenerateConfig) -> Logits:
    """Exclude every token that would make the last n tokens a sequence which the row has already
    (Paulus et al. 2018)."""
    return _without(logits, (_repeating(ids, config.no_repeat_ngram_size) for ids in rows.seen))


def _repeating(ids: Sequence[int], n: int) -> list[int]:
    """The tokens that followed the last n - 1 earlier in the row."""
    starts = range(len(ids) - n + 1)
    tail = ids[len(ids) - n + 1 :]
    return [ids[at + n - 1] for at in starts if ids[at : at + n - 1] == tail]


def bad_words_ids(logits: Logits, rows: Rows, config: GenerateConfig) -> Logits:
    """Exclude every token that would complete one of these sequences; an end symbol alone is none
    of them."""
    words = [word for word in config.bad_words_ids if word[:-1] or word[-1] not in rows.ends]
    return _without(logits, (_completing(ids, words) for ids in rows.seen))


def _completing(ids: Sequence[int], words: Sequence[Sequence[int]]) -> list[int]:
    """The last token of each word whose others end the row."""
    tail = lambda n: tuple(ids[max(0, len(ids) - n) :])
    return [word[-1] for word in words if tail(len(word) - 1) == tuple(word[:-1])]


def min_length(logits: Logits, rows: Rows, config: GenerateConfig) -> Logits:
    """Exclude the end of a row of fewer tokens, its prompt's included."""
    return _without(
        logits, (rows.ends if len(ids) < config.min_length else () for ids in rows.seen)
    )


def min_new_tokens(logits: Logits, rows: Rows, config: GenerateConfig) -> Logits:
    """Exclude the end of rows with fewer new tokens."""
    return _without(logits, (rows.ends if new < config.min_new_tokens else () for new in rows.new))


def forced_bos_token_id(logits: Logits, rows: Rows, config: GenerateConfig) -> Logits:
    """Leave this token alone to rows of one token."""
    token = config.forced_bos_token_id
    assert token is not None
    return _forced(logits, (token,), [len(ids) == 1 for ids in rows.seen])


def forced_eos_token_id(logits: Logits, rows: Rows, config: GenerateConfig) -> Logits:
    """Leave these tokens alone to rows whose next token is the last."""
    return _forced(logits, config.forced_eos_token_id, rows.last)


def suppress_tokens(logits: Logits, rows: Rows, config: GenerateConfig) -> Logits:
    """Exclude these tokens."""
    return _without(logits, [config.suppress_tokens] * len(logits))


def begin_suppress_tokens(logits: Logits, rows: Rows, config: GenerateConfig) -> Logits:
    """Exclude these tokens as the first new one, or as the one behind a forced one."""
    forced = config.forced_bos_token_id is not None
    both = zip(rows.seen, rows.new, strict=True)
    first = [new == int(forced and len(ids) - new == 1) for ids, new in both]
    return _without(logits, (config.begin_suppress_tokens * one for one in first))


def renormalize_logits(logits: Logits, rows: Rows, config: GenerateConfig) -> Logits:
    """log softmax of what is left."""
    return logits.log_softmax(-1)


def _without(logits: Logits, excluded: Iterable[Sequence[int]]) -> Logits:
    places = [(row, token) for row, tokens in enumerate(excluded) for token in tokens]
    if not places:
        return logits
    row, token = torch.tensor(places, device=logits.device).T
    return logits.index_put((row, token), logits.new_tensor(-torch.inf))


def _forced(logits: Logits, tokens: Sequence[int], where: Sequence[bool]) -> Logits:
    if not any(where):
        return logits
    alone = torch.full_like(logits[0], -torch.inf)
    alone[list(tokens)] = 0
    return torch.where(torch.tensor(where, device=logits.device)[:, None], alone, logits)


_STAGES: tuple[Callable[[Logits, Rows, GenerateConfig], Logits], ...] = (
    repetition_penalty,
    no_repeat_ngram_size,
    bad_words_ids,
    min_length,
    min_new_tokens,
    forced_bos_token_id,
    forced_eos_token_id,
    suppress_tokens,
    begin_suppress_tokens,
    renormalize_logits,
)
CONSTRAINTS = {stage.__name__: stage for stage in _STAGES}
"""What each field that says what may come next does to logits, in the order in which they act."""


def constrained(logits: Logits, rows: Rows, config: GenerateConfig) -> Logits:
    """Logits after these transforms; a field with its default changes nothing.

    GlassformerError: a row has no token left.
    """
    given = logits
    for name, change in CONSTRAINTS.items():
        if is_set(config, name):
            logits = change(logits, rows, config)
    if logits is not given and bool(logits.amax(-1).isneginf().any()):
        raise GlassformerError(
            "Every token is excluded by the settings of generation; allow more of them, or fewer "
            "new tokens."
        )
    return logits


def is_set(config: GenerateConfig, name: str) -> bool:
    """Whether a field has another value than its default."""
    return getattr(config, name) != GenerateConfig.model_fields[name].default
