"""Sound for the page: a recording as MP3 in a data URI, and its outline as points of an SVG polygon."""

import base64
import io

import numpy as np
import soundfile

from personaplex.core.audio.formats.source import BLOCK
from personaplex.core.audio.reading import Samples
from personaplex.core.config import SAMPLE_RATE

COLUMNS = 800
"""Width of an outline that fills its drawing."""
HEIGHT = 200
"""Height of an outline at full scale."""

# 64 kbit/s, constant: the lowest at which a frame has room for LAME's tag. By it decoders cut off what the encoder
# puts before the sound, so that times stay true, and constant frames are sought exactly.
_LEVEL = 0.6


def mp3_uri(samples: Samples) -> str:
    """24 kHz audio `[N]` as a data URI of an MP3 that decodes to N samples."""
    return "data:audio/mpeg;base64," + base64.b64encode(mp3(samples)).decode()


def mp3(samples: Samples) -> bytes:
    """24 kHz audio `[N]` as an MP3 that decodes to N samples."""
    made = io.BytesIO()
    with soundfile.SoundFile(
        made, "w", SAMPLE_RATE, 1, "MPEG_LAYER_III", format="MP3", bitrate_mode="CONSTANT", compression_level=_LEVEL
    ) as file:
        for start in range(0, len(samples), BLOCK):
            file.write(samples[start : start + BLOCK].clip(-1, 1))
    return made.getvalue()


def outline(samples: Samples, columns: int, full_scale: float) -> str:
    """The points around the lowest and highest of 24 kHz audio `[N]`, N > 0, in each of `columns` columns.

    `full_scale` is the magnitude that reaches the drawing's edges.
    """
    starts = np.arange(columns) * len(samples) // columns
    upper, lower = (_rows(peaks.reduceat(samples, starts), full_scale) for peaks in (np.maximum, np.minimum))
    edge = [*enumerate(upper), *reversed([*enumerate(lower)])]
    return " ".join(f"{x},{y}" for x, y in edge)


def _rows(samples: Samples, full_scale: float) -> list[int]:
    """Where samples lie in the drawing, counted down from its top."""
    rows: list[int] = np.rint(HEIGHT / 2 * (1 - samples / full_scale)).astype(int).tolist()
    return rows
