"""Files to read, as bytes: encoded by libsndfile or FFmpeg, or put together by hand."""

import io
import struct
from fractions import Fraction
from pathlib import Path

import numpy as np
import soundfile

from personaplex.core.audio.formats.mpeg import streams

RATE = 24_000


def noise(frames: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(-0.5, 0.5, frames).astype(np.float32)


def tone(frames: int, rate: int = RATE) -> np.ndarray:
    return (0.5 * np.sin(2 * np.pi * 440 * np.arange(frames) / rate)).astype(np.float32)


def encoded(samples: np.ndarray, kind: str, subtype: str | None = None, rate: int = RATE, **options: object) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format=kind, subtype=subtype, **options)
    return file.getvalue()


def bare_mp3(samples: np.ndarray, folder: Path, **options: object) -> bytes:
    """An MP3 as a program writes it to a pipe: without the frame that counts the others."""
    data = encoded(samples, "MP3", **options)
    path = folder / "headed.mp3"
    path.write_bytes(data)
    (stream,) = streams(path, 0, len(data))
    assert stream.headed
    return data[data.index(data[stream.start : stream.start + 2], stream.start + 4) :]


def riff(*chunks: tuple[bytes, bytes]) -> bytes:
    """A WAV of chunks, each a name and its content."""
    body = b"".join(name + struct.pack("<I", len(data)) + data + bytes(len(data) % 2) for name, data in chunks)
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WAVE" + body


def form(tag: int = 1, channels: int = 1, rate: int = RATE, width: int = 16, extra: bytes = b"") -> tuple[bytes, bytes]:
    """A WAV's `fmt ` chunk."""
    block = max(1, channels * width // 8)
    fields = struct.pack("<HHIIHH", tag, channels, rate, rate * block, block, width)
    return b"fmt ", fields + (struct.pack("<H", len(extra)) + extra if extra else b"")


def pcm(samples: np.ndarray) -> bytes:
    return (samples * 32767).astype("<i2").tobytes()


def media(samples: np.ndarray, container: str, codec: str, rate: int = RATE) -> bytes:
    """Mono `samples` as FFmpeg encodes them, through PyAV."""
    import av

    file = io.BytesIO()
    with av.open(file, "w", format=container) as output:
        stream = output.add_stream(codec, rate=rate, layout="mono")
        stream.bit_rate = 12_200 if container == "amr" else 64_000
        frame = av.AudioFrame.from_ndarray(samples[np.newaxis], format="fltp", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = rate, 0, Fraction(1, rate)
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            output.mux(packet)
    return file.getvalue()
