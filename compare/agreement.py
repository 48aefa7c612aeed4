"""How much two answers have in common, where they need not be equal: text tokens, speech and silence, words.

Frames are those of the longer answer: past the end of the shorter one nothing is the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from personaplex.compare.alignment import Alignment
from personaplex.compare.verdicts import Agreement, Comparison, Outcome, Rung, Verdict
from personaplex.core.config import FRAME_RATE

_Frames = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True)
class RunAgreement:
    """What two runs have in common over the `items` that could be compared.

    In `differing` of them the tokens differ, in `located` of these it is known where they first do: `median_second`
    seconds in by the median, and `first_second` seconds in where it is earliest of all, in `first_item`.
    """

    items: int
    agreement: Agreement
    differing: int
    located: int
    median_second: float | None
    first_second: float | None
    first_item: str | None


def agreement(expected: Mapping[str, Any], got: Mapping[str, Any], alignment: Alignment) -> Agreement:
    """What two transcripts have in common; both hold their text tokens, whether or not others were saved."""
    ours, theirs = (np.array(document["text_tokens"], dtype=np.int64) for document in (expected, got))
    text_frames, same_text = _same(ours, theirs)
    speech_frames, same_speech = _same_speech(expected, got)
    return Agreement(text_frames, same_text, speech_frames, same_speech, alignment.expected, alignment.errors)


def run_agreement(comparison: Comparison) -> RunAgreement:
    """What the compared items have in common, frame by frame and word by word, so that long calls weigh more."""
    found = [item.agreement for item in comparison.items if item.agreement is not None]
    differing = [item for item in comparison.items if any(map(_other_tokens, item.verdicts))]
    places = [(item.difference.second, item.id) for item in comparison.items if item.difference is not None]
    first_second, first_item = min(places, default=(None, None))
    middle = median(second for second, _ in places) if places else None
    return RunAgreement(
        len(found), sum(found, Agreement()), len(differing), len(places), middle, first_second, first_item
    )


def _other_tokens(verdict: Verdict) -> bool:
    return verdict.rung is Rung.tokens and verdict.outcome is Outcome.different


def _same_speech(expected: Mapping[str, Any], got: Mapping[str, Any]) -> tuple[int, int]:
    """How many frames there are, and in how many both agents speak or both are silent; none without `activity`."""
    if expected.get("activity") is None or got.get("activity") is None:
        return 0, 0
    return _same(_speaking(expected), _speaking(got))


def _speaking(document: Mapping[str, Any]) -> _Frames:
    """1 for each frame `[F]` in a stretch of the agent's speech, which holds pauses of less than 0.6 s, else 0."""
    frames = np.zeros(len(document["text_tokens"]), dtype=np.int8)
    for start, end in document["activity"]["agent"]:
        frames[max(0, round(start * FRAME_RATE)) : max(0, round(end * FRAME_RATE))] = 1
    return frames


def _same(ours: _Frames, theirs: _Frames) -> tuple[int, int]:
    """The frames of the longer of `[F]` and `[G]`, and how many hold the same in both."""
    common = min(len(ours), len(theirs))
    return max(len(ours), len(theirs)), int((ours[:common] == theirs[:common]).sum())
