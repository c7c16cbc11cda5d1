"""How a model is trained: the fields of a recipe's `train` section."""

from typing import Literal, Self

from pydantic import Field, model_validator

from glassformer.record import Record

Schedule = Literal["cosine", "linear", "constant", "wsd", "inverse_sqrt"]
Metric = Literal["loss", "accuracy", "exact_match", "bleu", "chrf", "f1", "macro_f1"]
DECODED: tuple[Metric, ...] = ("exact_match", "bleu", "chrf")
"""Scores of decoded text; the others need no decoding."""
Precision = Literal["auto", "float32", "bfloat16"]


class TrainConfig(Record):
    """One training run; learning rate, data order and dropout are functions of (seed, step)."""

    section = "train"

    steps: int = Field(2000, ge=1, description="Optimizer steps.")
    batch_size: int = Field(32, ge=1, description="Sequences in one optimizer step.")
    batch_tokens: int | None = Field(
        None,
        ge=1,
        description="Instead of batch_size: at most so many elements in a step (of pairs, on "
        "either side).",
    )
    micro_batches: int = Field(
        1, ge=1, description="Parts in which a step's batch is computed, to save memory."
    )
    parallel_micro_batches: int = Field(
        1,
        ge=1,
        description="On a CPU: how many of these parts are computed at the same time, each by "
        "its share of cores.",
    )
    length: int | None = Field(
        None,
        ge=1,
        description="Elements in a training sequence (longer pairs are left out); None: max.",
    )
    optimizer: Literal["adamw", "muon"] = Field(
        "adamw", description="muon: orthogonalized momentum for matrices."
    )
    learning_rate: float = Field(1e-3, gt=0, description="Peak learning rate of AdamW.")
    matrix_learning_rate: float = Field(
        0.02, gt=0, description="Peak learning rate of Muon's matrices."
    )
    beta1: float = Field(0.9, ge=0, lt=1, description="AdamW: decay of the mean gradient.")
    beta2: float = Field(0.95, ge=0, lt=1, description="AdamW: decay of the mean squared gradient.")
    weight_decay: float = Field(
        0.1, ge=0, description="Decoupled decay of matrices (never of norms and biases)."
    )
    schedule: Schedule = Field("cosine", description="After the warm-up.")
    warmup_steps: int = Field(100, ge=0, description="Steps of linear warm-up.")
    decay_fraction: float = Field(
        0.5, gt=0, le=1, description="wsd: the last part of the steps, in which it decays."
    )
    final_fraction: float = Field(
        0.1, ge=0, le=1, description="Last learning rate as a fraction of the peak."
    )
    max_grad_norm: float = Field(
        1.0, ge=0, description="Largest norm of the gradient; 0: not clipped."
    )
    label_smoothing: float = Field(
        0.0, ge=0, lt=1, description="Part of each target spread over the vocabulary."
    )
    evaluate_every: int = Field(250, ge=1, description="Steps between evaluations.")
    evaluate_batches: int | None = Field(
        None, ge=1, description="Batches of an evaluation; None: the whole split."
    )
    best: Metric = Field(
        "loss", description="The validation score by which the best model is chosen."
    )
    decode_lines: int | None = Field(
        256,
        ge=0,
        description="Pairs: how many validation sources are decoded to score the output; None: "
        "all, 0: none.",
    )
    save_every: int = Field(500, ge=1, description="Steps between checkpoints.")
    keep_last: int = Field(2, ge=1, description="Newest checkpoints to keep beside the best.")
    average_checkpoints: int = Field(
        1, ge=1, description="Checkpoints whose mean weights are tried as the final model; 1: none."
    )
    log_every: int = Field(10, ge=1, description="Steps between lines of metrics.jsonl.")
    sample_every: int = Field(500, ge=1, description="Steps between sample texts.")
    sample_tokens: int = Field(120, ge=0, description="Length of a sample text; 0: none.")
    sample_prompt: str = Field("\n", min_length=1, description="What sample texts begin with.")
    seed: int = Field(0, ge=0, description="Seed of weights, data order and dropout.")
    init_from: str | None = Field(
        None,
        description="A run whose trunk and tokenizer training begins with; the head begins anew.",
    )
    freeze_trunk: bool = Field(False, description="Train the head alone.")
    layer_decay: float = Field(
        1.0,
        gt=0,
        le=1,
        description="Each block below the last learns so many times as fast as the one above it.",
    )
    class_weights: Literal["none", "balanced"] | dict[str, float] = Field(
        "none",
        description="Weight of each class in the loss; balanced: inversely to how often it occurs.",
    )
    mask_fraction: float = Field(
        0.15, gt=0, lt=1, description="masked_lm: the share of tokens that are asked for."
    )
    whole_words: bool = Field(
        False, description="masked_lm: all pieces of a word are asked for, or none."
    )
    piece_dropout: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="bpe: the share of merges left out by chance, so that words are cut in new "
        "ways.",
    )
    workers: int = Field(
        0, ge=0, le=64, description="Processes that make batches ahead of time; 0: none."
    )
    device: str = Field("auto", description="auto, cpu, cuda, cuda:1, mps.")
    precision: Precision = Field("auto", description="auto: the faster, by measurement.")
    compile: bool = Field(
        False, description="Compile the model with torch.compile (needs a C++ compiler on a CPU)."
    )
    tensorboard: bool = Field(
        False, description="Also write TensorBoard events into the run folder."
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.keep_last < self.average_checkpoints:
            raise ValueError(
                f"average_checkpoints={self.average_checkpoints} need keep_last of at least as many"
            )
        if self.freeze_trunk and self.init_from is None:
            raise ValueError(
                "freeze_trunk leaves a random trunk as it is; set init_from to a trained run"
            )
        if self.best in DECODED and self.decode_lines == 0:
            raise ValueError(
                f"best={self.best!r} is a score of decoded text; set decode_lines above 0"
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
        if self.parallel_micro_batches > 1 and self.compile:
            raise ValueError(
                f"parallel_micro_batches={self.parallel_micro_batches} is not for compiled "
                f"models; leave out one of the two"
            )
        return self
