"""Next tokens: the op `next`, and the stream `generate`, token by token with alternatives.

A look without edits is continued by the decoding loop. Under edits, the model runs on the whole
sequence for every token, so that they act as they do in the look.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
import torch

from glassformer.core.batch import Batch
from glassformer.core.errors import ConfigError
from glassformer.data.collate import split_rows
from glassformer.data.example import Example
from glassformer.inspect.look import Look, run
from glassformer.inspect.target import index_in
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.decode import steps
from glassformer.runtime.engine import Engine
from glassformer.runtime.prompts import Prompt, tokens_of
from glassformer.runtime.request import Event, Request
from glassformer.runtime.selectors.constraints import CONSTRAINTS, Rows
from glassformer.runtime.selectors.sampling import (
    likeliest,
    limited,
    next_tokens,
    remaining,
    stages,
)
from glassformer.runtime.trace import Choice, Watch, choice
from glassformer.serve.explorer.looks import OpContext
from glassformer.serve.explorer.ops_model import name_of, outcome
from glassformer.serve.explorer.wire import Reply

BARS = 50
STAGES = {
    "before": "model",
    "tempered": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "after": "min_p",
}


def next_(context: OpContext, look: Look, position: int, **sampling: Any) -> Reply:
    """The most likely outcomes at a position: of the model, and after each transform in turn."""
    if not look.model.config.outcomes.exclusive or not look.names:
        raise ConfigError(
            "This model does not choose one outcome among all; `next` is for those that do."
        )
    logits = look.logits
    if logits.dim() == 2:
        logits = logits[index_in(position, len(logits))]
    limits = context.run.task.objective.next_tokens((), ())
    if limits is not None:  # the outcomes of a pixel
        logits = limited(logits[None], limits[0])[0]
    outcomes = len(logits) if limits is None else len(limits[0])
    found = stages(logits.float(), **sampling)
    ids = likeliest(found["model"][None], min(BARS, outcomes))[0]
    rows = {name: found[stage] for name, stage in STAGES.items()}
    header = {
        "labels": {i: name_of(look, i) for i in ids.tolist()},
        "rest": {name: max(0.0, float(1 - row[ids].sum())) for name, row in rows.items()},
        "possible": {name: int((row > 0).sum()) for name, row in rows.items()},
        "outcomes": outcomes,
    }
    arrays = {"ids": ids} | {name: row[ids] for name, row in rows.items()}
    return Reply(header, arrays)


def generate(
    context: OpContext,
    look: Look,
    new_tokens: int,
    beams: int,
    alternatives: int,
    given: list[int],
    begin: bool,
    **sampling: Any,
) -> Iterator[dict[str, Any]]:
    """Generate token by token: probability, alternatives, and cross-attention of each."""
    own, prompt = context.run.task.recipe.generate, _prompt(look, begin)
    sources = look.batch.source and split_rows(look.batch.source)
    ends = own.ends(context.run.tokenizer.specials.get("eos"))
    colours, limits = None, context.run.task.objective.next_tokens(tokens_of(prompt), given)
    if limits is not None:  # an image ends with its last pixel
        colours, pixels = limits
        ends, new_tokens = (), min(new_tokens, pixels)
    if beams and (limits is not None or look.edits or given):
        raise ConfigError(
            "A beam search continues an unedited text; leave out beams, or edits and given tokens."
        )
    if not new_tokens:
        return iter(())
    options = {"beams": beams, "n_best": beams} if beams else sampling
    kept = own.model_dump(include={"eos_token_id", *CONSTRAINTS})
    config = GenerateConfig.parse({**kept, **options, "max_new_tokens": new_tokens})
    if look.edits:
        known = _rerun(look, prompt, config, ends, colours, alternatives, given)
        return _items(look, known, ends, len(given[:-1]))
    (source,) = sources or [None]
    request = Request(prompt, config, ends, only=colours, given=tuple(given), source=source)
    watch = Watch(top=alternatives, attention=source is not None)
    events = chain.from_iterable(steps(Engine.of(look.model, [request], watch)))
    if beams:
        return _search_items(look, events)
    known = (event.choice for event in events if event.choice is not None)
    return _items(look, known, ends, len(given[:-1]))


def _prompt(look: Look, begin: bool) -> Prompt:
    """A look's sequence as the prompt of the decoding loop; `begin`: an empty target."""
    (row,) = split_rows(look.batch)
    if begin and look.batch.source is not None:
        return row.ids[:1].tolist()
    return row if row.patches else row.ids.tolist()


def _items(
    look: Look, known: Iterator[Choice], ends: tuple[int, ...], first: int
) -> Iterator[dict[str, Any]]:
    """Choices in JSON; `p` is the model's probability, `after` the sampled distribution's."""
    for step, made in enumerate(known, first):
        item = {
            "step": step,
            **_item(look, made),
            "rank": made.rank,
            "entropy": made.entropy,
            "end": made.id in ends,
            "alternatives": [_item(look, one) for one in made.alternatives],
        }
        if made.rows is not None and made.rows.cross:  # [layer, source element], over heads
            item["cross"] = np.mean(made.rows.cross, axis=1).tolist()
        yield item


def _item(look: Look, one: Any) -> dict[str, Any]:
    return outcome(look, one.id) | {"p": one.before, "after": one.after}


def _rerun(
    look: Look,
    prompt: Prompt,
    config: GenerateConfig,
    ends: tuple[int, ...],
    colours: range | None,
    alternatives: int,
    given: list[int],
) -> Iterator[Choice]:
    """Generate under edits: the whole sequence again for each token."""
    if isinstance(prompt, Example):
        raise ConfigError(
            "A sequence with images or audio is continued without edits only; switch them off."
        )
    ids = list(prompt)
    most = min(config.max_new_tokens, look.model.config.max_length - len(ids) + 1)
    for step in range(most):
        elements = torch.tensor([ids], device=look.logits.device)
        batch = Batch(elements, source=look.batch.source)
        logits = run(look.model, batch, (), look.edits)[0].logits[:, -1].float().cpu()
        allowed = logits if colours is None else limited(logits, colours)
        rows = Rows([ids], [step], ends, [step + 1 == most])
        chosen = next_tokens(allowed, rows, config)
        if step < len(given):
            chosen = torch.full_like(chosen, given[step])
        after = remaining(allowed, rows, config)
        made = choice(logits[0], after[0], int(chosen), alternatives)
        ids.append(made.id)
        if step >= len(given[:-1]):
            yield made
        if made.id in ends:
            return


def _search_items(look: Look, events: Iterator[Event]) -> Iterator[dict[str, Any]]:
    """The candidates of each step of a beam search: parent, score and fate; then the best."""
    best: list[Any] = []
    fields = ("total", "score", "parent", "kept", "finished", "live")
    for step, event in enumerate(events):
        best += event.hypotheses
        beams = [
            outcome(look, one.id)
            | {"p": float(np.exp(one.log_prob))}
            | {name: getattr(one, name) for name in fields}
            for one in event.candidates
        ]
        yield {"step": step, "beams": beams}
    plain = [{"ids": one.ids, "score": one.score, "finished": one.finished} for one in best]
    yield {"best": [one | {"labels": [name_of(look, i) for i in one["ids"]]} for one in plain]}


OPS = next_, generate
"""Functions of ops, with the names that requests have."""
