"""The recipe of the small codec: its training pass is the codec itself, and a step of it learns."""

import dataclasses

import pytest
import torch

from personaplex.core.config import FRAME_SAMPLES, MimiConfig, MimiTransformerConfig
from personaplex.samples.nano.recipe import codec_pass
from personaplex.samples.nano.recipe.codec_train import LABELS_PER_FRAME, Trainee
from personaplex.samples.nano.recipe.quantise import quantise, start_from

SMALL = MimiConfig(
    filters=2,
    dim=16,
    ratios=[8, 6, 5, 4],
    codebook_dim=8,
    codebook_size=16,
    codebooks=8,
    transformer=MimiTransformerConfig(num_heads=2, num_layers=1, feedforward=16, context=250),
)
PHONES = 5


@pytest.fixture
def trainee() -> Trainee:
    torch.manual_seed(0)
    return Trainee(SMALL, PHONES)


@torch.no_grad()
def test_training_pass_is_the_streaming_pass(trainee: Trainee) -> None:
    mimi = trainee.mimi
    sound = 0.1 * torch.randn(2, 5 * FRAME_SAMPLES)
    chunks, state = sound[:, None].split(2 * FRAME_SAMPLES, dim=-1), mimi.encoder_zeros(2)
    streamed = torch.cat([mimi.latents(chunk, state) for chunk in chunks], dim=-1)
    latents = codec_pass.latents(sound, mimi)
    torch.testing.assert_close(latents, streamed.transpose(1, 2), atol=1e-5, rtol=1e-4)
    codes = mimi.quantizer.encode(streamed)
    quantised = quantise(latents, mimi.quantizer, learn=False).whole
    torch.testing.assert_close(quantised, mimi.quantizer.decode(codes).transpose(1, 2), atol=1e-5, rtol=1e-4)
    made, _ = codec_pass.sound(quantised, mimi)
    torch.testing.assert_close(made, mimi.decode(codes, mimi.decoder_zeros(2))[:, 0], atol=1e-5, rtol=1e-4)


def test_latents_beyond_the_window_are_refused(trainee: Trainee) -> None:
    short = dataclasses.replace(SMALL, transformer=dataclasses.replace(SMALL.transformer, context=5))
    with pytest.raises(ValueError, match="window of 4"):
        codec_pass.latents(torch.zeros(1, 5 * FRAME_SAMPLES), Trainee(short, PHONES).mimi)


def test_steps_bring_the_sound_nearer(trainee: Trainee) -> None:
    sound = 0.1 * torch.randn(2, 4 * FRAME_SAMPLES)
    labels = torch.randint(PHONES, (2, 4, LABELS_PER_FRAME))
    _, _, latents = trainee(sound, labels, live=False)
    start_from(latents.repeat(4, 1)[:, None], trainee.mimi.quantizer)
    optimizer = torch.optim.AdamW([p for p in trainee.parameters() if p.requires_grad], lr=3e-3)
    losses = []
    for _ in range(12):
        loss, _, _ = trainee(sound, labels, live=True)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.8 * losses[0]
