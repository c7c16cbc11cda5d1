"""The Transformer: embedding, one or two stacks, a head; every model is this class with another
configuration.

encoder          embed ──> [ block ]*N ──> head                          sees everything
decoder          embed ──> [ block ]*N ──> head                          sees the past
encoder-decoder  embed ──> [ block ]*N ──┐
                 embed ──> [ block + cross-attention ]*N ──> head        sees its past and all of
                                                                         the source
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Self, cast

import torch
from torch import nn

from glassformer.core.axes import Float, Int, Tensor
from glassformer.core.batch import Batch, Positions
from glassformer.core.errors import ConfigError
from glassformer.layers.attention.cache import Layout
from glassformer.layers.attention.context import SelectedPositions
from glassformer.layers.attention.sequences import row_layout
from glassformer.layers.embed import PartEmbeddings, TokenEmbedding
from glassformer.layers.heads import ClassifyHead, LanguageModelHead, MaskedLanguageModelHead
from glassformer.layers.init import Sizes, initialize
from glassformer.models.build import build_element, build_embedding, build_head, build_stack
from glassformer.models.compiled_step import CompiledStep
from glassformer.models.config import ModelConfig, check_complete


@dataclass(frozen=True)
class Memory:
    """The encoder's output and its positions: what a decoder attends to."""

    hidden: Float[Tensor, "B S D"]
    positions: Positions


@dataclass(frozen=True)
class Features:
    """The stream after the last block (all of it or the selected positions), the positions of the
    whole stream, and the state of decoding."""

    hidden: Float[Tensor, "B T D"] | Float[Tensor, "N D"]
    positions: Positions
    memory: Memory | None = None
    cache: Layout | None = None


@dataclass(frozen=True)
class Output:
    """Logits (or vectors) of the head and the features they were computed from."""

    logits: Float[Tensor, "B T V"] | Float[Tensor, "N C"]
    features: Features


class Transformer(nn.Module):
    """An encoder, decoder or encoder-decoder by `config`; its weights are a function of (config,
    seed).

    `seed` None leaves the weights unset. `device` None is torch's current default device; on "meta"
    nothing is allocated. ConfigError: a value that only data can give is missing.
    """

    def __init__(
        self,
        config: ModelConfig,
        seed: int | None = 0,
        device: torch.device | str | None = None,
    ):
        super().__init__()
        check_complete(config)
        self.config = config
        self.compiled_step: CompiledStep | None = None
        with nullcontext() if device is None else torch.device(device):
            parts = PartEmbeddings(config.parts, config.part_patches, config.element_width)
            self.embed = build_embedding(config, build_element(config, config.vocab_size), parts)
            self.source_embed, own = None, config.source_vocab_size
            if own or config.own_source_positions:
                element = build_element(config, own) if own else self.embed.element
                self.source_embed = build_embedding(config, element, parts)
            self.encoder, self.decoder = (
                None if config.architecture == other else build_stack(config, side)
                for side, other in (("encoder", "decoder"), ("decoder", "encoder"))
            )
            self.head = build_head(config, self.embed)
        if seed is not None and not next(self.parameters()).is_meta:
            self.initialize(seed)

    def initialize(
        self, seed: int, put: Callable[[Tensor, Tensor], object] = torch.Tensor.copy_
    ) -> None:
        """Fill all weights, after `to_empty` for example; a function of (config, seed). `put`
        copies the second of two tensors into the first, or a part of it."""
        c = self.config
        sizes = Sizes(c.n_layers, c.head_width, c.n_encoder_layers)
        initialize(self, c.init, sizes, seed, put=put)

    def forward(
        self,
        batch: Batch | Int[Tensor, "B T"],
        cache: Layout | None = None,
        all_positions: bool = False,
    ) -> Output:
        """Logits for every element ([B, T, V]), for those of `batch.at` ([N, V]), or for every
        sequence ([N, C]).

        The last block computes queries only where the head reads the stream, unless
        `all_positions`, so that a tape records the whole stream.
        """
        batch = batch if isinstance(batch, Batch) else Batch(batch)
        positions, rows = self.positions(batch, cache), batch.elements.shape[0]
        at = self.head.reads(positions, rows) if isinstance(self.head, ClassifyHead) else batch.at
        selected = None
        # The size of a selection depends on the data, which a compiled graph cannot follow.
        if not (at is None or all_positions or torch.compiler.is_compiling()):
            selected = SelectedPositions.of(at, rows, positions.length)
        features = self.features(batch, cache=cache, selected=selected)
        hidden = features.hidden
        if at is not None and selected is None:
            hidden = hidden.flatten(0, 1)[at]
        return Output(self.head(hidden, positions), features)

    def features(
        self,
        batch: Batch,
        memory: Memory | None = None,
        cache: Layout | None = None,
        selected: SelectedPositions | None = None,
    ) -> Features:
        """The stream before the head, at all positions or at the `selected` ones.

        With a `cache`, `batch` holds the new elements; a given `memory` saves encoding the source,
        and a cache may have the keys and values of every source.
        """
        if not self.config.is_encoder_decoder and (batch.source or memory):
            raise ConfigError(
                f"The batch has a source, and model.architecture={self.config.architecture} "
                "reads none."
            )
        positions = self.positions(batch, cache)
        if self.decoder is None:
            if cache is not None:
                raise ConfigError("An encoder sees everything at once, so it takes no cache.")
            return Features(self._encode(batch, positions, selected), positions)
        cache = cache and cache.advance(positions)
        layout = cache or row_layout(batch.lengths)
        if self.encoder is not None and memory is None and not layout.sourced:
            if batch.source is None:
                raise ConfigError(
                    "An encoder-decoder needs a source; give Batch(..., source=Batch(...))."
                )
            memory = self.encode(batch.source)
        source, source_positions = (memory.hidden, memory.positions) if memory else (None, None)
        hidden = self.embed(batch.elements, positions, batch.token_type_ids, batch.parts)
        hidden = self.decoder(hidden, positions, layout, source, source_positions, selected)
        return Features(hidden, positions, memory, cache)

    def encode(self, batch: Batch) -> Memory:
        """Run the encoder on a batch."""
        positions = self.positions(batch)
        return Memory(self._encode(batch, positions), positions)

    def _encode(
        self, batch: Batch, positions: Positions, selected: SelectedPositions | None = None
    ) -> Tensor:
        assert self.encoder is not None
        embed = self.source_embed or self.embed
        hidden = embed(batch.elements, positions, batch.token_type_ids, batch.parts)
        return self.encoder(hidden, positions, row_layout(batch.lengths), selected=selected)

    def positions(self, batch: Batch, cache: Layout | None = None) -> Positions:
        """Positions of the stream: those of the elements, after a class token and registers if the
        model has them; by default, those that follow the cache."""
        where = batch.positions
        if where is None and cache and cache.positions:
            where = cache.positions.following(batch.elements.shape[1])
        return (where or batch.where()).after(self.config.n_prefix)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)  # `to`, `to_empty`, ... may allocate a shared matrix twice
        self.tie()
        return self

    def tie(self) -> None:
        """Make a tied head share the embedding matrix again after parameters were reallocated."""
        head = self.head.unembed if isinstance(self.head, MaskedLanguageModelHead) else self.head
        if self.config.tied and isinstance(head, LanguageModelHead):
            head.weight = cast(TokenEmbedding, self.embed.element).weight

    @property
    def n_parameters(self) -> int:
        """Number of learned parameters; a tied matrix counts once."""
        return sum(parameter.numel() for parameter in self.parameters())


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients for the body; the model's mode is restored afterwards."""
    training = model.training
    if training:
        model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        if training:
            model.train()
