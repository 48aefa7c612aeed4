"""An MP3 stream as libsndfile decodes it, by whole MPEG frames and without a word on the standard error.

Where a read ends within a frame, libsndfile's decoder (mpg123, in libsndfile 1.2.2) spoils some of the next ones.
"""

import re
from pathlib import Path

import numpy as np

from personaplex.core.audio.formats.mpeg import Stream
from personaplex.core.audio.formats.source import Block
from personaplex.core.audio.formats.stderr import without_mpg123
from personaplex.core.audio.formats.views import View, ViewedFile

_FRAME = 1152  # samples, or a half or a third of them
_STEP = 57 * _FRAME
_DAMAGE = re.compile(rb"error|Skipped")
_HARMLESS = re.compile(rb"part2_3_length")  # of a frame that begins in earlier ones' bits; other decoders don't mind
_STRETCH = 64  # libsndfile guesses a length from the size and the first frame, which may be 40 times as long as others


class MpegFile:
    """The `stream` of the file `path`; raises `soundfile.LibsndfileError`."""

    def __init__(self, path: Path, stream: Stream) -> None:
        view = View(path, ((stream.start, stream.end),), 1 if stream.headed else _STRETCH)
        with without_mpg123():
            self._file = ViewedFile(view)
        self.samplerate, self.channels, self.frames = self._file.samplerate, self._file.channels, self._file.frames
        if stream.samples is not None:
            self.frames = stream.samples
        self.format, self.extra_info = self._file.format, ""
        self.damaged = 0
        self._left = np.zeros((0, self.channels), np.float32)
        self._step = _STEP - stream.skipped % _FRAME

    def read(self, count: int, **options: object) -> Block:
        """The next frames [≤ count, C]; none at the end."""
        if count and not len(self._left):
            with without_mpg123() as said:
                self._left = self._file.read(self._step, **options)
            self.damaged += sum(bool(_DAMAGE.search(line)) and not _HARMLESS.search(line) for line in said)
            self._step = _STEP
        block, self._left = self._left[:count], self._left[count:]
        return block

    def seek(self, frame: int) -> None:
        """Go to `frame` by decoding what lies before: only so a part is the same samples as of the whole."""
        while frame and (length := len(self.read(min(frame, _STEP), dtype="float32", always_2d=True))):
            frame -= length

    def close(self) -> None:
        """Close the stream."""
        self._file.close()
