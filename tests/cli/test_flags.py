"""A call that loops is flagged in its transcript, in its row and in the batch's summary."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from personaplex.core.config import PAD
from personaplex.core.sampling.draw import Sampling

if TYPE_CHECKING:
    from torch import Tensor

    from tests.cli.conftest import Desk


def say_nothing_but(desk: Desk, token: int) -> None:
    choose = Sampling.choose

    def chosen(self: Sampling, logits: Tensor, stream: int, seed: Tensor, frame: Tensor) -> Tensor:
        drawn = choose(self, logits, stream, seed, frame)
        return drawn if stream else drawn.fill_(token)

    desk.monkeypatch.setattr(Sampling, "choose", chosen)


def test_a_stuck_token_is_flagged_everywhere(desk: Desk) -> None:
    say_nothing_but(desk, 300)
    desk.sound("call.wav", desk.noise(2.4))
    assert desk.offline().code == 0
    (flag,) = desk.document()["flags"]
    assert flag == {"kind": "stuck_token", "start": 0.08, "end": 2.4, "detail": "token 300 for 29 frames"}
    manifest = desk.manifest([{"audio_filepath": "call.wav"}])
    assert "flagged  1 (loops or dead air" in desk.batch(manifest).out
    assert desk.rows()["call"]["flags"] == ["stuck_token"]
    again = desk.batch(manifest, "--json")
    assert {key: json.loads(again.out)[key] for key in ("skipped", "flagged")} == {"skipped": 1, "flagged": 1}


def test_a_call_without_a_word_is_flagged(desk: Desk) -> None:
    say_nothing_but(desk, PAD)
    assert desk.offline().code == 0
    assert [flag["kind"] for flag in desk.document()["flags"]] == ["no_text"]


def test_who_speaks_when_is_told(desk: Desk) -> None:
    """The caller speaks for a second, is silent for one and speaks again; the tiny model makes noise throughout."""
    desk.sound("call.wav", np.concatenate([desk.noise(0.96), np.zeros(24_000), desk.noise(0.64)]))
    assert desk.offline().code == 0
    activity = desk.document()["activity"]
    assert activity["caller"] == [[0.0, 0.96], [1.92, 2.64]]
    assert activity["agent"] == [[0.0, 2.64]]
