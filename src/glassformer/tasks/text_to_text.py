"""Transduction: pairs to an encoder's source, a decoder's shifted input and its targets (Notes C,
D, E)."""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from glassformer.batch import Batch
from glassformer.data.collate import encoder_decoder, micro_batches
from glassformer.data.config import DataConfig
from glassformer.data.example import Example
from glassformer.data.order import LengthOrder
from glassformer.data.pair_split import PairSplit, pairs_of, store_pairs
from glassformer.data.pairs import training_texts
from glassformer.data.store import Store
from glassformer.errors import ConfigError, DataError
from glassformer.generate.config import GenerateConfig
from glassformer.generate.transduce import transduce
from glassformer.losses import LossSum, cross_entropy
from glassformer.models.transformer import Transformer
from glassformer.processors.pairs import PairTokenizer
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.evaluate import score_outputs, score_pairs
from glassformer.tasks.task import Card, Sample, fingerprint
from glassformer.tokenizers.piece_dropout import PieceDropout
from glassformer.tokenizers.text import Tokenizer
from glassformer.tokenizers.train import train_tokenizer

SHOWN = 3


class TransductionTask:
    """What is to be written for a source: translation, summaries, answers, any sequence for any
    other."""

    def __init__(self, recipe: Recipe, run: Path, begun: bool):
        """`begun`: the run has its tokenizers; otherwise they are made from the training pairs."""
        self._run = run
        self.tokenizer = (
            load_tokenizers(run, recipe.data.prefix) if begun else make_tokenizers(recipe)
        )
        apart = recipe.model.source_vocab_size or not self.tokenizer.shared
        own = self.tokenizer.source.vocab_size if apart else None
        self.recipe = recipe.with_vocabulary(self.tokenizer.target.vocab_size, own)
        self._stored: Store | None = None
        if recipe.train.best in ("bleu", "chrf"):
            score_outputs(
                [""], [""], best=recipe.train.best
            )  # what it needs must be there before the work begins

    @staticmethod
    def training_texts(recipe: Recipe) -> Iterator[str]:
        """What the tokenizer is made from; of two, that of the targets."""
        return training_texts(
            recipe.data, ("source", "target") if recipe.tokenizer.shared else ("target",)
        )

    def store(self) -> None:
        """See `Task`. DataError: no pair that fits into the model, or none of those to validate
        on."""
        save_tokenizers(self.tokenizer, self._run)
        _ = self._cuts  # refused before anything is written
        self._stored = open_store(self.tokenizer, self.recipe.data, self._run / "tokens")
        _ = self._order
        if self.validated and self._left_out() == len(self.split("validation")):
            longest = self.recipe.model.max_length
            raise DataError(
                f"every validation pair has a side of more than {longest} tokens; raise "
                f"model.max_length, or set "
                "data.validation_fraction=0"
            )

    def split(self, name: str) -> PairSplit:
        """The pairs of a split."""
        assert self._stored is not None, "store comes first"
        return pairs_of(self._stored, name)

    @cached_property
    def _order(self) -> LengthOrder:
        train = self.recipe.train
        longest = train.length or self.recipe.model.max_length
        return self.split("train").order(longest, train.batch_tokens, train.batch_size, train.seed)

    @property
    def length(self) -> int:
        """The mean target's length."""
        target = self.split("train").target
        return max(1, round(len(target.values) / len(target)))

    @property
    def elements(self) -> int:
        """See `Task`."""
        return len(self.split("train").target.values)

    @property
    def fingerprint(self) -> str:
        """See `Task`."""
        assert self._stored is not None, "store comes first"
        splits = [self.split(name) for name in sorted(self._stored.counts)]
        columns = (column.values for split in splits for column in (split.source, split.target))
        return fingerprint(self._stored.counts, columns)

    @property
    def validated(self) -> bool:
        """See `Task`."""
        assert self._stored is not None, "store comes first"
        return "validation" in self._stored.counts

    def opening(self) -> list[str]:
        """See `Task`."""
        source, target, order = self.tokenizer.source, self.tokenizer.target, self._order
        vocabulary = f"{target.kind}, {target.vocab_size:,} tokens"
        if not self.tokenizer.shared:
            vocabulary = f"source {source.kind}, {source.vocab_size:,} tokens; target {vocabulary}"
        split, steps = self.split("train"), self.recipe.train.steps
        longest = self.recipe.model.max_length
        trained = (
            ("train.length", own)
            if (own := self.recipe.train.length)
            else ("model.max_length", longest)
        )
        left_out = [
            (order.left_out, "training", *trained),
            (self._left_out(), "validation", "model.max_length", longest),
        ]
        return [
            f"tokenizer: {vocabulary}",
            f"{len(order.kept):,} training pairs with {len(split.source.values):,} source and "
            f"{len(split.target.values):,} target tokens, {order.batches:,} batches an epoch "
            f"({order.padding:.0%} "
            f"padding), {steps:,} steps = {steps / order.batches:.1f} epochs",
            *(
                f"left out: {n:,} {name} pairs with a side of more than {most} tokens; raise "
                f"{field} to use them"
                for n, name, field, most in left_out
                if n
            ),
        ]

    def _left_out(self) -> int:
        """Validation pairs that are too long for the model."""
        if not self.validated:
            return 0
        split = self.split("validation")
        longest = self.recipe.model.max_length
        return int(((split.source.lengths > longest) | (split.target.lengths > longest)).sum())

    def batches(self, step: int) -> list[Batch]:
        """See `Task`; a batch of fewer pairs than micro-batches has fewer parts."""
        split, parts = self.split("train"), self.recipe.train.micro_batches
        pieces = micro_batches(self._order.rows(step), parts)
        if self._cuts is None:
            examples = [split.examples(piece) for piece in pieces]
        else:
            examples = [[self._recut(step, int(i)) for i in piece] for piece in pieces]
        return [encoder_decoder(own, self.tokenizer.bos) for own in examples]

    @cached_property
    def _cuts(self) -> tuple[PieceDropout, PieceDropout] | None:
        train, tokenizer = self.recipe.train, self.tokenizer
        if not train.piece_dropout:
            return None
        target = PieceDropout(tokenizer.target, train.piece_dropout, train.seed)
        source = (
            target
            if tokenizer.shared
            else PieceDropout(tokenizer.source, train.piece_dropout, train.seed)
        )
        return source, target

    def _recut(self, step: int, number: int) -> Example:
        """Both sides of a pair in other pieces, if they are still short enough."""
        assert self._cuts is not None
        split, longest = (
            self.split("train"),
            self.recipe.train.length or self.recipe.model.max_length,
        )
        sides = split.source.row(number), split.target.row(number)
        source, target = (
            cut(ids, step, 2 * number + i).ids
            for i, (cut, ids) in enumerate(zip(self._cuts, sides, strict=True))
        )
        if max(len(source), len(target)) > longest:
            source, target = sides
        return Example(source, answer=target)

    def loss(self, logits: torch.Tensor, targets: torch.Tensor) -> LossSum:
        """See `Task`."""
        return cross_entropy(logits, targets, self.recipe.train.label_smoothing)

    def scores(self, model: Transformer, precision: torch.dtype) -> dict[str, Any] | None:
        """See `Task`: loss and accuracy of the given targets, then scores of what is decoded from
        the sources."""
        if not self.validated:
            return None
        split = self.split("validation")
        train = self.recipe.train
        return transduction_scores(
            model,
            self.tokenizer,
            split,
            self._greedy,
            precision=precision,
            limit=train.evaluate_batches,
            lines=train.decode_lines,
            best=train.best,
        )

    def sample(self, model: Transformer) -> Sample | None:
        """See `Task`: the first validation sources (else training sources) and what becomes of
        them."""
        if not self.recipe.train.sample_tokens:
            return None
        if self.validated:
            sources, references, _ = _texts(self.split("validation"), SHOWN)
        else:
            split = self.split("train")
            count = range(min(SHOWN, len(split)))
            sources = [self.tokenizer.source.decode(split.source.row(i)) for i in count]
            sources = [source.removeprefix(self.tokenizer.prefix) for source in sources]
            references = [self.tokenizer.target.decode(split.target.row(i)) for i in count]
        outputs = [best[0].text for best in transduce(model, self.tokenizer, sources, self._greedy)]
        rows = [
            {"source": s, "reference": r, "output": o}
            for s, r, o in zip(sources, references, outputs, strict=True)
        ]
        text = "\n".join(f"{row['source']}\n  -> {row['output']}" for row in rows)
        return Sample(text, {"samples": rows})

    @property
    def _greedy(self) -> GenerateConfig:
        """Greedy output is quick and ranks models as a search would; sources that are too long go
        by windows."""
        chosen = {
            "max_new_tokens": self.recipe.generate.max_new_tokens,
            "stop": self.recipe.generate.stop,
        }
        return GenerateConfig.parse({**chosen, "beams": 1, "overflow": "window"})

    def excerpt(self, batch: Batch) -> str:
        """See `Task`."""
        return self.tokenizer.target.decode(batch.elements[0, :24].tolist())

    def card(self) -> Card:
        """See `Task`."""
        train, target = self.recipe.train, self.tokenizer.target
        shared = "shared by both sides" if self.tokenizer.shared else "and another for the source"
        step = (
            f"{train.batch_size} pairs"
            if train.batch_tokens is None
            else f"at most {train.batch_tokens:,} tokens"
        )
        return Card(
            "text2text-generation",
            f"{target.kind}, {target.vocab_size:,} tokens, {shared}",
            step,
            f"glassformer translate {self._run} < lines\nglassformer evaluate {self._run}",
        )


