"""Weights on CUDA whose products give a row the same bits in any batch, at the price of some speed."""

from torch import Tensor, nn


class InvariantMatrix(nn.Module):
    """A weight [out, in] that Triton multiplies with, in tiles of a fixed size; see `core.nn.kernels`."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight, requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """x · weightᵀ: [..., in] -> [..., out]."""
        from personaplex.core.nn.kernels.triton_product import product  # needs Triton, so only where it is used

        return product(x, self.weight)


def are_invariant(weights: Tensor | nn.Module) -> bool:
    """Whether a model's weights, of which this is one, were packed so."""
    return isinstance(weights, InvariantMatrix)
