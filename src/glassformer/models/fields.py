"""Fields of the configuration of a model, and what follows from them."""

from typing import Annotated, Literal

from pydantic import Field

from glassformer.core.errors import amount
from glassformer.core.record import Fraction, Record
from glassformer.layers.attention.multi_head import ScaleKind
from glassformer.layers.feedforward import Activation
from glassformer.layers.heads import HeadKind, Pool
from glassformer.layers.init import InitKind
from glassformer.layers.losses import EXCLUSIVE, INDEPENDENT, Outcomes
from glassformer.layers.norm import NormKind
from glassformer.layers.position.kinds import PositionKind

LARGEST = 1 << 24
"""Of a size: products of three of them, and bytes, are below 2**63 for 3 x 3 convolutions too."""
Count = Annotated[int, Field(gt=0, le=LARGEST)]
Natural = Annotated[int, Field(ge=0, le=LARGEST)]


class ModelFields(Record):
    """Description of a model, whose fields may not fit together."""

    section = "model"

    architecture: Literal["encoder", "decoder", "encoder_decoder"] = "decoder"
    """encoder: sees everything (BERT); decoder: sees the past (GPT); encoder_decoder: both."""
    elements: Literal["tokens", "patches"] = "tokens"
    """Elements of a sequence."""
    vocab_size: Natural = 0
    """Size of the vocabulary; 0: taken from the tokenizer."""
    source_vocab_size: Count | None = None
    """Vocabulary size of an encoder-decoder's source, with a separate embedding; null: shared."""
    own_source_positions: bool = False
    """An encoder-decoder's source has separate position vectors and a separate embedding norm
    (BART); false: both sides share them."""
    patch_width: Count = 768
    """Numbers in one flattened patch (16 x 16 x 3 = 768)."""
    grid: tuple[Count, Count] | None = None
    """Rows and columns of an image's patches, max_length in all; null: not needed."""
    patch: tuple[Count, Count] | None = None
    """Rows and columns of one patch, in pixels; null: not needed."""
    stem: tuple[Count, ...] = ()
    """Channels of the 3 x 3 convolutions before the patch embedding, which is then a convolution as
    well; empty: one linear map."""
    n_registers: Natural = 0
    """Learned tokens between class token and patches, left out of a mean (registers)."""
    parts: dict[str, Count] = Field({})
    """Patches among the tokens, {image: 768, audio: 256}: numbers per patch, by type."""
    part_patches: dict[str, Count] = Field({})
    """Patches per image, by type of part: each then has a learned position within it."""
    modality_order: tuple[str, ...] = ()
    """Order of the types of part in a row, text among them; empty: rows differ, or have none."""
    max_length: Count = 256
    """Longest sequence, in elements."""
    d_model: Count = 128
    """Width of the residual stream."""
    n_layers: int = Field(4, gt=0, le=10_000)
    """Blocks in the stack (of each stack, in an encoder-decoder)."""
    n_encoder_layers: int | None = Field(None, gt=0, le=10_000)
    """Blocks of an encoder-decoder's encoder, if n_layers is the decoder's; null: n_layers."""
    n_heads: Count = 4
    """Attention heads."""
    n_kv_heads: Count | None = None
    """Key-value heads; null: n_heads; 1: multi-query."""
    d_head: Count | None = None
    """Width of a head; null: d_model / n_heads."""
    d_ff: Count | None = None
    """Width of the feed-forward network; null: 4 d_model."""
    activation: Activation = "gelu"
    """The feed-forward network's φ."""
    gated: bool = False
    """Multiply the hidden layer by a second map: (φ(x W_g) ⊙ x W₁) W₂."""
    norm: NormKind = "layer"
    """Normalization of token vectors."""
    norm_placement: Literal["pre", "post"] = "pre"
    """x + f(LN(x)), or LN(x + f(x))."""
    epsilon: float = Field(1e-5, ge=0)
    """ε of the norms; 0 is the notes' formula."""
    residual: bool = True
    """Residual connections; false: only f(LN(x)) or LN(f(x)) (Note C)."""
    position: PositionKind = "learned"
    """Kind of positions."""
    position_combination: Literal["add", "concatenate"] = "add"
    """Position vectors are added to the elements' vectors, or concatenated with them: [x; Pos]
    (Note C)."""
    position_width: Count | None = None
    """Width of a concatenated position vector; null: half of d_model."""
    first_position: Literal[0, 1] = 0
    """Number of the first position (sinusoidal kinds)."""
    max_distance: Count = 128
    """Largest distance that relative and buckets distinguish."""
    n_buckets: Count = 32
    """Buckets of T5's relative bias."""
    bias_placement: Literal["outside", "inside"] = "outside"
    """Score bias added to the scaled scores, or inside the division as in Note C."""
    rotary_base: float = Field(10000.0, gt=1)
    """Base of the rotary angles."""
    rotary_factor: float = Field(1.0, ge=1)
    """Divide the rotary angles by this, for sequences longer than those of training."""
    rotary_wavelengths: tuple[float, float] | None = None
    """The factor divides angles of a wavelength above the second, not below the first, and in
    between gradually (Llama 3); null: all angles."""
    scale: ScaleKind = "head"
    """Score scale: 1/√d_head, 1/√d_model (Note C's words), or none (T5)."""
    window: Count | None = None
    """Attention window: a query sees keys at a distance below this number; null: all."""
    qk_norm: bool = False
    """RMS-normalize queries and keys in each head."""
    attention_bias: bool = True
    """Biases in the q, k, v projections."""
    bias: bool = True
    """Biases in all other maps and in LayerNorm."""
    embedding_scale: bool = False
    """Multiply embeddings by √d_model (2017)."""
    embedding_norm: bool = False
    """Normalize the embedding (BERT)."""
    n_token_types: Natural = 0
    """Segment (token type) embeddings; 0: none."""
    head: HeadKind = "lm"
    """Output head."""
    tied: bool = True
    """The head shares the embedding matrix."""
    head_bias: bool = False
    """A bias for each word in the language model head."""
    head_scale: bool = False
    """Scale the stream by 1/√d_model before a tied head (T5)."""
    n_classes: Count | None = None
    """Classes of the tag and classify heads; null: taken from the data."""
    classes: tuple[str, ...] = ()
    """Names of the classes, in the order of their logits."""
    multi_label: bool = False
    """A sequence has any number of classes, each by a sigmoid."""
    pool: Pool = "last"
    """Vector of a sequence: last element (Note D), first (of patches: class token), mean."""
    pooler: bool = False
    """BERT's dense layer before the classifier."""
    distilled: bool = False
    """Mean of the scores of class token and first register, each by a map of its own (DeiT)."""
    head_activation: Activation | None = None
    """φ of the head's dense layer; null: gelu of masked_lm, tanh of a pooler."""
    dropout: Fraction = 0.0
    """Dropout on embeddings and on each branch."""
    attention_dropout: Fraction = 0.0
    """Dropout on attention patterns."""
    init: InitKind = "gpt2"
    """Which initialization table."""

    def __hash__(self) -> int:
        """Hash of all fields; dictionaries as sets of items."""
        return hash(tuple(frozenset(v.items()) if isinstance(v, dict) else v for _, v in self))

    @property
    def is_decoder_only(self) -> bool:
        """Whether it is a decoder without an encoder."""
        return self.architecture == "decoder"

    @property
    def is_encoder_decoder(self) -> bool:
        """Whether its decoder reads what an encoder gives."""
        return self.architecture == "encoder_decoder"

    @property
    def described(self) -> str:
        """Kind of the model in words: A decoder Transformer."""
        article = "A" if self.is_decoder_only else "An"
        return f"{article} {self.architecture.replace('_', '-')} Transformer"

    @property
    def head_width(self) -> int:
        """d_head or its default."""
        return self.d_head or self.d_model // self.n_heads

    @property
    def ff_width(self) -> int:
        """d_ff or its default."""
        return self.d_ff or 4 * self.d_model

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes, in the order of the logits; numbers where they have none."""
        return self.classes or tuple(map(str, range(self.class_count)))

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
        """Field that needs the layout of patches while it is unknown; null: none does."""
        if self.grid is None and self.position.endswith("_2d"):
            return f"position={self.position!r}"
        return f"stem={list(self.stem)}" if self.stem and None in (self.grid, self.patch) else None

    @property
    def reads_patches(self) -> bool:
        """Whether elements are patches, given as numbers, and not ids."""
        return self.elements == "patches"

    @property
    def class_token(self) -> bool:
        """Whether a class token, which the head reads, comes before the patches."""
        return self.reads_patches and self.pool == "first"

    @property
    def n_prefix(self) -> int:
        """Positions before the elements: those of a class token and of registers."""
        return self.class_token + self.n_registers

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
    def predicts_words(self) -> bool:
        """Whether the head scores every word of the vocabulary."""
        return self.head in ("lm", "masked_lm")

    @property
    def gives_vectors(self) -> bool:
        """Whether outputs are vectors, not logits."""
        return self.head in ("pool", "none")

    @property
    def outcomes(self) -> Outcomes:
        """Relation of its outcomes."""
        return INDEPENDENT if self.multi_label else EXCLUSIVE

    @property
    def one_output(self) -> bool:
        """Whether a sequence has one output as a whole."""
        return self.head in ("classify", "pool")

    def depth(self, side: str) -> int:
        """Blocks of the stack of a side, encoder or decoder."""
        return (side == "encoder" and self.n_encoder_layers) or self.n_layers

    @property
    def depths(self) -> str:
        """Layers in a sentence: `4 layers`, or `12 and 6 layers` of encoder and decoder."""
        encoder, own = self.n_encoder_layers, amount(self.n_layers, "layer")
        return own if encoder in (None, self.n_layers) else f"{encoder} and {own}"

    @property
    def kv_heads(self) -> int:
        """n_kv_heads or its default."""
        return self.n_kv_heads or self.n_heads
