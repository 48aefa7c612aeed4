"""Other people's parsers read our subtitles and annotations, and get back the times and texts that we wrote."""

import html
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
import srt
import webvtt
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from praatio import textgrid

from personaplex.core.answers.exports import EXPORTERS, Transcript
from personaplex.core.answers.transcript import Word, segments
from personaplex.core.config import seconds

TEXTS = [
    "It's Bob O’Neil's",
    'He said "no", "" and """',
    "R&D &amp; Q&A: 1 < 2 > 0 <b>not bold</b>",
    "<v Caller> or </v> & <00:00:01.000>",
    'xmin = 3 text = "item 2" class',
    "Zażółć gęślą jaźń, Грузия, ελληνικά",
    "日本語 עברית हिन्दी 한국어 👋🏽",
    "1 00:00:01,000 -> 00:00:02,000",
    r"back\slash \n {braces} %s `tick`",
    "…",
]
HOURS = 56_250  # frames to 75 minutes


def call(texts: list[str], first: int = 0, word: int = 4, pause: int = 20) -> Transcript:
    """A segment for each text, from frame `first` on; words take `word` frames, `pause` part two segments."""
    spoken, frame = [], first
    for text in texts:
        for written in text.split():
            spoken.append(Word(written, seconds(frame), seconds(frame + word), frame))
            frame += word
        frame += pause
    return Transcript("call", segments(spoken), ["PAD"] * frame)


CALLS = {"at the start": call(TEXTS), "over an hour in": call(TEXTS, first=HOURS), "silent": call([], first=50)}


def written(transcript: Transcript) -> list[tuple[float, float, str]]:
    return [(segment.start, segment.end, segment.text) for segment in transcript.segments]


def read_srt(transcript: Transcript) -> list[tuple[float, float, str]]:
    cues = list(srt.parse(EXPORTERS["srt"].render(transcript)))
    assert [cue.index for cue in cues] == list(range(1, len(cues) + 1))
    return [(cue.start / timedelta(seconds=1), cue.end / timedelta(seconds=1), cue.content) for cue in cues]


def read_vtt(transcript: Transcript) -> list[tuple[float, float, str]]:
    cues = webvtt.from_string(EXPORTERS["vtt"].render(transcript), strict=True).captions
    assert {cue.voice for cue in cues} <= {"Agent"}
    # The parser takes tags away and leaves the entities to the player.
    return [(since_zero(cue.start_time), since_zero(cue.end_time), html.unescape(cue.text)) for cue in cues]


def since_zero(time: webvtt.models.Timestamp) -> float:
    hours, minutes, whole, milliseconds = time.to_tuple()
    return (3_600_000 * hours + 60_000 * minutes + 1000 * whole + milliseconds) / 1000


def read_textgrid(transcript: Transcript, path: Path, tier: str) -> list[tuple[float, float, str]]:
    path.write_text(EXPORTERS["textgrid"].render(transcript), encoding="utf-8")
    grid = textgrid.openTextgrid(str(path), includeEmptyIntervals=True, reportingMode="error")
    assert grid.tierNames == ("words", "segments")
    entries = grid.getTier(tier).entries
    assert (entries[0].start, entries[-1].end) == (0, seconds(len(transcript.frames)))
    assert all(before.end == after.start for before, after in pairwise(entries))
    return [(entry.start, entry.end, entry.label) for entry in entries if entry.label]


@pytest.mark.parametrize("name", CALLS)
def test_srt_comes_back(name: str) -> None:
    assert read_srt(CALLS[name]) == written(CALLS[name])


@pytest.mark.parametrize("name", CALLS)
def test_vtt_comes_back(name: str) -> None:
    assert read_vtt(CALLS[name]) == written(CALLS[name])


@pytest.mark.parametrize("name", CALLS)
def test_textgrid_comes_back(name: str, tmp_path: Path) -> None:
    transcript = CALLS[name]
    words = [(word.start, word.end, word.word) for segment in transcript.segments for word in segment.words]
    assert read_textgrid(transcript, tmp_path / "call.TextGrid", "words") == words
    assert read_textgrid(transcript, tmp_path / "call.TextGrid", "segments") == written(transcript)


# What a tokenizer's pieces can spell: anything but control characters and lone surrogates.
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=6)
SAID = st.lists(st.lists(WORDS, min_size=1, max_size=4).map(" ".join), max_size=4)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(SAID, st.integers(0, 100_000), st.integers(1, 9), st.integers(8, 30))
def test_any_text_comes_back(tmp_path: Path, texts: list[str], first: int, word: int, pause: int) -> None:
    transcript = call(texts, first, word, pause)
    assert read_srt(transcript) == written(transcript)
    assert read_vtt(transcript) == written(transcript)
    if transcript.frames:
        assert read_textgrid(transcript, tmp_path / "call.TextGrid", "segments") == written(transcript)
