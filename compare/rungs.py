"""The rungs of the ladder: each holds two answers against each other in one way and gives a verdict."""

from collections.abc import Mapping
from typing import Any

from personaplex.compare.alignment import Alignment, Spoken
from personaplex.compare.difference import first_difference, first_different_second, tokens_of
from personaplex.compare.document import answer
from personaplex.compare.verdicts import FirstDifference, Outcome, Recorded, Rung, Tolerances, Verdict
from personaplex.core.config import FRAME_RATE

SILENCE_DBFS = -70.0
"""Answers under this are not heard, and so are as loud as each other."""

_FORMAT = ("sample_rate", "subtype", "align")
_DIGITS = 6  # past these a difference is one of floating point


def compare_tokens(expected: Recorded, got: Recorded) -> tuple[Verdict, FirstDifference | None]:
    """All tokens, and where they first differ. Raises UsageError for a broken file of tokens."""
    if answer(expected)["tokens_sha256"] == answer(got)["tokens_sha256"]:
        return Verdict(Rung.tokens, Outcome.same), None
    ours, theirs = tokens_of(expected), tokens_of(got)
    difference = first_difference(ours, theirs, expected, got)
    if difference is None:
        detail = "the audio tokens differ; run both with --save-tokens to see where"
    else:
        text_alone = min(ours.shape[1], theirs.shape[1]) == 1
        detail = _told(difference, text_alone)
    return Verdict(Rung.tokens, Outcome.different, detail), difference


def _told(difference: FirstDifference, text_alone: bool) -> str:
    place = f"frame {difference.frame} ({difference.second:.2f} s)"
    expected, got = ("the end" if token is None else str(token) for token in (difference.expected, difference.got))
    if text_alone:  # the audio tokens may differ before
        return f"the text tokens first differ at {place}: expected {expected}, got {got}"
    return f"first differs at {place}, {difference.stream}: expected {expected}, got {got}"


def compare_samples(expected: Recorded, got: Recorded) -> Verdict:
    """The samples, as they are written. Raises UsageError for a broken WAV, which is read where they differ."""
    ours, theirs = answer(expected)["output"], answer(got)["output"]
    formats = [" ".join(str(output.get(field)) for field in _FORMAT) for output in (ours, theirs)]
    if formats[0] != formats[1]:
        return Verdict(Rung.samples, Outcome.unknown, f"different output formats: {formats[0]} and {formats[1]}")
    if ours["pcm_sha256"] == theirs["pcm_sha256"]:
        return Verdict(Rung.samples, Outcome.same)
    second = first_different_second(expected.audio, got.audio) if expected.audio and got.audio else None
    place = "" if second is None else f" from {second:.2f} s on"
    return Verdict(Rung.samples, Outcome.different, f"the samples differ{place}")


def compare_words(alignment: Alignment, tolerances: Tolerances) -> Verdict:
    """The words, whatever their case and the punctuation at their ends."""
    rate = alignment.error_rate
    figures = {
        "word_error_rate": rate,
        "substitutions": float(alignment.substitutions),
        "insertions": float(alignment.insertions),
        "deletions": float(alignment.deletions),
    }
    different = round(rate - tolerances.word_error_rate, _DIGITS) > 0
    if not alignment.errors:
        detail = ""
    elif not alignment.expected:
        detail = f"the words differ: expected none, got {alignment.got}"
    else:
        detail = f"the words differ: {100 * rate:.3g} % WER"
    return Verdict(Rung.words, Outcome.different if different else Outcome.same, detail, figures)


def compare_timing(alignment: Alignment, tolerances: Tolerances) -> Verdict:
    """When the words that both answers have start."""
    if not alignment.pairs:
        if not alignment.errors:
            return Verdict(Rung.timing, Outcome.same, "no words on either side")
        return Verdict(Rung.timing, Outcome.unknown, "no words in common")
    expected, got = max(alignment.pairs, key=lambda pair: abs(_shift(*pair)))
    shift = _shift(expected, got)
    different = abs(shift) > tolerances.frames
    frames = f"{abs(shift)} frame{'' if abs(shift) == 1 else 's'} {'later' if shift > 0 else 'earlier'}"
    detail = f'"{expected.word}" starts {frames}: expected {expected.start:.2f} s, got {got.start:.2f} s'
    outcome = Outcome.different if different else Outcome.same
    return Verdict(Rung.timing, outcome, detail if shift else "", {"frames": float(abs(shift))})


def _shift(expected: Spoken, got: Spoken) -> int:
    """By how many frames a word starts later."""
    return round((got.start - expected.start) * FRAME_RATE)


def compare_loudness(expected: Mapping[str, Any], got: Mapping[str, Any], tolerances: Tolerances) -> Verdict:
    """The RMS level and, unless a transcript is too old to tell, the share of time in which the agent speaks."""
    faults = []
    ours, theirs = (max(document["output"]["rms_dbfs"], SILENCE_DBFS) for document in (expected, got))
    figures = {"loudness_db": round(theirs - ours, _DIGITS)}
    if abs(figures["loudness_db"]) > tolerances.loudness_db:
        faults.append(f"the loudness differs: expected {ours:.1f} dBFS, got {theirs:.1f} dBFS")
    our_share, their_share = _speech(expected), _speech(got)
    if our_share is not None and their_share is not None:
        figures["activity"] = round(their_share - our_share, _DIGITS)
        if abs(figures["activity"]) > tolerances.activity:
            faults.append(f"the agent's speech differs: expected {our_share:.0%} of the time, got {their_share:.0%}")
    return Verdict(Rung.loudness, Outcome.different if faults else Outcome.same, "; ".join(faults), figures)


def _speech(document: Mapping[str, Any]) -> float | None:
    """The share of a call in which the agent speaks."""
    activity, duration = document.get("activity"), document["input"]["duration"]
    if activity is None:
        return None
    return float(sum(end - start for start, end in activity["agent"]) / duration) if duration else 0.0
