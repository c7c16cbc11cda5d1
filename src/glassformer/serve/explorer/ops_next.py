"""What comes next: the op `next`, and the stream `generate`, token by token with what else might
have come.

A look without edits goes on by the decoding loop. Under edits, the whole sequence is looked at
again for every token, so that they act as they do in the look.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from pydantic import Field

from glassformer.batch import Batch
from glassformer.data.example import Example, Patches
from glassformer.errors import ConfigError
from glassformer.generate import Choice, GenerateConfig, Watch, beam_steps, decode, stages
from glassformer.generate.advance import Prompt, alone, tokens_of
from glassformer.generate.logits import limited, next_tokens, remaining
from glassformer.generate.watch import choices
from glassformer.inspect.look import Look, run
from glassformer.inspect.target import placed
from glassformer.run import Run
from glassformer.serve.explorer.looks import Desk
from glassformer.serve.explorer.ops_model import name_of
from glassformer.serve.explorer.requests import Seen, Whole
from glassformer.serve.explorer.wire import Reply, floats, integers

BARS = 50
MOST_TOKENS = 1000
STAGES = {"before": "model", "tempered": "temperature", "top_k": "top_k", "top_p": "top_p"}


class Sampling(Seen):
    """How a token is drawn; see `GenerateConfig`."""

    temperature: float = Field(1.0, ge=0, le=1e6, description="0 takes the likeliest token")
    top_k: int | None = Field(None, ge=1, lt=1 << 31, description="only the k likeliest")
    top_p: float | None = Field(
        None, gt=0, le=1, description="only the likeliest that together reach p"
    )
    min_p: float | None = Field(
        None, gt=0, le=1, description="only those at least p times as likely as the likeliest"
    )

    def options(self) -> dict[str, Any]:
        """The same as arguments."""
        return {name: getattr(self, name) for name in ("temperature", "top_k", "top_p", "min_p")}


class NextAsk(Sampling):
    """Where."""

    position: Whole = Field(-1, description="what comes after this element; negative: from the end")


def next_token(desk: Desk, ask: NextAsk) -> Reply:
    """The likeliest outcomes at a position, as the model has them and after each transform in
    turn."""
    seen = desk.look(ask.seen)
    if seen.model.config.head in ("pool", "none") or seen.model.config.multi_label:
        raise ConfigError(
            "This model does not choose one outcome among all; `next` is for those that do."
        )
    logits = seen.logits
    if logits.dim() == 2:
        logits = logits[placed(ask.position, len(logits))]
    outcomes = logits.shape[-1]
    if desk.run.palette is not None:  # a pixel is one of the colours
        colours = _colours(desk.run)
        logits, outcomes = limited(logits[None], colours)[0], len(colours)
    found = stages(logits.float(), **ask.options())
    bars = found.bars(min(BARS, outcomes))
    ids = torch.tensor([bar.id for bar in bars])
    rows = {name: found[stage] for name, stage in STAGES.items()}
    rows["after"] = found[found.names[-1]]
    rest = {name: max(0.0, float(1 - row[ids].sum())) for name, row in rows.items()}
    labels = {bar.id: name_of(seen, bar.id) for bar in bars}
    possible = {name: int((row > 0).sum()) for name, row in rows.items()}
    arrays = {"ids": integers(ids)} | {name: floats(row[ids]) for name, row in rows.items()}
    return Reply(
        {"labels": labels, "rest": rest, "possible": possible, "outcomes": outcomes}, arrays
    )


class GenerateAsk(Sampling):
    """How much, and how."""

    new_tokens: int = Field(20, ge=1, le=MOST_TOKENS, description="tokens, at most")
    seed: int = Field(0, ge=0, lt=1 << 31, description="same seed, same text")
    beams: int = Field(
        0, ge=0, le=16, description="0: token by token; more: a beam search of so many hypotheses"
    )
    alternatives: int = Field(10, ge=1, le=50, description="of each choice")
    given: list[Whole] = Field(
        [], max_length=MOST_TOKENS, description="the ids of the first tokens: another branch"
    )
    begin: bool = Field(
        False, description="of an encoder-decoder: from the beginning, instead of behind the target"
    )


def generate(desk: Desk, ask: GenerateAsk) -> Iterator[dict[str, Any]]:
    """One new token after the other, with its probability, what else might have come, and where it
    looked."""
    with desk.looks.lock:
        seen = desk.look(ask.seen)
        steps = _steps(desk, seen, ask)
    while True:
        desk.check()
        with desk.looks.lock:
            item = next(steps, None)
        if item is None:
            return
        yield item


def _steps(desk: Desk, seen: Look, ask: GenerateAsk) -> Iterator[dict[str, Any]]:
    prompt = prompt_of(seen, ask.begin)
    end, only, left = desk.run.tokenizer.specials.get("eos"), None, ask.new_tokens
    if (
        desk.run.palette is not None
    ):  # a picture is whole when it has all its pixels, each of them a colour
        only, left = _colours(desk.run), _pixels_left(desk.run, prompt, ask)
        end = None
        if not left:
            return iter(())
    ends = () if end is None else (end,)
    drawn = {**ask.options(), "seed": ask.seed, "max_new_tokens": left}
    searching = {"beams": ask.beams, "n_best": ask.beams, "max_new_tokens": left}
    config = GenerateConfig.parse(searching if ask.beams else drawn)
    source = seen.batch.source
    watch = Watch(top=ask.alternatives, attention=source is not None)
    if ask.beams:
        if seen.edits or ask.given:
            raise ConfigError(
                "A beam search goes on from the look as it is; leave out edits and given tokens."
            )
        return _searched(
            seen, beam_steps(seen.model, alone(prompt), config, ends, source, watch=watch)
        )
    if seen.edits:
        return _again(seen, prompt, config, ends, only, ask)
    known = decode(seen.model, alone(prompt), config, ends, source, only, watch, ask.given)
    return _told(seen, (step.choices[0] for step in known), ends, len(ask.given[:-1]))


def _colours(run: Run) -> range:
    """Which tokens may come where a picture is drawn; see `generate.draw`."""
    assert run.palette is not None
    return range(run.tokenizer.vocab_size, run.tokenizer.vocab_size + len(run.palette.colours))


def _pixels_left(run: Run, prompt: Prompt, ask: GenerateAsk) -> int:
    """How many pixels are drawn; ConfigError: in a way that is not for pictures."""
    assert run.palette is not None
    colours = _colours(run)
    if ask.beams:
        raise ConfigError(
            "A picture is drawn pixel by pixel, never by a beam search; leave out beams."
        )
    if wrong := [index for index in ask.given if index not in colours]:
        raise ConfigError(
            f"Token {wrong[0]} is no colour; those of this model are {colours.start} to "
            f"{colours.stop - 1}."
        )
    pixels = sum(index in colours for index in tokens_of(prompt))
    return min(ask.new_tokens, run.palette.config.n_pixels - pixels)


def prompt_of(seen: Look, begin: bool) -> Prompt:
    """What a look's sequence is to the decoding loop."""
    batch = seen.batch
    ids = batch.elements[0].tolist()
    if begin and batch.source is not None:
        return ids[:1]
    if not batch.parts:
        return ids
    patches = []
    for part in batch.parts:
        begins = part.index.eq(0).nonzero()[:, 0].tolist()
        for first, last in zip(begins, [*begins[1:], len(part.index)], strict=True):
            values = part.values[first:last].cpu().numpy()
            patches.append(Patches(part.name, int(part.at[first]), values))
    patches.sort(key=lambda one: one.begin)
    return Example(np.array(ids, np.int32), patches=tuple(patches))


