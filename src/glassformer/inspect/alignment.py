"""Cross-attention of a pair of texts, between tokens and between words, and word alignment.

    pattern [L, H, T, S]  ->  words [target words, source words]  ->  align  ->  "0-0 1-2"

Row t of a pattern belongs to the prediction of target token t: the query is the stream at decoder
input t (<bos>, or target token t - 1), from which that token is read. The row of the input token
itself would be the next one. Some find it to align better (Chen et al., Accurate Word Alignment
Induction, 2020), but the prediction was not made from it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from glassformer.core.axes import Float, Tensor
from glassformer.core.batch import Batch
from glassformer.core.errors import ConfigError
from glassformer.inspect.look import run
from glassformer.inspect.points import check_number
from glassformer.models.transformer import Transformer
from glassformer.processors.tokens.pair_tokenizer import PairTokenizer
from glassformer.processors.tokens.word_spans import WORD, Side, read_side

Chosen = Sequence[int] | None
"""Layers or heads by their numbers; None: the default."""


@dataclass(frozen=True)
class CrossAttention:
    """Cross-attention patterns of one pair; row t is the prediction of target token t."""

    source: Side
    target: Side
    patterns: Float[Tensor, "L H T S"]

    @property
    def best_layer(self) -> int:
        """The layer before the last, whose heads align words best (Garg et al. 2019, section 3)."""
        return max(0, len(self.patterns) - 2)

    def words(self, layers: Chosen = None, heads: Chosen = None) -> Float[Tensor, "_ _"]:
        """Attention between words, [target words, source words].

        m_uw = mean over layers, heads and the tokens t of target word u of Σ a_ts over the tokens s
        of source word w. Layers default to `best_layer`, heads to all; both count from 0. The
        rest of a row to 1 went to tokens of no word: <eos>, a prefix, spaces. ConfigError: no such
        layer or head.
        """
        n_layers, n_heads = self.patterns.shape[:2]
        layers = [self.best_layer] if layers is None else [*layers]
        heads = [*range(n_heads)] if heads is None else [*heads]
        for noun, chosen, count in ("layer", layers, n_layers), ("head", heads, n_heads):
            for number in chosen:
                check_number(noun, number, count)
        mean = self.patterns[layers][:, heads].mean((0, 1))
        tables = []  # [words, tokens]: 1 where the token belongs to the word
        for side in (self.target, self.source):
            owners = torch.tensor([-1 if word is None else word for word in side.word_of])
            tables.append((owners == torch.arange(len(side.words))[:, None]).to(mean.dtype))
        into, out_of = tables
        return (into @ mean @ out_of.T) / into.sum(1, keepdim=True).clamp(min=1)

    def align(self, layers: Chosen = None, heads: Chosen = None) -> list[tuple[int, int]]:
        """Pairs (source word, target word), sorted: each target word and its most attended word.

        Source: Garg et al., Jointly Learning to Align and Translate with Transformer Models, 2019.
        A target word without a token, or without attention to a word, is in no pair; of equal
        source words the first is taken.
        """
        table = self.words(layers, heads)
        if not table.numel():
            return []
        most, where = table.max(1)
        return sorted((int(s), t) for t, s in enumerate(where) if most[t] > 0)


def cross_attention(
    model: Transformer, tokenizer: PairTokenizer, source: str, target: str, word: str = WORD
) -> CrossAttention:
    """Run an encoder-decoder once on a pair and keep its cross-attention patterns.

    The encoder reads prefix + source and <eos>, the decoder <bos> and the target. `word` is the
    regular expression of a word. ConfigError: a model of another architecture.
    """
    config = model.config
    if not config.is_encoder_decoder:
        raise ConfigError(
            f"Cross-attention is what a decoder sees of an encoder, and "
            f"model.architecture={config.architecture} has none; give an encoder_decoder."
        )
    read, written = tokenizer.source_ids(source), tokenizer.target_ids(target)
    elements = torch.tensor([[tokenizer.bos, *written[:-1].tolist()]])
    batch = Batch(elements, source=Batch(torch.tensor([read.tolist()])))
    _, tape = run(model, batch, ["decoder.blocks.*.cross.pattern"])
    own, of = (len(tokenizer.frame_of(one).begin) for one in (tokenizer.source, tokenizer.target))
    return CrossAttention(
        read_side(tokenizer.source, source, read, tokenizer.prefix, word, own),
        read_side(tokenizer.target, target, written, word=word, before=of),
        torch.cat([*tape.kept.values()]).cpu(),
    )


def align_texts(
    model: Transformer,
    tokenizer: PairTokenizer,
    source: str,
    target: str,
    layers: Chosen,
    heads: Chosen,
) -> list[tuple[int, int]]:
    """Return the word alignment of a pair; none without words, or longer than the model reads."""
    if not (source.strip() and target.strip()):
        return []
    longest = max(len(tokenizer.source_ids(source)), len(tokenizer.target_ids(target)))
    if longest > model.config.max_length:
        return []
    return cross_attention(model, tokenizer, source, target).align(layers, heads)


def pharaoh(pairs: Iterable[tuple[int, int]]) -> str:
    """An alignment in Pharaoh's format: `0-0 1-2`, source word before target word, from 0."""
    return " ".join(f"{source}-{target}" for source, target in pairs)
