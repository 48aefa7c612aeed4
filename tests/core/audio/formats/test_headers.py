"""Headers of uncompressed files that were never finished, or say what can't be."""

import struct
from pathlib import Path

import numpy as np
import pytest

from personaplex.core.audio import reading
from personaplex.core.audio.formats.headers import UNFINISHED
from personaplex.core.errors import InputError
from tests.core.audio.sounds import RATE, encoded, form, pcm, riff, tone

SOUND = tone(RATE)
LIST = b"LIST" + struct.pack("<I", 100_000) + b"INFOISFT"


def changed(data: bytes, name: bytes, gap: int, layout: str, value: int) -> bytes:
    """`data` with another number `gap` bytes after the chunk's name."""
    at = data.index(name) + gap
    return data[:at] + struct.pack(layout, value) + data[at + struct.calcsize(layout) :]


def read(path: Path, data: bytes) -> reading.Recording:
    path.write_bytes(data)
    recording = reading.read(path)
    assert reading.probe(path).frames == len(recording.samples)
    return recording


WAV = encoded(SOUND, "WAV", "PCM_16")
AIFF = encoded(SOUND, "AIFF", "PCM_16")
RF64 = encoded(SOUND, "RF64", "PCM_16")
CAF = encoded(SOUND, "CAF", "PCM_16")
AU = encoded(SOUND, "AU", "PCM_16")


@pytest.mark.parametrize(
    "data",
    [
        *(changed(WAV, b"data", 4, "<I", size) for size in (0, 1, 10, 1000, 1001, 24_000)),
        changed(changed(WAV, b"data", 4, "<I", 0), b"RIFF", 4, "<I", 0),
        changed(changed(WAV, b"data", 4, "<I", 0), b"RIFF", 4, "<I", 36),
        changed(AIFF, b"SSND", 4, ">I", 8),
        changed(AIFF, b"SSND", 4, ">I", 20_008),
        changed(RF64, b"ds64", 16, "<Q", 0),
        changed(RF64, b"ds64", 16, "<Q", 24_000),
        changed(RF64, b"data", 4, "<I", 0),
        *(changed(CAF, b"data", 4, ">Q", size) for size in (0, 4, 24_004)),
        *(changed(AU, b".snd", 8, ">I", size) for size in (0, 24_000)),
    ],
)
def test_an_unfinished_header(tmp_path: Path, data: bytes) -> None:
    recording = read(tmp_path / "a.sound", data)
    assert recording.warnings == (UNFINISHED,)
    assert np.abs(recording.samples - SOUND).max() < 1e-3


@pytest.mark.parametrize(
    "data",
    [
        WAV,
        WAV + LIST,
        WAV + bytes(512),
        WAV + b"\x01\x02 some junk" * 10,
        *(changed(WAV, b"RIFF", 4, "<I", size) for size in (0, 4, 1000, 0xFFFF_FFFF)),
        changed(WAV, b"data", 4, "<I", 0xFFFF_FFFF),
        changed(AIFF, b"SSND", 4, ">I", 0),
        changed(AIFF, b"COMM", 10, ">I", 0),
        changed(CAF, b"data", 4, ">Q", 2**64 - 1),
        changed(AU, b".snd", 8, ">I", 0xFFFF_FFFF),
        encoded(SOUND, "W64", "PCM_16"),
        encoded(SOUND, "NIST", "PCM_16").replace(b"sample_count -i 24000", b"sample_count -i 0    "),
        b"ID3\x04\0\0\0\0\0\x20" + bytes(32) + WAV,
    ],
)
def test_other_sizes_that_lie(tmp_path: Path, data: bytes) -> None:
    recording = read(tmp_path / "a.sound", data)
    assert recording.warnings == ()
    assert recording.samples.shape == SOUND.shape
    assert np.abs(recording.samples - SOUND).max() < 1e-3


@pytest.mark.parametrize("size", [50_000, 2_000_000])
def test_a_size_that_promises_more(tmp_path: Path, size: int) -> None:
    (warning,) = read(tmp_path / "a.wav", changed(WAV, b"data", 4, "<I", size)).warnings
    assert "cut short" in warning


@pytest.mark.parametrize("size", [2**64 - 12, 2**63])
def test_a_chunk_of_less_than_nothing_ends_the_search(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.caf"
    path.write_bytes(changed(CAF, b"desc", 4, ">Q", size))
    with pytest.raises(InputError, match="is not audio that can be read"):
        reading.read(path)


def test_a_size_that_is_odd(tmp_path: Path) -> None:
    bytes_ = encoded(SOUND, "WAV", "PCM_U8")[44:]
    data = riff(form(width=8), (b"data", bytes_[:999]), (b"LIST", b"INFO"))
    unpadded = data.replace(bytes(1) + b"LIST", b"LIST")
    assert [len(read(tmp_path / "a.wav", one).samples) for one in (data, unpadded)] == [999, 999]


def test_an_empty_stretch_of_sound_before_other_chunks_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(riff(form(), (b"data", b""), (b"LIST", b"INFOISFT\x04\0\0\0abc\0")))
    with pytest.raises(InputError, match="holds no audio"):
        reading.read(path)


def test_two_stretches_of_sound(tmp_path: Path) -> None:
    data = riff(form(), (b"data", pcm(SOUND[:9000])), (b"LIST", b"INFO"), (b"data", pcm(SOUND[9000:])))
    recording = read(tmp_path / "a.wav", data)
    assert np.abs(recording.samples - SOUND).max() < 1e-3
    (warning,) = recording.warnings
    assert "2 stretches of sound" in warning


@pytest.mark.parametrize(
    ("header", "reason"),
    [(form(rate=0), "its header gives a rate of 0"), (form(channels=0), "its header gives 0 channels")],
)
def test_what_cannot_be(tmp_path: Path, header: tuple[bytes, bytes], reason: str) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(riff(header, (b"data", pcm(SOUND))))
    for look in (reading.read, reading.probe):
        with pytest.raises(InputError, match=f"a.wav: is not audio that can be read: {reason}"):
            look(path)


@pytest.mark.parametrize("name", ["a.au", "a.snd", "a.AU", "a.gsm", "a.vox", "a.g722", "a.amr", "a.m4a", "a.wma"])
def test_a_page_under_a_recordings_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("<html>404</html>" * 900)
    for look in (reading.read, reading.probe):
        with pytest.raises(InputError, match="is not audio that can be read"):
            look(path)


def test_bytes_without_a_header_under_the_name_of_a_format_that_has_one(tmp_path: Path) -> None:
    path = tmp_path / "a.au"
    path.write_bytes(np.random.default_rng(0).bytes(9000))
    with pytest.raises(InputError, match="it lacks the header of its format"):
        reading.read(path)


@pytest.mark.parametrize("name", ["a.au", "a.snd"])
def test_a_true_au(tmp_path: Path, name: str) -> None:
    assert read(tmp_path / name, encoded(SOUND, "AU", "ULAW")).warnings == ()
