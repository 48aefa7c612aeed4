"""Stored voices: read whole, checked, and never run."""

import hashlib
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from personaplex.core.errors import VoiceError
from personaplex.voices.files import read_metadata, read_voice

VOICE = Path(__file__).parents[1] / "data" / "voice_short.pt"
DIM = 64


def stored() -> dict[str, Any]:
    voice = torch.load(VOICE, weights_only=True)
    assert isinstance(voice, dict)
    return voice


def test_a_pt_voice_is_read_as_it_was_saved() -> None:
    voice = read_voice(VOICE, DIM)
    saved = stored()
    assert voice.embeddings.shape == (12, DIM)
    assert torch.equal(voice.embeddings, saved["embeddings"].reshape(12, DIM))
    assert voice.columns.shape == (17, 4)
    assert voice.columns.dtype == torch.int64
    assert torch.equal(voice.columns, saved["cache"][0])
    assert voice.columns[9:, 0].tolist() == [430, 1268, 381, 1611, 1095, 1495, 56, 472], "the user's streams are a sine"
    assert voice.sha256 == hashlib.sha256(VOICE.read_bytes()).hexdigest()


def test_a_safetensors_voice_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "voice.safetensors"
    save_file(stored(), path)
    voice, other = read_voice(path, DIM), read_voice(VOICE, DIM)
    assert torch.equal(voice.embeddings, other.embeddings)
    assert torch.equal(voice.columns, other.columns)
    assert voice.sha256 != other.sha256


def test_the_type_of_embeddings_is_kept_and_open_columns_are_let_be(tmp_path: Path) -> None:
    path = tmp_path / "voice.pt"
    saved = stored()
    cache = saved["cache"].int()
    cache[0, 2:9, 1] = -2
    torch.save({"embeddings": torch.nn.Parameter(saved["embeddings"].bfloat16()), "cache": cache}, path)
    voice = read_voice(path, DIM)
    assert voice.embeddings.dtype == torch.bfloat16
    assert not voice.embeddings.requires_grad
    assert voice.columns.dtype == torch.int64
    assert voice.columns[2, 1] == -2


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"embeddings": torch.zeros(12, 1, 1, 4096)}, "made for a model of dim 4096; this one has 64"),
        ({"embeddings": torch.zeros(12, DIM)}, r"embeddings are \[12, 64\]"),
        ({"embeddings": torch.zeros(12, 2, 1, DIM)}, r"embeddings are \[12, 2, 1, 64\]"),
        ({"embeddings": torch.zeros(0, 1, 1, DIM)}, r"embeddings are \[0, 1, 1, 64\]"),
        ({"embeddings": torch.zeros(12, 1, 1, DIM, dtype=torch.int32)}, "torch.int32"),
        ({"embeddings": torch.full((12, 1, 1, DIM), torch.nan)}, "NaN"),
        ({"embeddings": torch.full((12, 1, 1, DIM), -torch.inf)}, "infinite"),
        ({"embeddings": None}, "no tensor 'embeddings'"),
        ({"cache": None}, "no tensor 'cache'"),
        ({"cache": torch.zeros(17, 4, dtype=torch.int64)}, r"cache is \[17, 4\]"),
        ({"cache": torch.zeros(1, 17, 5, dtype=torch.int64)}, r"cache is \[1, 17, 5\]"),
        ({"cache": torch.zeros(1, 17, 4)}, "cache is torch.float32"),
    ],
)
def test_a_voice_that_does_not_fit_is_told(tmp_path: Path, suffix: str, change: dict[str, Any], why: str) -> None:
    path = tmp_path / f"voice{suffix}"
    content = {key: value for key, value in {**stored(), **change}.items() if value is not None}
    save_file(content, path) if suffix == ".safetensors" else torch.save(content, path)
    with pytest.raises(VoiceError, match=why) as caught:
        read_voice(path, DIM)
    assert caught.value.what.startswith(str(path))
    assert caught.value.mend


class Payload:
    """What a hostile pickle does when it is loaded: make a file."""

    def __init__(self, made: Path) -> None:
        self.made = made

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.made,)


@pytest.mark.parametrize("form", ["pickle", "torch", "torch, old form"])
def test_a_voice_that_would_run_code_is_refused_and_not_run(tmp_path: Path, form: str) -> None:
    path, made = tmp_path / "voice.pt", tmp_path / "made"
    content = {**stored(), "extra": Payload(made)}
    if form == "pickle":
        path.write_bytes(pickle.dumps(content))
        pickle.loads(path.read_bytes())  # noqa: S301 - the payload does work
        made.unlink()
    else:
        torch.save(content, path, _use_new_zipfile_serialization=form == "torch")
    with pytest.raises(VoiceError, match="could run code"):
        read_voice(path, DIM)
    assert not made.exists()


@pytest.mark.parametrize("content", [[torch.zeros(2)], "text", {"embeddings": 1, "cache": 2}, torch.zeros(2)])
def test_a_pt_of_another_kind_is_refused(tmp_path: Path, content: Any) -> None:
    torch.save(content, tmp_path / "voice.pt")
    with pytest.raises(VoiceError, match="no tensor 'embeddings'"):
        read_voice(tmp_path / "voice.pt", DIM)


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
@settings(deadline=None)
@given(data=st.binary(max_size=64) | st.integers(0, len(VOICE.read_bytes()) - 1).map(lambda n: VOICE.read_bytes()[:n]))
def test_any_other_file_is_refused(tmp_path_factory: pytest.TempPathFactory, suffix: str, data: bytes) -> None:
    path = tmp_path_factory.mktemp("any") / f"voice{suffix}"
    path.write_bytes(data)
    with pytest.raises(VoiceError, match="not a"):
        read_voice(path, DIM)


def test_another_zip_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "voice.pt", "w") as file:
        file.writestr("a.txt", "text")
    with pytest.raises(VoiceError, match="not a voice"):
        read_voice(tmp_path / "voice.pt", DIM)


@pytest.mark.parametrize("name", ["none.pt", "none.safetensors", "folder.pt", "folder.safetensors"])
def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, name: str) -> None:
    if name.startswith("folder"):
        (tmp_path / name).mkdir()
    with pytest.raises(VoiceError, match=f"{name}: (No such file|Is a directory)"):
        read_voice(tmp_path / name, DIM)


def test_a_voice_of_any_width_is_read_when_none_is_asked_for() -> None:
    assert read_voice(VOICE).embeddings.shape == (12, DIM)


def test_metadata(tmp_path: Path) -> None:
    path = tmp_path / "voice.safetensors"
    save_file(stored(), path)
    assert read_metadata(path) == {}
    save_file(stored(), path, {"schema": "personaplex.voice/1"})
    assert read_metadata(path) == {"schema": "personaplex.voice/1"}
    assert read_metadata(VOICE) == {}
    path.write_bytes(b"nothing")
    with pytest.raises(VoiceError, match="not a safetensors file"):
        read_metadata(path)
