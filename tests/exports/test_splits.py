"""Splits by caller: their shares, and who is in which."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from personaplex.core.errors import UsageError
from personaplex.exports.splits import parse_splits, split_calls

if TYPE_CHECKING:
    from tests.exports.conftest import Made


class TestSplits:
    def test_shares(self) -> None:
        assert parse_splits("train=0.8, dev=0.1,test=0.1") == {"train": 0.8, "dev": 0.1, "test": 0.1}

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("train", "not a name and a share"),
            ("train=", "not a name and a share"),
            ("train=most", "not a name and a share"),
            ("train=0.5,train=0.5", "given twice"),
            ("../a=1", "not one word"),
            ("train=0,test=1", "the share of train is 0"),
            ("train=nan,test=1", "the share of train is nan"),
            ("train=1.5,test=-0.5", "the share of train is 1.5"),
            ("train=0.8,test=0.1", "add up to 0.9"),
        ],
    )
    def test_shares_that_make_no_sense(self, text: str, message: str) -> None:
        with pytest.raises(UsageError, match=message):
            parse_splits(text)

    @pytest.fixture
    def calls(self) -> list[Any]:
        """A hundred calls of forty callers."""

        class Stub:
            def __init__(self, number: int) -> None:
                self.id, self.group = f"{number:03}", str(number % 40)

        return [Stub(number) for number in range(100)]

    def test_a_caller_is_in_one_split(self, calls: list[Any]) -> None:
        made = split_calls(calls, {"train": 0.8, "dev": 0.1, "test": 0.1}, 0)
        groups = {name: {call.group for call in found} for name, found in made.items()}
        assert {name: len(found) for name, found in groups.items()} == {"train": 32, "dev": 4, "test": 4}
        assert len(set.union(*groups.values())) == 40
        assert sorted(call.id for found in made.values() for call in found) == [call.id for call in calls]

    def test_the_seed_and_the_callers_alone_decide(self, calls: list[Any]) -> None:
        shares = {"train": 0.5, "test": 0.5}

        def ids(of: list[Any], seed: int) -> list[str]:
            return [call.id for call in split_calls(of, shares, seed)["test"]]

        assert ids(calls, 1) == ids(calls[::-1], 1) != ids(calls, 2)

    def test_with_few_callers_a_split_may_be_empty(self, calls: list[Any]) -> None:
        made = split_calls(calls[:1], {"train": 0.9, "test": 0.1}, 0)
        assert {name: len(found) for name, found in made.items()} == {"train": 1, "test": 0}

    def test_the_calls_of_one_recording_stay_together(self, made: Made) -> None:
        made.export("nemo", shares={"train": 0.67, "test": 0.33})
        of = {
            json.loads(line)["id"]: name
            for name in ("train", "test")
            for line in made.data(f"{name}/manifest.jsonl").read_text(encoding="utf-8").splitlines()
        }
        assert sorted(of) == ["a/1", "a/1.x", "b", "c.d"]
        assert of["a/1"] == of["a/1.x"]

    def test_a_manifest_may_say_who_calls(self, made: Made) -> None:
        rows = [json.loads(line) for line in (made.run / "results.jsonl").read_text().splitlines()]
        text = "".join(json.dumps(row | {"speaker": row["id"][0]}) + "\n" for row in rows)
        (made.run / "results.jsonl").write_text(text)
        made.export("nemo")
        found = [json.loads(line) for line in made.data("manifest.jsonl").read_text().splitlines()]
        assert [row["caller"] for row in found] == ["a", "a", "b", "c"]
