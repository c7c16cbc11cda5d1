"""Masked language modelling: windows of running text in which some tokens are hidden and asked for
(BERT)."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from glassformer.batch import IGNORE, Batch
from glassformer.data.collate import evaluation_windows, windows
from glassformer.data.masking import Masking, word_begins
from glassformer.data.tokens import TokenSplit, training_order
from glassformer.errors import ConfigError
from glassformer.models.transformer import Transformer, evaluating
from glassformer.recipe.train import TrainConfig
from glassformer.tasks.evaluate import evaluate
from glassformer.tasks.task import Card, Sample
from glassformer.tasks.text_generation import LanguageTask
from glassformer.tokenizers.text import Tokenizer

EVALUATION = 1 << 62
"""Evaluation batches are masked as the steps from here on, which no training reaches: always in the
same way."""
ROWS = 32
"""Windows in an evaluation batch: always as many, as the masks of a batch are drawn together."""
SHOWN = 48


class MaskedLanguageTask(LanguageTask):
    """Hidden tokens of running text, each from what stands on both sides of it."""

    @cached_property
    def masking(self) -> Masking:
        """How this recipe masks."""
        return masking_of(self.tokenizer, self.recipe.train)

    def store(self) -> None:
        """See `Task`."""
        _ = self.masking
        super().store()

    def batches(self, step: int) -> list[Batch]:
        """See `Task`; masked as a whole and then cut, so that its parts change nothing."""
        train, split = self.recipe.train, self.split("train")
        starts = training_order(split, self.length, self.rows, train.seed).rows(step)
        whole = windows(split, starts, self.length)
        return list(parts_of(self.masking(whole, train.seed, step), train.micro_batches))

    def scores(self, model: Transformer, precision: torch.dtype) -> dict[str, Any] | None:
        """See `Task`: of masks that are the same at every evaluation."""
        if not self.validated:
            return None
        train, split = self.recipe.train, self.split("validation")
        batches = masked_batches(
            split, self.masking, self.recipe.model.max_length, train.evaluate_batches
        )
        return evaluate(model, batches, precision).result()

    def sample(self, model: Transformer) -> Sample | None:
        """See `Task`: the beginning of the text; in brackets what is read in a hidden place | what
        was there."""
        if not self.recipe.train.sample_tokens:
            return None
        split = self.split("validation" if self.validated else "train")
        ids = torch.from_numpy(split.tokens[: min(SHOWN, self.length)].astype(np.int64))[None]
        batch = self.masking(Batch(ids), 0, EVALUATION)
        assert batch.at is not None
        assert batch.targets is not None
        with evaluating(model):
            guesses = model(batch.to(next(model.parameters()).device)).logits.argmax(-1).tolist()
        pieces = [self.tokenizer.decode([i]) for i in ids[0].tolist()]
        for at, target, guess in zip(
            batch.at.tolist(), batch.targets.tolist(), guesses, strict=True
        ):
            found, wanted = self.tokenizer.piece(guess), self.tokenizer.piece(target)
            pieces[at] = f"[{found}]" if guess == target else f"[{found}|{wanted}]"
        text = (" " if self.tokenizer.kind == "word" else "").join(pieces)
        return Sample(text, {"sample": text})

    def card(self) -> Card:
        """See `Task`."""
        base = super().card()
        use = (
            f"glassformer train recipes/ud-tagging.yaml train.init_from={self._run} --run ...\n"
            f"glassformer embed {self._run} < lines"
        )
        return replace(base, pipeline_tag="fill-mask", use=use)

    def excerpt(self, batch: Batch) -> str:
        """See `Task`."""
        return self.tokenizer.decode(batch.elements[0, :24].tolist(), skip_specials=False)


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
                "begins; use one of kind "
                "bpe, byte or character."
            )
        begins = word_begins(pieces)
    return Masking(tokenizer.specials["mask"], ordinary, train.mask_fraction, begins)


def parts_of(batch: Batch, parts: int) -> Iterator[Batch]:
    """A masked batch in contiguous slices of its rows; those in which nothing is asked for are left
    out."""
    assert batch.at is not None
    assert batch.targets is not None
    rows, width = batch.elements.shape
    for part in range(parts):
        begin, end = part * rows // parts, (part + 1) * rows // parts
        inside = (batch.at >= begin * width) & (batch.at < end * width)
        places = (
            None if batch.positions is None else batch.positions.selected(torch.arange(begin, end))
        )
        if inside.any():
            targets, at = batch.targets[inside], batch.at[inside] - begin * width
            yield Batch(batch.elements[begin:end], places, targets, at=at)


def masked_batches(
    split: TokenSplit, masking: Masking, length: int, limit: int | None = None
) -> Iterator[Batch]:
    """A whole split in windows with the same masks at every call; nothing sees what the last one is
    filled up with.

    `limit`: only so many batches, spread evenly.
    """
    for number, batch in enumerate(evaluation_windows(split, ROWS, length, limit)):
        assert batch.targets is not None
        known = (batch.targets != IGNORE).flip(1).cummax(1).values.flip(1)  # or one behind it is
        real = torch.nn.functional.pad(known[:, :-1], (1, 0), value=True)
        if not real.all():
            batch = replace(batch, positions=replace(batch.where(), valid=real))
        yield masking(batch, 0, EVALUATION + number)
