"""Temporal layers that wait in host memory and visit the device one at a time, for a GPU too small for all."""

from typing import Any

import torch
from torch import Tensor, nn

from personaplex.core.nn.int8 import Int8Matrix
from personaplex.core.weights.model import Model

ALIGNED = 16  # bytes


def offload(model: Model, device: torch.device) -> None:
    """Move all of a model loaded on the host to `device`, except the temporal layers, which come when they run."""
    layers = model.lm.temporal.layers
    for part in layers.modules():
        if isinstance(part, Int8Matrix):
            part.settle(device)
    held = {id(parameter) for parameter in layers.parameters()}
    for module in (model.lm, model.mimi):
        for parameter in module.parameters():
            if id(parameter) not in held:
                parameter.data = parameter.data.to(device)
    for layer in layers:
        _visit(layer, device)


def _visit(layer: nn.Module, device: torch.device) -> None:
    """Keep a layer's weights in one piece of host memory, pinned for CUDA, and copy them over while it runs."""
    home = torch.cat([_bytes(parameter.data) for parameter in layer.parameters()])
    if device.type == "cuda":
        home = home.pin_memory()
    _point(layer, home)  # at once, so that no more than one layer is there twice

    def arrive(module: nn.Module, _arguments: Any) -> None:
        _point(module, home.to(device, non_blocking=device.type == "cuda", copy=True))

    def leave(module: nn.Module, _arguments: Any, _output: Any) -> None:
        _point(module, home)

    layer.register_forward_pre_hook(arrive)
    layer.register_forward_hook(leave)


def _point(layer: nn.Module, flat: Tensor) -> None:
    """Let a layer's weights, one after the other, be the parts of the bytes `flat`."""
    start = 0
    for parameter in layer.parameters():
        size = parameter.numel() * parameter.element_size()
        parameter.data = flat[start : start + size].view(parameter.dtype).view(parameter.shape)
        start += size + -size % ALIGNED


def _bytes(values: Tensor) -> Tensor:
    """A tensor's bytes, and as many more as let any type follow."""
    own = values.contiguous().flatten().view(torch.uint8)
    return nn.functional.pad(own, (0, -len(own) % ALIGNED))
