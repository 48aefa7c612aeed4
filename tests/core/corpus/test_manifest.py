"""Manifest rows: what is accepted, and how every fault is told by row and field."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personaplex.core.corpus.manifest import Row, read_rows
from personaplex.core.errors import UsageError


def jsonl(*rows: Any) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def read(text: str, kind: str = "jsonl") -> list[Row]:
    return [row for _, row in read_rows(text, kind, "calls")]


def refused(text: str, kind: str = "jsonl") -> str:
    with pytest.raises(UsageError) as caught:
        read(text, kind)
    assert caught.value.mend
    return caught.value.what


def test_a_row_has_defaults() -> None:
    (row,) = read(jsonl({"audio_filepath": "a.wav"}))
    assert row == Row(audio_filepath="a.wav")
    assert (row.id, row.voice_prompt, row.seed, row.channel, row.duration, row.offset) == (*[None] * 5, 0.0)
    assert row.fields == row.passed_through == {}


def test_all_fields() -> None:
    fields = {
        "id": "a/1",
        "voice_prompt": "NATM1",
        "role": "clinic",
        "fields": {"name": "Mia"},
        "seed": 7,
        "channel": "left",
        "duration": 1.5,
        "offset": 2,
    }
    (row,) = read(jsonl({"input_wav": "a.wav", **fields, "scenario": {"deep": [1, None, "é"]}}))
    assert row.audio_filepath == "a.wav"
    assert {name: getattr(row, name) for name in fields} == fields
    assert row.passed_through == {"scenario": {"deep": [1, None, "é"]}}


def test_a_nemo_manifest() -> None:
    (row,) = read(jsonl({"audio_filepath": "/data/a.wav", "duration": 3.5, "offset": 12.25, "text": "hello"}))
    assert (row.audio_filepath, row.duration, row.offset) == ("/data/a.wav", 3.5, 12.25)
    assert row.passed_through == {"text": "hello"}


def test_whole_numbers_stand_for_text() -> None:
    (row,) = read(jsonl({"audio_filepath": "a.wav", "id": 17, "channel": 1}))
    assert (row.id, row.channel) == ("17", "1")


def test_rows_are_numbered_by_line() -> None:
    text = jsonl({"audio_filepath": "a"}) + "\n  \n" + jsonl({"audio_filepath": "b"})
    assert [(number, row.audio_filepath) for number, row in read_rows(text, "jsonl", "x")] == [(1, "a"), (4, "b")]
    text = "audio_filepath,note\r\na,\r\n\r\nb,\r\n"
    assert [(number, row.audio_filepath) for number, row in read_rows(text, "csv", "x")] == [(2, "a"), (4, "b")]


@pytest.mark.parametrize("break_", ["\u2028", "\u2029", "\x85"])
def test_only_line_feeds_end_a_row(break_: str) -> None:
    (row,) = read(json.dumps({"audio_filepath": "a.wav", "note": f"one{break_}two"}, ensure_ascii=False))
    assert row.passed_through == {"note": f"one{break_}two"}


def test_csv() -> None:
    text = (
        "audio_filepath,role,fields,seed,channel,offset,scenario\n"
        'a.wav,clinic,"{""name"": ""Mia""}",7,1,0.5,"two\nlines"\n'
        "b.wav,,,,,,\n"
    )
    first, second = read(text, "csv")
    assert (first.role, first.fields, first.seed, first.channel, first.offset) == (
        "clinic",
        {"name": "Mia"},
        7,
        "1",
        0.5,
    )
    assert first.passed_through == {"scenario": "two\nlines"}
    assert second == Row(audio_filepath="b.wav")


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ({}, "row 1, audio_filepath: Field required"),
        ({"audio_filepath": ""}, "row 1, audio_filepath: String should have at least 1 character"),
        ({"audio_filepath": "a\0b"}, "row 1, audio_filepath: Value error, holds a NUL"),
        ({"audio_filepath": 3}, "row 1, audio_filepath: Input should be a valid string"),
        ({"audio_filepath": "a", "id": ""}, "row 1, id: String should have at least 1"),
        ({"audio_filepath": "a", "seed": -1}, "row 1, seed: Input should be greater than or equal to 0"),
        ({"audio_filepath": "a", "seed": 2**63}, "row 1, seed: Input should be less than or equal to"),
        ({"audio_filepath": "a", "seed": 1.5}, "row 1, seed: Input should be a valid integer"),
        ({"audio_filepath": "a", "offset": -0.1}, "row 1, offset: Input should be greater than or equal to 0"),
        ({"audio_filepath": "a", "duration": 0}, "row 1, duration: Input should be greater than 0"),
        ({"audio_filepath": "a", "duration": "long"}, "row 1, duration: Input should be a valid number"),
        ({"audio_filepath": "a", "channel": "middle"}, "row 1, channel: String should match"),
        ({"audio_filepath": "a", "channel": True}, "row 1, channel: Input should be a valid string"),
        ({"audio_filepath": "a", "expect": {"must_shout": "x"}}, "row 1, expect.must_shout: Extra inputs are not"),
        ({"audio_filepath": "a", "expect": {"min_words": -1}}, "row 1, expect.min_words: Input should be greater"),
        ({"audio_filepath": "a", "expect": {"must_say": "/(/"}}, "row 1, expect.must_say.0: Value error, /(/ is no"),
        ({"audio_filepath": "a", "fields": "x"}, "row 1, fields: Input should be a valid dictionary"),
        ({"audio_filepath": "a", "fields": {"name": 3}}, "row 1, fields.name: Input should be a valid string"),
    ],
)
def test_a_fault_names_row_and_field(row: dict[str, Any], fault: str) -> None:
    assert refused(jsonl(row)).startswith(f"calls: {fault}")


def test_what_an_answer_is_held_to() -> None:
    expect = {"must_say": "thank you", "max_overlap": 1.5}
    cell = json.dumps(expect).replace('"', '""')
    for row in (
        *read(jsonl({"audio_filepath": "a.wav", "expect": expect})),
        *read(f'audio_filepath,expect\na.wav,"{cell}"\n', "csv"),
    ):
        assert row.expect is not None
        assert (row.expect.must_say, row.expect.max_overlap, row.expect.min_words) == (["thank you"], 1.5, None)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("{", "row 1: not JSON (Expecting property name"),
        ("[1]", "row 1: not a JSON object"),
        ('{"audio_filepath": "a", "score": NaN}', "row 1: not JSON (Out of range float"),
        ('{"audio_filepath": "a", "score": 1e999}', "row 1: not JSON (Out of range float"),
        ('{"audio_filepath": "a", "note": "\\ud800"}', "row 1: not JSON ('utf-8' codec can't encode"),
        ("[" * 100_000, "row 1: not JSON (nested too deeply)"),
    ],
)
def test_a_line_that_is_no_row(line: str, fault: str) -> None:
    assert refused(line).startswith(f"calls: {fault}")


def test_several_faults_are_told_at_once() -> None:
    good, bad = {"audio_filepath": "a"}, {"audio_filepath": "a", "seed": -1, "offset": -1}
    what = refused(jsonl(good, bad, good, {}) + "nonsense\n")
    assert what.startswith("calls: row 2, seed: ")
    assert all(part in what for part in ("row 2, offset: ", "row 4, audio_filepath: ", "row 5: not JSON"))
    assert refused(jsonl(*[{}] * 8)).endswith("row 5, audio_filepath: Field required; and 3 more")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("audio_filepath,seed\na.wav\n", "row 2: has not the header's 2 cells"),
        ("audio_filepath,seed\na.wav,1,2\n", "row 2: has not the header's 2 cells"),
        ("audio_filepath,fields\na.wav,name\n", "row 2: fields is not a JSON object"),
        ("audio_filepath,expect\na.wav,hello\n", "row 2: expect is not a JSON object"),
        ("audio_filepath,fields\na.wav,[1]\n", "row 2, fields: Input should be a valid dictionary"),
        ("audio_filepath,seed\na.wav,x\n", "row 2, seed: Input should be a valid integer"),
        ("name,seed\na.wav,1\n", "row 2, audio_filepath: Field required"),
        ('audio_filepath\n"a.wav\n', "row 2: not CSV (unexpected end of data)"),
    ],
)
def test_csv_faults(text: str, fault: str) -> None:
    assert refused(text, "csv").startswith(f"calls: {fault}")


@pytest.mark.parametrize(("text", "kind"), [("", "jsonl"), ("\n\n", "jsonl"), ("", "csv"), ("audio_filepath\n", "csv")])
def test_no_rows(text: str, kind: str) -> None:
    assert refused(text, kind) == "calls: holds no rows"


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    for kind in ("jsonl", "csv"):
        with contextlib.suppress(UsageError):
            read(text, kind)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(st.dictionaries(st.text(), json_values), st.booleans())
def test_other_keys_pass_through_unchanged(extra: dict[str, Any], ascii_only: bool) -> None:
    extra = {key: value for key, value in extra.items() if key not in {*Row.model_fields, "input_wav"}}
    text = json.dumps({"audio_filepath": "a.wav", **extra}, ensure_ascii=ascii_only)
    assert read(text)[0].passed_through == extra
