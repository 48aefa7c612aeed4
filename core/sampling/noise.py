"""Randomness as a pure function of (seed, frame, stream, token id): Philox4x32-10 in integer arithmetic.

Nothing is stateful, so a draw depends neither on other rows nor on earlier draws (Salmon et al., "Parallel random
numbers: as easy as 1, 2, 3", 2011). `LAYOUT` names how key and counter are laid out; a change needs a new version.
"""

import torch
from torch import Tensor

from personaplex.core.nn.rows import PerRow

LAYOUT = "philox4x32-10/1"
MAX_SEED = 2**63 - 1

_MASK = 0xFFFF_FFFF
_MULTIPLIERS = (0xD251_1F53, 0xCD9E_8D57)
_WEYL = (0x9E37_79B9, 0xBB67_AE85)
_ROUNDS = 10

_log = PerRow(torch.log)


def philox(key: tuple[Tensor, Tensor], counter: tuple[Tensor, Tensor, Tensor, Tensor]) -> tuple[Tensor, ...]:
    """The four 32-bit output words, each int64; key and counter words are int64 below 2^32 that broadcast."""
    k0, k1 = key
    c0, c1, c2, c3 = counter
    for _ in range(_ROUNDS):
        # A 32 x 32-bit product wraps in int64, yet both of its halves come out right under the mask.
        low, high = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (
            ((high >> 32) & _MASK) ^ c1 ^ k0,
            high & _MASK,
            ((low >> 32) & _MASK) ^ c3 ^ k1,
            low & _MASK,
        )
        k0, k1 = (k0 + _WEYL[0]) & _MASK, (k1 + _WEYL[1]) & _MASK
    return c0, c1, c2, c3


def has_float64(device: torch.device) -> bool:
    """Whether a device computes in float64; Apple's GPU doesn't."""
    return device.type != "mps"


def exponential(seed: Tensor, frame: Tensor, stream: int, tokens: Tensor) -> Tensor:
    """Exp(1) noise, float32 [B, k], for the token ids `tokens` [B, k] of one stream, on their device.

    `seed` [B] (0 to 2^63 - 1) and `frame` [B], the live frame, are int64. Key: the seed's low and high words; counter:
    (token id, frame, stream, 0); the first output word w gives e = -ln((w + 1/2) / 2^32), in float64. A device without
    float64 gets what the CPU computes.
    """
    device = tokens.device
    if not has_float64(device):
        seed, frame, tokens = seed.cpu(), frame.cpu(), tokens.cpu()
    key = ((seed & _MASK)[:, None], (seed >> 32)[:, None])
    zero = torch.zeros_like(tokens)
    word = philox(key, (tokens, frame[:, None], zero + stream, zero))[0]
    return -_log((word.double() + 0.5) / 2.0**32).float().to(device)
