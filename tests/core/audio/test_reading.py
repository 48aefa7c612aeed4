import hashlib
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import soundfile
import soxr
from hypothesis import given, settings
from hypothesis import strategies as st

from personaplex.core.audio import reading
from personaplex.core.config import FRAME_SAMPLES
from personaplex.core.errors import InputError, UsageError


def noise(frames: int, channels: int = 1) -> np.ndarray:
    """[F] or [F, C], within ±0.5."""
    shape = frames if channels == 1 else (frames, channels)
    return np.random.default_rng(0).uniform(-0.5, 0.5, shape).astype(np.float32)


def tone(frames: int, rate: int) -> np.ndarray:
    return (0.5 * np.sin(2 * np.pi * 440 * np.arange(frames) / rate)).astype(np.float32)


def write(path: Path, samples: np.ndarray, rate: int = 24_000, subtype: str = "FLOAT", **options: str) -> Path:
    soundfile.write(path, samples, rate, subtype=subtype, **options)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audio")


# Formats


@pytest.mark.parametrize(
    ("name", "subtype", "tolerance"),
    [
        ("a.wav", "PCM_U8", 1e-2),
        ("a.wav", "PCM_16", 1e-4),
        ("a.wav", "PCM_24", 1e-6),
        ("a.wav", "PCM_32", 1e-6),
        ("a.wav", "FLOAT", 0),
        ("a.wav", "DOUBLE", 0),
        ("a.wav", "ULAW", 2e-2),
        ("a.wav", "ALAW", 2e-2),
        ("a.flac", "PCM_16", 1e-4),
        ("a.aiff", "PCM_16", 1e-4),
        ("a.ogg", "VORBIS", 4e-2),
        ("a.mp3", "MPEG_LAYER_III", 4e-2),  # a shift by one sample would be 5.8e-2
    ],
)
def test_formats_hold_the_same_sound(tmp_path: Path, name: str, subtype: str, tolerance: float) -> None:
    sound = tone(12_000, 24_000)
    path = write(tmp_path / name, sound, subtype=subtype)
    recording = reading.read(path)
    assert recording.samples.dtype == np.float32
    assert recording.samples.shape == (12_000,)
    assert np.abs(recording.samples - sound)[2000:-2000].max() <= tolerance
    assert recording.warnings == ()
    assert reading.probe(path) == reading.Header(sample_rate=24_000, channels=1, frames=12_000)


@pytest.mark.parametrize(("file_format", "subtype"), [("NIST", "PCM_16"), ("NIST", "ULAW"), ("OGG", "OPUS")])
def test_formats_without_a_suffix_of_their_own(tmp_path: Path, file_format: str, subtype: str) -> None:
    sound = tone(24_000, 24_000)
    path = write(tmp_path / "a.sound", sound, subtype=subtype, format=file_format)
    # Opus takes a third of a second to settle.
    assert np.abs(reading.read(path).samples - sound)[12_000:-2000].max() < 4e-2


