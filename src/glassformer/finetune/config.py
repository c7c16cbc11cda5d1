"""Further training of a trained model: the section `train.finetune`."""

from typing import Literal, Self

from pydantic import Field, model_validator

from glassformer.core.record import Fraction, Record, Size

LORA = ("rank", "alpha", "dropout", "targets")
"""The fields of adapters."""


class FinetuneConfig(Record):
    """Weights of the model of train.init_from that are trained."""

    section = "train.finetune"

    method: Literal["full", "lora", "frozen"] = "full"
    """full: every weight; lora: adapters and the head; frozen: only the head."""
    rank: int = Field(default=8, ge=1, le=1 << 16)
    """lora: rows of A, columns of B, of each adapter."""
    alpha: Size = 16.0
    """lora: an adapter adds alpha/rank times B A to a weight."""
    dropout: Fraction = 0.0
    """lora: dropout on the input of adapters."""
    targets: list[str] = Field(default=["q_proj", "v_proj"], min_length=1)
    """lora: names of the linear maps that get an adapter (q_proj, k_proj, v_proj, out_proj,
    up_proj, gate_proj, down_proj), patterns of their paths, or all: those of the blocks."""
    quantize: Literal["none", "int8"] = "none"
    """lora and frozen: keep the linear maps of the blocks that are not trained as 8-bit integers, a
    quarter of their memory."""
    train_also: list[str] = Field(default_factory=list)
    """lora and frozen: names or patterns of further weights to train, as embed or *norm*."""
    keep_head: bool = False
    """Keep the head of train.init_from, and its classes; false: a new head."""

    @property
    def partial(self) -> bool:
        """Whether some weights are not trained."""
        return self.method != "full"

    @property
    def passes(self) -> int:
        """Cost of a training step in forward passes: gradients of activations and of weights cost
        one each."""
        return {"full": 3, "lora": 2, "frozen": 1}[self.method]

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        fields = type(self).model_fields
        for name in LORA if self.method != "lora" else ():
            if (value := getattr(self, name)) != fields[name].get_default():
                raise ValueError(f"{name}={value} is for method=lora; set it or leave {name} out")
        if not self.partial and self.quantize != "none":
            raise ValueError(
                f"quantize={self.quantize} is for weights that are not trained, and method=full "
                "trains every one; use method=lora or leave it out"
            )
        if not self.partial and self.train_also:
            raise ValueError(
                f"train_also={self.train_also} adds to method=lora or frozen, and method=full "
                "trains everything; leave it out"
            )
        return self
