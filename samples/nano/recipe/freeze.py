"""Stage `freeze`: a trained codec as it is shipped, in float16 under the published tensors' names.

    python -m personaplex.samples.nano.recipe.freeze RUN/codec.pt RUN/mimi.safetensors

Later stages work on this file, so that the codes a language model learns are those it will be given.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from personaplex.core.mimi.codec import Mimi
from personaplex.core.mimi.quantizer import ResidualQuantizer
from personaplex.core.weights.filling import load_mimi
from personaplex.core.weights.layout import Layout, mimi_layout
from personaplex.samples.nano.recipe import codec_train

# The codec was trained on pieces of a second. To see no further back makes its codes independent of what was before.
CODEC = replace(codec_train.CONFIG, transformer=replace(codec_train.CONFIG.transformer, context=26))


def stored(module: nn.Module, layout: Layout, dtype: torch.dtype) -> dict[str, Tensor]:
    """A module's parameters under the published names: the inverse of how they are loaded."""
    values = {name: value.detach() for name, value in module.named_parameters()}
    tensors = {}
    for name, place in layout.items():
        if place.target is not None:
            whole = values[place.target]
            part = whole if place.index is None else whole.view(-1, *place.shape)[place.index]
            tensors[name] = part.reshape(place.shape).to(dtype).contiguous().clone()
    return tensors


def settle_codewords(part: ResidualQuantizer) -> None:
    """Make every codeword a sum of one, which float16 holds more exactly than sums over many."""
    with torch.no_grad():
        words = part.embedding_sum / part.cluster_usage.clamp(min=1e-5)[..., None]
        part.embedding_sum.copy_(words)
        part.cluster_usage.fill_(1)


def freeze(trained: Path, frozen: Path) -> None:
    """Write the codec of the training state `trained` to `frozen`."""
    kept = torch.load(trained, weights_only=True)["trainee"]
    mimi = Mimi(CODEC)
    mimi.load_state_dict({n.removeprefix("mimi."): v for n, v in kept.items() if n.startswith("mimi.")})
    for part in (mimi.quantizer.first, mimi.quantizer.rest):
        settle_codewords(part)
    save_file(stored(mimi, mimi_layout(CODEC), torch.float16), frozen)


def read_codec(frozen: Path) -> Mimi:
    """The codec in a file of `freeze`."""
    return load_mimi(frozen, CODEC, torch.device("cpu"))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trained", type=Path)
    parser.add_argument("frozen", type=Path)
    options = parser.parse_args()
    freeze(options.trained, options.frozen)


if __name__ == "__main__":
    main()
