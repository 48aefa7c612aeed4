"""The fused kernels tried against torch's on a device, before a model relies on them."""

import torch
from torch import Tensor

from personaplex.core.nn.attention import Place, attend_masked, hiding
from personaplex.core.nn.cache import KVCache
from personaplex.core.nn.kernels import triton_attention, triton_rows
from personaplex.core.nn.rotary import Rotation

HEADS, HEAD_DIM, RING = 4, 128, 2 * triton_attention.SPLIT + 40
LENGTHS = (0, 300, 700)


@torch.inference_mode()
def differing(device: torch.device, dtype: torch.dtype = torch.bfloat16) -> list[str]:
    """The names of the kernels that compute something else than torch's; raises what a compiler raises."""
    generator = torch.Generator().manual_seed(0)

    def some(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator).to(device, dtype)

    found = {
        "norm": _norm(some(3, 1, 512), some(3, 1, 512), some(1, 1, 512)),
        "gate": _gate(some(3, 1, 512)),
        "embedding": _embedding(some(2, 9, 512), some(5, 512)),
        "attention": _attention(some(3, 1, 3 * HEADS * HEAD_DIM), some(2, 1, 3, HEADS, RING, HEAD_DIM)),
        "draw": _draw(device),
    }
    return [name for name, right in found.items() if not right]


def _close(found: Tensor, expected: Tensor) -> bool:
    return torch.allclose(found.float(), expected.float(), rtol=0.02, atol=0.02)


def _norm(x: Tensor, delta: Tensor, alpha: Tensor) -> bool:
    total, normed = triton_rows.add_norm(x, delta, alpha)
    wide = (x + delta).float()
    scale = alpha.float() * torch.rsqrt(1e-8 + wide.square().mean(dim=-1, keepdim=True))
    return torch.equal(total, x + delta) and _close(normed, wide * scale)


def _gate(projected: Tensor) -> bool:
    gate, value = projected.chunk(2, dim=-1)
    return _close(triton_rows.gate(projected), torch.nn.functional.silu(gate) * value)


def _embedding(emb: Tensor, text_emb: Tensor) -> bool:
    columns = torch.tensor([[4, 8, 0], [1, 2, 3]], device=emb.device)
    expected = emb[0][columns[:, 1]] + emb[1][columns[:, 2]] + text_emb[columns[:, 0]]
    return torch.equal(triton_rows.embed(columns, emb, text_emb), expected)


def _attention(packed: Tensor, rings: Tensor) -> bool:
    length = torch.tensor(LENGTHS, device=packed.device)
    caches = [KVCache(rings[0].clone(), rings[1].clone(), length, list(LENGTHS)) for _ in range(2)]
    rotation = Rotation.at(length[:, None], HEAD_DIM)
    found = triton_attention.attend_step(packed, rotation, caches[0], 0)
    query, key, value = packed.unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
    keys, values, place = caches[1].keys[0], caches[1].values[0], Place.next(caches[1])
    keys[place.rows, :, place.slot] = rotation(key)[:, :, 0]
    values[place.rows, :, place.slot] = value[:, :, 0]
    expected = attend_masked(rotation(query), keys, values, hiding(caches[1]))
    written = _close(caches[0].keys, caches[1].keys) and torch.equal(caches[0].values, caches[1].values)
    few = triton_attention.attend_few(packed, rings[0, 0, :, :, :8].contiguous(), rings[1, 0, :, :, :8].contiguous(), 0)
    return (
        written
        and _close(found, expected.transpose(1, 2).flatten(2))
        and torch.equal(few, packed[..., -HEADS * HEAD_DIM :])
    )


def _draw(device: torch.device) -> bool:
    """A token that is a billion times likelier than the others wins whatever the noise."""
    kept = torch.tensor([[1e-9, 1.0, 1e-9], [1.0, 1e-9, 1e-9]], device=device)
    tokens = torch.tensor([[5, 6, 7], [8, 9, 10]], device=device)
    seed, frame = torch.tensor([1, 2**62], device=device), torch.tensor([3, 4], device=device)
    return triton_rows.race(kept, tokens, seed, frame, 8).tolist() == [6, 8]
