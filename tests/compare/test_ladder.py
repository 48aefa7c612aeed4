"""The verdicts of an item, what fails at a level, and how it is told."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from personaplex.compare.ladder import compare_items, compare_runs
from personaplex.compare.recorded import read_run
from personaplex.compare.verdicts import ItemComparison, Level, Outcome, Recorded, Rung, Status, Tolerances
from personaplex.core.errors import UsageError

SAME, DIFFERENT, UNKNOWN = Outcome.same, Outcome.different, Outcome.unknown


def compared(one: Any, other: Any, level: Level = Level.tokens, **tolerances: float) -> ItemComparison:
    return compare_items(Recorded("a", one), Recorded("a", other), level, Tolerances(**tolerances))


def verdict(item: ItemComparison, rung: Rung) -> Any:
    return next(verdict for verdict in item.verdicts if verdict.rung is rung)


def test_equal_answers_are_the_same_on_every_rung(document: Any) -> None:
    item = compared(document(), document(volatile={}))
    assert [found.rung for found in item.verdicts] == list(Rung)
    assert {found.outcome for found in item.verdicts} == {SAME}
    assert (item.status, item.fails, item.summary, item.difference) == (Status.compared, False, "same", None)


def test_silent_answers_are_the_same(document: Any) -> None:
    silent = document("", output={"rms_dbfs": -120}, activity={"agent": []})
    noisy = document("", output={"rms_dbfs": -75.5}, activity={"agent": []})
    item = compared(silent, noisy)
    assert {found.outcome for found in item.verdicts} == {SAME}
    assert verdict(item, Rung.timing).detail == "no words on either side"


@pytest.mark.parametrize(
    ("other", "fails_at"),
    [
        ({"tokens": "other"}, {Level.samples, Level.tokens}),
        ({"output": {"pcm_sha256": "x"}}, {Level.samples}),
        ({"text": "Thanks for nothing."}, {Level.samples, Level.tokens, Level.words}),
        ({"start": 1.6}, set(Level)),
        ({"output": {"rms_dbfs": -22.0}}, set(Level)),
        ({"activity": {"agent": []}}, set(Level)),
        ({"volatile": {}}, set()),
    ],
)
def test_a_level_fails_at_its_rung_and_those_below(
    other: dict[str, Any], fails_at: set[Level], document: Any, some_tokens: Any
) -> None:
    changed = other | {"tokens": some_tokens + 1} if "tokens" in other else other
    failing = {level for level in Level if compared(document(), document(**changed), level).fails}
    assert failing == fails_at


def test_tokens_that_differ_are_told_with_their_place(document: Any, some_tokens: Any) -> None:
    changed = some_tokens.copy()
    changed[13, 4] = 90
    one, other = (document(tokens=tokens) | {"tokens": tokens.tolist()} for tokens in (some_tokens, changed))
    item = compared(one, other)
    told = f"first differs at frame 13 (1.04 s), codebook 3: expected {some_tokens[13, 4]}, got 90"
    assert item.summary == verdict(item, Rung.tokens).detail == told
    assert item.difference is not None
    assert compared(one, other, Level.words).summary == f"the same at the level of words; {told}"


def test_an_answer_that_ends_sooner_is_told(document: Any, some_tokens: Any) -> None:
    one, other = (document(tokens=tokens) | {"tokens": tokens.tolist()} for tokens in (some_tokens, some_tokens[:20]))
    told = f"first differs at frame 20 (1.60 s), text: expected {some_tokens[20, 0]}, got the end"
    assert compared(one, other).summary == told


def test_where_tokens_were_not_saved_the_text_is_looked_at(document: Any, some_tokens: Any) -> None:
    changed = some_tokens.copy()
    changed[5, 3] += 1
    item = compared(document(), document(tokens=changed))
    assert item.summary == "the audio tokens differ; run both with --save-tokens to see where"
    assert item.difference is None
    changed[6, 0] += 1
    told = f"the text tokens first differ at frame 6 (0.48 s): expected {some_tokens[6, 0]}, got {changed[6, 0]}"
    assert compared(document(), document(tokens=changed)).summary == told


@pytest.mark.parametrize("change", [{"sample_rate": 8000}, {"subtype": "FLOAT"}, {"align": "model"}])
def test_samples_of_other_formats_can_not_be_compared(change: dict[str, Any], document: Any) -> None:
    found = verdict(compared(document(), document(output=change | {"pcm_sha256": "x"})), Rung.samples)
    assert found.outcome is UNKNOWN
    assert found.detail.startswith("different output formats: 24000 PCM_16 reference and ")


def test_samples_that_differ_are_placed_by_their_files(tmp_path: Path, document: Any, write_run: Any) -> None:
    sound = np.zeros(48_000, np.float32)
    ours = read_run(write_run(tmp_path / "one", {"a": document()}, audio={"a": sound}))
    sound[36_000:] = 0.1
    other = document(output={"pcm_sha256": "x"})
    theirs = read_run(write_run(tmp_path / "other", {"a": other}, audio={"a": sound}))
    item = compare_items(ours["a"], theirs["a"], Level.samples, Tolerances())
    assert item.summary == "the samples differ from 1.50 s on"
    assert compared(document(), other, Level.samples).summary == "the samples differ"


def test_words_are_the_same_within_the_tolerance(document: Any) -> None:
    one, other = document("a b c d e f g h"), document("a b x d e f g h")
    item = compared(one, other, Level.words)
    assert item.summary == verdict(item, Rung.words).detail == "the words differ: 12.5 % WER"
    figures = {"word_error_rate": 0.125, "substitutions": 1, "insertions": 0, "deletions": 0}
    assert verdict(item, Rung.words).figures == figures
    within = compared(one, other, Level.words, word_error_rate=0.125)
    assert not within.fails
    assert verdict(within, Rung.words).outcome is SAME


def test_words_where_none_are_expected_differ(document: Any) -> None:
    item = compared(document(""), document("Hello there."), Level.words)
    assert item.summary == "the words differ: expected none, got 2"
    assert verdict(item, Rung.timing).outcome is UNKNOWN
    assert compared(document("Hello there."), document(""), Level.words).summary == "the words differ: 100 % WER"


def test_case_and_punctuation_are_no_difference(document: Any) -> None:
    item = compared(document("Thanks, for calling."), document("thanks for - calling!"), frames=9)
    assert verdict(item, Rung.words).outcome is SAME


@pytest.mark.parametrize(("start", "frames", "outcome"), [(1.44, 1, SAME), (1.52, 1, DIFFERENT), (1.52, 2, SAME)])
def test_words_may_move_by_some_frames(start: float, frames: int, outcome: Outcome, document: Any) -> None:
    item = compared(document(), document(start=start), Level.timing, frames=frames)
    assert verdict(item, Rung.timing).outcome is outcome
    assert item.fails is (outcome is DIFFERENT)


def test_the_word_that_moved_most_is_told(document: Any) -> None:
    other = document("Thanks for your calling.", start=1.2)
    item = compared(document(), other, Level.timing)
    assert item.summary == '"calling" starts 3 frames later: expected 2.16 s, got 2.40 s'
    assert verdict(item, Rung.timing).figures == {"frames": 3}


def test_loudness_and_speech_may_differ_a_little(document: Any) -> None:
    other = document(output={"rms_dbfs": -21.5}, activity={"agent": [[1.36, 2.76]]})
    assert not compared(document(), other).fails
    item = compared(document(), other, loudness_db=0.9, activity=0.04)
    told = "the loudness differs: expected -20.5 dBFS, got -21.5 dBFS; "
    assert item.summary == told + "the agent's speech differs: expected 30% of the time, got 35%"
    assert verdict(item, Rung.loudness).figures == {"loudness_db": -1.0, "activity": 0.05}


def test_without_activity_loudness_alone_is_compared(document: Any) -> None:
    old = {key: value for key, value in document().items() if key not in ("activity", "flags")}
    found = verdict(compared(old, document(activity={"agent": []})), Rung.loudness)
    assert (found.outcome, found.figures) == (SAME, {"loudness_db": 0})


def test_an_answer_on_one_side_alone_always_fails(document: Any) -> None:
    answer, failed = Recorded("a", document()), Recorded("a", failure="it is\nno WAV")
    for level in Level:
        found = {
            (item.status, item.fails): item.summary
            for item in (
                compare_items(answer, None, level, Tolerances()),
                compare_items(None, answer, level, Tolerances()),
                compare_items(failed, None, level, Tolerances()),
            )
        }
        assert list(found) == [(Status.missing, True), (Status.extra, True)]
        broken = [compare_items(*pair, level, Tolerances()) for pair in ((answer, failed), (failed, answer))]
        assert [(item.status, item.fails) for item in broken] == [(Status.broken, True)] * 2
        assert broken[0].summary == "failed, but has an answer in the expected run: it is no WAV"
        assert broken[1].summary == "has an answer, but failed in the expected run: it is no WAV"


def test_an_item_that_failed_in_both_runs_does_not_fail() -> None:
    failed = Recorded("a", failure="it is no WAV")
    item = compare_items(failed, failed, Level.tokens, Tolerances())
    assert (item.status, item.fails, item.summary) == (Status.failed, False, "failed in both runs: it is no WAV")


def test_an_expectation_that_is_not_met_fails_at_every_level(document: Any) -> None:
    asked = {"must_say": ["refund", "thanks"]}
    for level in Level:
        for ours, theirs in (({}, asked), (asked, {}), ({"must_say": "calling"}, asked)):
            one, other = Recorded("a", document(), expect=ours), Recorded("a", document(), expect=theirs)
            item = compare_items(one, other, level, Tolerances())
            assert (item.fails, item.summary) == (True, 'must_say "refund": not said')
            assert [found.passed for found in item.expectations] == [False, True]


def test_an_expectation_that_makes_no_sense_is_an_error(document: Any) -> None:
    asked = Recorded("a", document(), expect={"must_sai": "x"})
    with pytest.raises(UsageError, match="expect: must_sai: "):
        compare_items(asked, asked, Level.tokens, Tolerances())


def test_runs_are_compared_in_the_order_of_the_expected_one(document: Any) -> None:
    made = {name: Recorded(name, document()) for name in "abcd"}
    comparison = compare_runs(
        {name: made[name] for name in "cab"},
        {name: made[name] for name in "dbc"},
        ("A", "B"),
        Level.words,
        Tolerances(),
    )
    assert [(item.id, item.status.value) for item in comparison.items] == [
        ("c", "compared"),
        ("a", "missing"),
        ("b", "compared"),
        ("d", "extra"),
    ]
    assert comparison.fails
    assert (comparison.expected, comparison.got) == ("A", "B")


def test_a_thousand_items_are_compared(tmp_path: Path, document: Any, write_run: Any, some_tokens: Any) -> None:
    names = [f"{number // 100}/{number:04}" for number in range(1000)]
    changed = some_tokens.copy()
    changed[20:] += 1
    ours = read_run(write_run(tmp_path / "one", {name: document() for name in names}))
    theirs = read_run(write_run(tmp_path / "other", {name: document("No.", tokens=changed) for name in names}))
    comparison = compare_runs(ours, theirs, ("A", "B"), Level.tokens, Tolerances())
    assert [item.id for item in comparison.items] == names
    assert {item.difference.frame for item in comparison.items if item.difference} == {20}
    assert all(item.fails for item in comparison.items)


@pytest.mark.parametrize("side", ["one", "other"])
@pytest.mark.parametrize("level", Level)
def test_saved_tokens_of_another_answer_fail_an_item_that_is_the_same(
    side: str, level: Level, tmp_path: Path, document: Any, write_run: Any, some_tokens: Any
) -> None:
    for name in ("one", "other"):
        saved = some_tokens + (name == side)
        write_run(tmp_path / name, {"a": document(), "b": document()}, tokens={"a": saved, "b": some_tokens})
    runs = (read_run(tmp_path / name) for name in ("one", "other"))
    found, fine = compare_runs(*runs, ("one", "other"), level, Tolerances()).items
    path = tmp_path / side / "a.tokens.safetensors"
    assert found.summary == f"{path}: its tokens are not those of the transcript's tokens_sha256"
    assert (found.fails, found.differs, fine.fails) == (True, False, False)
