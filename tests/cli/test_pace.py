"""`offline --pace realtime`: the same answer, and how its deadlines were kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Desk


@pytest.mark.parametrize("align", ["reference", "model"])
def test_the_answer_is_that_of_a_batch(desk: Desk, align: str) -> None:
    assert desk.offline("--align", align, "-q").code == 0
    whole, heard = desk.document(), desk.samples()
    assert desk.offline("--align", align, "--pace", "realtime", "-q").code == 0
    live = desk.document()
    assert live["tokens_sha256"] == whole["tokens_sha256"]
    assert (whole["engine"]["pace"], live["engine"]["pace"]) == ("batch", "realtime")
    np.testing.assert_allclose(desk.samples(), heard, atol=2e-4)
    assert "pace" not in whole["volatile"]


def test_latencies_are_told(desk: Desk) -> None:
    assert desk.offline("--pace", "realtime", "-q").code == 0
    document = desk.document()
    pace = document["volatile"]["pace"]
    assert pace["frames"] == len(document["text_tokens"])
    assert pace["budget_ms"] == 80
    latency = pace["latency_ms"]
    assert 0 < latency["p50"] <= latency["p90"] <= latency["p95"] <= latency["p99"] <= latency["max"]
    assert pace["missed_share"] == round(pace["missed"] / pace["frames"], 4)
    # Frame u is heard (u + 1) * 80 ms after the start, so a call can't take less than it lasts.
    assert document["volatile"]["phases"]["live"] >= document["input"]["duration"]
