"""Configuration of a model as one flat record; a variant is a named choice of a field."""

import re
from math import prod
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from torch import nn

from glassformer.errors import suggest
from glassformer.layers.attention import ScaleKind
from glassformer.layers.feedforward import Activation
from glassformer.layers.heads import HeadKind, Pool
from glassformer.layers.init import InitKind
from glassformer.layers.norm import NormKind
from glassformer.layers.position import ADDED, PositionKind
from glassformer.record import Record

Count = Annotated[int, Field(gt=0)]
Fraction = Annotated[float, Field(ge=0, lt=1)]


HEAD_FIELDS = (
    *("head", "n_classes", "classes", "multi_label", "pool", "pooler"),
    *("tied", "head_bias", "head_scale"),
)
"""The fields that describe the head alone; all others describe the trunk."""


class ModelConfig(Record):
    """Complete description of a model."""

    section = "model"

    architecture: Literal["encoder", "decoder", "encoder_decoder"] = Field(
        "decoder",
        description="encoder: sees everything (BERT); decoder: sees the past (GPT); "
        "encoder_decoder: both.",
    )
    elements: Literal["tokens", "patches"] = Field(
        "tokens", description="What the sequence is made of."
    )
    vocab_size: int = Field(
        0, ge=0, description="Size of the vocabulary; 0: taken from the tokenizer."
    )
    source_vocab_size: int | None = Field(
        None,
        gt=0,
        description="An encoder-decoder's source has a vocabulary and embedding of its own; "
        "None: shared.",
    )
    patch_width: int = Field(
        768, gt=0, description="Numbers in one flattened patch (16 x 16 x 3 = 768)."
    )
    grid: tuple[Count, Count] | None = Field(
        None,
        description="Rows and columns of an image's patches, max_length in all; None: not needed.",
    )
    patch: tuple[Count, Count] | None = Field(
        None, description="Rows and columns of one patch, in pixels; None: not needed."
    )
    stem: tuple[Count, ...] = Field(
        (),
        description="Widths of 3 x 3 convolutions before W_emb, which is then one too; "
        "empty: one linear map.",
    )
    parts: dict[str, Count] = Field(
        {},
        description="Patches among the tokens, {image: 768, audio: 256}: numbers per patch, by "
        "type.",
    )
    part_patches: dict[str, Count] = Field(
        {},
        description="Patches per image, by type of part: each then has a learned position within "
        "it.",
    )
    modality_order: tuple[str, ...] = Field(
        (),
        description="Order of the types of part in a row, text among them; empty: rows differ, or "
        "have none.",
    )
    max_length: Count = Field(256, description="Longest sequence, in elements.")
    d_model: Count = Field(128, description="Width of the residual stream.")
    n_layers: Count = Field(
        4, description="Blocks in the stack (of each stack, in an encoder-decoder)."
    )
    n_heads: Count = Field(4, description="Attention heads.")
    n_kv_heads: int | None = Field(
        None, gt=0, description="Key-value heads: None as many as heads; 1: multi-query."
    )
    d_head: int | None = Field(None, gt=0, description="Width of a head; None: d_model / n_heads.")
    d_ff: int | None = Field(
        None, gt=0, description="Width of the feed-forward network; None: 4 d_model."
    )
    activation: Activation = Field("gelu", description="The feed-forward network's φ.")
    gated: bool = Field(
        False, description="Multiply the hidden layer by a second map: (φ(x W_g) ⊙ x W₁) W₂."
    )
    norm: NormKind = Field("layer", description="Normalization of token vectors.")
    norm_placement: Literal["pre", "post"] = Field(
        "pre", description="x + f(LN(x)), or LN(x + f(x))."
    )
    epsilon: float = Field(1e-5, ge=0, description="ε of the norms; 0 is the notes' formula.")
    residual: bool = Field(
        True, description="Residual connections; false: f(LN(x)) or LN(f(x)) alone (Note C)."
    )
    position: PositionKind = Field("learned", description="Kind of positions.")
    position_combination: Literal["add", "concatenate"] = Field(
        "add",
        description="Position vectors are added to the elements' vectors, or concatenated with "
        "them: [x; Pos] (Note C).",
    )
    position_width: int | None = Field(
        None,
        gt=0,
        description="Width of a concatenated position vector; None: half of d_model.",
    )
    first_position: Literal[0, 1] = Field(
        0, description="Number of the first position (sinusoidal kinds)."
    )
    max_distance: Count = Field(
        128, description="Largest distance that relative and buckets distinguish."
    )
    n_buckets: Count = Field(32, description="Buckets of T5's relative bias.")
    bias_placement: Literal["outside", "inside"] = Field(
        "outside",
        description="Score bias added to the scaled scores, or inside the division as in Note C.",
    )
    rotary_base: float = Field(10000.0, gt=1, description="Base of the rotary angles.")
    scale: ScaleKind = Field(
        "head", description="Score scale: 1/√d_head, 1/√d_model (Note C's words), or none (T5)."
    )
    window: int | None = Field(
        None, gt=0, description="Attention window: only positions less than this far away."
    )
    qk_norm: bool = Field(False, description="RMS-normalize queries and keys in each head.")
    attention_bias: bool = Field(True, description="Biases in the q, k, v projections.")
    bias: bool = Field(True, description="Biases in all other maps and in LayerNorm.")
    embedding_scale: bool = Field(False, description="Multiply embeddings by √d_model (2017).")
    embedding_norm: bool = Field(False, description="Normalize the embedding (BERT).")
    n_token_types: int = Field(0, ge=0, description="Segment (token type) embeddings; 0: none.")
    head: HeadKind = Field("lm", description="Output head.")
    tied: bool = Field(True, description="The head shares the embedding matrix.")
    head_bias: bool = Field(False, description="A bias for each word in the language model head.")
    head_scale: bool = Field(
        False, description="Scale the stream by 1/√d_model before a tied head (T5)."
    )
    n_classes: int | None = Field(
        None, gt=0, description="Classes of the tag and classify heads; None: taken from the data."
    )
    classes: tuple[str, ...] = Field(
        (), description="Names of the classes, in the order of their logits."
    )
    multi_label: bool = Field(
        False, description="A sequence has any number of classes, each by a sigmoid."
    )
    pool: Pool = Field(
        "last",
        description="Vector of a sequence: last element (Note D), first (of patches: class token), "
        "mean.",
    )
    pooler: bool = Field(False, description="BERT's dense tanh layer before the classifier.")
    dropout: Fraction = Field(0.0, description="Dropout on embeddings and on each branch.")
    attention_dropout: Fraction = Field(0.0, description="Dropout on attention patterns.")
    init: InitKind = Field("gpt2", description="Which initialization table.")

    def __hash__(self) -> int:
        """Hash of all fields; dictionaries as sets of items."""
        return hash(tuple(frozenset(v.items()) if isinstance(v, dict) else v for _, v in self))

    @property
    def head_width(self) -> int:
        """d_head or its default."""
        return self.d_head or self.d_model // self.n_heads

    @property
    def ff_width(self) -> int:
        """d_ff or its default."""
        return self.d_ff or 4 * self.d_model

    @property
    def class_count(self) -> int:
        """n_classes or the number of names; 0 if neither is known yet."""
        return self.n_classes or len(self.classes)

    @property
    def columns(self) -> int:
        """Columns of the grid of patches; 1 without a grid."""
        return 1 if self.grid is None else self.grid[1]

    @property
    def unlaid(self) -> str | None:
        """Field that needs the layout of patches while it is unknown; None: none does."""
        if self.grid is None and self.position.endswith("_2d"):
            return f"position={self.position!r}"
        return f"stem={list(self.stem)}" if self.stem and None in (self.grid, self.patch) else None

    @property
    def n_prefix(self) -> int:
        """Positions before the elements: 1 for the class token of a model of patches, else 0."""
        return int(self.elements == "patches" and self.pool == "first")

    @property
    def element_width(self) -> int:
        """Width of an element's vector: d_model, less that of a concatenated position vector."""
        concatenated = self.position_combination == "concatenate"
        return self.d_model - (self.position_width or self.d_model // 2) * concatenated

    @property
    def predicts_next(self) -> bool:
        """Whether the head predicts each token from those before it."""
        return self.architecture != "encoder" and self.head == "lm"

    @property
    def gives_vectors(self) -> bool:
        """Whether outputs are vectors, not logits."""
        return self.head in ("pool", "none")

    @property
    def one_output(self) -> bool:
        """Whether a sequence has one output as a whole."""
        return self.head in ("classify", "pool")

    @property
    def kv_heads(self) -> int:
        """n_kv_heads or its default."""
        return self.n_kv_heads or self.n_heads

    @model_validator(mode="after")
    def _classes_fit(self) -> Self:
        if self.classes and self.n_classes not in (None, len(self.classes)):
            raise ValueError(
                f"n_classes={self.n_classes} but classes names {len(self.classes)}; leave out "
                f"one of them"
            )
        if len(set(self.classes)) != len(self.classes):
            raise ValueError("classes has a name twice; give each once")
        if self.multi_label and self.head != "classify":
            raise ValueError(f"multi_label needs head='classify', not {self.head!r}")
        return self

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        for name in self.parts:
            # a part is a module of this name, which must not hide an attribute of every module
            if (
                not re.fullmatch("[a-z][a-z0-9_]*", name)
                or hasattr(nn.ModuleDict, name)
                or name == "text"
            ):
                raise ValueError(
                    f"{name!r} cannot name a part; take a short name in small letters, such as "
                    f"image"
                )
        for name in self.part_patches:
            if name not in self.parts:
                known = suggest(name, self.parts) if self.parts else "parts is empty"
                raise ValueError(f"part_patches has {name!r}, and parts has not; {known}")
        for name in self.modality_order:
            if name not in (known := ("text", *self.parts)) or self.modality_order.count(name) > 1:
                raise ValueError(
                    f"modality_order={self.modality_order} must be some of {', '.join(known)}, "
                    f"each once"
                )
        if self.parts and self.elements != "tokens":
            raise ValueError(f"parts={self.parts} stand among tokens and need elements='tokens'")
        return self

    @model_validator(mode="after")
    def _patches_fit(self) -> Self:
        if self.elements != "patches":
            for name, value in {"grid": self.grid, "stem": list(self.stem)}.items():
                if value:
                    raise ValueError(f"{name}={value} needs elements='patches'")
            return self
        if self.architecture != "encoder":
            raise ValueError("elements='patches' needs architecture='encoder'")
        if self.head in ("lm", "masked_lm"):
            raise ValueError(f"head={self.head!r} needs elements='tokens'")
        if self.n_token_types:
            raise ValueError(f"n_token_types={self.n_token_types} needs elements='tokens'")
        if self.grid is not None and prod(self.grid) != self.max_length:
            raise ValueError(
                f"grid={self.grid[0]}x{self.grid[1]} has {prod(self.grid)} patches and max_length "
                f"is {self.max_length}; make them equal"
            )
        if self.patch is not None and self.patch_width % prod(self.patch):
            raise ValueError(
                f"patch_width={self.patch_width} must be a multiple of patch height times width, "
                f"{self.patch[0]} x {self.patch[1]}"
            )
        return self

    @model_validator(mode="after")
    def _position_vectors_fit(self) -> Self:
        width = self.d_model - self.element_width
        even = (width or self.d_model) % 2 == 0
        if self.position_width is not None and not width:
            raise ValueError(
                f"position_width={self.position_width} needs position_combination='concatenate'"
            )
        if width and (self.position not in ADDED or self.element_width <= 0):
            raise ValueError(
                f"position_combination='concatenate' needs position {', '.join(ADDED[:-1])} or "
                f"{ADDED[-1]} and a position_width below d_model={self.d_model}"
            )
        if width and self.tied and self.head in ("lm", "masked_lm"):
            raise ValueError(
                "position_combination='concatenate' makes the embedding narrower than the stream "
                "that the head reads; set tied=false"
            )
        if self.position == "sinusoidal_2d" and not (self.elements == "patches" and even):
            raise ValueError(
                "position='sinusoidal_2d' needs elements='patches' and an even d_model (or "
                "position_width)"
            )
        return self

    @model_validator(mode="after")
    def _stack_fits(self) -> Self:
        if self.d_head is None and self.d_model % self.n_heads:
            raise ValueError(
                f"n_heads={self.n_heads} does not divide d_model={self.d_model}; choose a "
                f"divisor or set d_head"
            )
        if self.n_heads % self.kv_heads:
            raise ValueError(f"n_kv_heads={self.kv_heads} does not divide n_heads={self.n_heads}")
        if self.source_vocab_size and self.architecture != "encoder_decoder":
            raise ValueError(
                f"source_vocab_size={self.source_vocab_size} needs architecture='encoder_decoder'"
            )
        if not self.residual and self.init == "modern":
            raise ValueError(
                "init='modern' starts every branch at 0, which residual=false would pass on; use "
                "init='xavier' or 'gpt2'"
            )
        return self

    @model_validator(mode="after")
    def _attention_positions_fit(self) -> Self:
        match self.position:
            case "rotary_2d" if self.elements != "patches" or self.head_width % 4:
                raise ValueError(
                    "position='rotary_2d' needs elements='patches' and heads of a multiple of 4"
                )
            case "rotary" if self.head_width % 2:
                raise ValueError(f"rotary positions need an even head width, not {self.head_width}")
            case "buckets" if self.n_buckets < 4:
                raise ValueError(f"n_buckets={self.n_buckets} is too few; at least 4 are needed")
            case "buckets" if self.max_distance <= self.n_buckets // 2:
                raise ValueError(
                    f"max_distance={self.max_distance} must exceed "
                    f"n_buckets/2={self.n_buckets // 2}"
                )
            case _:
                return self
