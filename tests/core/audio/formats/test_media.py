"""Recordings that libsndfile can't read, through PyAV."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from personaplex.core.audio import reading
from personaplex.core.audio.formats.suffixes import MEDIA_SUFFIXES, SOUNDFILE_SUFFIXES
from personaplex.core.errors import InputError
from tests.core.audio.sounds import RATE, encoded, media, noise, tone

pytest.importorskip("av")

FORMATS = {  # container, codec, rate; the most that its encoder may leave around the sound, in samples
    "a.m4a": ("ipod", "aac", RATE, 0),
    "a.mp4": ("mp4", "aac", RATE, 0),
    "a.mov": ("mov", "pcm_s16le", RATE, 0),
    "a.wav": ("wav", "g722", 16_000, 0),
    "a.g722": ("g722", "g722", 16_000, 0),
    "a.oga": ("ogg", "flac", RATE, 0),
    "a.webm": ("webm", "libopus", 48_000, 480),
    "a.aac": ("adts", "aac", RATE, 3 * 1024),
    "a.wma": ("asf", "wmav2", RATE, 2 * 2048),
    "a.amr": ("amr", "libopencore_amrnb", 8000, 2 * 160),
}


def write(folder: Path, name: str, seconds: float = 3.0) -> Path:
    container, codec, rate, _ = FORMATS[name]
    path = folder / name
    path.write_bytes(media(tone(round(seconds * rate), rate), container, codec, rate))
    return path


@pytest.mark.parametrize("name", FORMATS)
def test_formats(tmp_path: Path, name: str) -> None:
    rate, slack = FORMATS[name][2:]
    path = write(tmp_path, name)
    recording = reading.read(path, rate=rate)
    assert recording.warnings == ()
    assert recording.info.sample_rate == rate
    assert abs(len(recording.samples) - 3 * rate) <= slack
    assert reading.probe(path).frames == len(recording.samples)
    middle = recording.samples[rate : 2 * rate]
    assert np.sqrt(np.mean(middle**2)) == pytest.approx(0.5 / np.sqrt(2), rel=0.2)
    if not slack:  # as long as the original, and in step with it
        correlation = np.corrcoef(middle, tone(3 * rate, rate)[rate : 2 * rate])[0, 1]
        assert correlation > 0.95 or "g722" in FORMATS[name]  # whose filters delay by 22 samples
    assert reading.read(path).samples.tobytes() == reading.read(path).samples.tobytes()


@pytest.mark.parametrize("name", ["a.m4a", "a.aac", "a.webm"])
def test_a_part_is_the_same_samples(tmp_path: Path, name: str) -> None:
    path, rate = write(tmp_path, name), FORMATS[name][2]
    whole = reading.read(path, rate=rate).samples
    part = reading.read(path, rate=rate, offset=1.25, duration=0.5).samples
    assert np.array_equal(part, whole[round(1.25 * rate) : round(1.75 * rate)])


def test_a_length_is_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, "a.aac")
    known = reading.probe(path)
    with monkeypatch.context() as patch:
        patch.setattr("personaplex.core.audio.formats.media._count", None)
        assert reading.probe(path) == known
    write(tmp_path, "a.aac", seconds=2)
    assert reading.probe(path).frames < known.frames


@pytest.mark.parametrize("width", ["PCM_16", "PCM_24"])
def test_a_flac_of_unknown_length(tmp_path: Path, width: str) -> None:
    path = tmp_path / "a.flac"
    sound = noise(100_000)
    data = bytearray(encoded(sound, "FLAC", width))
    path.write_bytes(data)
    known = reading.read(path).samples
    data[21] &= 0xF0  # the sample count: the low 36 bits of bytes 21 to 25
    data[22:26] = bytes(4)
    path.write_bytes(data)
    recording = reading.read(path)
    assert np.array_equal(recording.samples, known)
    assert recording.warnings == ()


def test_damage_is_left_out_and_told(tmp_path: Path) -> None:
    path = write(tmp_path, "a.m4a")
    data = bytearray(path.read_bytes())
    for place in range(3000, 9000, 1000):
        data[place : place + 40] = bytes(range(255, 215, -1))
    path.write_bytes(data)
    recording = reading.read(path)
    assert any("can't be decoded are left out" in warning for warning in recording.warnings)
    assert recording.info.duration > 2
    assert reading.probe(path).frames == round(recording.info.duration * RATE)


@pytest.mark.parametrize("name", ["a.m4a", "a.webm", "a.g722", "a.amr", "a.wma"])
def test_without_pyav_the_extra_is_named(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, name)
    monkeypatch.setitem(sys.modules, "av", None)
    for look in (reading.read, reading.probe):
        with pytest.raises(
            InputError, match=rf"{name}: only PyAV can read its format .*PyAV is not installed"
        ) as caught:
            look(path)
        assert "personaplex[media]" in caught.value.mend


def test_another_kind_of_sound_in_a_wav_without_pyav(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, "a.wav")
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(InputError, match=r"a\.wav: is not audio that can be read without PyAV: .*Malformed") as caught:
        reading.read(path)
    assert "personaplex[media]" in caught.value.mend


def test_damage_leaves_the_standard_error_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name in ("a.m4a", "a.aac", "a.wma", "a.webm"):
        path = write(tmp_path, name)
        data = bytearray(path.read_bytes())
        data[len(data) // 2 : len(data) // 2 + 300] = np.random.default_rng(0).bytes(300)
        path.write_bytes(data)
        reading.read(path)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["a.webm", "a.aac", "a.wma", "a.amr"])
def test_half_a_file(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, name)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert 1 < reading.read(path).info.duration < 2


def test_tags_that_are_not_utf8(tmp_path: Path) -> None:
    path = write(tmp_path, "a.m4a")
    data = path.read_bytes()
    assert b"Lavf" in data
    path.write_bytes(data.replace(b"Lavf", b"\xe9\xe8\xff\x85"))
    assert reading.read(path).info.duration == 3.0


def test_an_m4a_without_its_index(tmp_path: Path) -> None:
    path = write(tmp_path, "a.m4a")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(InputError, match=r"a\.m4a: is not audio that can be read"):
        reading.read(path)


def test_a_film_without_sound(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    path.write_bytes(b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom" + b"\0\0\0\x08free")
    with pytest.raises(InputError, match=r"a\.mp4: is not audio that can be read"):
        reading.read(path)


def test_no_suffix_is_in_both_lists() -> None:
    assert not SOUNDFILE_SUFFIXES & MEDIA_SUFFIXES
    assert all(suffix == suffix.lower() and suffix.startswith(".") for suffix in SOUNDFILE_SUFFIXES | MEDIA_SUFFIXES)


def test_an_ogg_that_only_ffmpeg_still_reads_says_what_it_lacks(tmp_path: Path) -> None:
    path = tmp_path / "a.opus"
    data = bytearray(encoded(tone(3 * RATE), "OGG", "OPUS"))
    pages = [match.start() for match in re.finditer(b"OggS", data)]
    data[pages[2] + 200] ^= 0xFF  # of the first page with sound
    path.write_bytes(data)
    assert any("cut short" in warning for warning in reading.read(path).warnings)
