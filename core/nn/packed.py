"""Attention from what a projection gives: query, key and value of all heads, packed into one vector a position."""

from torch import Tensor

from personaplex.core.nn import fused
from personaplex.core.nn.attention import Place, attend_few, attend_step
from personaplex.core.nn.cache import KVCache
from personaplex.core.nn.rotary import Rotation


class StepAttention:
    """Attention from the next position of every row of a cache, layer by layer."""

    def __init__(self, cache: KVCache, rotation: Rotation) -> None:
        self._cache = cache
        self._rotation = rotation
        self._place = None if fused.is_used(cache.keys.device) else Place.next(cache)

    def __call__(self, packed: Tensor, layer: int) -> Tensor:
        """[R, 1, 3 · H · D] -> [R, 1, H · D]; writes key and value into the layer's rings, as `attend_step`."""
        cache = self._cache
        if self._place is None:
            from personaplex.core.nn.kernels import triton_attention  # needs Triton, so only where it is used

            return triton_attention.attend_step(packed, self._rotation, cache, layer)
        query, key, value = heads_of(packed, cache.keys.shape[2])
        turned = self._rotation(query), self._rotation(key)
        return attend_step(*turned, value, cache, layer, self._place).transpose(1, 2).flatten(2)


def attend_steps(packed: Tensor, keys: Tensor, values: Tensor, step: int) -> Tensor:
    """Step `step` of a few, over those so far and itself: [B, 1, 3 · H · D] -> [B, 1, H · D].

    `keys` and `values` [B, H, K, D] hold the steps before it, and this one's afterwards.
    """
    if fused.is_used(packed.device):
        from personaplex.core.nn.kernels import triton_attention  # needs Triton, so only where it is used

        return triton_attention.attend_few(packed, keys, values, step)
    split = packed.unflatten(-1, (3, keys.shape[1], -1))
    query, keys[:, :, step], values[:, :, step] = split[:, 0].unbind(dim=1)
    seen = attend_few(query[:, :, None], keys[:, :, : step + 1], values[:, :, : step + 1])
    return seen.transpose(1, 2).flatten(2)


def heads_of(packed: Tensor, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value [B, H, T, D] of [B, T, 3 · H · D]."""
    query, key, value = packed.unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
    return query, key, value
