"""Masked language modelling: windows of running text, some of whose tokens are predicted from both
sides (BERT, Devlin et al. 2019).
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from glassformer.core.batch import IGNORE, Batch
from glassformer.core.errors import ConfigError
from glassformer.data.collate import Share, evaluation_windows, micro_batches, windows
from glassformer.data.masking import Masking, word_begins
from glassformer.data.tokens import TokenSplit
from glassformer.models.transformer import Transformer, evaluating
from glassformer.processors.processor import Processor
from glassformer.recipe.recipe import Recipe
from glassformer.recipe.train import TrainConfig
from glassformer.tasks.evaluate import Evaluation
from glassformer.tasks.objectives.feed import WindowFeed
from glassformer.tasks.objectives.objective import Card, Objective, Sample
from glassformer.tokenizers.text import Tokenizer

EVALUATION = 1 << 62
"""Step from which evaluation batches are masked; no training reaches it."""
ROWS = 32
"""Windows in an evaluation batch; fixed, since the masks of a batch are drawn together."""
SHOWN = 48


class MaskedFeed(WindowFeed):
    """Windows of running text with masks."""

    def share(self, step: int, rank: int = 0, count: int = 1) -> Share:
        """See `Feed`; masked as a whole and then cut, so that micro-batches change nothing."""
        train = self.recipe.train
        rows = windows(self.objective.split("train"), self.order.rows(step), self.length)
        whole, numbers = (
            self.objective.masking(rows, train.seed, step),
            np.arange(len(rows.elements)),
        )
        pieces = micro_batches(numbers, train.micro_batches, rank, count)
        batches = [masked_rows(whole, piece) for piece in pieces.rows]
        return Share(batches, pieces.first, pieces.idle)

    def batches_to_score(self, split: str, of: Evaluation, longest: int) -> Iterator[Batch]:
        """See `Feed`: the masks are the same at every evaluation."""
        own = self.objective
        return masked_batches(own.split(split), own.masking, longest, of.limit)


class MaskedTokens(Objective):
    """Hidden tokens of running text, each predicted from both sides of it."""

    feeds, has_next = MaskedFeed, True

    @classmethod
    def resolve(cls, recipe: Recipe, processor: Processor, records: Any) -> Recipe:
        """See `Objective`. ConfigError: a tokenizer without a mask."""
        masking_of(processor.tokenizer, recipe.train)
        return super().resolve(recipe, processor, records)

    @cached_property
    def masking(self) -> Masking:
        """How this recipe masks."""
        return masking_of(self.processor.tokenizer, self.recipe.train)

    def explain_scores(self) -> list[str]:
        """A sentence on the masked tokens."""
        share = self.recipe.train.mask_fraction
        return [f"A share of {share:g} of the tokens is masked, the same ones at every evaluation."]

    def make_sample(self, model: Transformer) -> Sample:
        """See `Objective`: the first tokens; in brackets the prediction | the hidden token."""
        split, tokenizer = self.split(self.shown_split), self.processor.tokenizer
        ids = torch.from_numpy(split.tokens[: min(SHOWN, self.feed.length)].astype(np.int64))[None]
        batch = self.masking(Batch(ids), 0, EVALUATION)
        assert batch.at is not None
        assert batch.targets is not None
        with evaluating(model):
            found = model(batch.to(next(model.parameters()).device)).logits.argmax(-1).tolist()
        pieces = [tokenizer.shown_bytes(i).decode(errors="replace") for i in ids[0].tolist()]
        for at, target, guess in zip(batch.at.tolist(), batch.targets.tolist(), found, strict=True):
            own, wanted = tokenizer.piece(guess), tokenizer.piece(target)
            pieces[at] = f"[{own}]" if guess == target else f"[{own}|{wanted}]"
        text = (" " if tokenizer.kind == "word" else "").join(pieces)
        return Sample(text, {"sample": text})

    def card(self) -> Card:
        """Lines of the model card: tokenizer, masks, and the command that fills blanks."""
        use = (
            f"glassformer train ud-tagging train.init_from={self.folder} --run ...\n"
            f'glassformer fill {self.folder} --text "... ___ ..."\n'
            f"glassformer embed {self.folder} < lines"
        )
        return replace(super().card(), use=use)

    def excerpt(self, batch: Batch) -> str:
        """The first tokens of a batch as text, masks included."""
        ids = batch.elements[0, :24].tolist()
        return self.processor.tokenizer.decode(ids, skip_specials=False)


def masking_of(tokenizer: Tokenizer, train: TrainConfig) -> Masking:
    """How a recipe masks; ConfigError: the tokenizer cannot do it."""
    if "mask" not in tokenizer.specials:
        raise ConfigError(
            "The tokenizer has no <mask> symbol; train one of kind bpe, word, character or byte."
        )
    ids = range(tokenizer.vocab_size)
    ordinary = np.array([i for i in ids if i not in tokenizer.specials.values()])
    begins = None
    if train.whole_words and tokenizer.kind != "word":  # where every token is a word in any case
        pieces = [tokenizer.token_bytes(i) for i in ids]
        if not any(piece.startswith(b" ") for piece in pieces):
            raise ConfigError(
                "train.whole_words needs a tokenizer whose pieces show by a space where a word "
                "begins; use one of kind bpe, byte or character."
            )
        begins = word_begins(pieces)
    return Masking(tokenizer.specials["mask"], ordinary, train.mask_fraction, begins)


def masked_rows(batch: Batch, piece: np.ndarray) -> Batch:
    """Neighbouring rows of a masked batch, of these numbers."""
    assert batch.at is not None
    assert batch.targets is not None
    width, begin, end = batch.elements.shape[1], int(piece[0]), int(piece[-1]) + 1
    inside = (batch.at >= begin * width) & (batch.at < end * width)
    places = None
    if batch.positions is not None:
        places = batch.positions.select(torch.from_numpy(piece))
    targets, at = batch.targets[inside], batch.at[inside] - begin * width
    return Batch(batch.elements[begin:end], places, targets, at=at)


def masked_batches(
    split: TokenSplit, masking: Masking, length: int, limit: int | None = None
) -> Iterator[Batch]:
    """A whole split in windows, with the same masks at every call; padding is masked out.

    `limit`: most batches, spread evenly.
    """
    for number, batch in enumerate(evaluation_windows(split, ROWS, length, limit)):
        assert batch.targets is not None
        known = (batch.targets != IGNORE).flip(1).cummax(1).values.flip(1)  # or a later one is
        real = torch.nn.functional.pad(known[:, :-1], (1, 0), value=True)
        if not real.all():
            batch = replace(batch, positions=replace(batch.where(), valid=real))
        yield masking(batch, 0, EVALUATION + number)
