"""Log-probability of texts: of answers to prompts, as evaluation harnesses score them, of a whole
text in windows, and of targets of sources.

    The sky is          blue       log p(blue | The sky is)            whether it is the likeliest
                        green
"""

from collections.abc import Sequence

from glassformer.core.batch import Batch
from glassformer.core.errors import ConfigError
from glassformer.data.collate import split_rows
from glassformer.models.transformer import Transformer
from glassformer.runtime.prompts import (
    check_ids,
    check_language_model,
    check_source,
    example_of,
    half,
)
from glassformer.runtime.scoring import Ids, Likelihood, Text, score_texts
from glassformer.tokenizers.text import Tokenizer

Pair = tuple[Ids, Ids]
"""The ids of a prompt and of its answer."""


def likelihoods(
    model: Transformer, pairs: Sequence[Pair], begin: int | None = None
) -> list[Likelihood]:
    """Return log p(answer | prompt) of each pair, in their order.

    `begin`: the symbol that answers of an encoder-decoder begin with, whose prompts are sources;
    None for a decoder. ConfigError: an empty prompt or answer, a pair longer than the model, an id
    outside the vocabulary, a model that predicts no next token.
    """
    check_language_model(model)
    _check(model, pairs, begin is None)
    if begin is None:
        return score_texts(model, [Text(*pair) for pair in pairs])
    number = {ids: n for n, ids in enumerate(dict.fromkeys(prompt for prompt, _ in pairs))}
    sources = [example_of(ids) for ids in number]
    return score_texts(model, [Text((begin,), own, number[ids]) for ids, own in pairs], sources)


def score(
    model: Transformer, ids: Sequence[int], source: Batch | None = None, prefix: Sequence[int] = ()
) -> list[float]:
    """Return log p(x_t | prefix, x_1 .. x_{t-1}, source) in nats for each x of `ids`; without a
    prefix for t = 2 .. T only.

    A text longer than the context is read in windows that overlap by half. After the first window,
    each token is predicted from at least half a context; each is counted once.
    Errors: nothing to predict, an id outside the vocabulary, a model without a language model head,
    an encoder-decoder without a source (of one row) or another model with one.
    """
    check_language_model(model)
    (read,) = [None] if source is None else split_rows(source)
    check_source(model, read)
    whole, done, least = (*prefix, *ids), len(prefix or ids[:1]), 1 if prefix else 2
    check_ids(whole, model, "The text")
    if len(ids) < least:
        raise ConfigError(
            f"A text of {len(ids)} token(s) cannot be scored; at least {least} are needed."
        )
    context, windows = model.config.max_length, list[Text]()
    while done < len(whole):
        begin = 0 if not windows and done <= context else max(0, done - half(context))
        end = begin + context + 1
        windows.append(Text(whole[begin:done], whole[done:end]))
        done = end
    found = score_texts(model, windows, () if read is None else (read,))
    return [log_prob for one in found for log_prob in one.log_probs]


def split_answer(tokenizer: Tokenizer, prompt: str, answer: str) -> Pair:
    """Return the ids of a prompt, after the symbols that begin a text, and of its answer.

    Spaces at the end of the prompt belong to the answer, since tokens begin with a space. The
    answer's ids are those of prompt and answer together, without the first ones, as many as the
    prompt has. ConfigError: the answer adds no token, or the prompt is empty and no symbol begins
    a text.
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
    """Return the symbol after which a text's first token is predicted: of its frame, or the one
    that ends the document before it; () if there is none."""
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
    """Return a pair without the beginning of its prompt, if both together are too long."""
    prompt, answer = pair
    return prompt[max(0, len(prompt) + len(answer) - 1 - longest) :], answer


def rolling(ids: Sequence[int], begin: int, longest: int) -> list[Pair]:
    """Return a text as pairs that predict each token once, from as many tokens before it as fit.

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
