"""Files that can't be used, or not wholly: every row of the table "Audio in"."""

import errno
import os
import re
from pathlib import Path

import numpy as np
import pytest
import soundfile

from personaplex.core.audio import reading
from personaplex.core.errors import InputError


def noise(frames: int, channels: int = 1) -> np.ndarray:
    """[F] or [F, C], within ±0.5."""
    shape = frames if channels == 1 else (frames, channels)
    return np.random.default_rng(0).uniform(-0.5, 0.5, shape).astype(np.float32)


def write(path: Path, samples: np.ndarray, rate: int = 24_000, subtype: str = "FLOAT") -> Path:
    soundfile.write(path, samples, rate, subtype=subtype)
    return path


def refused(path: Path, what: str) -> None:
    """Both ways of reading refuse `path` alike, naming it and saying what to do."""
    for read in (reading.read, reading.probe):
        with pytest.raises(InputError, match=re.escape(f"{path}: {what}")) as caught:
            read(path)
        assert caught.value.mend


def test_missing(tmp_path: Path) -> None:
    refused(tmp_path / "a.wav", "cannot be read: No such file or directory")


def test_below_a_file(tmp_path: Path) -> None:
    refused(write(tmp_path / "a.wav", noise(10)) / "b.wav", "cannot be read: Not a directory")


def test_folder(tmp_path: Path) -> None:
    refused(tmp_path, "cannot be read: Is a directory")


def test_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.wav")
    refused(tmp_path / "a.wav", "is a pipe or a device")


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.wav", noise(10))

    def denied(*args: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "open", denied)  # real permissions don't bind root
    refused(path, "cannot be read: Permission denied")


def test_empty(tmp_path: Path) -> None:
    (tmp_path / "a.wav").touch()
    refused(tmp_path / "a.wav", "is empty (0 bytes)")


@pytest.mark.parametrize("name", ["a.wav", "a.txt", "a.mp3", "a.flac"])
def test_not_audio(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("once upon a time " * 100)
    refused(tmp_path / name, "is not audio that can be read")


def test_garbage_mp3_is_not_said_to_be_missing(tmp_path: Path) -> None:
    (tmp_path / "a.mp3").write_text("once upon a time " * 100)
    refused(tmp_path / "a.mp3", "is not audio that can be read: no audio found in it")


def test_raw(tmp_path: Path) -> None:
    (tmp_path / "a.raw").write_bytes(bytes(1000))
    refused(tmp_path / "a.raw", "raw audio does not say its rate and width")


def test_name_that_is_not_text(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.wav"))
    for read in (reading.read, reading.probe):
        with pytest.raises(InputError, match="not valid UTF-8"):
            read(path)


@pytest.mark.parametrize("name", ["a.wav", "a.flac", "a.aiff", "a.ogg", "a.mp3"])
def test_truncated_header(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    soundfile.write(path, noise(1000), 24_000)
    path.write_bytes(path.read_bytes()[:20])
    refused(path, "is not audio that can be read")


@pytest.mark.parametrize("name", ["a.wav", "a.aiff", "a.ogg"])
def test_header_without_samples(tmp_path: Path, name: str) -> None:
    soundfile.write(tmp_path / name, noise(0), 24_000)
    refused(tmp_path / name, "holds no audio")


def test_flac_of_unknown_length(tmp_path: Path) -> None:
    path = tmp_path / "a.flac"
    soundfile.write(path, noise(1000), 24_000)
    data = bytearray(path.read_bytes())
    data[21] &= 0xF0  # the sample count: the low 36 bits of bytes 21 to 25
    data[22:26] = bytes(4)
    path.write_bytes(data)
    refused(path, "its header does not say how long it is")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("source", [24_000, 8000])
def test_samples_that_are_not_finite(tmp_path: Path, value: float, source: int) -> None:
    sound = noise(100_000, 2)
    sound[[80_000, 90_000], 1] = value
    path = write(tmp_path / "a.wav", sound, source)
    time = 80_000 / source
    for channel, offset in (("mix", 0.0), ("right", 0.0), ("right", 1.0)):
        with pytest.raises(InputError, match=re.escape(f"a.wav: the sample at {time:.6f} s is not a finite number")):
            reading.read(path, channel=channel, offset=offset)
    assert reading.read(path, channel="left").warnings == ()


def test_infinities_that_cancel(tmp_path: Path) -> None:
    sound = noise(100, 2)
    sound[50] = np.inf, -np.inf
    with pytest.raises(InputError, match="not a finite number"):
        reading.read(write(tmp_path / "a.wav", sound))


def test_beyond_full_scale_passes_through(tmp_path: Path) -> None:
    sound = noise(100)
    sound[[3, 4]] = 1.5, -7
    sound[5] = 1
    recording = reading.read(write(tmp_path / "a.wav", sound))
    assert np.array_equal(recording.samples, sound)
    assert recording.warnings == ("samples beyond full scale (±1), used as they are: 2",)


# Files that end too early


@pytest.mark.parametrize("name", ["a.wav", "a.aiff", "a.au", "a.mp3"])
def test_cut_data_is_used_with_a_warning(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    soundfile.write(path, noise(20_000), 24_000)
    whole = reading.read(path)
    assert whole.warnings == ()
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    recording = reading.read(path)
    assert 5_000 < len(recording.samples) < 12_000
    assert recording.info.duration == len(recording.samples) / 24_000
    assert len(recording.warnings) == 1
    assert "cut short" in recording.warnings[0]


@pytest.mark.parametrize("size", [0xFFFF_FFFF, 0x7FFF_FFFF])
def test_wav_written_to_a_pipe_is_not_cut_short(tmp_path: Path, size: int) -> None:
    path = write(tmp_path / "a.wav", noise(1000), subtype="PCM_16")
    data = path.read_bytes()
    path.write_bytes(data[:40] + size.to_bytes(4, "little") + data[44:])
    recording = reading.read(path)
    assert recording.samples.shape == (1000,)
    assert recording.warnings == ()


def test_damage_met_while_decoding(tmp_path: Path) -> None:
    path = tmp_path / "a.flac"
    soundfile.write(path, noise(200_000), 24_000)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    assert reading.probe(path).frames == 200_000
    with pytest.raises(InputError, match=rf"a\.flac: cannot be decoded from {reading.BLOCK / 24_000:.2f} s on: .*flac"):
        reading.read(path)
    assert reading.read(path, duration=2.0).samples.shape == (48_000,)
