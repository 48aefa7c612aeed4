"""Manifest rows: what is accepted, and how every fault is told by row and field."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personaplex.core.corpus.manifest import KNOWN, Row, read_rows
from personaplex.core.errors import UsageError


def jsonl(*rows: Any) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def read(text: str, kind: str = "jsonl") -> list[Row]:
    rows = read_rows(text, kind, "calls")
    assert rows.bad == []
    return [row for _, row in rows.good]


def bad(text: str, kind: str = "jsonl") -> list[str]:
    """What is wrong with each bad row."""
    return [row.fault for row in read_rows(text, kind, "calls").bad]


def refused(text: str, kind: str = "jsonl") -> str:
    """What is wrong with the whole."""
    with pytest.raises(UsageError) as caught:
        read_rows(text, kind, "calls")
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
    assert [(number, row.audio_filepath) for number, row in read_rows(text, "jsonl", "x").good] == [(1, "a"), (4, "b")]
    text = "audio_filepath,note\r\na,\r\n\r\nb,\r\n"
    assert [(number, row.audio_filepath) for number, row in read_rows(text, "csv", "x").good] == [(2, "a"), (4, "b")]


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
    (told,) = bad(jsonl(row))
    assert told.startswith(f"calls: {fault}")


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
        ('{"audio_filepath": "a", "score": 1e999}', "row 1: score: holds an infinite number"),
        ('{"audio_filepath": "a", "deep": [{"score": -Infinity}]}', "row 1: deep: holds an infinite number"),
        ('{"audio_filepath": "a", "note": "\\ud800"}', "row 1: note: holds half of a surrogate pair"),
        ('{"audio_filepath": "a", "\\ud800": 1}', "row 1: \\ud800: holds half of a surrogate pair"),
        ('{"audio_filepath": "a", "seed": 1, "seed": 2}', 'row 1: holds "seed" twice'),
        ("{" + '"a": {' * 100_000, "row 1: not JSON (nested too deeply)"),
    ],
)
def test_a_line_that_is_no_row(line: str, fault: str) -> None:
    (told,) = bad(line)
    assert told.startswith(f"calls: {fault}")


def test_a_bad_row_is_refused_alone_with_all_that_is_wrong_with_it() -> None:
    good, odd = {"audio_filepath": "a"}, {"audio_filepath": "a", "seed": -1, "offset": -1}
    rows = read_rows(jsonl(good, odd, good, {"id": "x"}) + "nonsense\n", "jsonl", "calls")
    assert [number for number, _ in rows.good] == [1, 3]
    assert [(row.number, row.keys) for row in rows.bad] == [(2, odd), (4, {"id": "x"}), (5, {})]
    assert rows.bad[0].fault.startswith("calls: row 2, seed: Input should be")
    assert "; offset: Input should be" in rows.bad[0].fault


def test_null_is_as_if_the_key_were_absent() -> None:
    """As pandas and diarisation tools write what is missing; a NaN is the same."""
    nothing = dict.fromkeys(sorted(KNOWN - {"audio_filepath"}))
    (row,) = read(jsonl({"audio_filepath": "a.wav", **nothing}))
    assert row == Row(audio_filepath="a.wav")
    (row,) = read('{"audio_filepath": "a.wav", "duration": NaN, "seed": NaN}')
    assert (row.duration, row.seed) == (None, None)
    inside = {"input_wav": "a.wav", "fields": {"name": None, "town": "Bath"}, "expect": {"min_words": None}}
    (row,) = read(jsonl({"audio_filepath": None, **inside}))
    assert (row.audio_filepath, row.fields, row.asked) == ("a.wav", {"town": "Bath"}, {})
    assert bad(jsonl({"audio_filepath": None})) == ["calls: row 1, audio_filepath: Field required"]


def test_nan_in_a_key_of_ones_own_is_passed_through_as_null() -> None:
    rows = read_rows('{"audio_filepath": "a", "score": NaN, "deep": [{"x": NaN}]}\n' * 2, "jsonl", "calls")
    assert [row.passed_through for _, row in rows.good] == [{"score": None, "deep": [{"x": None}]}] * 2
    assert rows.warnings == [f'calls: "{key}" is NaN in row 1 and 1 more, taken for null' for key in ("score", "deep")]


def test_whole_numbers_that_are_written_as_fractions() -> None:
    (row,) = read(jsonl({"audio_filepath": "a.wav", "id": 12.0, "channel": 0.0, "seed": 7.0}))
    assert (row.id, row.channel, row.seed) == ("12", "0", 7)
    (row,) = read("audio_filepath,channel,seed\na.wav,1.0,7.0\n", "csv")
    assert (row.channel, row.seed) == ("1", 7)
    assert bad(jsonl({"audio_filepath": "a.wav", "id": 12.5}))[0].startswith("calls: row 1, id: Input should be")


@pytest.mark.parametrize(
    "text", ['[{"audio_filepath": "a"},\n {"audio_filepath": "b"}]', '\n[\n{"input_wav": "a"},{"input_wav":"b"}]\n']
)
def test_an_array_of_objects(text: str) -> None:
    assert [row.audio_filepath for row in read(text)] == ["a", "b"]


def test_a_single_object_over_several_lines() -> None:
    assert [row.audio_filepath for row in read(json.dumps({"audio_filepath": "a"}, indent=2))] == ["a"]


def test_an_array_that_is_not_whole() -> None:
    assert refused('[{"audio_filepath": "a"},\n').startswith("calls: a JSON array, but not a whole one (")
    assert refused("[" * 100_000) == "calls: not JSON (nested too deeply)"


@pytest.mark.parametrize(
    ("key", "known"),
    [
        *(("Seed", "seed"), ("SEED", "seed"), (" seed", "seed"), ("seeed", "seed"), ("sed", "seed"), ("sede", "seed")),
        *(("voice-prompt", "voice_prompt"), ("text prompt", "text_prompt"), ("textprompt", "text_prompt")),
        *(("audio_file_path", "audio_filepath"), ("Channel ", "channel"), ("ID", "id"), ("field", "fields")),
    ],
)
def test_a_key_that_is_nearly_a_known_one_is_warned_of(key: str, known: str) -> None:
    rows = read_rows(jsonl({"audio_filepath": "a", "x": 1}, {"audio_filepath": "a", key: 1}), "jsonl", "calls")
    (warning,) = rows.warnings
    assert warning == f'calls: "{key}" (row 2) is not a key of manifests, and changes nothing: is {known} meant?'
    assert rows.good[1][1].passed_through == {key: 1}


def test_keys_of_ones_own_are_not_warned_of() -> None:
    own = ("text", "lang", "speaker", "ticket", "scenario", "label", "pnc", "ids", "d", "source_lang", "prompt", "need")
    rows = read_rows(jsonl({"audio_filepath": "a", "seed": 1, **dict.fromkeys(own, 1)}), "jsonl", "calls")
    assert rows.warnings == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("audio_filepath,seed\na.wav\n", "row 2: has 1 cells, and the header 2"),
        ("audio_filepath,seed\na.wav,1,2\n", "row 2: has 3 cells, and the header 2"),
        ("audio_filepath,fields\na.wav,name\n", "row 2: fields is not a JSON object"),
        ("audio_filepath,expect\na.wav,hello\n", "row 2: expect is not a JSON object"),
        ("audio_filepath,fields\na.wav,[1]\n", "row 2, fields: Input should be a valid dictionary"),
        ("audio_filepath,seed\na.wav,x\n", "row 2, seed: Input should be a valid integer"),
        ('audio_filepath,x\n"a"b.wav,1\nb.wav,2\n', "row 2: not CSV ("),
    ],
)
def test_csv_faults(text: str, fault: str) -> None:
    (told,) = bad(text, "csv")
    assert told.startswith(f"calls: {fault}")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("name,seed\na.wav,1\n", 'no column is called audio_filepath or input_wav; there are "name", "seed"'),
        (
            "AUDIO_FILEPATH,SEED\na.wav,1\n",
            'no column is called audio_filepath or input_wav; there are "AUDIO',
        ),
        ("audio_filepath,seed, seed\na.wav,1,2\n", 'there are two columns "seed"'),
        ("audio_filepath,mine,mine\na.wav,1,2\n", 'there are two columns "mine"'),
        ('audio_filepath,x\na.wav,"1\nb.wav,2\n', "row 2: a quote is opened and never closed"),
    ],
)
def test_a_csv_that_makes_no_sense_as_a_whole(text: str, fault: str) -> None:
    assert refused(text, "csv").replace("calls, ", "calls: ").startswith(f"calls: {fault}")


@pytest.mark.parametrize(
    "text",
    [
        "audio_filepath;seed;channel\na.wav;7;left\n",
        "sep=;\naudio_filepath;seed;channel\na.wav;7;left\n",
        '"sep=|"\r\naudio_filepath|seed|channel\r\na.wav|7|left\r\n',
        "sep=,\naudio_filepath,seed,channel\na.wav,7,left\n",
        "audio_filepath\tseed\tchannel\na.wav\t7\tleft\n",
        "audio_filepath, seed, channel\na.wav, 7, left\n",
        'audio_filepath , "seed", channel \n a.wav , "7", left \n',
        "\n,,\naudio_filepath,seed,channel\n\na.wav,7,left\n,,\n , ,\n",
    ],
)
def test_csv_as_spreadsheets_write_it(text: str) -> None:
    (row,) = read(text, "csv")
    assert (row.audio_filepath, row.seed, row.channel, row.passed_through) == ("a.wav", 7, "left", {})


def test_rows_after_a_line_that_names_the_separator_are_numbered_by_line() -> None:
    rows = read_rows("sep=;\naudio_filepath;seed\na.wav;1\nb.wav;x\n", "csv", "calls")
    assert ([number for number, _ in rows.good], [row.number for row in rows.bad]) == ([3], [4])


def test_a_csv_keeps_the_blanks_in_a_cell_of_ones_own() -> None:
    (row,) = read("audio_filepath,note\na.wav, two words \n", "csv")
    assert row.passed_through == {"note": " two words "}


@pytest.mark.parametrize(("text", "kind"), [("", "jsonl"), ("\n\n", "jsonl"), ("", "csv"), ("audio_filepath\n", "csv")])
def test_no_rows(text: str, kind: str) -> None:
    assert refused(text, kind) == "calls: holds no rows"


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    for kind in ("jsonl", "csv"):
        with contextlib.suppress(UsageError):
            read_rows(text, kind, "calls")


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
