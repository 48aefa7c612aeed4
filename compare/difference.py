"""Where two answers part: the token that was drawn first of all that differ, or the first sample."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import soundfile
from safetensors import SafetensorError, safe_open

from personaplex.compare.document import answer, words_of
from personaplex.compare.verdicts import FirstDifference, Recorded
from personaplex.core.answers.transcript import tokens_sha256
from personaplex.core.config import CODEBOOKS, DELAYS, seconds
from personaplex.core.errors import UsageError

Tokens: TypeAlias = npt.NDArray[np.integer[Any]]

AROUND = 2.0
"""Seconds before and after a difference whose words are told."""

_DELAYS = np.array(DELAYS)[: 1 + CODEBOOKS]
_BLOCK = 65_536


def first_difference(ours: Tokens, theirs: Tokens, expected: Recorded, got: Recorded) -> FirstDifference | None:
    """The token that was drawn first of all that differ, None if none does that both sides hold.

    `ours` and `theirs` are the `tokens_of` the answers: `[F, 9]`, or `[F, 1]` of text alone. Stream s of frame f is
    drawn in step f + delay(s), within a step the text first and then codebook 0 to 7. Where a side holds its text
    tokens alone, the text is compared alone. Past the end of the shorter answer every token differs.
    """
    streams = min(ours.shape[1], theirs.shape[1])
    place = _first_place(ours[:, :streams], theirs[:, :streams])
    if place is None:
        return None
    frame, stream = place
    second = seconds(frame)
    return FirstDifference(
        frame=frame,
        second=second,
        stream="text" if stream == 0 else f"codebook {stream - 1}",
        expected=int(ours[frame, stream]) if frame < len(ours) else None,
        got=int(theirs[frame, stream]) if frame < len(theirs) else None,
        expected_words=_words_around(answer(expected), second),
        got_words=_words_around(answer(got), second),
    )


def tokens_of(recorded: Recorded) -> Tokens:
    """The tokens `[F, 9]` (text, agent codebooks 0-7) of an answer, `[F, 1]` if it holds its text tokens alone.

    They are in its document, or else in its file, unless that is not of this transcript (see `foreign_tokens`).
    Raises UsageError for a broken file.
    """
    document = answer(recorded)
    if "tokens" in document:
        return np.array(document["tokens"], dtype=np.int64).reshape(-1, 1 + CODEBOOKS)
    if recorded.tokens is not None:
        tokens = _read_tokens(recorded.tokens)
        if tokens_sha256(tokens) == document["tokens_sha256"]:
            return tokens
    return np.array(document["text_tokens"], dtype=np.int64)[:, None]


def foreign_tokens(recorded: Recorded) -> str | None:
    """What is wrong with an answer whose saved tokens are not those of its transcript: one of the two was changed.

    None if nothing is. Raises UsageError for a broken file.
    """
    document = answer(recorded)
    if recorded.tokens is None or "tokens" in document:
        return None
    if tokens_sha256(_read_tokens(recorded.tokens)) == document["tokens_sha256"]:
        return None
    return f"{recorded.tokens}: its tokens are not those of the transcript's tokens_sha256"


def _read_tokens(path: Path) -> Tokens:
    mend = "run the item again with --save-tokens, or remove the file"
    try:
        with safe_open(path, framework="numpy") as file:
            tokens: Tokens = file.get_tensor("tokens")
    except (OSError, SafetensorError) as error:
        raise UsageError(f"{path}: not a file of tokens ({error})", mend) from error
    if tokens.dtype != np.int32 or tokens.ndim != 2 or tokens.shape[1] != 1 + CODEBOOKS:
        found = f"{tokens.dtype} {list(tokens.shape)}"
        raise UsageError(f"{path}: its tokens are {found}, not int32 [frames, {1 + CODEBOOKS}]", mend)
    return tokens


def _first_place(expected: Tokens, got: Tokens) -> tuple[int, int] | None:
    """Frame and stream of the first token drawn that differs between `[F, S]` and `[G, S]`."""
    common = min(len(expected), len(got))
    differs = np.ones((max(len(expected), len(got)), expected.shape[1]), dtype=bool)
    differs[:common] = expected[:common] != got[:common]
    frames, streams = np.nonzero(differs)
    if not len(frames):
        return None
    first = np.lexsort((streams, frames + _DELAYS[streams]))[0]
    return int(frames[first]), int(streams[first])


def _words_around(document: Mapping[str, Any], second: float) -> str:
    """The words that overlap the seconds `AROUND` a time; … stands for those before and after them."""
    spoken = words_of(document)
    near = [n for n, word in enumerate(spoken) if word["start"] < second + AROUND and word["end"] > second - AROUND]
    if not near:
        return ""
    text = " ".join(spoken[n]["word"] for n in near)
    return f"{'… ' * (near[0] > 0)}{text}{' …' * (near[-1] < len(spoken) - 1)}"


def first_different_second(expected: Path, got: Path) -> float | None:
    """Where two audio files of one sample rate begin to differ, in seconds; None if they are the same.

    Raises UsageError for a file that can't be read.
    """
    with _open(expected) as ours, _open(got) as theirs:
        rate, start = ours.samplerate, 0
        if ours.channels != theirs.channels:
            return 0.0
        while True:
            one, other = (file.read(_BLOCK, dtype="float64", always_2d=True) for file in (ours, theirs))
            common = min(len(one), len(other))
            different = np.flatnonzero((one[:common] != other[:common]).any(axis=1))
            if len(different):
                return float((start + different[0]) / rate)
            if len(one) != len(other):
                return float((start + common) / rate)
            if not common:
                return None
            start += common


def _open(path: Path) -> soundfile.SoundFile:
    try:
        return soundfile.SoundFile(path)
    except (OSError, soundfile.SoundFileError) as error:
        raise UsageError(f"{path}: can't be read ({error})", "run the item again, or remove the file") from error
