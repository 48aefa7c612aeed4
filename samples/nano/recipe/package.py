"""Stage `package`: a training run as a model directory, under the published tensors' names.

    python -m personaplex.samples.nano.recipe.package RUN FOLDER

The language model is kept in bfloat16, and surer of itself than it was in training: the temperatures that fit the 7B
are too high for so small a model. Voices are made by flite, which must be there.
"""

import argparse
import json
import shutil
from dataclasses import asdict
from pathlib import Path

import soundfile
import torch
from safetensors.torch import save_file

from personaplex.core.config import SAMPLE_RATE, FilesConfig, ModelConfig
from personaplex.core.lm.model import LM
from personaplex.core.weights.layout import lm_layout
from personaplex.samples.nano.recipe.freeze import CODEC, read_codec, stored
from personaplex.samples.nano.recipe.trainee import lm_config
from personaplex.samples.nano.recipe.units import AGENTS, prompt_sound, tone_and_silence

SURER = {"text_linear": 6.0, "depth.heads_out": 2.0}  # logits times this are drawn at the temperature divided by it
FILES = FilesConfig(lm="model.safetensors", mimi="mimi.safetensors", tokenizer="tokenizer.model")


def write(run: Path, folder: Path) -> None:
    """The model directory `folder` of the run in `run`."""
    (folder / "voices").mkdir(parents=True, exist_ok=True)
    kept = torch.load(run / "lm.pt", weights_only=True)["trainee"]
    values = {name.removeprefix("lm."): value for name, value in kept.items() if name.startswith("lm.")}
    lm_values = {name: value * SURER.get(name, 1.0) for name, value in values.items()}
    config = lm_config(len(lm_values["text_linear"]))
    lm = LM(config)
    lm.load_state_dict(lm_values)
    silence, sine = tone_and_silence(read_codec(run / FILES.mimi))
    model = ModelConfig("personaplex", config, CODEC, silence, sine, FILES)
    save_file(stored(lm, lm_layout(config), torch.bfloat16), folder / FILES.lm)
    shutil.copyfile(run / FILES.mimi, folder / FILES.mimi)
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
