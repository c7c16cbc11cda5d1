"""The linear map x Wᵀ + b of every projection, with nothing drawn when it is made."""

from torch import nn


class Linear(nn.Linear):
    """torch's own layer whose parameters are unset until `init.initialize` or loaded weights fill
    them."""

    def reset_parameters(self) -> None:
        """Nothing: what torch would draw here would be drawn in vain."""
