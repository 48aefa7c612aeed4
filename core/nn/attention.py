"""Attention over a ring cache: one new position a row (`attend_step`), or a chunk of them (`attend_chunk`).

Visible to query q is key j iff j <= q and j >= step * floor(q / step) + step - window: the reference writes `step`
positions at once into its ring and mislabels the oldest slot once the ring is full, so window = context - 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from personaplex.core.nn.cache import KVCache
from personaplex.core.nn.kernels import compiled
from personaplex.core.nn.rows import PerRow


@dataclass(frozen=True)
class Place:
    """Where the next position of every row goes and, but on a CPU, what it may see; shared by all layers of a stack."""

    rows: Tensor  # int64 [B]
    slot: Tensor  # int64 [B]
    bias: Tensor | None  # [B, 1, 1, read] in the keys' type, 0 where a key is visible, else minus infinity

    @classmethod
    def next(cls, cache: KVCache) -> "Place":
        """The place of the position that the cache has not got yet."""
        device = cache.length.device
        bias = None if device.type == "cpu" else hiding(cache)
        return cls(torch.arange(cache.rows, device=device), cache.length % cache.slots, bias)


def hiding(cache: KVCache) -> Tensor:
    """What hides from each row's next position the keys it may not see, as in `Place`."""
    hidden = torch.arange(cache.read, device=cache.length.device) > cache.length[:, None]
    bias = torch.zeros(hidden.shape, device=hidden.device, dtype=cache.keys.dtype)
    return bias.masked_fill_(hidden, -torch.inf)[:, None, None]


def attend_step(query: Tensor, key: Tensor, value: Tensor, cache: KVCache, layer: int, place: Place) -> Tensor:
    """Write one position into every row's ring and attend from it: [B, H, 1, D] -> [B, H, 1, D].

    The ring is as long as the window, so all of a full ring is visible. The caller advances the rows that are in use
    after the last layer: what another row writes lands where its next position does; its output is finite and nothing
    reads it.
    """
    keys, values = cache.keys[layer], cache.values[layer]
    keys[place.rows, :, place.slot] = key[:, :, 0]
    values[place.rows, :, place.slot] = value[:, :, 0]
    if place.bias is not None:
        return attend_masked(query, keys, values, place.bias)
    return _attend_rows(query, keys, values, cache)


def _attend_rows(query: Tensor, keys: Tensor, values: Tensor, cache: KVCache) -> Tensor:
    """Row by row, each over its own keys alone: the shape a row sees, and so its rounding, depends on that row only."""
    lengths = [min(filled + 1, cache.slots) for filled in cache.filled]
    if compiled.is_used(query.dtype):
        return compiled.attend(query, keys, values, lengths)
    # In half precision torch's kernel takes half the time for two equal queries that it takes for one.
    if query.dtype is not torch.float32:
        query = query.expand(-1, -1, 2, -1)
    rows = (slice(row, row + 1) for row in range(len(lengths)))
    seen = [
        scaled_dot_product_attention(query[row], keys[row, :, :used], values[row, :, :used])[:, :, :1]
        for row, used in zip(rows, lengths, strict=True)
    ]
    return torch.cat(seen)


def attend_masked(query: Tensor, keys: Tensor, values: Tensor, bias: Tensor) -> Tensor:
    """All rows at once over as many whole blocks of the ring as the longest row needs, the rest masked.

    With a mask and cuDNN's kernels off, a GPU of CUDA takes the memory-efficient kernel: tiles of keys in order, one
    program a row and head, so that keys which others need and this row does not change no bit of it.
    """
    read = bias.shape[-1]
    return scaled_dot_product_attention(query, keys[:, :, :read], values[:, :, :read], bias)


def attend_few(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Every row over all of a few keys: [B, H, 1, D] over [B, H, K, D] -> [B, H, 1, D]."""
    if query.device.type != "cpu":
        return scaled_dot_product_attention(query, keys, values)
    return _attend_plainly(query, keys, values)


@PerRow
def _attend_plainly(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """`attend_few` in plain sums: a CPU's fused kernel rounds a row by the thread that it falls to, from 8 keys on."""
    scores = (query.float() * keys.float()).sum(dim=-1, keepdim=True) / query.shape[-1] ** 0.5
    out: Tensor = (scores.softmax(dim=2) * values.float()).sum(dim=2, keepdim=True)
    return out.to(query.dtype)


def chunk_mask(cache: KVCache, chunk: int, window: int, step: int) -> Tensor:
    """bool [B, 1, chunk, S + chunk]: what each new position sees of the ring and of the chunk itself."""
    device = cache.length.device
    start = cache.length[:, None]
    last = start - 1
    ring = last - (last - torch.arange(cache.slots, device=device)) % cache.slots
    new = start + torch.arange(chunk, device=device)
    positions = torch.cat([ring, new], dim=1)[:, None, :]
    query = new[:, :, None]
    oldest = query // step * step + step - window
    return ((positions >= 0) & (positions >= oldest) & (positions <= query))[:, None]


def attend_chunk(
    query: Tensor, key: Tensor, value: Tensor, cache: KVCache, layer: int, mask: Tensor, active: Sequence[bool]
) -> Tensor:
    """Attend from a chunk of T new positions and write them into the active rows: [B, H, T, D] -> [B, H, T, D].

    `mask` is `chunk_mask` of the cache before the chunk; the caller advances the cache after the last layer.
    """
    keys, values = cache.keys[layer], cache.values[layer]
    seen = (torch.cat([keys, key], dim=2), torch.cat([values, value], dim=2))
    out = scaled_dot_product_attention(query, *seen, mask)
    kept = min(key.shape[2], cache.slots)
    for row, on in enumerate(active):
        if on:
            first = cache.filled[row] + key.shape[2] - kept
            slot = torch.arange(first, first + kept, device=key.device) % cache.slots
            keys[row, :, slot] = key[row, :, -kept:]
            values[row, :, slot] = value[row, :, -kept:]
    return out
