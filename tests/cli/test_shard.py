"""Which share `--shard` takes: as it is written, or as Slurm's job arrays have it."""

from __future__ import annotations

import pytest

from personaplex.cli.commands.batch import parse_shard
from personaplex.core.errors import UsageError


def array(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    for name in ("ID", "COUNT", "MIN", "STEP"):
        monkeypatch.delenv(f"SLURM_ARRAY_TASK_{name}", raising=False)
    for name, value in values.items():
        monkeypatch.setenv(f"SLURM_ARRAY_TASK_{name}", value)


@pytest.mark.parametrize(
    ("values", "shard"),
    [
        ({"ID": "1", "COUNT": "8", "MIN": "1", "STEP": "1"}, (1, 8)),
        ({"ID": "0", "COUNT": "4", "MIN": "0"}, (1, 4)),
        ({"ID": "7", "COUNT": "4", "MIN": "1", "STEP": "2"}, (4, 4)),
    ],
)
def test_of_a_job_array(monkeypatch: pytest.MonkeyPatch, values: dict[str, str], shard: tuple[int, int]) -> None:
    array(monkeypatch, **values)
    assert parse_shard("slurm") == shard


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({}, "SLURM_ARRAY_TASK_ID is not set"),
        ({"ID": "1", "COUNT": "two", "MIN": "1"}, 'SLURM_ARRAY_TASK_COUNT is "two"'),
        ({"ID": "9", "COUNT": "3", "MIN": "1"}, "task 9 is none of 3 from 1"),  # --array=1,5,9
        ({"ID": "2", "COUNT": "4", "MIN": "1", "STEP": "2"}, "task 2 is none of 4 from 1"),
    ],
)
def test_of_no_such_array(monkeypatch: pytest.MonkeyPatch, values: dict[str, str], told: str) -> None:
    array(monkeypatch, **values)
    with pytest.raises(UsageError, match=told):
        parse_shard("slurm")
