"""Stage `package`: a training run as a model directory, under the published tensors' names.

    python -m personaplex.samples.nano.recipe.package RUN samples/models/nano

The language model is kept in bfloat16, the codec in float16. Voices are made by flite, which must be there.
"""

import argparse
import json
import shutil
from dataclasses import asdict
from pathlib import Path

import soundfile
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from personaplex.core.config import SAMPLE_RATE, FilesConfig, ModelConfig
from personaplex.core.lm.model import LM
from personaplex.core.mimi.codec import Mimi
from personaplex.core.mimi.quantizer import ResidualQuantizer
from personaplex.core.weights.layout import Layout, lm_layout, mimi_layout
from personaplex.samples.nano.recipe.lm_train import lm_config
from personaplex.samples.nano.recipe.units import AGENTS, CODEC, prompt_sound, read_codec, tone_and_silence

FILES = FilesConfig(lm="model.safetensors", mimi="mimi.safetensors", tokenizer="tokenizer.model")


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


def rounded(mimi: Mimi) -> Mimi:
    """The codec as it will be loaded."""
    for part in (mimi.quantizer.first, mimi.quantizer.rest):
        settle_codewords(part)
    with torch.no_grad():
        for value in mimi.parameters():
            value.copy_(value.half().float())
    return mimi


def write(run: Path, folder: Path) -> None:
    """The model directory `folder` of the run in `run`."""
    (folder / "voices").mkdir(parents=True, exist_ok=True)
    kept = torch.load(run / "lm.pt", weights_only=True)["trainee"]
    lm_values = {name.removeprefix("lm."): value for name, value in kept.items() if name.startswith("lm.")}
    config = lm_config(len(lm_values["text_linear"]))
    lm = LM(config)
    lm.load_state_dict(lm_values)
    mimi = rounded(read_codec(run / "codec.pt"))
    silence, sine = tone_and_silence(mimi)
    model = ModelConfig("personaplex", config, CODEC, silence, sine, FILES)
    save_file(stored(lm, lm_layout(config), torch.bfloat16), folder / FILES.lm)
    save_file(stored(mimi, mimi_layout(CODEC), torch.float16), folder / FILES.mimi)
    shutil.copyfile(run / "tokenizer.model", folder / FILES.tokenizer)
    (folder / "config.json").write_text(json.dumps(asdict(model), indent=2) + "\n", encoding="utf-8")
    for voice, name in AGENTS.items():
        soundfile.write(folder / "voices" / f"{name}.wav", prompt_sound(voice), SAMPLE_RATE, subtype="PCM_16")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    write(options.run, options.folder)


if __name__ == "__main__":
    main()
