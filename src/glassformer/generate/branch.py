"""Other choices: a text that goes on from another token at some step, and a given text followed
token by token.

tree = Tree(model, prompt, config, ends)
first = tree.root()                             as the loop writes it
other = tree.grow(first, step=3, token=17)      the same up to step 3, then token 17, and on
                                                as the loop goes on
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from glassformer.batch import Batch
from glassformer.data.example import Example
from glassformer.errors import ConfigError
from glassformer.generate.advance import (
    Prompt,
    alone,
    check_ids,
    check_language_model,
    check_numbers,
    check_prompts,
    check_source,
    encoded,
    grown,
    prefill,
    tokens_of,
)
from glassformer.generate.config import GenerateConfig
from glassformer.generate.decode import decode
from glassformer.generate.logits import remaining
from glassformer.generate.watch import Choice, Watch, Watcher, choices
from glassformer.layers.cache import Cache
from glassformer.losses import at_least_float32
from glassformer.models.transformer import Transformer

SAMPLING = GenerateConfig.parse({})
"""The model's own distribution."""


def branch(
    model: Transformer,
    prompt: Prompt,
    ids: Sequence[int],
    step: int,
    token: int,
    config: GenerateConfig = SAMPLING,
    ends: Sequence[int] = (),
    source: Batch | None = None,
    watch: Watch = Watch(),  # noqa: B008 (it is frozen)
) -> Iterator[Choice]:
    """The choices from `step` on if `token` is taken there after the new tokens `ids` before it;
    the first is that one.

    With ids[step] itself it is what was written, to the same random numbers. Errors: those of
    `decode`, and a step that `ids` does not reach.
    """
    if not 0 <= step <= len(ids):
        raise ConfigError(
            f"There is no step {step} in a text of {len(ids)} new tokens; give 0 to {len(ids)}."
        )
    given = [*ids[:step], token]
    for one in decode(model, alone(prompt), config, ends, source, watch=watch, given=given):
        yield one.choices[0]


def followed(
    model: Transformer,
    prompt: Prompt,
    ids: Sequence[int],
    source: Batch | None = None,
    config: GenerateConfig = SAMPLING,
    watch: Watch = Watch(),  # noqa: B008 (it is frozen)
) -> tuple[Choice, ...]:
    """What is known of each token of a given text behind a prompt, in one forward pass (forced
    decoding, a reference).

    Probabilities `after` are those by the transforms of `config`. Errors: those of `decode`, no
    ids, and prompt and text together longer than the context.
    """
    check_language_model(model)
    check_source(source, 1, model)
    check_ids(ids, model, "The text")
    check_prompts(alone(prompt), model, config)
    n, context = len(ids), model.config.max_length
    rows = grown(alone(prompt), ids[:-1])
    length = max(len(row.ids if isinstance(row, Example) else row) for row in rows)
    if not n or length > context:
        raise ConfigError(
            f"A text of {n} tokens behind this prompt makes {length} elements, and the context "
            f"is {context}; give at "
            "least 1 token and no more than fit."
        )
    watcher = Watcher(model, watch)
    with watcher.computing():
        features = prefill(model, rows, encoded(source, model), Cache())
        logits = at_least_float32(model.head(features.hidden[:, -n:], features.positions)[0]).cpu()
    check_numbers(logits)
    before = tokens_of(prompt)
    left = remaining(logits, [[*before, *ids[:at]] for at in range(n)], config)
    rows_of = [None] * n if watcher.reader is None else watcher.reader.rows(features, [0], n)[0]
    return choices(logits, left, torch.tensor(ids), watch.top, rows_of)


@dataclass(frozen=True)
class Branch:
    """One line of a tree: it leaves the branch `parent` at `step` by another token; `choices` are
    those from there on.

    `ids` are all its new tokens, those it shares with its parent included.
    """

    parent: int | None
    step: int
    ids: list[int]
    choices: list[Choice]


@dataclass
class Tree:
    """Texts that begin with one prompt, and differ by a choice that somebody made; `branches` as
    they grew."""

    model: Transformer
    prompt: Prompt
    config: GenerateConfig = SAMPLING
    ends: Sequence[int] = ()
    source: Batch | None = None
    watch: Watch = field(default_factory=Watch)
    branches: list[Branch] = field(default_factory=list)

    def root(self) -> int:
        """Write the text as the loop does; returns the number of the branch."""
        steps = decode(
            self.model, alone(self.prompt), self.config, self.ends, self.source, watch=self.watch
        )
        known = [step.choices[0] for step in steps]
        return self._added(Branch(None, 0, [one.id for one in known], known))

    def grow(self, parent: int, step: int, token: int) -> int:
        """Go on from `token` at `step` of a branch; returns the new branch's number. Errors: no
        such branch or step."""
        if not 0 <= parent < len(self.branches):
            raise ConfigError(
                f"There is no branch {parent}; the tree has {len(self.branches)}, counted from 0."
            )
        ids = self.branches[parent].ids
        known = list(
            branch(
                self.model,
                self.prompt,
                ids,
                step,
                token,
                self.config,
                self.ends,
                self.source,
                self.watch,
            )
        )
        return self._added(Branch(parent, step, [*ids[:step], *(one.id for one in known)], known))

    def _added(self, new: Branch) -> int:
        self.branches.append(new)
        return len(self.branches) - 1
