import hashlib
import math
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from personaplex.core.audio.writing import QUIETEST, SUBTYPES, write_wav
from personaplex.core.errors import InputError, UsageError


def noise(*shape: int, level: float = 0.5) -> np.ndarray:
    return np.random.default_rng(0).uniform(-level, level, shape).astype(np.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("wav")


TOLERANCE = {"PCM_U8": 1e-2, "PCM_16": 1e-4, "ULAW": 2e-2, "ALAW": 2e-2, "FLOAT": 0, "DOUBLE": 0}


@pytest.mark.parametrize("subtype", SUBTYPES)
@pytest.mark.parametrize("shape", [(1000,), (1000, 2)])
def test_what_is_written_can_be_read(tmp_path: Path, subtype: str, shape: tuple[int, ...]) -> None:
    path, sound = tmp_path / "a.wav", noise(*shape)
    info = write_wav(path, sound, subtype=subtype)
    read, rate = soundfile.read(path, dtype="float32")
    assert rate == info.sample_rate == 24_000
    assert soundfile.info(path).subtype == subtype
    assert read.shape == shape
    assert np.abs(read - sound).max() <= TOLERANCE.get(subtype, 1e-6)


@pytest.mark.parametrize("subtype", SUBTYPES)
def test_the_same_bytes_on_every_run(tmp_path: Path, subtype: str) -> None:
    first = write_wav(tmp_path / "a.wav", noise(1000, 2), subtype=subtype)
    second = write_wav(tmp_path / "b.wav", noise(1000, 2), subtype=subtype)
    assert first == second
    assert (tmp_path / "a.wav").read_bytes() == (tmp_path / "b.wav").read_bytes()


@pytest.mark.parametrize("subtype", ["FLOAT", "DOUBLE"])
def test_the_time_of_day_is_not_written(tmp_path: Path, subtype: str) -> None:
    write_wav(tmp_path / "a.wav", noise(1000), subtype=subtype)
    data = (tmp_path / "a.wav").read_bytes()
    assert data[data.index(b"PEAK") + 12 :][:4] == bytes(4)


def test_sound_that_spells_peak_is_kept(tmp_path: Path) -> None:
    sound = np.frombuffer(b"PEAK" * 8, "<i2").astype(np.float32) / 32_767
    write_wav(tmp_path / "a.wav", sound)
    assert (tmp_path / "a.wav").read_bytes().endswith(b"PEAK" * 8)


def test_the_hash_is_of_the_samples(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    info = write_wav(path, noise(1000))
    assert info.pcm_sha256 == hashlib.sha256(path.read_bytes()[44:]).hexdigest()
    info = write_wav(path, noise(1000), subtype="FLOAT")
    assert info.pcm_sha256 == hashlib.sha256(noise(1000).tobytes()).hexdigest()
    assert info.pcm_sha256 != write_wav(path, noise(1000, level=0.4), subtype="FLOAT").pcm_sha256


@pytest.mark.parametrize("subtype", SUBTYPES)
def test_clipping(tmp_path: Path, subtype: str) -> None:
    sound = np.float32([0, 0.5, 1, -1, 1.25, -3])
    info = write_wav(tmp_path / "a.wav", sound, subtype=subtype)
    assert info.clipped == 2
    assert info.peak == 3
    read, _ = soundfile.read(tmp_path / "a.wav", dtype="float32")
    expected = sound if subtype in ("FLOAT", "DOUBLE") else sound.clip(-1, 1)
    assert np.abs(read - expected).max() <= TOLERANCE.get(subtype, 1e-6)


def test_levels(tmp_path: Path) -> None:
    sine = np.sin(2 * np.pi * 100 * np.arange(24_000) / 24_000).astype(np.float32) / 3
    info = write_wav(tmp_path / "a.wav", sine)
    assert info.peak == 0.333333
    assert info.rms_dbfs == round(20 * math.log10(1 / 3 / math.sqrt(2)), 2)
    assert info.clipped == 0


@pytest.mark.parametrize("sound", [np.zeros(100, np.float32), np.full(100, 1e-30, np.float32), noise(0)])
def test_silence_has_a_finite_level(tmp_path: Path, sound: np.ndarray) -> None:
    info = write_wav(tmp_path / "a.wav", sound)
    assert (info.peak, info.rms_dbfs) == (0.0, QUIETEST)


@given(frames=st.integers(1, 3000), rate=st.integers(1000, 200_000), channels=st.integers(1, 2))
@settings(max_examples=50, deadline=None)
def test_length_law(folder: Path, frames: int, rate: int, channels: int) -> None:
    info = write_wav(folder / "a.wav", noise(frames, channels), rate=rate)
    header = soundfile.info(folder / "a.wav")
    assert header.samplerate == info.sample_rate == rate
    assert (header.frames, header.channels) == (round(frames * rate / 24_000), channels)


def test_channels_are_resampled_apart(tmp_path: Path) -> None:
    sound = noise(2000, 2)
    write_wav(tmp_path / "both.wav", sound, rate=8000)
    both, _ = soundfile.read(tmp_path / "both.wav")
    for index in range(2):
        write_wav(tmp_path / "one.wav", sound[:, index], rate=8000)
        one, _ = soundfile.read(tmp_path / "one.wav")
        assert np.array_equal(both[:, index], one)


@pytest.mark.parametrize("subtype", ["VORBIS", "GSM610", "pcm_16", ""])
def test_unknown_subtype(tmp_path: Path, subtype: str) -> None:
    with pytest.raises(UsageError) as caught:
        write_wav(tmp_path / "a.wav", noise(10), subtype=subtype)
    assert "PCM_16, PCM_24, PCM_32, PCM_U8, FLOAT, DOUBLE, ULAW, ALAW" in caught.value.mend
    assert not list(tmp_path.iterdir())


def test_impossible_rate(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at 0 samples a second"):
        write_wav(tmp_path / "a.wav", noise(10), rate=0)


@contextmanager
def small_files() -> Iterator[None]:
    """No file may pass 4,000 bytes: the disk fails in the middle of a write."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    write_wav(path, noise(100))
    before = path.read_bytes()
    # Not while pytest reports: its own output may be a file that is larger already.
    with small_files(), pytest.raises(InputError, match=r"a\.wav: cannot write: File too large"):
        write_wav(path, noise(100_000))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot write: No such file"):
        write_wav(tmp_path / "b" / "a.wav", noise(10))
