"""The language model as one stateless pass for training, on the parameters of `core.lm`; a test holds the two equal."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from personaplex.core.config import CODEBOOKS
from personaplex.core.lm.depth import DepthTransformer
from personaplex.core.lm.model import LM
from personaplex.core.nn.norm import RMSNorm
from personaplex.core.nn.packed import heads_of
from personaplex.core.nn.rotary import Rotation

Watcher = Callable[[int, Tensor, Tensor, Tensor], None]


def hidden(columns: Tensor, lm: LM, watch: Watcher | None = None) -> Tensor:
    """Columns int64 [B, T, 17] -> what predicts the columns behind them, [B, T, dim]; T columns fit in the window.

    `watch` is told each layer's number, queries, keys and values, [B, H, T, D].
    """
    config, steps = lm.config, columns.shape[1]
    if steps > config.window:
        raise ValueError(f"{steps} columns do not fit a window of {config.window}")
    rotation = Rotation.at(torch.arange(steps, device=columns.device)[None], config.head_dim)
    x = _embed(columns, lm)
    layers: Iterable[Any] = lm.temporal.layers
    for number, layer in enumerate(layers):
        query, key, value = heads_of(F.linear(_norm(x, layer.norm1), layer.in_proj), config.num_heads)
        query, key = rotation(query), rotation(key)
        if watch is not None:
            watch(number, query, key, value)
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + F.linear(seen.transpose(1, 2).flatten(2), layer.out_proj)
        gate, up = F.linear(_norm(x, layer.norm2), layer.linear_in).chunk(2, dim=-1)
        x = x + F.linear(F.silu(gate) * up, layer.linear_out)
    return _norm(x, lm.temporal.out_norm)


def code_logits(context: Tensor, text: Tensor, codes: Tensor, depth: DepthTransformer) -> Tensor:
    """`hidden` [N, dim], the column's text int64 [N] and codes int64 [N, 8] -> logits of each code, [8, N, vocabulary].

    Each is told the codes before it, as they are in `codes`.
    """
    count = len(context)
    x = F.linear(context, depth.from_temporal).unflatten(-1, (CODEBOOKS, -1)).transpose(0, 1)
    words = depth.emb.shape[1]
    offsets = words * torch.arange(CODEBOOKS - 1, device=codes.device)
    before = F.embedding(codes[:, :-1] + offsets, depth.emb.flatten(0, 1)).transpose(0, 1)
    x = x + torch.cat([F.embedding(text, depth.text_emb)[None], before])
    layers: Iterable[Any] = depth.layers
    for layer in layers:
        packed = torch.bmm(_norm(x, layer.norm1), layer.in_proj.mT)  # [8, N, 3 * dim]
        query, key, value = packed.unflatten(-1, (3, depth.heads, -1)).permute(2, 1, 3, 0, 4)
        seen = _attend_few(query, key, value)
        x = x + torch.bmm(seen.permute(2, 0, 1, 3).reshape(CODEBOOKS, count, -1), layer.out_proj.mT)
        gate, up = torch.bmm(_norm(x, layer.norm2), layer.linear_in.mT).chunk(2, dim=-1)
        x = x + torch.bmm(F.silu(gate) * up, layer.linear_out.mT)
    return torch.bmm(x, depth.heads_out.mT)


def _attend_few(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Causal attention over a few steps, [N, H, K, D]: a CPU's fused kernel takes three times as long for so few."""
    scores = query @ key.mT * query.shape[-1] ** -0.5
    later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
    weights: Tensor = scores.masked_fill(later, -torch.inf).softmax(dim=-1)
    return weights.to(value.dtype) @ value


def _embed(columns: Tensor, lm: LM) -> Tensor:
    offsets = lm.emb.shape[1] * torch.arange(len(lm.emb), device=columns.device)
    audio = F.embedding_bag((columns[..., 1:] + offsets).flatten(0, 1), lm.emb.flatten(0, 1), mode="sum")
    total: Tensor = audio.unflatten(0, columns.shape[:2])
    return total + F.embedding(columns[..., 0], lm.text_emb)


def _norm(x: Tensor, norm: RMSNorm) -> Tensor:
    return F.rms_norm(x, (x.shape[-1],), norm.alpha.flatten().to(x.dtype), 1e-8)
