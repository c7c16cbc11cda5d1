"""Parts of a model by its configuration: embedding, stacks, head."""

from math import prod

from glassformer.layers.attention.mask import Causal, Mask, SameDocument, Valid, Window
from glassformer.layers.attention.multi_head import Attention, score_scale
from glassformer.layers.block import Block
from glassformer.layers.embed import Embedding, PartEmbeddings, PatchEmbedding, TokenEmbedding
from glassformer.layers.feedforward import FeedForward
from glassformer.layers.heads import (
    ClassifyHead,
    LanguageModelHead,
    MaskedLanguageModelHead,
    NoHead,
    TagHead,
)
from glassformer.layers.norm import Norm, build_norm
from glassformer.layers.position.kinds import build_bias, build_position, build_rotation
from glassformer.layers.stack import Stack
from glassformer.layers.stem import Stem
from glassformer.models.config import ModelConfig


def attention_mask(config: ModelConfig, side: str) -> Mask:
    """Mask of self-attention: same document, no padding, causal in a decoder, optional window."""
    mask = SameDocument() & Valid()
    mask = Causal() & mask if side == "decoder" else mask
    return mask if config.window is None else mask & Window(config.window)


def build_element(config: ModelConfig, vocab_size: int) -> TokenEmbedding | PatchEmbedding:
    """Embedding of single tokens or patches."""
    width = config.element_width
    if not config.reads_patches:
        factor = config.d_model**0.5 if config.embedding_scale else 1.0
        return TokenEmbedding(vocab_size, width, factor=factor)
    return PatchEmbedding(
        config.patch_width,
        width,
        class_token=config.class_token,
        n_registers=config.n_registers,
        bias=config.bias,
        stem=build_stem(config),
    )


def build_embedding(
    config: ModelConfig, element: TokenEmbedding | PatchEmbedding, parts: PartEmbeddings
) -> Embedding:
    """Embedding of tokens or patches with their positions; both sides of a model share `parts`."""
    d = config.d_model
    position_width = d - config.element_width  # 0: added, over the whole vector
    return Embedding(
        element,
        build_position(
            config.position,
            config.max_length,
            position_width or d,
            config.first_position,
            columns=config.columns,
            n_prefix=config.n_prefix,
        ),
        n_token_types=config.n_token_types,
        d_model=d,
        norm=_norm(config) if config.embedding_norm else None,
        dropout=config.dropout,
        parts=parts,
        position_width=position_width,
    )


def build_stem(config: ModelConfig) -> Stem | None:
    """Convolutions before W_emb; None without a stem, or without a layout of the patches."""
    if not config.stem or config.grid is None or config.patch is None:
        return None
    channels = config.patch_width // prod(config.patch)
    return Stem(config.grid, config.patch, channels, config.stem, bias=config.bias)


def build_stack(config: ModelConfig, side: str) -> Stack:
    """Stack of the encoder or decoder; the decoder of an encoder-decoder has cross-attention."""
    crossed = side == "decoder" and config.architecture == "encoder_decoder"
    pre_norm = config.norm_placement == "pre"
    blocks = [
        Block(
            _attention(config),
            FeedForward(
                config.d_model,
                config.ff_width,
                activation=config.activation,
                gated=config.gated,
                bias=config.bias,
            ),
            [_norm(config) for _ in range(3 if crossed else 2)],
            _attention(config) if crossed else None,
            pre_norm=pre_norm,
            dropout=config.dropout,
            residual=config.residual,
        )
        for _ in range(config.depth(side))
    ]
    inside = config.bias_placement == "inside"
    return Stack(
        blocks,
        attention_mask(config, side),
        final_norm=_norm(config) if pre_norm else None,
        bias=build_bias(
            config.position,
            config.n_heads,
            config.n_buckets,
            config.max_distance,
            both_ways=side == "encoder",
        ),
        bias_factor=score_scale(config.scale, config.head_width, config.d_model) if inside else 1.0,
        rotation=build_rotation(
            config.position,
            config.head_width,
            config.rotary_base,
            config.rotary_factor,
            config.rotary_wavelengths,
            config.columns,
            config.n_prefix,
        ),
    )


def build_head(
    config: ModelConfig, embed: Embedding
) -> LanguageModelHead | MaskedLanguageModelHead | TagHead | ClassifyHead | NoHead:
    """Head of the configuration; a tied one shares the embedding matrix."""
    d, words, element = config.d_model, config.vocab_size, embed.element
    tied = element.weight if config.tied and isinstance(element, TokenEmbedding) else None
    match config.head:
        case "lm":
            factor = d**-0.5 if config.head_scale else 1.0
            return LanguageModelHead(d, words, tied, bias=config.head_bias, factor=factor)
        case "masked_lm":
            own = config.head_activation or "gelu"
            return MaskedLanguageModelHead(d, words, tied, epsilon=config.epsilon, activation=own)
        case "tag":
            return TagHead(d, config.class_count, dropout=config.dropout)
        case "classify" | "pool":
            classes = config.class_count if config.head == "classify" else None
            return ClassifyHead(
                d,
                classes,
                config.pool,
                dense=config.pooler,
                activation=config.head_activation or "tanh",
                dropout=config.dropout,
                n_registers=config.n_registers,
                distilled=config.distilled,
            )
        case "none":
            return NoHead()


def _norm(config: ModelConfig) -> Norm:
    return build_norm(config.norm, config.d_model, bias=config.bias, epsilon=config.epsilon)


def _attention(config: ModelConfig) -> Attention:
    return Attention(
        config.d_model,
        config.n_heads,
        config.kv_heads,
        config.head_width,
        scale=config.scale,
        bias=config.attention_bias,
        out_bias=config.bias,
        qk_norm=config.qk_norm,
        epsilon=config.epsilon,
        dropout=config.attention_dropout,
    )
