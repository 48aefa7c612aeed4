"""The WAV's form, the mix, the tokens, and where the answer begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile
from safetensors.numpy import load_file

from personaplex.samples import tiny

if TYPE_CHECKING:
    import numpy.typing as npt

    from tests.cli.conftest import Desk

FRAME = 1920


def tokens(desk: Desk) -> npt.NDArray[np.int32]:
    return load_file(desk.folder / "call.agent.tokens.safetensors")["tokens"]


@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24", "PCM_32", "PCM_U8", "FLOAT", "DOUBLE", "ULAW", "ALAW"])
def test_subtypes_hold_the_same_sound(desk: Desk, subtype: str) -> None:
    assert desk.offline("--output-subtype", "DOUBLE", "--output-wav", "exact.wav").code == 0
    assert desk.offline("--output-subtype", subtype).code == 0
    assert soundfile.info("call.agent.wav").subtype == subtype
    assert desk.document()["output"]["subtype"] == subtype
    steps = {"PCM_U8": 2**-7, "ULAW": 0.03, "ALAW": 0.03, "PCM_16": 2**-15}
    assert np.abs(desk.samples() - desk.samples("exact.wav")).max() <= steps.get(subtype, 2**-23)
    assert len(desk.samples()) == 12_000


@pytest.mark.parametrize("rate", [8000, 44_100, 48_000])
def test_output_rate(desk: Desk, rate: int) -> None:
    desk.sound("call.wav", desk.noise(0.5)[:11_999])
    assert desk.offline("--output-rate", str(rate), "--mix-wav", "mix.wav").code == 0
    for name in ("call.agent.wav", "mix.wav"):
        info = soundfile.info(name)
        assert (info.samplerate, info.frames) == (rate, round(11_999 * rate / 24_000))
    assert desk.document()["output"]["sample_rate"] == rate


def test_align_model_is_the_reference_a_frame_earlier(desk: Desk) -> None:
    desk.sound("call.wav", desk.noise(0.55))  # 6 frames and 1680 samples
    made: dict[str, Any] = {}
    for align in ("reference", "model"):
        assert desk.offline("--align", align, "--save-tokens", "--output-subtype", "FLOAT").code == 0
        assert desk.document()["output"]["align"] == align
        made[align] = tokens(desk), desk.samples()
    (late, late_samples), (own, own_samples) = made["reference"], made["model"]
    assert len(late) == len(own) == 7
    assert np.array_equal(own[:-1], late[1:])
    assert late[0, 0] == 3  # the prompt's last frame: a pause
    assert len(late_samples) == len(own_samples) == 13_200
    assert np.array_equal(own_samples[:-FRAME], late_samples[FRAME:])
    assert own_samples[-FRAME:].any()


def test_the_last_frame_heard_changes_nothing(desk: Desk) -> None:
    made = []
    for name, quiet in (("one.wav", 1.0), ("two.wav", 0.0)):
        samples = desk.noise(0.48)
        samples[-FRAME:] *= quiet
        desk.sound(name, samples)
        for align in ("reference", "model"):
            assert desk.offline("--align", align, "--output-wav", f"{align}.wav", call=name).code == 0
        made.append([(desk.folder / f"{align}.wav").read_bytes() for align in ("reference", "model")])
    assert made[0] == made[1]


def test_mix_has_the_caller_left_and_the_agent_right(desk: Desk) -> None:
    caller = np.stack([desk.noise(0.5, seed=3), np.zeros(12_000)], axis=1)
    desk.sound("call.wav", caller, subtype="FLOAT")
    result = desk.offline("--mix-wav", "mix.wav", "--channel", "left", "--output-subtype", "FLOAT")
    assert "mix.wav" in result.out.split()
    mix = desk.samples("mix.wav")
    assert mix.shape == (12_000, 2)
    assert np.array_equal(mix[:, 0], desk.samples("call.wav")[:, 0])
    assert np.array_equal(mix[:, 1], desk.samples())


def test_saved_tokens(desk: Desk) -> None:
    assert desk.offline("--save-tokens", "--output-wav", "a.b.wav").code == 0
    held = load_file(desk.folder / "a.b.tokens.safetensors")
    assert {name: (values.dtype, values.shape) for name, values in held.items()} == {
        "tokens": (np.int32, (7, 9)),
        "user_codes": (np.int32, (7, 8)),
    }
    for codes in (held["tokens"][:, 1:], held["user_codes"]):
        assert 0 <= codes.min() <= codes.max() < tiny.CONFIG.lm.audio_vocab
    assert held["tokens"][:, 0].tolist() == desk.document("a.b.json")["text_tokens"]


def test_samples_beyond_full_scale_are_clipped_by_integers_alone(
    desk: Desk, loaded_tiny: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiny, "LOUDNESS", 1.0)
    monkeypatch.setattr(tiny, "load", loaded_tiny.__wrapped__)
    for subtype in ("FLOAT", "PCM_16"):
        assert desk.offline("--output-subtype", subtype).code == 0
        output, samples = desk.document()["output"], desk.samples()
        assert output["clipped"] > 0
        assert output["peak"] > 1
        assert (np.abs(samples).max() > 1) == (subtype == "FLOAT")


@pytest.mark.parametrize("channel", ["left", "right", "1", "mix"])
def test_channel(desk: Desk, channel: str) -> None:
    left, right = desk.noise(0.5, seed=4), desk.noise(0.5, seed=5)
    desk.sound("call.wav", np.stack([left, right], axis=1), subtype="DOUBLE")
    desk.sound("heard.wav", {"left": left, "mix": (left + right) / 2}.get(channel, right), subtype="DOUBLE")
    assert desk.offline("--channel", channel).code == 0
    assert desk.offline(call="heard.wav").code == 0
    document = desk.document()
    assert document["tokens_sha256"] == desk.document("heard.agent.json")["tokens_sha256"]
    assert (document["input"]["channels"], document["input"]["channel"]) == (2, channel)


def test_a_silent_channel_is_named(desk: Desk) -> None:
    desk.sound("call.wav", np.stack([desk.noise(0.5), np.zeros(12_000)], axis=1))
    result = desk.offline()
    (warning,) = desk.document()["warnings"]
    assert warning.startswith("silent channels (counted from 0): 1;")
    assert f"warning: {warning}\n" in result.err
