"""How long a recording is: what comes out of its decoder, whatever its header says or leaves out."""

import re
import struct
from pathlib import Path

import numpy as np
import pytest

from personaplex.core.audio import reading
from personaplex.core.errors import InputError
from tests.core.audio.sounds import RATE, bare_mp3, encoded, form, noise, riff, tone

LOUD_THEN_QUIET = np.concatenate([noise(RATE), np.zeros(8 * RATE, np.float32), tone(RATE)])
QUIET_THEN_LOUD = np.concatenate([np.zeros(RATE, np.float32), 0.5 * noise(9 * RATE)])
VARIABLE = {"bitrate_mode": "VARIABLE", "compression_level": 0.4}


def lasts(path: Path, data: bytes, seconds: float, slack: float = 0.11) -> reading.Recording:
    """All that tells a length says the same, without a warning."""
    path.write_bytes(data)
    recording = reading.read(path, rate=RATE)
    assert recording.warnings == ()
    assert recording.info.duration == pytest.approx(seconds, abs=slack)
    assert reading.probe(path).duration == recording.info.duration
    assert reading.planned_frames(path) == reading.frame_count(len(recording.samples))
    return recording


# MP3


@pytest.mark.parametrize("samples", [LOUD_THEN_QUIET, QUIET_THEN_LOUD], ids=["guessed short", "guessed long"])
@pytest.mark.parametrize("mode", [VARIABLE, {"bitrate_mode": "CONSTANT"}], ids=["variable", "constant"])
def test_an_mp3_without_a_count(tmp_path: Path, samples: np.ndarray, mode: dict[str, object]) -> None:
    lasts(tmp_path / "a.mp3", bare_mp3(samples, tmp_path, **mode), 10.0)


@pytest.mark.parametrize("name", ["a.mp3", "a.wav", "a.sound"])
def test_tags_before_and_behind(tmp_path: Path, name: str) -> None:
    tag = b"ID3\x04\0\0\0\0\x01\x48" + b"Xing Info \xff\xfb\x90\x64".ljust(200, b"\0")
    lasts(tmp_path / name, tag + bare_mp3(LOUD_THEN_QUIET, tmp_path, **VARIABLE) + b"TAG" + bytes(125), 10.0)


def test_mp3_in_a_wav(tmp_path: Path) -> None:
    extra = struct.pack("<HIHHH", 1, 2, 1152, 1, 0)
    data = riff(form(0x55, width=0, extra=extra), (b"data", bare_mp3(LOUD_THEN_QUIET, tmp_path, **VARIABLE)))
    lasts(tmp_path / "a.wav", data, 10.0)


def with_count(data: bytes, change: float) -> bytes:
    mark = max(data.find(b"Xing"), data.find(b"Info"))
    (frames,) = struct.unpack(">I", data[mark + 8 : mark + 12])
    return data[: mark + 8] + struct.pack(">I", round(frames * change)) + data[mark + 12 :]


def test_a_count_that_is_too_low(tmp_path: Path) -> None:
    lasts(tmp_path / "a.mp3", with_count(encoded(LOUD_THEN_QUIET, "MP3", **VARIABLE), 0.3), 10.0)


def test_a_count_that_is_too_high(tmp_path: Path) -> None:
    path = tmp_path / "a.mp3"
    path.write_bytes(with_count(encoded(LOUD_THEN_QUIET, "MP3", **VARIABLE), 3))
    (warning,) = reading.read(path).warnings
    assert "cut short" in warning
    assert reading.probe(path).duration == pytest.approx(10, abs=0.11)
    assert reading.read(path).info.duration == reading.probe(path).duration


def test_a_true_count_leaves_out_the_encoders_padding(tmp_path: Path) -> None:
    lasts(tmp_path / "a.mp3", encoded(LOUD_THEN_QUIET, "MP3", **VARIABLE), 10.0, slack=0)


@pytest.mark.parametrize("headed", [True, False])
def test_blocks_and_parts_of_an_mp3_are_the_same_samples(tmp_path: Path, headed: bool) -> None:
    """libsndfile's decoder spoils frames when a read ends within one."""
    path = tmp_path / "a.mp3"
    samples = np.concatenate([LOUD_THEN_QUIET, QUIET_THEN_LOUD])
    path.write_bytes(encoded(samples, "MP3", **VARIABLE) if headed else bare_mp3(samples, tmp_path, **VARIABLE))
    whole = reading.read(path).samples
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "BLOCK", 1000)
        assert np.array_equal(reading.read(path).samples, whole)
    for offset in (0.3, 1.1, 9.7):
        assert np.array_equal(reading.read(path, offset=offset).samples, whole[round(offset * RATE) :])


