"""What the public reference implementation computed, computed anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor

from personaplex.core.audio.loudness import normalise_loudness
from personaplex.core.audio.reading import read
from personaplex.core.config import CODEBOOKS, FRAME_SAMPLES, SAMPLE_RATE, read_config
from personaplex.core.engine.session import Voice, prefill, prompt_steps
from personaplex.core.engine.slots import Engine
from personaplex.core.mimi.codec import Mimi
from personaplex.core.nn.products import pack
from personaplex.core.sampling.draw import Sampling
from personaplex.core.weights.filling import depth_steps, load_lm

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from personaplex.core.lm.model import LM
    from tests.conftest import BuildModel
    from tests.core.conftest import LoadedCase

CPU = torch.device("cpu")


def assert_close(found: Tensor, expected: Tensor) -> None:
    """Off by at most 1e-4 of the largest expected value."""
    assert found.shape == expected.shape
    assert (found - expected).abs().max() <= 1e-4 * expected.abs().max()


def whole_frames(samples: Tensor) -> Tensor:
    """[N] -> [1, 1, F * 1920], zero-padded."""
    return torch.nn.functional.pad(samples, (0, -len(samples) % FRAME_SAMPLES))[None, None]


def encode_in_chunks(mimi: Mimi, samples: Tensor, frames: Sequence[int]) -> Tensor:
    """Codes [F, 8] of [1, 1, F * 1920], encoded so many frames at a time."""
    state = mimi.encoder_zeros()
    chunks = samples.split([n * FRAME_SAMPLES for n in frames], dim=-1)
    return torch.cat([mimi.encode(chunk, state) for chunk in chunks], dim=-1)[0].T


def decode_in_chunks(mimi: Mimi, codes: Tensor, frames: Sequence[int]) -> Tensor:
    """Samples [F * 1920] of codes [F, 8], decoded so many frames at a time."""
    state = mimi.decoder_zeros()
    chunks = codes.T[None].split(list(frames), dim=-1)
    return torch.cat([mimi.decode(chunk, state) for chunk in chunks], dim=-1)[0, 0]


def live(case: LoadedCase, lm: LM, voice: Voice) -> tuple[Tensor, Tensor, Tensor]:
    """The call, greedy and alone: tokens [F, 9], text logits [F, vocabulary], audio logits [F, 8, 2048]."""
    persona = prefill(lm, case.config, voice, case.text_tokens)
    frames = case.case.facts["live_frames"]
    engine = Engine(lm, 1, persona.steps + frames, Sampling(greedy=True))
    engine.admit(0, persona, 0, frames)
    tokens, text, audio = [], [], []

    def watch(stream: int, logits: Tensor) -> None:
        (audio if stream else text).append(logits[0].clone())

    for codes in case.expected["user_codes"].long():
        tokens.append(engine.step(codes[None], watch)[0])
    assert len(tokens) == frames
    return torch.stack(tokens), torch.stack(text), torch.stack(audio).unflatten(0, (-1, CODEBOOKS))


class TestCodec:
    def test_user_codes(self, case: LoadedCase) -> None:
        codes = case.mimi.encode_call(case.user)
        assert codes.dtype == torch.int64
        assert torch.equal(codes, case.expected["user_codes"].long())

    def test_user_codes_frame_by_frame(self, case: LoadedCase) -> None:
        samples = whole_frames(case.user)
        frames = [1] * (samples.shape[-1] // FRAME_SAMPLES)
        assert torch.equal(encode_in_chunks(case.mimi, samples, frames), case.expected["user_codes"].long())

    def test_user_latents(self, case: LoadedCase) -> None:
        expected = case.expected["user_latents"]
        latents = case.mimi.latents(whole_frames(case.user), case.mimi.encoder_zeros())[0].T
        assert_close(latents[: len(expected)], expected)

    def test_voice_codes_of_the_normalised_recording(self, case: LoadedCase) -> None:
        recording = read(case.case.path / "voice.wav")
        voice = normalise_loudness(recording.samples, SAMPLE_RATE, name="voice.wav")
        assert torch.equal(case.mimi.encode_call(torch.from_numpy(voice)), case.expected["voice_codes"].long())

    def test_samples(self, case: LoadedCase) -> None:
        facts = case.case.facts
        samples = case.mimi.decode_call(case.expected["tokens"][:, 1:9].long())
        assert_close(samples[facts["pcm_tail_start"] : facts["samples"]], case.expected["pcm_tail"])

    def test_samples_frame_by_frame(self, case: LoadedCase) -> None:
        codes = case.expected["tokens"][:, 1:9].long()
        assert_close(decode_in_chunks(case.mimi, codes, [1] * len(codes)), case.mimi.decode_call(codes))

    @pytest.mark.parametrize("name", ["short", "wide"])
    @settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(data=st.data())
    def test_any_chunks_give_the_same(self, load_case: LoadedCase, name: str, data: st.DataObject) -> None:
        case = load_case(name)
        codes = case.expected["user_codes"].long()
        frames: list[int] = []
        while sum(frames) < len(codes):
            frames.append(data.draw(st.integers(1, len(codes) - sum(frames))))
        assert torch.equal(encode_in_chunks(case.mimi, whole_frames(case.user), frames), codes)
        assert_close(decode_in_chunks(case.mimi, codes, frames), case.mimi.decode_call(codes))


class TestCall:
    @pytest.mark.parametrize("form", ["recorded_voice", "embedded_voice"])
    def test_tokens_and_logits(self, case: LoadedCase, form: str) -> None:
        voice = getattr(case, form)
        tokens, text, audio = live(case, case.lm, voice)
        assert torch.equal(tokens, case.expected["tokens"][:, :9].long())
        assert_close(text[:8], case.expected["text_logits"])
        assert_close(audio[:2], case.expected["audio_logits"])

    def test_steps(self, case: LoadedCase) -> None:
        for voice in (case.recorded_voice, case.embedded_voice):
            assert prompt_steps(voice, case.text_tokens) == case.case.facts["prompt_steps"]
        assert (case.text_tokens == []) == (case.case.facts["text_prompt"] == "")

    def test_8_depth_steps_in_3_shards_give_the_same(self, short: LoadedCase, build_model: BuildModel) -> None:
        folder = build_model("short", steps=8, shards=3)
        config = read_config(folder / "config.json")
        lm = load_lm(folder / config.files.lm, config.lm, CPU, torch.float32)
        pack(lm)
        assert torch.equal(live(short, lm, short.recorded_voice)[0], short.expected["tokens"][:, :9].long())


class TestCheckpoints:
    """However a checkpoint is stored, the model is the same, value by value."""

    def assert_same(self, case: LoadedCase, path: Path, steps: int) -> None:
        config = read_config(path.parent / "config.json")
        assert config.lm.depth.codebooks == depth_steps(path) == steps
        found, expected = (
            load_lm(path, config.lm, CPU, torch.float32).state_dict(),
            case.stored_lm(torch.float32).state_dict(),
        )
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[name], expected[name]) for name in expected)

    @pytest.mark.parametrize(("steps", "shards"), [(8, 1), (16, 3), (8, 3)])
    def test_steps_and_shards(self, case: LoadedCase, build_model: BuildModel, steps: int, shards: int) -> None:
        folder = build_model(case.case.path.name, steps, shards)
        files = read_config(folder / "config.json").files
        assert files.lm == ("model.safetensors" if shards == 1 else "model.safetensors.index.json")
        assert len(list(folder.glob("model*.safetensors"))) == shards
        self.assert_same(case, folder / files.lm, steps)

    @pytest.mark.parametrize("steps", [8, 16])
    @pytest.mark.parametrize("key", ["", "model", "fsdp_best_state"])
    def test_pt(self, short: LoadedCase, build_model: BuildModel, tmp_path: Path, steps: int, key: str) -> None:
        folder = build_model("short", steps)
        tensors = load_file(folder / "model.safetensors")
        (tmp_path / "config.json").write_text((folder / "config.json").read_text())
        torch.save({key: tensors, "epoch": 3} if key else tensors, tmp_path / "model.pt")
        self.assert_same(short, tmp_path / "model.pt", steps)
