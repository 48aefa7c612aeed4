"""The small codec as it is shipped: what is written is what is read, and it renders speech."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from safetensors.torch import save_file

from personaplex.core.config import MimiConfig, MimiTransformerConfig
from personaplex.core.mimi.codec import Mimi
from personaplex.core.weights.filling import load_mimi
from personaplex.core.weights.layout import mimi_layout
from personaplex.samples.nano.recipe import freeze
from personaplex.samples.nano.recipe.codec_losses import Spectra
from personaplex.samples.nano.recipe.codec_train import start
from personaplex.samples.nano.recipe.render import LEVEL
from personaplex.samples.nano.recipe.units import tone_and_silence

SAMPLES = Path(freeze.__file__).parents[2]
SMALL = MimiConfig(
    filters=2,
    dim=16,
    ratios=[8, 6, 5, 4],
    codebook_dim=8,
    codebook_size=16,
    codebooks=8,
    transformer=MimiTransformerConfig(num_heads=2, num_layers=1, feedforward=16, context=26),
)


@pytest.fixture(scope="module")
def frozen() -> Mimi:
    return freeze.read_codec(SAMPLES / "models" / "nano" / "mimi.safetensors")


def test_what_is_stored_is_what_is_loaded(tmp_path: Path) -> None:
    torch.manual_seed(0)
    mimi = Mimi(SMALL)
    start(mimi)
    save_file(freeze.stored(mimi, mimi_layout(SMALL), torch.float32), tmp_path / "mimi.safetensors")
    loaded = dict(load_mimi(tmp_path / "mimi.safetensors", SMALL, torch.device("cpu")).named_parameters())
    for name, value in mimi.named_parameters():
        assert torch.equal(loaded[name], value), name


@torch.no_grad()
def test_settled_codewords_are_the_same_words() -> None:
    torch.manual_seed(0)
    part = Mimi(SMALL).quantizer.rest
    part.embedding_sum.normal_()
    part.cluster_usage.uniform_(0.5, 2)
    before = [part.codebook(level).clone() for level in range(7)]
    freeze.settle_codewords(part)
    assert bool((part.cluster_usage == 1).all())
    for level, words in enumerate(before):
        torch.testing.assert_close(part.codebook(level), words)


def test_it_renders_speech_that_it_was_not_trained_on(frozen: Mimi) -> None:
    sound = torch.from_numpy(soundfile.read(SAMPLES / "voices/agent_f.wav", dtype="float32")[0][: 3 * 24_000])
    sound *= LEVEL / sound.square().mean().sqrt()
    made = frozen.decode_call(frozen.encode_call(sound))[: len(sound)]
    mels, _ = Spectra()(made[None], sound[None])
    silent_mels, _ = Spectra()(torch.zeros_like(sound)[None], sound[None])
    assert float(mels) < 0.4 * float(silent_mels)


def test_silence_stays_silent(frozen: Mimi) -> None:
    silence, sine = tone_and_silence(frozen)
    made = frozen.decode_call(torch.tensor([silence] * 25))
    assert float(made[1920 * 12 :].abs().max()) < 0.01
    assert silence != sine
    assert np.isfinite(made.numpy()).all()
