"""A file as libsndfile should see it: stretches of it, with other bytes between them where its own say nothing true."""

from pathlib import Path

import soundfile

Piece = bytes | tuple[int, int]
"""Bytes of their own, or a stretch of the file: its first byte and the one after its last."""

_TAIL = 128  # bytes that mpg123 reads at a file's end, where an old tag may be


class View:
    """The `pieces` of the file `path`, one after the other, to be read and sought like a file.

    It says that it is `stretch` times as long as it is. Reading ends where the pieces do, but for the last few bytes
    of the claimed length, which are zeros.
    """

    def __init__(self, path: Path, pieces: tuple[Piece, ...], stretch: int = 1) -> None:
        self._file = path.open("rb")
        self._pieces = pieces
        self._at = 0
        self._size = sum(_length(piece) for piece in pieces)
        self._claimed = self._size * stretch

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move to `offset` from the start (0), from here (1) or from the claimed end (2)."""
        self._at = max(0, offset + (0, self._at, self._claimed)[whence])
        return self._at

    def tell(self) -> int:
        """Where the next read begins."""
        return self._at

    def read(self, count: int) -> bytes:
        """Up to `count` bytes; fewer only at the end."""
        parts, start = [], 0
        for piece in self._pieces:
            end = start + _length(piece)
            if start <= self._at < end and count:
                part = self._piece(piece, self._at - start, min(count, end - self._at))
                parts.append(part)
                self._at += len(part)
                count -= len(part)
            start = end
        if self._at >= max(self._size, self._claimed - _TAIL):
            parts.append(bytes(max(0, min(count, self._claimed - self._at))))
            self._at += len(parts[-1])
        return b"".join(parts)

    def _piece(self, piece: Piece, offset: int, count: int) -> bytes:
        if isinstance(piece, bytes):
            return piece[offset : offset + count]
        self._file.seek(piece[0] + offset)
        return self._file.read(count)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _length(piece: Piece) -> int:
    return len(piece) if isinstance(piece, bytes) else piece[1] - piece[0]


class ViewedFile(soundfile.SoundFile):  # type: ignore[misc]
    """A `View` as a sound file, which closes it; raises `soundfile.LibsndfileError`."""

    def __init__(self, view: View) -> None:
        self._view = view
        try:
            super().__init__(view)
        except BaseException:
            view.close()
            raise

    def close(self) -> None:
        """Close the file and its view."""
        super().close()
        self._view.close()