def _told(
    seen: Look, known: Iterator[Choice], ends: tuple[int, ...], first: int = 0
) -> Iterator[dict[str, Any]]:
    """Choices as plain values; `p` is the model's own probability, `after` that by which it was
    drawn."""
    for step, choice in enumerate(known, first):
        item = {
            "step": step,
            "id": choice.id,
            "label": name_of(seen, choice.id),
            "p": choice.before,
            "after": choice.after,
            "rank": choice.rank,
            "entropy": choice.entropy,
            "end": choice.id in ends,
            "alternatives": [
                {"id": one.id, "label": name_of(seen, one.id), "p": one.before, "after": one.after}
                for one in choice.alternatives
            ],
        }
        if choice.rows is not None and choice.rows.cross:
            item["cross"] = np.mean(
                choice.rows.cross, axis=1
            ).tolist()  # [layer, source element], mean over heads
        yield item


def _again(
    seen: Look,
    prompt: Prompt,
    config: GenerateConfig,
    ends: tuple[int, ...],
    only: range | None,
    ask: GenerateAsk,
) -> Iterator[dict[str, Any]]:
    """The same under edits: the whole sequence once more for each token."""
    if isinstance(prompt, Example):
        raise ConfigError(
            "A sequence with pictures or sounds goes on without edits only; switch them off."
        )
    context, source, device = seen.model.config.max_length, seen.batch.source, seen.logits.device

    def known() -> Iterator[Choice]:
        ids = list(prompt)
        for step in range(min(config.max_new_tokens, context - len(ids) + 1)):
            batch = Batch(torch.tensor([ids], device=device), source=source)
            logits = run(seen.model, batch, (), seen.edits)[0].logits[:, -1].float().cpu()
            allowed = logits if only is None else limited(logits, only)
            chosen = next_tokens(allowed, [ids], config, step)
            if step < len(ask.given):
                chosen = torch.full_like(chosen, ask.given[step])
            (choice,) = choices(
                logits, remaining(allowed, [ids], config), chosen, ask.alternatives, [None]
            )
            ids.append(choice.id)
            if step >= len(ask.given[:-1]):
                yield choice
            if choice.id in ends:
                return

    return _told(seen, known(), ends, len(ask.given[:-1]))


def _searched(seen: Look, searches: Iterator[Any]) -> Iterator[dict[str, Any]]:
    """The candidates of each step of a beam search: whence each came, its score, and what became of
    it."""
    best: list[Any] = []
    for search in searches:
        best = search.best[0]
        for step in search.steps:
            beams = [
                {
                    "id": one.id,
                    "label": name_of(seen, one.id),
                    "p": float(np.exp(one.log_prob)),
                    **{
                        name: getattr(one, name)
                        for name in ("total", "score", "parent", "kept", "finished", "live")
                    },
                }
                for one in step.candidates
            ]
            yield {"step": step.step, "beams": beams}
    plain = [{"ids": one.ids, "score": one.score, "finished": one.finished} for one in best]
    yield {"best": [one | {"labels": [name_of(seen, i) for i in one["ids"]]} for one in plain]}