@pytest.mark.parametrize("name", ["a.wav", "a.flac", "a.ogg", "a.mp3"])
def test_two_reads_agree_bit_for_bit(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    soundfile.write(path, noise(100_000, 2), 44_100)
    assert reading.read(path).samples.tobytes() == reading.read(path).samples.tobytes()


def test_info_describes_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.wav", noise(8001, 2), 8000)
    info = reading.read(path, channel="right").info
    assert info == reading.AudioInfo(
        path=path,
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        sample_rate=8000,
        channels=2,
        channel="right",
        duration=8001 / 8000,
    )


def test_frames_round_up() -> None:
    assert [reading.frame_count(n) for n in (0, 1, FRAME_SAMPLES, FRAME_SAMPLES + 1)] == [0, 1, 1, 2]


# Resampling


@given(frames=st.integers(1, 2000), source=st.integers(1000, 200_000), rate=st.sampled_from([8000, 24_000, 44_100]))
@settings(max_examples=60, deadline=None)
def test_length_law(folder: Path, frames: int, source: int, rate: int) -> None:
    path = write(folder / "length.wav", noise(frames), source)
    expected = round(frames * rate / source)
    if expected:
        assert reading.read(path, rate=rate).samples.shape == (expected,)
    else:
        with pytest.raises(InputError, match="holds no audio"):
            reading.read(path, rate=rate)


@given(block=st.integers(1, 5000), channels=st.integers(1, 12), source=st.sampled_from([8000, 24_000, 44_100]))
@settings(max_examples=30, deadline=None)
def test_block_size_changes_nothing(folder: Path, block: int, channels: int, source: int) -> None:
    path = write(folder / "blocks.wav", noise(3000, channels), source)
    whole = reading.read(path)
    with mock.patch.object(reading, "BLOCK", block):
        assert reading.read(path).samples.tobytes() == whole.samples.tobytes()


def test_resampling_keeps_the_sound(tmp_path: Path) -> None:
    path = write(tmp_path / "a.wav", tone(8000, 8000), 8000)
    assert np.abs(reading.read(path).samples - tone(24_000, 24_000))[500:-500].max() < 1e-3


def test_resampling_is_soxr_over_many_blocks(tmp_path: Path) -> None:
    sound = noise(3 * reading.BLOCK + 17)
    path = write(tmp_path / "a.wav", sound, 44_100)
    expected = soxr.resample(sound, 44_100, 24_000, quality="HQ")
    samples = reading.read(path).samples
    n = min(len(samples), len(expected))
    assert np.array_equal(samples[:n], expected[:n])


# Channels


@given(channels=st.integers(1, 6), data=st.data())
@settings(max_examples=30, deadline=None)
def test_a_number_chooses_its_channel(folder: Path, channels: int, data: st.DataObject) -> None:
    sound = noise(100, channels)
    path = write(folder / "channels.wav", sound)
    index = data.draw(st.integers(0, channels - 1))
    assert np.array_equal(reading.read(path, channel=str(index)).samples, sound.reshape(100, channels)[:, index])


def test_named_channels_and_the_mix(tmp_path: Path) -> None:
    sound = noise(100, 2)
    path = write(tmp_path / "a.wav", sound)
    assert np.array_equal(reading.read(path, channel="left").samples, sound[:, 0])
    assert np.array_equal(reading.read(path, channel="right").samples, sound[:, 1])
    assert np.array_equal(reading.read(path).samples, (sound[:, 0] + sound[:, 1]) / 2)


def test_mono_has_a_left_channel_alone(tmp_path: Path) -> None:
    sound = noise(100)
    path = write(tmp_path / "a.wav", sound)
    assert np.array_equal(reading.read(path, channel="left").samples, sound)
    with pytest.raises(InputError, match='has 1 channel, so no channel "right"') as caught:
        reading.read(path, channel="right")
    assert caught.value.mend == "use mix or left"


def test_a_missing_channel_says_how_many_there_are(tmp_path: Path) -> None:
    path = write(tmp_path / "a.wav", noise(100, 3))
    with pytest.raises(InputError, match=r'a\.wav: has 3 channels, so no channel "3"') as caught:
        reading.read(path, channel="3")
    assert "from 0 to 2" in caught.value.mend


@pytest.mark.parametrize("channel", ["both", "-1", "1.0", "", "²"])
def test_channel_makes_no_sense(tmp_path: Path, channel: str) -> None:
    path = write(tmp_path / "a.wav", noise(100, 2))
    with pytest.raises(UsageError, match="there is no channel"):
        reading.read(path, channel=channel)


def test_silent_channels_are_told_of(tmp_path: Path) -> None:
    sound = noise(100, 2)
    sound[:, 1] = 0
    path = write(tmp_path / "a.wav", sound)
    assert reading.read(path, channel="left").warnings == ()
    (mixed,) = reading.read(path).warnings
    assert mixed.startswith("silent channels (counted from 0): 1;")
    (chosen,) = reading.read(path, channel="right").warnings
    assert chosen.startswith("channel 1 ")


@pytest.mark.parametrize("channels", [1, 2])
def test_silence_runs(tmp_path: Path, channels: int) -> None:
    path = write(tmp_path / "a.wav", np.zeros((100, channels), np.float32))
    recording = reading.read(path)
    assert not recording.samples.any()
    assert recording.warnings == ()


# Parts


@pytest.mark.parametrize("name", ["a.wav", "a.flac"])
def test_a_part_is_the_same_samples(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    soundfile.write(path, noise(24_000), 24_000)
    whole = reading.read(path).samples
    part = reading.read(path, offset=0.25, duration=0.5)
    assert np.array_equal(part.samples, whole[6000:18_000])
    assert part.info.duration == 0.5
    assert part.info.sha256 == reading.read(path).info.sha256


def test_a_part_ends_with_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.wav", noise(24_000))
    for duration in (None, 0.25, 9.0, float("inf")):
        recording = reading.read(path, offset=0.75, duration=duration)
        assert recording.samples.shape == (6000,)
        assert recording.warnings == ()


@pytest.mark.parametrize("offset", [1.0, 1.5, 1e308])
def test_offset_past_the_end(tmp_path: Path, offset: float) -> None:
    path = write(tmp_path / "a.wav", noise(24_000))
    with pytest.raises(InputError, match=r"a\.wav: lasts 1\.000 s"):
        reading.read(path, offset=offset)


@pytest.mark.parametrize(("offset", "duration"), [(-1, None), (float("nan"), None), (float("inf"), 1), (0, 0), (0, -1)])
def test_part_makes_no_sense(tmp_path: Path, offset: float, duration: float | None) -> None:
    path = write(tmp_path / "a.wav", noise(24_000))
    with pytest.raises(UsageError, match="makes no sense"):
        reading.read(path, offset=offset, duration=duration)


def test_a_part_of_no_samples(tmp_path: Path) -> None:
    path = write(tmp_path / "a.wav", noise(24_000))
    with pytest.raises(InputError, match="holds no audio"):
        reading.read(path, duration=1e-6)


def test_only_the_part_is_looked_at(tmp_path: Path) -> None:
    sound = noise(24_000, 2)
    sound[:12_000, 1] = 0
    sound[0, 0] = np.nan
    path = write(tmp_path / "a.wav", sound)
    assert reading.read(path, offset=0.5).warnings == ()