def transduction_scores(
    model: Transformer,
    tokenizer: PairTokenizer,
    split: PairSplit,
    how: GenerateConfig,
    *,
    precision: torch.dtype = torch.float32,
    limit: int | None = None,
    lines: int | None = None,
    best: str = "",
    batch_size: int = 128,
) -> dict[str, Any]:
    """Loss and accuracy of a split's targets, on `limit` batches, and scores of what `lines`
    sources become by `how`.

    Training pairs keep no texts to compare with, so they have no scores of what is written.
    """
    scores = score_pairs(model, split, tokenizer.bos, precision, limit)
    if lines == 0 or split.name == "train":
        return scores
    sources, references, groups = _texts(split, lines)
    found = transduce(model, tokenizer, sources, how, batch_size)
    return scores | score_outputs([one[0].text for one in found], references, groups, best=best)


def make_tokenizers(recipe: Recipe) -> PairTokenizer:
    """The tokenizers that a recipe asks for, from the training pairs: one for both sides, or one
    each."""
    config, data = recipe.tokenizer, recipe.data
    if config.shared:
        if config.source_path is not None:
            raise ConfigError(
                "tokenizer.source_path is a second tokenizer; set tokenizer.shared=false to use it."
            )
        both = train_tokenizer(config, training_texts(data, ("source", "target")))
        return PairTokenizer(both, both, data.prefix)
    own = config.model_copy(update={"path": config.source_path})
    source = train_tokenizer(own, training_texts(data, ("source",)))
    return PairTokenizer(
        source, train_tokenizer(config, training_texts(data, ("target",))), data.prefix
    )


