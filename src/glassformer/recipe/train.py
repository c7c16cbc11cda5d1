"""Training of a model: the `train` section of a recipe."""

from typing import Literal, Self

from pydantic import Field, model_validator

from glassformer.core.devices import Precision
from glassformer.core.record import Fraction, NonNegative, Positive, Record, Size
from glassformer.finetune.config import FinetuneConfig
from glassformer.recipe.pipelines import PIPELINES

Schedule = Literal["cosine", "linear", "constant", "wsd", "inverse_sqrt"]
Metric = Literal["loss", "accuracy", "exact_match", "bleu", "chrf", "f1", "macro_f1"]
DECODED: tuple[Metric, ...] = ("exact_match", "bleu", "chrf")
"""Scores of decoded text; the others need no decoding."""


class OptimizerConfig(Record):
    """The optimizer: how a gradient changes the weights."""

    section = "train.optimizer"

    kind: Literal["adamw", "muon"] = "adamw"
    """adamw, or muon: orthogonalized momentum for the matrices inside blocks, AdamW for the
    rest."""
    learning_rate: Size = 1e-3
    """Peak learning rate of AdamW."""
    matrix_learning_rate: Size = 0.02
    """Peak learning rate of Muon's matrices."""
    beta1: Fraction = 0.9
    """AdamW: decay of the mean gradient."""
    beta2: Fraction = 0.95
    """AdamW: decay of the mean squared gradient."""
    weight_decay: float = Field(default=0.1, ge=0)
    """Decoupled decay of matrices (never of norms and biases)."""
    max_grad_norm: float = Field(default=1.0, ge=0)
    """Largest norm of the gradient; 0: no clipping."""
    layer_decay: float = Field(default=1.0, gt=0, le=1)
    """Learning rate of each block as a fraction of that of the block above it."""


class ScheduleConfig(Record):
    """The learning rate of a step, as a fraction of its peak."""

    section = "train.schedule"

    kind: Schedule = "cosine"
    """Schedule after the warm-up."""
    warmup_steps: NonNegative = 100
    """Steps of linear warm-up."""
    decay_fraction: float = Field(default=0.5, gt=0, le=1)
    """wsd: share of the steps in which it decays, at the end."""
    final_fraction: float = Field(default=0.1, ge=0, le=1)
    """Last learning rate as a fraction of the peak."""


class EvaluateConfig(Record):
    """Scores on the validation split while training."""

    section = "train.evaluate"

    every: Positive = 250
    """Steps between evaluations."""
    batches: Positive | None = None
    """Batches of an evaluation; null: the whole split."""
    best: Metric = "loss"
    """Validation score that chooses the best checkpoint."""
    decode_lines: int | None = Field(
        default=256,
        ge=0,
        json_schema_extra={"tasks": [name for name in PIPELINES if name.endswith("to-text")]},
    )
    """Validation sources that are decoded to score the output; null: all, 0: none."""

    @model_validator(mode="after")
    def _decodes_what_it_scores(self) -> Self:
        if self.best in DECODED and self.decode_lines == 0:
            raise ValueError(
                f"best={self.best!r} is a score of decoded text; set decode_lines above 0"
            )
        return self


class SaveConfig(Record):
    """Checkpoints."""

    section = "train.save"

    every: Positive = 500
    """Steps between checkpoints."""
    keep_last: Positive = 2
    """Newest checkpoints to keep beside the best."""
    keep_every: Positive | None = None
    """Also keep the checkpoints at multiples of this number of steps."""
    keep_thinned: bool = False
    """Also keep older checkpoints, the fewer the older: one or two for each doubling of their
    age."""
    background: bool = False
    """Write checkpoints while training continues, from a copy in memory."""
    average_checkpoints: Positive = 1
    """Checkpoints whose mean weights are tried as the final model; 1: none."""

    @model_validator(mode="after")
    def _keeps_what_it_asks_for(self) -> Self:
        if self.keep_last < self.average_checkpoints:
            raise ValueError(
                f"average_checkpoints={self.average_checkpoints} need keep_last of at least as many"
            )
        if self.keep_every is not None and self.keep_every % self.every:
            raise ValueError(
                f"keep_every={self.keep_every} is no multiple of every={self.every}; there are "
                "checkpoints at its multiples alone"
            )
        return self


class DistributedConfig(Record):
    """Division of a model among the processes that torchrun starts; the number of copies follows
    from the others."""

    section = "train.distributed"

    shard: Positive = 1
    """Processes over which parameters, gradients and optimizer state are divided (FSDP2)."""
    tensor: Positive = 1
    """Processes over which heads and hidden units are divided (tensor parallelism)."""
    deterministic: bool = False
    """Gradients of micro-batches are added by a tree, so that 1, 2, 4, ... processes end in the
    same bits; train.micro_batches is a power of two."""


