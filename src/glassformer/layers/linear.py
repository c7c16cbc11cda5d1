"""The linear map x Wᵀ + b of every projection, constructed with its weights unset."""

from torch import nn

from glassformer.axes import Tensor


class Linear(nn.Linear):
    """torch's layer with parameters unset until `init.initialize` or loaded weights fill them."""

    def reset_parameters(self) -> None:
        """No-op; `init.initialize` fills the weights."""

    @property
    def matrix(self) -> Tensor:
        """The matrix that inputs are multiplied by: W, or with an adapter the sum of both."""
        return self.weight