def load_tokenizers(run: Path, prefix: str) -> PairTokenizer:
    """The tokenizers of a run folder: `source_tokenizer.json` is there if the sides have one
    each."""
    target, own = Tokenizer.load(run / "tokenizer.json"), run / "source_tokenizer.json"
    return PairTokenizer(Tokenizer.load(own) if own.is_file() else target, target, prefix)


def save_tokenizers(tokenizer: PairTokenizer, run: Path) -> None:
    """Write what `load_tokenizers` reads."""
    tokenizer.target.save(run / "tokenizer.json")
    if not tokenizer.shared:
        tokenizer.source.save(run / "source_tokenizer.json")
    else:  # of a run that was stopped before it began, and begins again with one vocabulary
        (run / "source_tokenizer.json").unlink(missing_ok=True)


def open_store(tokenizer: PairTokenizer, data: DataConfig, folder: Path) -> Store:
    """The pairs that `data` names as token ids in `folder`."""
    encoders = tokenizer.source_ids, tokenizer.target_ids
    fingerprints = tokenizer.source.fingerprint, tokenizer.target.fingerprint
    return store_pairs(folder, encoders, fingerprints, data)


def _texts(split: PairSplit, count: int | None) -> tuple[list[str], list[str], list[str | None]]:
    """Sources, targets and groups of up to `count` pairs, spread evenly over the split."""
    texts = split.texts()
    n = len(texts) if count is None else min(count, len(texts))
    pick = [texts[i * len(texts) // n] for i in range(n)]
    return [t.source for t in pick], [t.target for t in pick], [t.group for t in pick]
