"""Masked language modelling: windows of running text in which some tokens are hidden and asked for (BERT).

Knows: tokenizer, token store, recipe. Does not know: the loop.
"""

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from glassformer.batch import IGNORE, Batch
from glassformer.data.batches import evaluation_batches
from glassformer.data.masking import Masking, word_begins
from glassformer.errors import ConfigError
from glassformer.models.transformer import Transformer, evaluating
from glassformer.train.evaluate import evaluate
from glassformer.train.language import LanguageTask
from glassformer.train.task import Card, Sample

EVALUATION = 1 << 62
"""Evaluation batches are masked as the steps from here on, which no training reaches: always in the same way."""
SHOWN = 48


class MaskedLanguageTask(LanguageTask):
    """Hidden tokens of running text, each from what stands on both sides of it."""

    @cached_property
    def masking(self) -> Masking:
        """How this recipe masks."""
        tokenizer, train = self.tokenizer, self.recipe.train
        if "mask" not in tokenizer.specials:
            raise ConfigError("The tokenizer has no <mask> symbol; train one of kind bpe, word, character or byte.")
        ids = range(tokenizer.vocab_size)
        ordinary = np.array([i for i in ids if i not in tokenizer.specials.values()])
        begins = None
        if train.whole_words and tokenizer.kind != "word":  # where every token is a word in any case
            begins = word_begins([tokenizer.piece(i) for i in ids])
            if not any(tokenizer.piece(i).startswith(" ") for i in ids):
                raise ConfigError(
                    "train.whole_words needs a tokenizer whose pieces show where a word begins, by a space; use one of "
                    "kind bpe, byte or character."
                )
        return Masking(tokenizer.specials["mask"], ordinary, train.mask_fraction, begins)

    def store(self) -> None:
        """See `Task`."""
        _ = self.masking
        super().store()

    def batches(self, step: int) -> list[Batch]:
        """See `Task`."""
        parts = self.recipe.train.micro_batches
        return [
            self.masking(batch, self.recipe.train.seed, step * parts + part)
            for part, batch in enumerate(super().batches(step))
        ]

    def scores(self, model: Transformer, precision: torch.dtype) -> dict[str, Any] | None:
        """See `Task`: of masks that are the same at every evaluation."""
        if not self.validated:
            return None
        batches = self._evaluated()
        return evaluate(model, batches, precision).result()

    def _evaluated(self) -> list[Batch]:
        train, config = self.recipe.train, self.recipe.model
        split = self.split("validation")
        windows = evaluation_batches(split, self.rows, config.max_length, train.evaluate_batches)
        return [self._masked(batch, EVALUATION + number) for number, batch in enumerate(windows)]

    def _masked(self, batch: Batch, step: int) -> Batch:
        """The batch with masks, none of them where a last window is filled up."""
        assert batch.targets is not None
        real = torch.nn.functional.pad(batch.targets[:, :-1] != IGNORE, (1, 0), value=True)
        masked = self.masking(batch, 0, step)
        assert masked.at is not None
        assert masked.targets is not None
        kept = real.flatten()[masked.at]
        return replace(masked, at=masked.at[kept], targets=masked.targets[kept])

    def sample(self, model: Transformer) -> Sample | None:
        """See `Task`: the beginning of the text with what the model reads in the hidden places."""
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
        for at, target, guess in zip(batch.at.tolist(), batch.targets.tolist(), guesses, strict=True):
            found = self.tokenizer.decode([guess])
            pieces[at] = f"[{found}]" if guess == target else f"[{found}, not {pieces[at]}]"
        text = (" " if self.tokenizer.kind == "word" else "").join(pieces)
        return Sample(text, {"sample": text})

    def card(self) -> Card:
        """See `Task`."""
        base = super().card()
        use = (
            f"glassformer train recipes/ud-tagging.yaml train.start={self._run} --run ...\n"
            f"glassformer embed {self._run} < lines"
        )
        return replace(base, pipeline_tag="fill-mask", use=use)

    def excerpt(self, batch: Batch) -> str:
        """See `Task`."""
        return self.tokenizer.decode(batch.elements[0, :24].tolist(), skip_specials=False)