class SampleConfig(Record):
    """Sample output while training."""

    section = "train.sample"

    every: Positive = 500
    """Steps between samples."""
    tokens: NonNegative = 120
    """Length of a sample text; 0: no samples."""
    prompt: str = Field(
        default="\n", min_length=1, json_schema_extra={"tasks": ["text-generation"]}
    )
    """Beginning of sample texts."""


class TrainConfig(Record):
    """Training; learning rate, order and dropout are functions of (seed, step)."""

    section = "train"

    steps: Positive = 2000
    """Optimizer steps."""
    batch_size: int = Field(default=32, ge=1, le=1 << 20)
    """Sequences in one optimizer step."""
    batch_tokens: int | None = Field(default=None, ge=1, le=1 << 32)
    """Largest number of elements in a step, instead of batch_size; for pairs, counted on the longer
    side."""
    micro_batches: int = Field(default=1, ge=1, le=1 << 20)
    """Parts in which a step's batch is computed, to save memory."""
    parallel_micro_batches: Positive = 1
    """On a CPU: number of these parts computed at the same time, each on its share of the cores."""
    distributed: DistributedConfig = DistributedConfig()
    """How several processes share the model."""
    skip_not_finite: NonNegative = 0
    """Steps in a row that are left out because their loss or gradient is not finite; one more stops
    the run."""
    length: int | None = Field(
        default=None, ge=1, json_schema_extra={"inputs": ["documents", "text", "words", "pairs"]}
    )
    """Elements in a training sequence (longer pairs are left out); null: model.max_length."""
    seed: NonNegative = 0
    """Seed of weights, data order and dropout."""
    optimizer: OptimizerConfig = OptimizerConfig()
    """The optimizer."""
    schedule: ScheduleConfig = ScheduleConfig()
    """The learning-rate schedule."""
    evaluate: EvaluateConfig = EvaluateConfig()
    """Scores on the validation split while training."""
    save: SaveConfig = SaveConfig()
    """Checkpoints."""
    sample: SampleConfig = SampleConfig()
    """Sample output while training."""
    log_every: Positive = 10
    """Steps between lines of metrics.jsonl."""
    init_from: str | None = None
    """A run whose tokenizer and weights training starts from; the head is new."""
    finetune: FinetuneConfig = FinetuneConfig()
    """What is trained of the model of init_from."""
    label_smoothing: Fraction = 0.0
    """Share of each target spread over all classes or tokens."""
    consistency: float = Field(default=0.0, ge=0)
    """Each batch is computed twice with different dropout, and this many times the divergence of
    the two predictions is added to the loss (R-Drop); against overfitting, in twice the time. 0:
    once."""
    class_weights: Literal["none", "balanced"] | dict[str, float] = Field(
        default="none",
        json_schema_extra={"tasks": [name for name in PIPELINES if "classification" in name]},
    )
    """Weight of each class in the loss; balanced: inverse to its frequency."""
    mask_fraction: float = Field(
        default=0.15, gt=0, lt=1, json_schema_extra={"tasks": ["fill-mask"]}
    )
    """Share of tokens to predict."""
    whole_words: bool = Field(default=False, json_schema_extra={"tasks": ["fill-mask"]})
    """Mask all pieces of a word, or none."""
    workers: int = Field(default=0, ge=0, le=64)
    """Processes that make batches ahead of time; 0: none."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:1, mps."""
    threads: int | None = Field(default=None, ge=1, le=1024)
    """Threads of each operation on a CPU, on which the last bits of results depend; null: as many
    as torch chooses, or as the run that is resumed had."""
    precision: Precision = "auto"
    """auto: the faster one, by measurement."""
    compile: bool = False
    """Compile the model with torch.compile (needs a C++ compiler on a CPU)."""
    tensorboard: bool = False
    """Also write TensorBoard events into the run folder."""

    @property
    def forward_passes(self) -> int:
        """Number of forward passes of a batch in a step."""
        return 2 if self.consistency else 1

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.init_from is None and self.finetune != FinetuneConfig():
            raise ValueError(
                "finetune says what is trained of the model of init_from, which is not set; set it "
                "to a trained run"
            )
        if self.batch_tokens is None and self.batch_size % self.micro_batches:
            raise ValueError(
                f"micro_batches={self.micro_batches} does not divide batch_size={self.batch_size}"
            )
        if self.parallel_micro_batches > self.micro_batches:
            raise ValueError(
                f"parallel_micro_batches={self.parallel_micro_batches} needs parts to compute; "
                f"set micro_batches to as many or more"
            )
        of = self.distributed
        for name, value in ("compile", self.compile), ("deterministic", of.deterministic):
            if value and of.shard * of.tensor > 1:
                raise ValueError(
                    f"{name}=true is for whole models, and distributed.shard={of.shard} and "
                    f"tensor={of.tensor} divide them; leave out one of both"
                )
        if self.parallel_micro_batches > 1 and self.compile:
            raise ValueError(
                f"parallel_micro_batches={self.parallel_micro_batches} is not for compiled "
                f"models; leave out one of the two"
            )
        return self
