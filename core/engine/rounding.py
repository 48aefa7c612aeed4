"""How this machine rounds, as a number: equal where two machines can be expected to give the same bits."""

import hashlib

import torch
from torch import Tensor

from personaplex.core.config import CODEBOOKS, FRAME_SAMPLES, STREAMS
from personaplex.core.lm.model import LM
from personaplex.core.mimi.codec import Mimi
from personaplex.core.nn.packed import StepAttention
from personaplex.core.nn.products import probe, results
from personaplex.core.nn.rotary import Rotation

KEYS = 48  # that a query sees
FRAMES = 4


@torch.inference_mode()
def rounding(lm: LM, mimi: Mimi) -> str:
    """16 hex digits of what a model gives here for fixed inputs: its layers, products and codec.

    It says nothing where the weights or the number of threads differ.
    """
    digest = hashlib.sha256()
    for tensor in (*results(lm), *_transformers(lm), *_codec(mimi)):
        digest.update(tensor.float().cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


def _transformers(lm: LM) -> tuple[Tensor, ...]:
    """One step of the first temporal layer with keys to attend to, and of the first depth layer."""
    temporal, depth = lm.temporal.layers[0], lm.depth.layers[0]
    cache = lm.temporal.zeros(1, KEYS)
    for stored, shift in ((cache.keys, 0), (cache.values, 1)):
        stored[0] = probe(stored[0].numel() + shift, lm.dtype)[shift:].view_as(stored[0])
    cache.advance(KEYS - 1, [True])
    rotation = Rotation.at(cache.length[:, None], lm.config.head_dim)
    x = lm.embed(torch.ones(1, STREAMS, dtype=torch.int64, device=lm.device))[:, None]
    hidden = _summed(temporal(x, None, StepAttention(cache, rotation), 0))
    heads, width = lm.depth.heads, lm.config.depth.dim
    keys = hidden.new_zeros(2, 1, heads, CODEBOOKS, width // heads)
    return hidden, _summed(depth(probe(width, lm.dtype)[None, None], None, keys[0], keys[1], 0))


def _summed(layer: tuple[Tensor, Tensor]) -> Tensor:
    """What a layer gives, with the sum made that it leaves to the next."""
    return layer[0] + layer[1]


def _codec(mimi: Mimi) -> tuple[Tensor, ...]:
    """Both directions."""
    samples = probe(FRAMES * FRAME_SAMPLES, torch.float32)[None, None].to(mimi.device)
    latents = mimi.latents(samples, mimi.encoder_zeros())
    return latents, mimi.decode_call(mimi.quantizer.encode(latents)[0].T)
