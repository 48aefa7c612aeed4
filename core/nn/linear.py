"""Matrix products with weights as they come, or packed once for a CPU's bfloat16 kernels."""

from contextlib import suppress

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def linear(x: Tensor, weight: Tensor) -> Tensor:
    """x · weightᵀ: [..., in] and [out, in] -> [..., out]; `weight` may be what `packed` made of one."""
    if weight.is_mkldnn:
        out: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, None, "none", [], "")
        return out
    return F.linear(x, weight)


def packed(weight: Tensor) -> nn.Parameter:
    """`weight` [out, in] in the blocked layout of oneDNN where that is quicker: bfloat16 on a CPU. Else as it is.

    A packed weight rounds alike for any number of rows from two on. The operators are torch's own but private, so a
    torch without them runs unpacked.
    """
    if weight.device.type == "cpu" and weight.dtype is torch.bfloat16 and torch.backends.mkldnn.is_available():
        with suppress(AttributeError, NotImplementedError, RuntimeError):
            weight = torch.ops.mkldnn._reorder_linear_weight(weight)
    return nn.Parameter(weight, requires_grad=False)


class Packable(nn.Module):
    """A module whose weights can be packed: `matrices` are [out, in], `stacks` [K, out, in] with one of K in use."""

    matrices: tuple[str, ...] = ()
    stacks: tuple[str, ...] = ()

    def pack_own(self) -> None:
        """Pack this module's weights, one after the other, so that no more than one is there twice."""
        for name in self.matrices:
            setattr(self, name, packed(getattr(self, name)))
        for name in self.stacks:
            weights = getattr(self, name)
            if isinstance(weights, Tensor):
                delattr(self, name)
                setattr(self, name, nn.ParameterList(packed(weight) for weight in weights.unbind()))


def pack(module: nn.Module) -> None:
    """Bring the weights below `module` into the layout that their device multiplies quickest; again does nothing."""
    for part in module.modules():
        if isinstance(part, Packable):
            part.pack_own()
