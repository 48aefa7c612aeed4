from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from personaplex.core.audio.activity import SEGMENT_GAP, SHORTEST_STRETCH, SPEECH_RANGE_DB, caller_frames, stretches
from personaplex.core.audio.levels import QUIET_DBFS, quiet_frames
from personaplex.core.audio.reading import read
from personaplex.core.config import FRAME_SAMPLES, seconds

CALLS = Path(__file__).parents[3] / "samples" / "calls"

# Where the sentences of the samples start and end, as ffmpeg's silencedetect hears them.
SENTENCES = {
    "bank_card.wav": [(1.00, 4.36), (7.37, 11.06), (14.17, 16.95)],
    "clinic.wav": [(1.02, 4.91), (7.91, 10.65), (13.15, 15.26)],
    "hotel.wav": [(0.99, 4.25), (6.79, 8.39)],  # in steady noise
    "internet.wav": [(1.00, 4.85), (7.97, 11.15), (13.78, 14.89)],
    "parcel.flac": [(1.00, 4.10), (6.71, 9.88), (19.01, 22.59)],
    "pharmacy.wav": [(1.00, 4.64)],
    "repair.wav": [(1.01, 3.09)],
    "restaurant.wav": [(1.01, 3.95), (6.45, 9.20)],
}


def sound(*levels: float) -> NDArray[np.float32]:
    """A frame of constant samples at each level in dBFS."""
    return np.repeat(10 ** (np.array(levels) / 20), FRAME_SAMPLES).astype(np.float32)


def frames(*lengths: int) -> list[bool]:
    """Silent and active frames in turn, a silence first."""
    return [bool(number % 2) for number, length in enumerate(lengths) for _ in range(length)]


@pytest.mark.parametrize("name", SENTENCES)
def test_the_samples_sentences_are_found(name: str) -> None:
    channel = "left" if name == "internet.wav" else "mix"
    found = stretches(caller_frames(read(CALLS / name, channel=channel).samples))
    assert np.array(found) == pytest.approx(np.array(SENTENCES[name]), abs=0.16)


def test_every_sample_is_listed() -> None:
    assert sorted(SENTENCES) == sorted(path.name for path in CALLS.iterdir())


def test_a_line_s_noise_is_not_speech() -> None:
    loud, noise, weak = -20.0, -20.5 - SPEECH_RANGE_DB, -19.5 - SPEECH_RANGE_DB
    assert noise > QUIET_DBFS
    assert caller_frames(sound(loud, noise, weak, loud)).tolist() == [True, False, True, True]


def test_under_the_fixed_level_nothing_is_speech() -> None:
    heard = caller_frames(sound(QUIET_DBFS + 0.5, QUIET_DBFS - 0.5, QUIET_DBFS - 30))
    assert heard.tolist() == [True, False, False]


def test_one_bang_hides_no_speech() -> None:
    levels = [0.0] + [-30.0] * 30
    assert caller_frames(sound(*levels)).all()


def test_a_partial_frame_is_judged_by_the_samples_it_has() -> None:
    samples = np.concatenate([sound(-20.0), sound(-30.0)[:1]])
    assert caller_frames(samples).tolist() == [True, True]


@pytest.mark.parametrize("count", [0, 1, FRAME_SAMPLES - 1, FRAME_SAMPLES, FRAME_SAMPLES + 1, 5 * FRAME_SAMPLES])
def test_silence_holds_no_speech(count: int) -> None:
    heard = caller_frames(np.zeros(count, np.float32))
    assert heard.dtype == np.bool_
    assert heard.shape == quiet_frames(np.zeros(count, np.float32)).shape
    assert not heard.any()


@given(st.lists(st.floats(-90, 10), max_size=40), st.integers(0, FRAME_SAMPLES - 1))
def test_speech_is_never_quiet_and_loud_frames_are_speech(levels: list[float], cut: int) -> None:
    samples = sound(*levels)[: max(0, len(levels) * FRAME_SAMPLES - cut)]
    heard, loud = caller_frames(samples), ~quiet_frames(samples)
    assert len(heard) == len(loud) == len(levels)
    assert not (heard & ~loud).any()
    assert heard.any() == loud.any()


def test_short_pauses_join_and_clicks_are_dropped() -> None:
    assert stretches(frames(5, 4, 7, 6, 2)) == [(0.4, 1.76)]
    assert stretches(frames(5, 4, 8, 6, 2)) == [(0.4, 0.72), (1.36, 1.84)]
    assert stretches(frames(0, 2, 9, 3, 9, 2)) == [(0.88, 1.12)]
    assert stretches(frames(0, 1, 7, 1, 9)) == [(0.0, 0.72)]  # joined before its parts are judged


def test_without_speech_there_are_no_stretches() -> None:
    assert stretches([]) == []
    assert stretches(frames(9)) == []
    assert stretches(np.zeros(0, dtype=bool)) == []


def test_times_are_plain_numbers_of_two_places() -> None:
    [(start, end)] = stretches(np.array(frames(7, 22)))
    assert (type(start), type(end), start, end) == (float, float, 0.56, 2.32)


@given(st.lists(st.integers(0, 20), max_size=20).map(lambda lengths: frames(*lengths)))
def test_stretches_are_ordered_apart_and_cover_speech(active: list[bool]) -> None:
    found = stretches(active)
    ends = [0.0 - SEGMENT_GAP, *(end for _, end in found)]
    assert all(end - start >= SHORTEST_STRETCH - 1e-9 for start, end in found)
    assert all(start - end >= SEGMENT_GAP - 1e-9 for (start, _), end in zip(found, ends, strict=False))
    assert ends[-1] <= seconds(len(active))

    covered = {frame for start, end in found for frame in range(round(start * 12.5), round(end * 12.5))}
    heard = [frame for frame, speaks in enumerate(active) if speaks]
    for start, end in found:
        assert active[round(start * 12.5)]
        assert active[round(end * 12.5) - 1]
    for first, second, third in zip(heard, heard[1:], heard[2:], strict=False):
        if third - first == 2:
            assert {first, second, third} <= covered
    for before, after in pairwise(heard):
        if {before, after} <= covered and after - before < 8:
            assert set(range(before, after)) <= covered
