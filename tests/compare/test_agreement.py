"""What two answers have in common: by frame, by word, and over a run."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from personaplex.compare.agreement import run_agreement
from personaplex.compare.ladder import compare_items, compare_runs
from personaplex.compare.recorded import read_run
from personaplex.compare.reports.telling import alike, run_alike
from personaplex.compare.verdicts import Agreement, Comparison, Level, Recorded, Tolerances

FRAMES = 50


def agreement(one: Any, other: Any) -> Agreement:
    found = compare_items(Recorded("a", one), Recorded("a", other), Level.words, Tolerances()).agreement
    assert found is not None
    return found


def with_text(tokens: Any, *frames: int) -> Any:
    """Tokens with another text token in each of `frames`."""
    changed = tokens.copy()
    changed[list(frames), 0] += 1
    return changed


def test_equal_answers_have_all_in_common(document: Any) -> None:
    found = agreement(document(), document())
    assert (found.text, found.speech, found.word_error_rate) == (1.0, 1.0, 0.0)
    assert (found.text_frames, found.speech_frames, found.words) == (FRAMES, FRAMES, 3)


def test_frames_with_another_text_token_are_counted(document: Any, some_tokens: Any) -> None:
    found = agreement(document(), document(tokens=with_text(some_tokens, 3, 4, 49)))
    assert (found.same_text, found.text) == (47, pytest.approx(0.94))


def test_other_codebooks_are_no_other_text(document: Any, some_tokens: Any) -> None:
    changed = some_tokens.copy()
    changed[:, 1:] += 1
    assert agreement(document(), document(tokens=changed)).text == 1.0


def test_frames_where_one_alone_speaks_are_not_in_common(document: Any) -> None:
    """17 to 32 against 12 to 35 and 45 to 47: three, five and two frames are one's alone."""
    ours = document(activity={"agent": [[1.36, 2.56]]})
    theirs = document(activity={"agent": [[0.96, 2.8], [3.6, 3.76]]})
    found = agreement(ours, theirs)
    assert (found.speech_frames, found.same_speech) == (FRAMES, FRAMES - 5 - 3 - 2)


def test_a_transcript_without_activity_says_nothing_of_speech(document: Any) -> None:
    older = document()
    del older["activity"]
    for pair in ((older, document()), (document(), older)):
        found = agreement(*pair)
        assert (found.speech, found.speech_frames) == (None, 0)
        assert alike(found) == "text token 100.0 %, speech not known, 0 % WER"


def test_nearly_all_is_not_told_as_all() -> None:
    assert alike(Agreement(9999, 9998, 10, 10, 9999, 1)) == "text token 99.9 %, speech 100.0 %, 0.01 % WER"


def test_past_the_end_of_the_shorter_nothing_is_the_same(document: Any, some_tokens: Any) -> None:
    silent = {"activity": {"agent": []}}
    for pair in ((40, FRAMES), (FRAMES, 40)):
        found = agreement(*(document(tokens=some_tokens[:frames], **silent) for frames in pair))
        assert (found.text_frames, found.same_text) == (FRAMES, 40)
        assert (found.speech_frames, found.same_speech) == (FRAMES, 40)


def test_no_frames_and_no_words(document: Any) -> None:
    empty = document("", tokens=np.zeros((0, 9), dtype=np.int32))
    found = agreement(empty, empty)
    assert (found.text, found.speech, found.word_error_rate) == (None, None, 0.0)
    assert agreement(document(""), document()).word_error_rate == 1.0


def compared(tmp_path: Path, write_run: Any, documents: Any, others: Any, tokens: Any = None) -> Comparison:
    paths = [
        write_run(tmp_path / name, made, tokens=tokens and tokens[name])
        for name, made in (("one", documents), ("two", others))
    ]
    runs = [read_run(path) for path in paths]
    return compare_runs(runs[0], runs[1], ("one", "two"), Level.words, Tolerances())


def test_a_run_is_judged_by_all_its_frames_and_words(
    tmp_path: Path, write_run: Any, document: Any, some_tokens: Any
) -> None:
    """Not by the mean over items, in which a short one would weigh as much as a long one."""
    short, changed = some_tokens[:10], with_text(some_tokens[:10], 0, 5)
    silent = {"activity": {"agent": []}}
    documents = {"long": document(), "short": document("One.", tokens=short, **silent)}
    others = {"long": document(), "short": document("Two.", tokens=changed, **silent)}
    found = run_agreement(compared(tmp_path, write_run, documents, others))
    assert (found.items, found.agreement.text) == (2, pytest.approx(58 / 60))
    assert found.agreement.word_error_rate == pytest.approx(1 / 4)
    assert (found.differing, found.located, found.median_second, found.first_item) == (1, 1, 0.0, "short")
    assert run_alike(found) == {
        "text token": "the same in 96.7 % of 60 frames",
        "speech": "both agents speak or both are silent in 100.0 % of 60 frames",
        "word error rate": "25 % of 4 words",
        "first difference": "in 1 of 2 items, 0.00 s in by the median, earliest 0.00 s in (short)",
    }


def test_the_first_differences_of_a_run(tmp_path: Path, write_run: Any, document: Any, some_tokens: Any) -> None:
    frames = {"a": 30, "b": 10, "c": 20}
    tokens = {
        "one": dict.fromkeys(frames, some_tokens),
        "two": {name: with_text(some_tokens, frame) for name, frame in frames.items()},
    }
    documents, others = (
        {name: document(tokens=found) for name, found in side.items()} for side in (tokens["one"], tokens["two"])
    )
    found = run_agreement(compared(tmp_path, write_run, documents, others, tokens))
    assert (found.differing, found.located) == (3, 3)
    assert (found.median_second, found.first_second, found.first_item) == (
        pytest.approx(1.6),
        pytest.approx(0.8),
        "b",
    )


def test_without_saved_tokens_it_is_said_that_a_place_is_not_known(
    tmp_path: Path, write_run: Any, document: Any, some_tokens: Any
) -> None:
    changed = some_tokens.copy()
    changed[3, 1] += 1
    documents, others = {"a": document()}, {"a": document(tokens=changed)}
    found = run_agreement(compared(tmp_path, write_run, documents, others))
    assert (found.differing, found.located, found.median_second, found.first_item) == (1, 0, None, None)
    assert run_alike(found)["first difference"] == (
        "in 1 of 1 item; 1 not located, for want of tokens: run both with --save-tokens"
    )


def test_items_that_could_not_be_compared_count_for_nothing(tmp_path: Path, write_run: Any, document: Any) -> None:
    found = run_agreement(compared(tmp_path, write_run, {"a": document(), "b": document()}, {"a": document()}))
    assert (found.items, found.agreement.text_frames, found.differing) == (1, FRAMES, 0)
