"""One call with the default options: which files come of it and what they say."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile
from safetensors.numpy import load_file

if TYPE_CHECKING:
    from tests.cli.conftest import Desk

FIELDS = {
    "": [
        *("schema", "id", "text", "language", "segments", "frame_rate", "text_tokens", "tokens_sha256", "input"),
        *("output", "files", "activity", "flags", "prompt", "sampling", "model", "engine", "warnings", "volatile"),
    ],
    "input": ["path", "sha256", "sample_rate", "channels", "channel", "duration"],
    "output": ["path", "subtype", "pcm_sha256", "sample_rate", "peak", "rms_dbfs", "clipped", "align"],
    "prompt": ["voice", "voice_sha256", "text", "tokens", "steps"],
    "sampling": [
        *("seed", "temp_text", "top_k_text", "temp_audio", "top_k_audio", "greedy"),
        *("top_p_text", "repetition_penalty", "no_repeat_ngram", "noise"),
    ],
    "model": ["name", "revision", "weights_sha256", "tokenizer_sha256"],
    "engine": [
        *("device", "device_kind", "dtype", "quantize", "products", "rounding"),
        *("threads", "slots", "pace", "gpu", "versions"),
    ],
    "volatile": ["started", "seconds", "times_real_time", "phases"],
}
SHA256 = re.compile("[0-9a-f]{64}")


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def answered(desk: Desk) -> Desk:
    """A desk on which one call of 0.5 s was run."""
    assert desk.offline("--save-tokens").code == 0
    return desk


def test_files_and_messages(desk: Desk) -> None:
    result = desk.offline()
    assert result.code == 0
    assert result.out.splitlines() == ["call.agent.wav", "call.agent.json"]
    assert result.err == "warning: tiny is made of random weights: it answers with noise, to try pipelines out\n"
    assert desk.names() == {"call.wav", "voice.wav", "call.agent.wav", "call.agent.json"}
    info = soundfile.info("call.agent.wav")
    assert (info.frames, info.samplerate, info.channels, info.subtype) == (12_000, 24_000, 1, "PCM_16")


def test_files_go_to_the_current_folder_not_the_inputs(desk: Desk) -> None:
    (desk.folder / "elsewhere").mkdir()
    (desk.folder / "call.wav").rename(desk.folder / "elsewhere" / "call.one.wav")
    assert desk.offline(call="elsewhere/call.one.wav").out.split() == ["call.one.agent.wav", "call.one.agent.json"]
    assert desk.document("call.one.agent.json")["id"] == "call.one"


def test_the_transcript_goes_beside_the_wav(desk: Desk) -> None:
    (desk.folder / "out").mkdir()
    assert desk.offline("--output-wav", "out/a.b.wav").out.split() == ["out/a.b.wav", "out/a.b.json"]
    assert desk.document("out/a.b.json")["output"]["path"] == "a.b.wav"
    assert desk.offline("--output-wav", "x.wav", "--output-text", "out/y.txt").out.split() == ["x.wav", "out/y.txt"]


def test_a_transcript_has_the_fields_of_the_schema(answered: Desk) -> None:
    document = answered.document()
    assert list(document) == FIELDS[""]
    for name, fields in FIELDS.items():
        if name:
            assert sorted(document[name]) == sorted(fields), name
    for segment in document["segments"]:
        assert list(segment) == ["id", "speaker", "start", "end", "text", "words"]
        for word in segment["words"]:
            assert list(word) == ["word", "start", "end", "frame"]


def test_what_a_transcript_says_of_the_run(answered: Desk) -> None:
    document = answered.document()
    assert (document["schema"], document["id"], document["language"]) == ("personaplex.transcript/1", "call", "en")
    assert document["frame_rate"] == 12.5
    assert document["warnings"] == []
    prompt, model, engine = document["prompt"], document["model"], document["engine"]
    assert prompt["voice"] == "voice"
    assert prompt["text"].startswith("You are a wise and friendly teacher.")
    assert prompt["steps"] == 8 + 12 + prompt["tokens"]  # 0.6 s of voice, twice 6 frames of silence, the text
    assert (model["name"], engine["device"], engine["dtype"]) == ("tiny", "cpu", "float32")
    assert SHA256.fullmatch(model["weights_sha256"])
    assert {"python", "personaplex", "torch", "numpy"} <= set(engine["versions"])
    sampling = {key: value for key, value in document["sampling"].items() if key != "noise"}
    assert sampling == {
        "seed": 42_424_242,
        "temp_text": 0.7,
        "top_k_text": 25,
        "temp_audio": 0.8,
        "top_k_audio": 250,
        "greedy": False,
        "top_p_text": 1.0,
        "repetition_penalty": 1.0,
        "no_repeat_ngram": 0,
    }
    volatile = document["volatile"]
    assert volatile["seconds"] > 0
    assert volatile["times_real_time"] == pytest.approx(0.5 / volatile["seconds"], abs=0.01)
    assert sum(volatile["phases"].values()) <= volatile["seconds"] + 0.01
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", volatile["started"])


def test_words_lie_in_frames_in_order(answered: Desk) -> None:
    document = answered.document()
    words = [word for segment in document["segments"] for word in segment["words"]]
    assert words
    assert document["text"] == " ".join(word["word"] for word in words)
    assert document["text"] == " ".join(segment["text"] for segment in document["segments"])
    assert [segment["id"] for segment in document["segments"]] == list(range(len(document["segments"])))
    last = 0.0
    for word in words:
        assert word["start"] == pytest.approx(0.08 * word["frame"])
        assert last <= word["start"] < word["end"] <= 0.08 * len(document["text_tokens"]) + 1e-9
        last = word["end"]
    for segment in document["segments"]:
        inside = segment["words"]
        assert (segment["speaker"], segment["start"], segment["end"]) == (
            "agent",
            inside[0]["start"],
            inside[-1]["end"],
        )


def test_hashes(answered: Desk) -> None:
    document = answered.document()
    assert document["input"]["sha256"] == sha256((answered.folder / "call.wav").read_bytes())
    assert document["prompt"]["voice_sha256"] == sha256((answered.folder / "voice.wav").read_bytes())
    decoded, _ = soundfile.read("call.agent.wav", dtype="int16")
    assert document["output"]["pcm_sha256"] == sha256(decoded.astype("<i2").tobytes())
    tokens = load_file("call.agent.tokens.safetensors")["tokens"]
    assert document["tokens_sha256"] == sha256(tokens.astype("<i4").tobytes())
    assert document["text_tokens"] == tokens[:, 0].tolist()


def test_levels_are_those_of_the_wav(answered: Desk) -> None:
    output, samples = answered.document()["output"], answered.samples()
    assert output["peak"] == pytest.approx(np.abs(samples).max(), abs=2**-15)
    assert output["rms_dbfs"] == pytest.approx(10 * np.log10(np.square(samples).mean()), abs=0.02)
    assert output["clipped"] == 0


@pytest.mark.parametrize("frames", [1, 3999, 4000, 5000])
def test_an_answer_is_as_long_as_the_call(desk: Desk, frames: int) -> None:
    rate = 8000
    desk.sound("call.wav", 0.1 * np.sin(np.arange(frames)), rate)
    assert desk.offline().code == 0
    assert len(desk.samples()) == frames * 3
    document: dict[str, Any] = desk.document()
    assert len(document["text_tokens"]) == -(-frames * 3 // 1920)
    source = document["input"]
    assert (source["sample_rate"], source["channels"], source["channel"]) == (rate, 1, "mix")
    assert source["duration"] == frames / rate
