"""Voices made from recordings: what the reference saved, and the answers that the recording gives."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from personaplex.core.audio.reading import read
from personaplex.core.config import PERSONAPLEX_7B
from personaplex.core.engine.session import EmbeddedVoice, RecordedVoice, Voice, prefill
from personaplex.core.engine.slots import Engine
from personaplex.core.errors import InputError, VoiceError
from personaplex.core.nn.products import pack
from personaplex.core.sampling.draw import Sampling
from personaplex.core.weights import model as models
from personaplex.voices.files import read_metadata, read_voice
from personaplex.voices.loading import encode, load_voice, read_recording
from personaplex.voices.making import SCHEMA, _columns, convert_voice, make_voice, write_voice

if TYPE_CHECKING:
    from pathlib import Path

    from personaplex.core.weights.model import Model
    from tests.conftest import BuildModel, ParityCase

CPU = torch.device("cpu")


def load(build_model: BuildModel, case: str, dtype: torch.dtype = torch.float32) -> Model:
    model = models.load(models.locate(str(build_model(case))), CPU, dtype)
    pack(model.lm)
    return model


@pytest.mark.parametrize("name", ["short", "long", "no_text", "wide"])
def test_it_is_what_the_reference_saved(
    build_model: BuildModel, parity_cases: dict[str, ParityCase], name: str
) -> None:
    case = parity_cases[name]
    made = make_voice(read_recording(case.path / "voice.wav"), load(build_model, name))
    saved = torch.load(case.path / "voice.pt", weights_only=True)
    assert torch.equal(made.cache, saved["cache"])
    assert made.cache.dtype == saved["cache"].dtype
    assert made.embeddings.shape == saved["embeddings"].shape
    assert (made.embeddings - saved["embeddings"]).abs().max() <= 1e-6
    assert made.frames == len(saved["embeddings"]) + 1


def answer(model: Model, voice: Voice, case: ParityCase, sampling: Sampling) -> torch.Tensor:
    """The case's call, tokens [F, 9]."""
    tokens = model.tokenizer.prompt_ids(case.facts["text_prompt"])
    persona = prefill(model.lm, model.config, voice, tokens)
    users = load_file(case.path / "expected.safetensors")["user_codes"].long()
    engine = Engine(model.lm, 1, persona.steps + len(users), sampling)
    engine.admit(0, persona, 7, len(users))
    return torch.stack([engine.step(codes[None])[0] for codes in users])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_it_gives_the_recordings_answer(
    build_model: BuildModel, parity_cases: dict[str, ParityCase], tmp_path: Path, dtype: torch.dtype
) -> None:
    case, model = parity_cases["short"], load(build_model, "short", dtype)
    recording = read_recording(case.path / "voice.wav")
    path = tmp_path / "voice.safetensors"
    write_voice(make_voice(recording, model), path)
    made = load_voice(path, model).voice
    assert isinstance(made, EmbeddedVoice)
    assert made.embeddings.dtype == dtype
    for sampling in (Sampling(greedy=True), Sampling()):
        given = answer(model, made, case, sampling)
        assert torch.equal(given, answer(model, encode(recording, model), case, sampling))
    if dtype == torch.float32:
        expected = load_file(case.path / "expected.safetensors")["tokens"][:, :9]
        assert torch.equal(answer(model, made, case, Sampling(greedy=True)), expected.long())


def test_metadata_tells_where_it_is_from(
    build_model: BuildModel, parity_cases: dict[str, ParityCase], tmp_path: Path
) -> None:
    model, source = load(build_model, "short"), parity_cases["short"].path / "voice.wav"
    path = tmp_path / "voice.safetensors"
    write_voice(make_voice(read_recording(source), model), path)
    assert read_metadata(path) == {
        "schema": SCHEMA,
        "model": model.name,
        "weights_sha256": model.weights_sha256,
        "dim": "64",
        "frames": "13",
        "source_sha256": hashlib.sha256(source.read_bytes()).hexdigest(),
    }


def test_a_pt_is_converted_as_it_is(parity_cases: dict[str, ParityCase], tmp_path: Path) -> None:
    source, path = parity_cases["wide"].path / "voice.pt", tmp_path / "voice.safetensors"
    write_voice(convert_voice(source, 96), path)
    old, new = read_voice(source, 96), read_voice(path, 96)
    assert torch.equal(old.embeddings, new.embeddings)
    assert torch.equal(old.columns, new.columns)
    assert read_metadata(path) == {"schema": SCHEMA, "dim": "96", "frames": "15", "source_sha256": old.sha256}
    with pytest.raises(VoiceError, match="made for a model of dim 96; this one has 128"):
        convert_voice(source, 128)


def test_equal_voices_are_equal_files(parity_cases: dict[str, ParityCase], tmp_path: Path) -> None:
    made = convert_voice(parity_cases["short"].path / "voice.pt")
    for number in range(4):
        write_voice(made, tmp_path / f"{number}.safetensors")
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1


def test_nothing_is_left_where_it_can_not_be_written(parity_cases: dict[str, ParityCase], tmp_path: Path) -> None:
    made = convert_voice(parity_cases["short"].path / "voice.pt")
    with pytest.raises(InputError, match="cannot write: No such file or directory"):
        write_voice(made, tmp_path / "nix" / "voice.safetensors")
    (tmp_path / "voice.safetensors").mkdir()
    with pytest.raises(InputError, match="it is a folder"):
        write_voice(made, tmp_path / "voice.safetensors")
    assert [path.name for path in tmp_path.iterdir()] == ["voice.safetensors"]


def test_a_recording_without_loudness_is_refused(build_model: BuildModel, parity_cases: dict[str, ParityCase]) -> None:
    recording = read(parity_cases["short"].path / "voice.wav", duration=0.39)
    with pytest.raises(VoiceError, match=r"lasts only 0\.390 s"):
        make_voice(recording, load(build_model, "short"))


class Recorder:
    """In the language model's place: an embedding is the column itself, and `prefill` is written down."""

    device, dtype = CPU, torch.float64

    def embed(self, columns: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.pad(columns.double(), (0, PERSONAPLEX_7B.lm.dim - columns.shape[-1]))

    def prefill(self, *seen: torch.Tensor) -> list[torch.Tensor]:
        self.seen = seen
        return []


@given(frames=st.integers(5, 12), seed=st.integers(0, 2**32 - 1), text=st.lists(st.integers(0, 31_999), max_size=3))
def test_any_voice_makes_the_model_read_the_same(frames: int, seed: int, text: list[int]) -> None:
    codes = torch.randint(0, 2048, (frames, 8), generator=torch.Generator().manual_seed(seed))
    columns, cache = _columns(codes, PERSONAPLEX_7B)
    lm = Recorder()
    seen = []
    for voice in (RecordedVoice(codes), EmbeddedVoice(lm.embed(columns), cache)):
        prefill(lm, PERSONAPLEX_7B, voice, text)  # type: ignore[arg-type]
        seen.append(lm.seen)
    assert all(torch.equal(recorded, embedded) for recorded, embedded in zip(*seen, strict=True))


def test_fewer_frames_than_a_loudness_needs_are_refused() -> None:
    with pytest.raises(ValueError, match="4 frames"):
        _columns(torch.zeros(4, 8, dtype=torch.int64), PERSONAPLEX_7B)
