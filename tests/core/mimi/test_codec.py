"""The codec's rows, states and quantizer; its numbers are compared with the reference's in test_parity.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor

from personaplex.core.config import FRAME_SAMPLES
from personaplex.core.mimi.codec import CHUNK_FRAMES, Mimi
from personaplex.core.mimi.quantizer import ResidualQuantizer, SplitQuantizer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.core.conftest import LoadedCase


@pytest.fixture(scope="module")
def mimi(short: LoadedCase) -> Mimi:
    return short.mimi


@pytest.fixture(autouse=True)
def inference() -> Iterator[None]:
    """States are inference tensors, which only inference mode may change."""
    with torch.inference_mode():
        yield


def sound(rows: int, frames: int, seed: int = 0) -> Tensor:
    return torch.randn(rows, 1, frames * FRAME_SAMPLES, generator=torch.Generator().manual_seed(seed)) * 0.3


def codes(rows: int, frames: int, seed: int = 0) -> Tensor:
    return torch.randint(2048, (rows, 8, frames), generator=torch.Generator().manual_seed(seed))


def test_rows_are_calls_of_their_own(mimi: Mimi) -> None:
    """Encoded and decoded side by side, or one after the other."""
    samples, tokens = sound(3, 5), codes(3, 5)
    encoded = mimi.encode(samples, mimi.encoder_zeros(3))
    decoded = mimi.decode(tokens, mimi.decoder_zeros(3))
    for row in range(3):
        one = slice(row, row + 1)
        assert torch.equal(encoded[one], mimi.encode(samples[one], mimi.encoder_zeros()))
        torch.testing.assert_close(decoded[one], mimi.decode(tokens[one], mimi.decoder_zeros()), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("late", [False, True])
def test_inactive_rows_keep_their_state(mimi: Mimi, late: bool) -> None:
    """A row that pauses, or starts later, goes on as if nothing had been."""
    samples, tokens = sound(2, 6), codes(2, 6)
    expected = mimi.latents(samples[1:], mimi.encoder_zeros()), mimi.decode(tokens[1:], mimi.decoder_zeros())
    encoder, decoder = mimi.encoder_zeros(2), mimi.decoder_zeros(2)
    found: tuple[list[Tensor], list[Tensor]] = ([], [])
    done = 0
    for active in ([True, not late], [True, False], [True, True], [True, True]):
        if not active[1]:
            mimi.latents(sound(2, 2, seed=9), encoder, active)
            mimi.decode(codes(2, 2, seed=9), decoder, active)
            continue
        part = slice(done, done + 2)
        found[0].append(mimi.latents(samples.unflatten(-1, (6, -1))[:, :, part].flatten(2), encoder, active)[1:])
        found[1].append(mimi.decode(tokens[:, :, part], decoder, active)[1:])
        done += 2
    for parts, whole in zip(found, expected, strict=True):
        together = torch.cat(parts, dim=-1)
        torch.testing.assert_close(together, whole[..., : together.shape[-1]], rtol=1e-4, atol=1e-4)


def test_reset(mimi: Mimi) -> None:
    """A row that is reset is as good as new; the others are not touched."""
    encoder, decoder = mimi.encoder_zeros(2), mimi.decoder_zeros(2)
    mimi.latents(sound(2, 14, seed=1), encoder)
    mimi.decode(codes(2, 14, seed=1), decoder)
    other = encoder.resample[1].clone(), decoder.seanet[0][1].clone()
    encoder.reset([0])
    decoder.reset([0])
    assert torch.equal(encoder.resample[1], other[0])
    assert torch.equal(decoder.seanet[0][1], other[1])
    fresh = mimi.latents(sound(1, 3), mimi.encoder_zeros()), mimi.decode(codes(1, 3), mimi.decoder_zeros())
    again = mimi.latents(sound(2, 3), encoder)[:1], mimi.decode(codes(2, 3), decoder)[:1]
    for one, new in zip(again, fresh, strict=True):
        assert (one - new).abs().max() < 1e-4 * new.abs().max()


def test_downsampling_repeats_the_first_value(mimi: Mimi) -> None:
    """Two copies of the first latent stand to the left of the first frame; zeros would give something else."""
    samples, state = sound(1, 1), mimi.encoder_zeros()
    features = mimi.encoder(samples, state.seanet, torch.tensor([True]))
    first, second = mimi.encoder_transformer(features, state.cache, [True])[0].T
    taps = mimi.downsample.weight.unbind(dim=-1)
    expected = (taps[0] + taps[1] + taps[2]) @ first + taps[3] @ second
    torch.testing.assert_close(mimi.latents(samples, mimi.encoder_zeros())[0, :, 0], expected, rtol=1e-4, atol=1e-5)


def test_causal(mimi: Mimi) -> None:
    """What is heard later changes nothing before."""
    samples = sound(1, 8)
    changed = samples.clone()
    changed[..., 5 * FRAME_SAMPLES :] = 0
    before, after = (mimi.latents(x, mimi.encoder_zeros()) for x in (samples, changed))
    assert torch.equal(before[..., :5], after[..., :5])
    assert (before[..., 5:] != after[..., 5:]).any()


@pytest.mark.parametrize("length", [1, FRAME_SAMPLES - 1, FRAME_SAMPLES, FRAME_SAMPLES + 1, 3 * FRAME_SAMPLES + 7])
def test_the_last_frame_is_zero_padded(mimi: Mimi, length: int) -> None:
    samples = sound(1, 4)[0, 0, :length]
    frames = -(-length // FRAME_SAMPLES)
    padded = torch.cat([samples, torch.zeros(frames * FRAME_SAMPLES - length)])
    found = mimi.encode_call(samples)
    assert found.shape == (frames, 8)
    assert torch.equal(found, mimi.encode_call(padded))
    assert torch.equal(found, mimi.encode(padded[None, None], mimi.encoder_zeros())[0].T)


def test_long_recordings_are_cut_into_chunks(mimi: Mimi) -> None:
    frames = CHUNK_FRAMES + 3
    samples = sound(1, frames)
    assert torch.equal(mimi.encode_call(samples[0, 0]), mimi.encode(samples, mimi.encoder_zeros())[0].T)
    tokens = codes(1, frames)
    decoded = mimi.decode_call(tokens[0].T)
    assert decoded.shape == (frames * FRAME_SAMPLES,)
    assert decoded.dtype == torch.float32
    whole = mimi.decode(tokens, mimi.decoder_zeros())[0, 0]
    assert (decoded - whole).abs().max() < 1e-4 * whole.abs().max()


class TestQuantizer:
    @pytest.fixture
    def quantizer(self) -> ResidualQuantizer:
        """Two codebooks of four words in a plane, over latents that need no projection."""
        quantizer = ResidualQuantizer(2, 2, 2, 4).requires_grad_(False)
        for projection in (quantizer.input_proj, quantizer.output_proj):
            projection.copy_(torch.eye(2)[..., None])
        quantizer.cluster_usage.copy_(torch.tensor([[1.0, 2.0, 0.0, 4.0], [1.0, 1.0, 1.0, 1.0]]))
        quantizer.embedding_sum.copy_(
            torch.tensor(
                [
                    [[10.0, 0.0], [0.0, 20.0], [5e-5, 5e-5], [-40.0, 0.0]],
                    [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]],
                ]
            )
        )
        return quantizer

    def test_codewords_are_sums_over_counts(self, quantizer: ResidualQuantizer) -> None:
        words = torch.tensor([[10.0, 0.0], [0.0, 10.0], [5.0, 5.0], [-10.0, 0.0]])
        torch.testing.assert_close(quantizer.codebook(0), words)

    def test_each_codebook_codes_what_is_left(self, quantizer: ResidualQuantizer) -> None:
        latents = torch.tensor([[10.9, 0.1], [5.2, 3.9], [-10.1, -0.8]]).T[None]
        assert quantizer.encode(latents)[0].T.tolist() == [[0, 0], [2, 3], [3, 3]]

    def test_decoding_adds_codewords(self, quantizer: ResidualQuantizer) -> None:
        found = quantizer.decode(torch.tensor([[[0, 2], [0, 3]]]))
        torch.testing.assert_close(found, torch.tensor([[11.0, 0.0], [5.0, 4.0]]).T[None])

    def test_the_two_chains_see_one_latent_and_add_up(self, quantizer: ResidualQuantizer) -> None:
        split = SplitQuantizer(3, 2, 2, 4).requires_grad_(False)
        split.rest.load_state_dict(quantizer.state_dict())
        state = {name: tensor[:1] if len(tensor) == 2 else tensor for name, tensor in quantizer.state_dict().items()}
        state |= {name: quantizer.state_dict()[name] for name in ("input_proj", "output_proj")}
        split.first.load_state_dict(state)
        codes = split.encode(torch.tensor([[10.9, 0.1]]).T[None])
        assert codes[0, :, 0].tolist() == [0, 0, 0]
        torch.testing.assert_close(split.decode(codes), torch.tensor([[21.0, 0.0]]).T[None])
