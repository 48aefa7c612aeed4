"""`personaplex bench`: what it prints, and what it refuses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Desk

QUICK = ("--frames", "2", "--context-used", "5", "--quiet")


def test_a_row_for_every_number_of_slots(desk: Desk) -> None:
    result = desk.run("bench", "--shape", "tiny", "--slots", "1,3", *QUICK, "--json")
    assert (result.code, result.err) == (0, "")
    found = json.loads(result.out)
    assert (found["shape"], found["dtype"], found["frames"], found["context_used"]) == ("tiny", "bfloat16", 2, 5)
    assert [row["slots"] for row in found["rows"]] == [1, 3]
    for row in found["rows"]:
        assert set(row["parts"]) == {"temporal", "depth", "sampling", "other", "codec"}
        assert 0 < row["ms_per_tick"] <= row["ms_per_tick_p95"]
        assert row["times_real_time"] > 0
        assert row["peak_memory_bytes"] > 2**20
        assert 0 <= row["ticks_over_budget"] <= 1
    one, three = (row["bytes_per_tick"] for row in found["rows"])
    assert three - one == 2 * 6 * 2 * 3 * 128 * 2  # two calls more, 6 positions, keys and values, 3 layers, dim 128


def test_a_model_in_place_of_a_shape(desk: Desk) -> None:
    result = desk.run("bench", "--model", "tiny", "--slots", "1", *QUICK)
    assert result.code == 0
    head, row = result.out.splitlines()
    assert head.split()[:2] == ["slots", "ms/tick"]
    assert row.split()[0] == "1"


@pytest.mark.parametrize("slots", ["0", "", "1,,2", "many", "-1"])
def test_slots_that_make_no_sense(desk: Desk, slots: str) -> None:
    result = desk.run("bench", f"--slots={slots}", *QUICK)
    assert result.code == 2
    assert "--slots" in result.err
    assert "Traceback" not in result.err
