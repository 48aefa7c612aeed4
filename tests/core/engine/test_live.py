"""How latencies are summed up; `tests/cli/test_pace.py` runs whole calls."""

import pytest

from personaplex.core.engine.live import BUDGET_MS, pace_summary


def test_a_frame_is_missed_when_the_next_has_arrived() -> None:
    summary = pace_summary([10.0, BUDGET_MS, BUDGET_MS + 0.1, 200.0])
    assert (summary["frames"], summary["missed"], summary["missed_share"]) == (4, 2, 0.5)
    assert summary["latency_ms"]["max"] == 200.0
    assert summary["latency_ms"]["p50"] == pytest.approx(BUDGET_MS + 0.05)


def test_one_frame() -> None:
    latency = pace_summary([3.25])["latency_ms"]
    assert set(latency.values()) == {3.25}
