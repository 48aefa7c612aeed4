import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from personaplex.core.errors import InputError, UsageError
from personaplex.core.measures.bootstrap import versus
from personaplex.core.measures.events import Event, Kind
from personaplex.core.measures.figures import DEFINITIONS, figures, measure, parted
from personaplex.core.measures.pooled import FEW, Figure, Measured
from personaplex.core.measures.rows import MEASURES, Call, Made, failed_row, read_measures
from tests.core.measures.masks import agent, caller

MADE = Made("a/1", "NATM1", "clinic", 7, "energy", 0.08, "1" * 64, "2" * 64)


def call() -> Measured:
    """Half a minute in which the agent answers twice of three times."""
    heard = (
        caller((1, 3), (6, 8), (12, 14), length=30),
        agent((3.4, 5), (7.5, 10), (18, 18.5), length=30, words=[(3.4, 3.6), (4, 4.3), (8, 8.3)]),
    )
    return measure(*heard, 30.0)


def test_figures_of_a_call() -> None:
    found = figures([call()])
    assert found["units_per_minute.caller"] == Figure(6, 3)
    assert found["speech_seconds_per_minute.agent"] == Figure(9.2, 3)
    assert found["talk_share.agent"] == Figure(round(4.6 / 10.6, 4), 3)
    assert found["words_per_minute.agent"] == Figure(round(3 / 4.6 * 60, 4), 3)
    assert found["words_per_minute.caller"] == Figure(None, 0)
    assert found["response_rate.agent"] == Figure(1, 3)
    assert found["response_latency_median.agent"] == Figure(0.4, 3)  # of -0.5, 0.4 and 4
    assert found["takeover_rate.agent"] == Figure(round(2 / 3, 4), 3)
    assert found["overlaps_per_minute"] == Figure(2, 1)
    assert found["overlap_seconds_per_minute"] == Figure(1, 1)
    assert found["dead_air_per_minute"] == Figure(6, 3)
    assert found["yield_rate.agent"] == Figure(None, 0)
    assert "response_rate.caller" not in found


def test_every_figure_goes_by_a_name_that_can_be_parted() -> None:
    found = figures([call()])
    assert {parted(name)[0] for name in found} == DEFINITIONS.keys()


@pytest.mark.parametrize(
    "name", ["nix", "response_rate", "gaps_per_minute.agent", "gaps_per_minute.", "response_rate.", ""]
)
def test_a_name_of_no_figure_is_told(name: str) -> None:
    with pytest.raises(ValueError, match="there is no measure"):
        parted(name)


def test_calls_are_pooled_by_their_events_and_minutes() -> None:
    short, long = (Measured(seconds, ("a", "b"), (), {"a": 1, "b": 1}, []) for seconds in (60.0, 180.0))
    gap, answers = Event(Kind.gap, 0, 2), [Event(Kind.transfer, 0, 1, "b", offset=offset) for offset in (1.0, 2.0, 9.0)]
    found = figures([replace(short, events=[gap, *answers[:2]]), replace(long, events=[gap, answers[2]])])
    assert found["gaps_per_minute"] == Figure(0.5, 2)
    assert found["gap_seconds_per_minute"] == Figure(1, 2)
    assert found["transfer_offset_median"] == found["transfer_offset_median.b"] == Figure(2, 3)
    assert found["transfer_offset_median.a"] == Figure(None, 0)


def test_a_call_without_a_side_adds_nothing_to_that_sides_figures() -> None:
    talk = Measured(60.0, ("a", "b"), ("a", "b"), {"a": 1, "b": 1}, [Event(Kind.unit, 0, 30, "a")])
    found = figures([call(), talk])
    assert found["units_per_minute.a"] == Figure(1, 1)
    assert found["units_per_minute.caller"] == figures([call()])["units_per_minute.caller"]
    assert found["words_per_minute.a"] == Figure(2, 1)


def test_no_calls_have_no_figures() -> None:
    assert figures([]) == {}


def test_figures_of_few_events_are_marked() -> None:
    assert Figure(1.0, FEW - 1).is_of_few
    assert not Figure(1.0, FEW).is_of_few


def test_intervals_hold_what_the_calls_vary_by() -> None:
    generator = np.random.default_rng(3)

    def calls(latency: float) -> list[Measured]:
        made = []
        for _ in range(40):
            offsets = latency + 0.1 * generator.standard_normal(5)
            events = [Event(Kind.response, 0, 1, "agent", float(offset), success=True) for offset in offsets]
            made.append(replace(call(), events=events))
        return made

    slow, slower, other = calls(1.0), calls(1.5), calls(1.0)
    clear = versus(slow, slower)["response_latency_median.agent"]
    assert clear.is_clear
    assert clear.change == pytest.approx(0.5, abs=0.05)
    assert clear.change_interval is not None
    assert 0.4 < clear.change_interval[0] < clear.change_interval[1] < 0.6
    assert clear.expected_interval is not None
    assert clear.expected_interval[0] < clear.expected.value < clear.expected_interval[1]  # type: ignore[operator]
    assert not versus(slow, other)["response_latency_median.agent"].is_clear
    assert versus(slow, slower)["response_latency_median.agent"] == clear, "the draws are the same"


def test_a_run_against_itself_has_not_changed() -> None:
    same = versus([call(), call()], [call(), call()])
    assert all(one.change in (0, None) and not one.is_clear for one in same.values())
    assert same["yield_rate.agent"].expected_interval is None


def test_only_the_same_calls_are_held_against_each_other() -> None:
    with pytest.raises(ValueError, match="1 calls against 2"):
        versus([call()], [call(), call()])


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    made = Call(MADE, call())
    lines = [made.row, failed_row("b", InputError("broken", "mend it"))]
    (tmp_path / MEASURES).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    found = read_measures(tmp_path)
    assert list(found) == ["a/1"]
    assert found["a/1"].made == MADE
    assert found["a/1"].row == made.row
    assert read_measures(tmp_path / "nowhere") == {}


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "not whole JSON"),
        ("[]", "not a row of measures"),
        ('{"schema": "personaplex.measures/2", "status": "measured"}', "not a row of measures"),
        ('{"schema": "personaplex.measures/1", "status": "measured", "id": 1}', "can't be used: id: "),
    ],
)
def test_a_damaged_file_of_measures_is_told(tmp_path: Path, line: str, told: str) -> None:
    (tmp_path / MEASURES).write_text(line + "\n", encoding="utf-8")
    with pytest.raises(UsageError, match=f"{MEASURES}, line 1: {told}"):
        read_measures(tmp_path)


def test_a_file_of_measures_that_is_no_text_is_told(tmp_path: Path) -> None:
    (tmp_path / MEASURES).write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="is not UTF-8 text"):
        read_measures(tmp_path)