def test_the_decoders_own_messages(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.mp3"
    data = bytearray(bare_mp3(noise(10 * RATE), tmp_path, bitrate_mode="CONSTANT"))
    for place in range(3000, 30_000, 300):
        data[place] ^= 0x5A
    path.write_bytes(data)
    recording = reading.read(path)
    reading.probe(path)
    assert capfd.readouterr().err == ""
    assert any(warning.startswith("damaged pieces of the MP3") for warning in recording.warnings)


@pytest.mark.parametrize("headed", [True, False])
@pytest.mark.parametrize("damage", ["header", "zeros", "ones", "noise", "lead"])
def test_an_mp3_goes_on_behind_damage(tmp_path: Path, headed: bool, damage: str) -> None:
    """libsndfile ends at a header that it can't read."""
    path = tmp_path / "a.mp3"
    sound, options = tone(20 * RATE), {"bitrate_mode": "CONSTANT"}
    data = encoded(sound, "MP3", **options) if headed else bare_mp3(sound, tmp_path, **options)
    middle = data.index(data[-1000:][data[-1000:].index(b"\xff\xf3") :][:2], len(data) // 2)
    junk = {
        "header": bytes([0xFF, 0x5A, 0x5A, 0x5A]),
        "zeros": bytes(1000),
        "ones": b"\xff" * 1000,
        "noise": np.random.default_rng(1).bytes(1000),
    }
    if damage == "lead":
        path.write_bytes(np.random.default_rng(1).bytes(5000) + data)
    else:
        path.write_bytes(data[:middle] + junk[damage] + data[middle + len(junk[damage]) :])
    recording = reading.read(path, rate=RATE)
    assert recording.info.duration == reading.probe(path).duration == pytest.approx(20, abs=1.5)
    assert recording.warnings


def test_pictures_between_joined_mp3s(tmp_path: Path) -> None:
    part = bare_mp3(LOUD_THEN_QUIET, tmp_path, **VARIABLE)
    tag = b"ID3\x04\0\0\0\x03\0\0" + np.random.default_rng(0).bytes(3 * 128 * 128)
    lasts(tmp_path / "a.mp3", part + tag + part, 20.0, slack=0.2)


def test_joined_mp3s_of_two_rates(tmp_path: Path) -> None:
    path = tmp_path / "a.mp3"
    parts = [bare_mp3(tone(rate, rate), tmp_path, rate=rate) for rate in (RATE, 16_000)]
    path.write_bytes(b"".join(parts))
    for look in (reading.read, reading.probe):
        with pytest.raises(InputError, match=r"a\.mp3: its rate or its number of channels changes at 1\.\d\d s"):
            look(path)


# Chains


@pytest.mark.parametrize("subtype", ["OPUS", "VORBIS"])
@pytest.mark.parametrize("damage", ["cut", "last page", "last header", "a page within", "first page"])
def test_an_ogg_that_lacks_sound_says_so(tmp_path: Path, subtype: str, damage: str) -> None:
    path = tmp_path / "a.ogg"
    data = bytearray(encoded(noise(10 * RATE), "OGG", subtype))
    last = data.rindex(b"OggS")
    if damage == "cut":
        del data[last + 40 :]
    else:
        first = next(m.start() for m in re.finditer(b"OggS", data) if any(data[m.start() + 6 : m.start() + 14]))
        place = {"last page": last + 40, "last header": last, "a page within": last - 1000, "first page": first + 500}[
            damage
        ]
        data[place] ^= 0xFF
    path.write_bytes(data)
    assert any("cut short" in warning for warning in reading.read(path).warnings)


@pytest.mark.parametrize(
    ("kind", "subtype"), [("OGG", "OPUS"), ("OGG", "VORBIS"), ("FLAC", None), ("MP3", None)], ids=str
)
@pytest.mark.parametrize("count", [2, 3])
def test_chained_files_are_read_to_the_end(tmp_path: Path, kind: str, subtype: str | None, count: int) -> None:
    parts = [tone(RATE), noise(RATE // 2), tone(RATE // 4)][:count]
    path = tmp_path / "part"
    alone = []
    for part in parts:
        path.write_bytes(encoded(part, kind, subtype))
        alone.append(reading.read(path).samples)
    data = b"".join(encoded(part, kind, subtype) for part in parts)
    whole = lasts(tmp_path / "a.sound", data, sum(map(len, parts)) / RATE, slack=0).samples
    assert np.array_equal(whole, np.concatenate(alone))
    part = reading.read(tmp_path / "a.sound", offset=0.75, duration=0.5)
    assert np.array_equal(part.samples, whole[18_000:30_000])


def test_a_chain_that_changes_its_rate(tmp_path: Path) -> None:
    path = tmp_path / "a.ogg"
    path.write_bytes(encoded(tone(RATE), "OGG", "VORBIS") + encoded(tone(8000), "OGG", "VORBIS", 16_000))
    with pytest.raises(InputError, match=r"a\.ogg: its rate or its number of channels changes at 1\.00 s"):
        reading.read(path)


@pytest.mark.parametrize(("kind", "subtype"), [("OGG", "OPUS"), ("FLAC", None)])
def test_a_chain_whose_last_part_is_a_stub(tmp_path: Path, kind: str, subtype: str | None) -> None:
    path = tmp_path / "a.sound"
    part = encoded(tone(RATE), kind, subtype)
    path.write_bytes(part + part[:60])
    recording = reading.read(path)
    assert recording.info.duration == reading.probe(path).duration == 1.0
    assert len(recording.warnings) == 1
    assert "cut short" in recording.warnings[0]


def test_a_chain_of_tagged_flac(tmp_path: Path) -> None:
    part = b"ID3\x04\0\0\0\0\0\x20" + bytes(32) + encoded(tone(RATE), "FLAC")
    lasts(tmp_path / "a.flac", part + part, 2.0, slack=0)


def test_bytes_between_the_parts_of_a_chain(tmp_path: Path) -> None:
    part = encoded(tone(RATE), "OGG", "VORBIS")
    lasts(tmp_path / "a.ogg", part + b"junk" * 50 + part, 2.0, slack=0)
