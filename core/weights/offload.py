"""Temporal layers that wait in host memory and visit the device one at a time, for a GPU too small for all."""

from typing import Any

import torch
from torch import nn

from personaplex.core.weights.model import Model


def offload(model: Model, device: torch.device) -> None:
    """Move all of a model loaded on the host to `device`, except the temporal layers, which come when they run."""
    layers = model.lm.temporal.layers
    held = {id(parameter) for parameter in layers.parameters()}
    for module in (model.lm, model.mimi):
        for parameter in module.parameters():
            if id(parameter) not in held:
                parameter.data = parameter.data.to(device)
    for layer in layers:
        _visit(layer, device)


def _visit(layer: nn.Module, device: torch.device) -> None:
    at_home = {name: parameter.data for name, parameter in layer.named_parameters()}
    if device.type == "cuda":
        at_home = {name: value.pin_memory() for name, value in at_home.items()}

    def arrive(module: nn.Module, _arguments: Any) -> None:
        for name, parameter in module.named_parameters():
            parameter.data = at_home[name].to(device, non_blocking=True)

    def leave(module: nn.Module, _arguments: Any, _output: Any) -> None:
        for name, parameter in module.named_parameters():
            parameter.data = at_home[name]

    layer.register_forward_pre_hook(arrive)
    layer.register_forward_hook(leave)
