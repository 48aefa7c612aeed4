"""`personaplex regress`: goldens of a run of the tiny model, run again, and every way in which they can be broken."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import junitparser
import pytest
import soundfile

if TYPE_CHECKING:
    from tests.cli.conftest import Desk, Result
    from tests.conftest import BuildModel

ROWS: list[dict[str, Any]] = [
    {"audio_filepath": "calls/a.wav", "id": "one/a", "text_prompt": "", "seed": 5},
    {"audio_filepath": "calls/b.wav", "id": "b", "offset": 0.25, "duration": 0.5, "scenario": "mine"},
    {"audio_filepath": "calls/b.wav", "id": "right", "channel": "right", "voice_prompt": "other.wav"},
]


@pytest.fixture
def corpus(desk: Desk, template: Path) -> Desk:
    """A desk with three calls of two recordings, answered in `out`, and their goldens in `kept/goldens`."""
    desk.made_once(template, make_corpus)
    run = desk.folder / "out" / "run.json"
    settings = json.loads(run.read_text())
    settings["volatile"]["folder"] = str(desk.folder)
    run.write_text(json.dumps(settings))
    return desk


def make_corpus(desk: Desk) -> None:
    (desk.folder / "calls").mkdir()
    desk.sound("calls/a.wav", desk.noise(0.6, seed=1))
    desk.sound("calls/b.wav", desk.noise(2.0, seed=2).reshape(-1, 2))
    desk.sound("other.wav", desk.noise(0.5, seed=3))
    desk.manifest(ROWS)
    assert desk.batch("calls.jsonl", "--save-tokens", "--temp-text", "0.9").code == 0
    result = desk.run("regress", "record", "out", "-o", "kept/goldens")
    assert (result.code, result.err) == (0, "")
    assert result.out == "recorded 3 goldens in kept/goldens\n"


def goldens(desk: Desk) -> Path:
    return desk.folder / "kept" / "goldens"


def item(desk: Desk, name: str) -> Path:
    return goldens(desk) / "items" / f"{name}.json"


def rows(desk: Desk) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (goldens(desk) / "manifest.jsonl").read_text().splitlines()]


def write_rows(desk: Desk, found: list[dict[str, Any]]) -> None:
    (goldens(desk) / "manifest.jsonl").write_text("".join(json.dumps(row) + "\n" for row in found))


def check(desk: Desk, *options: str | Path) -> Result:
    return desk.run("regress", "check", "kept/goldens", "-q", *options)


def update(desk: Desk, *options: str) -> Result:
    return desk.run("regress", "update", "kept/goldens", "-q", *options)


def snapshot(desk: Desk) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(goldens(desk).rglob("*")) if path.is_file()}


def test_goldens_are_small_text_that_says_all(corpus: Desk) -> None:
    document, transcript = json.loads(item(corpus, "one/a").read_text()), corpus.document("out/one/a.json")
    assert document["schema"] == "personaplex.golden/1"
    assert "volatile" not in document
    assert [row[0] for row in document["tokens"]] == transcript["text_tokens"]
    for block in ("text", "segments", "tokens_sha256", "prompt", "sampling", "model", "engine", "output"):
        assert document[block] == transcript[block], block
    lines = item(corpus, "one/a").read_text().splitlines()
    assert sum(line.strip().rstrip(",") in {str(row) for row in document["tokens"]} for line in lines) == 8
    assert not list(goldens(corpus).rglob("*.wav"))
    first, part, right = rows(corpus)
    assert first == {
        "id": "one/a",
        "audio_filepath": "../../calls/a.wav",
        "voice_prompt": "../../voice.wav",
        "text_prompt": "",
        "seed": 5,
        "channel": "mix",
    }
    assert (part["offset"], part["duration"], right["channel"]) == (0.25, 0.5, "right")
    assert right["voice_prompt"] == "../../other.wav"


def test_a_check_of_an_unchanged_world(corpus: Desk) -> None:
    before = snapshot(corpus)
    result = check(corpus, "--slots", "1")
    assert result.code == 0, result.out
    assert result.out.endswith("3 items are the same at the level of samples\n")
    assert snapshot(corpus) == before
    corpus.monkeypatch.chdir(corpus.folder / "kept")  # paths are the goldens', not the caller's
    assert corpus.run("regress", "check", "goldens", "-q").code == 0


def test_goldens_may_move_with_their_recordings(corpus: Desk) -> None:
    moved = corpus.folder / "elsewhere"
    moved.mkdir()
    for name in ("calls", "kept", "voice.wav", "other.wav"):
        (corpus.folder / name).rename(moved / name)
    assert corpus.run("regress", "check", moved / "kept" / "goldens", "-q").code == 0


def test_a_difference_is_told_in_every_report(corpus: Desk) -> None:
    write_rows(corpus, [row | {"seed": 6} if row["id"] == "one/a" else row for row in rows(corpus)])
    result = check(corpus, "--json", "--junit", "report.xml", "--html", "report.html", "--github", "-o", "new")
    assert result.code == 4
    document = json.loads(result.out)
    (failing,) = (entry for entry in document["items"] if entry["fails"])
    assert failing["id"] == "one/a"
    assert failing["difference"]["frame"] <= 1
    assert [(entry["name"], entry["expected"], entry["got"]) for entry in document["identity"]] == [
        ("sampling.seed", 5, 6)
    ]
    assert "::error title=" in result.err
    report = junitparser.JUnitXml.fromfile(str(corpus.folder / "report.xml"))
    assert (report.tests, report.failures) == (3, 1)
    assert (corpus.folder / "report.html").read_text().count("<audio") == 1  # the goldens have no audio
    assert (corpus.folder / "new" / "one" / "a.wav").is_file()


def test_what_else_lies_in_the_output_folder_does_not_count(corpus: Desk) -> None:
    shutil.copytree(corpus.folder / "out", corpus.folder / "new")
    for name in ("b.json", "b.wav"):
        (corpus.folder / "new" / name).rename(corpus.folder / "new" / f"old-{name}")
    assert check(corpus, "-o", "new").code == 0


def test_audio_is_kept_if_wanted(corpus: Desk) -> None:
    assert corpus.run("regress", "record", "out", "-o", "loud", "--audio").code == 0
    assert (corpus.folder / "loud/items/b.wav").read_bytes() == (corpus.folder / "out" / "b.wav").read_bytes()


def test_the_settings_are_the_recorded_ones(corpus: Desk) -> None:
    corpus.monkeypatch.setenv("PERSONAPLEX_TEMP_TEXT", "0.1")
    assert check(corpus, "-o", "new").code == 0
    assert corpus.document("new/b.json")["sampling"]["temp_text"] == 0.9
    result = check(corpus, "--dtype", "bfloat16")
    assert result.code == 4
    assert "engine.dtype: float32 → bfloat16 (3 items)" in result.out


def test_a_model_directory_is_found_again(corpus: Desk, build_model: BuildModel) -> None:
    shutil.copytree(build_model("short"), corpus.folder / "model")
    options = ("--model", "model", "--voice-prompt", "voice.wav", "--text-prompt", "Hi.", "--save-tokens", "-q")
    assert corpus.run("batch", "calls", "-o", "own", *options).code == 0
    assert corpus.run("regress", "record", "own", "-o", "deep/down/goldens", "-q").code == 0
    corpus.monkeypatch.chdir(corpus.folder / "kept")
    assert corpus.run("regress", "check", "../deep/down/goldens", "-q").code == 0
    result = corpus.run("regress", "check", "../deep/down/goldens", "-q", "--model", "tiny")
    assert result.code == 4
    assert "model.weights_sha256" in result.out
    shutil.rmtree(corpus.folder / "model")
    result = corpus.run("regress", "check", "../deep/down/goldens", "-q")
    assert result.code == 3
    assert "there is no model" in result.errors[0]


def test_unused_goldens_and_rows_without_one(corpus: Desk) -> None:
    first, *others = rows(corpus)
    write_rows(corpus, others)
    result = check(corpus)
    assert result.code == 4
    assert "one/a  missing\n  unused: no row of the manifest names this golden\n" in result.out
    assert check(corpus, "--allow-unused").code == 0
    write_rows(corpus, [first | {"id": "new"}, *others])
    assert "new   extra\n  no golden: kept/goldens/items/new.json is missing\n" in check(corpus, "--allow-unused").out


def test_an_update_shows_and_then_writes(corpus: Desk) -> None:
    assert (update(corpus).code, update(corpus, "--yes").code) == (0, 0)
    before = snapshot(corpus)
    first, part, right = rows(corpus)
    write_rows(corpus, [part, right | {"seed": 9}, first | {"id": "new"}])
    changed = snapshot(corpus)

    result = update(corpus)
    assert result.code == 4
    assert "right" in result.out
    assert result.out.endswith("3 goldens would be rewritten; add --yes to do so\n")
    assert snapshot(corpus) == changed

    result = update(corpus, "--yes")
    assert (result.code, result.out.splitlines()[-1]) == (0, "updated 3 goldens in kept/goldens")
    assert not item(corpus, "one/a").exists()
    assert not item(corpus, "one/a").parent.exists()
    assert snapshot(corpus)[str(item(corpus, "b"))] == before[str(item(corpus, "b"))]
    assert check(corpus).code == 0


def test_an_update_to_another_type_keeps_it(corpus: Desk) -> None:
    assert update(corpus, "--dtype", "bfloat16", "--yes").code == 0
    assert check(corpus).code == 0
    assert json.loads(item(corpus, "b").read_text())["engine"]["dtype"] == "bfloat16"


def test_an_update_to_another_model_keeps_it(corpus: Desk, build_model: BuildModel) -> None:
    shutil.copytree(build_model("short"), corpus.folder / "mine")
    write_rows(corpus, [row | {"text_prompt": "Hi."} for row in rows(corpus)])  # its context is too short for more
    assert update(corpus, "--model", "mine", "--yes").code == 0
    assert check(corpus).code == 0
    settings = json.loads((goldens(corpus) / "goldens.json").read_text())
    assert settings["model_options"]["model"] == "../../mine"
    assert settings["output"]["mix"] is False


def test_an_update_as_json(corpus: Desk) -> None:
    assert json.loads(update(corpus, "--json").out)["same"]
    write_rows(corpus, [row | {"seed": 6} for row in rows(corpus)])
    for options in ((), ("--yes",)):
        assert not json.loads(update(corpus, "--json", *options).out)["same"]


def test_outputs_among_the_goldens(corpus: Desk) -> None:
    before = snapshot(corpus)
    for folder in ("kept/goldens", "kept/goldens/items", "kept/goldens/new/deep"):
        result = check(corpus, "-o", folder)
        assert (result.code, result.out) == (2, "")
        assert "would write among the goldens" in result.errors[0]
    assert snapshot(corpus) == before


def test_an_item_that_fails_keeps_its_golden(corpus: Desk) -> None:
    (corpus.folder / "calls" / "a.wav").write_bytes(b"")
    before = snapshot(corpus)
    result = check(corpus)
    assert result.code == 4
    assert "one/a  broken" in result.out
    for options in ((), ("--yes",), ("--yes", "--dtype", "bfloat16")):
        result = update(corpus, *options)
        assert result.code == 1
        assert "one/a" in result.err
        assert result.out.endswith("1 call can't be run: no golden was written\n")
        assert snapshot(corpus) == before


def test_an_answer_left_by_an_earlier_check_does_not_hide_a_failure(corpus: Desk) -> None:
    assert check(corpus, "-o", "new").code == 0
    (corpus.folder / "calls" / "a.wav").unlink()
    result = check(corpus, "-o", "new")
    assert result.code == 4
    assert "one/a  broken" in result.out


def test_hidden_files_are_no_goldens(corpus: Desk) -> None:
    for name in (".b.123.0a1b2c3d.part.json", "one/._a.json"):
        (goldens(corpus) / "items" / name).write_text('{"schema": ')
    assert check(corpus).code == 0


def test_a_row_added_by_hand_has_the_defaults_of_every_manifest(corpus: Desk) -> None:
    row = {"audio_filepath": "../../calls/a.wav", "id": "new", "voice_prompt": "../../voice.wav"}
    write_rows(corpus, [*rows(corpus), row])
    assert update(corpus, "--yes").code == 0
    assert json.loads(item(corpus, "new").read_text())["prompt"]["text"].startswith("You are a wise and friendly")


def test_an_update_with_unmet_expectations(corpus: Desk) -> None:
    write_rows(corpus, [row | {"expect": {"min_words": 10_000}} for row in rows(corpus)])
    result = update(corpus, "--yes")
    assert result.code == 4
    assert result.out.endswith("all goldens are up to date; what they expect stays unmet\n")


def test_expectations_are_test_cases(corpus: Desk) -> None:
    first, *others = rows(corpus)
    write_rows(corpus, [first | {"expect": {"min_words": 10_000, "max_overlap": 60}}, *others])
    result = check(corpus, "--junit", "report.xml")
    assert result.code == 4
    assert "min_words 10000: " in result.out
    report = junitparser.JUnitXml.fromfile(str(corpus.folder / "report.xml"))
    assert report.tests == 5
    assert report.failures == 2  # the expectation, and the item that it is of


def test_expectations_come_from_the_first_manifest(corpus: Desk) -> None:
    expecting = [ROWS[0] | {"expect": {"min_words": 1, "must_not_say": ["personaplex"]}}]
    assert corpus.batch(corpus.manifest(expecting), "--save-tokens", out="asked").code == 0
    assert corpus.run("regress", "record", "asked", "-o", "asking").code == 0
    (row,) = map(json.loads, (corpus.folder / "asking" / "manifest.jsonl").read_text().splitlines())
    assert row["expect"] == expecting[0]["expect"]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("items/b.json", None, "no golden: kept/goldens/items/b.json is missing"),
        ("items/b.json", '{"schema": "personaplex.gol', "b.json: not whole JSON"),
        ("items/b.json", "[]", 'b.json: its schema is null, this version reads "personaplex.golden/1"'),
        ("items/b.json", '{"schema": "personaplex.golden/2"}', 'its schema is "personaplex.golden/2"'),
        ("items/b.json", '{"schema": "personaplex.golden/1"}', "b.json: not a whole transcript: text: Field required"),
        ("goldens.json", None, "holds no goldens.json"),
        ("goldens.json", "", "goldens.json: not whole JSON"),
        ("goldens.json", '{"schema": "personaplex.goldens/9"}', 'its schema is "personaplex.goldens/9"'),
        (
            "goldens.json",
            '{"schema": "personaplex.goldens/1"}',
            "goldens.json: can't be used: sampling: Field required",
        ),
        ("manifest.jsonl", None, "manifest.jsonl: No such file"),
        ("manifest.jsonl", '{"id": "b"}\n', "row 1, audio_filepath: Field required"),
    ],
)
def test_broken_goldens_are_named(corpus: Desk, name: str, content: str | None, words: str) -> None:
    path = goldens(corpus) / name
    path.unlink()
    if content is not None:
        path.write_text(content)
    result = check(corpus)
    if words.startswith("no golden"):
        assert (result.code, words in result.out) == (4, True)
    else:
        assert (result.code, result.out) == (2, "")
        assert words in result.errors[0]
        assert len(result.errors) == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda document: document["tokens"][2].__setitem__(4, 77), "its tokens are not those of its tokens_sha256"),
        (lambda document: document["tokens"][2].pop(), "its tokens are not rows of 9 numbers"),
        (lambda document: document.__setitem__("tokens", "many"), "its tokens are not rows of 9 numbers"),
        (lambda document: document.pop("tokens"), "text_tokens: Field required"),
        (lambda document: document["output"].pop("rms_dbfs"), "output.rms_dbfs: Field required"),
    ],
)
def test_goldens_edited_by_hand_are_named(corpus: Desk, change: Any, words: str) -> None:
    document = json.loads(item(corpus, "one/a").read_text())
    change(document)
    item(corpus, "one/a").write_text(json.dumps(document))
    result = check(corpus)
    assert (result.code, result.out) == (2, "")
    assert str(item(corpus, "one/a").relative_to(corpus.folder)) in result.errors[0]
    assert words in result.errors[0]


@pytest.mark.parametrize(
    "settings",
    [
        {"sampling": {"temp_text": -1}},
        {"sampling": {"colour": 1}},
        {"sampling": {"top_k_text": 2.5}},
        {"engine": {"device": "cpu", "dtype": "float32", "threads": 99_999_999, "slots": None}},
        {"align": "left"},
        {"engine": {"device": "cpu", "dtype": "int3", "threads": None, "slots": None}},
        {"engine": {"device": "cpu", "dtype": "float32", "threads": "many", "slots": None}},
        {"model_options": {"model": 3}},
        {"output": {"subtype": "MP3", "rate": 24000, "formats": [], "tokens": True, "mix": False}},
        {"output": {"rate": 24000}},
    ],
)
def test_impossible_settings(corpus: Desk, settings: dict[str, Any]) -> None:
    path = goldens(corpus) / "goldens.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))
    result = check(corpus)
    assert (result.code, result.out) == (2, "")
    assert result.errors[0].startswith("error: kept/goldens/goldens.json: ")
    assert len(result.errors) == 2


def test_recording_needs_a_batch(corpus: Desk) -> None:
    for run, words in (("calls", "run.json: No such file"), ("nowhere", "run.json: No such file")):
        result = corpus.run("regress", "record", run, "-o", "new")
        assert result.code == 2
        assert words in result.errors[0]
    for spoil in ("{", "[]", '{"schema": "personaplex.run/2"}', '{"schema": "personaplex.run/1"}'):
        (corpus.folder / "out" / "run.json").write_text(spoil)
        assert corpus.run("regress", "record", "out", "-o", "new").code == 2
    assert not (corpus.folder / "new").exists()


def test_an_answer_of_another_run_is_not_recorded(corpus: Desk) -> None:
    """Such as one that was broken off, over the outputs of one with another role."""
    path = corpus.folder / "out" / "b.json"
    for change in (
        {"prompt": {"text": "You sell boats."}},
        {"prompt": {"voice": "other"}},
        {"input": {"channel": "left"}},
        {"sampling": {"seed": 1}},
        {"sampling": {"temp_text": 0.1}},
        {"output": {"align": "model"}},
        {"engine": {"dtype": "bfloat16"}},
        {"model": {"weights_sha256": "0"}},
    ):
        document = json.loads(path.read_text())
        changed = document | {block: document[block] | fields for block, fields in change.items()}
        path.write_text(json.dumps(changed))
        result = corpus.run("regress", "record", "out", "-o", "new")
        assert result.code == 2
        assert "out: b was made by another run than that of run.json" in result.errors[0]
        path.write_text(json.dumps(document))


def test_recording_voices_of_another_folder(corpus: Desk) -> None:
    assert corpus.batch("calls", "--voices", "voice.wav,other.wav", "--save-tokens", out="both").code == 0
    corpus.monkeypatch.chdir(corpus.folder / "kept")
    assert corpus.run("regress", "record", "../both", "-o", "both", "-q").code == 0
    assert corpus.run("regress", "check", "both", "-q").code == 0


def test_recordings_beside_a_linked_folder(corpus: Desk) -> None:
    """A manifest's `..` leads up from where its folder really is."""
    (corpus.folder / "far" / "away").mkdir(parents=True)
    shutil.copytree(corpus.folder / "calls", corpus.folder / "far" / "calls")
    (corpus.folder / "here").symlink_to(corpus.folder / "far" / "away")
    corpus.manifest([{"audio_filepath": "../calls/a.wav", "id": "a"}], "here/rows.jsonl")
    assert corpus.batch("here/rows.jsonl", "--save-tokens", out="linked").code == 0
    assert corpus.run("regress", "record", "linked", "-o", "g", "-q").code == 0
    assert corpus.run("regress", "check", "g", "-q").code == 0


def test_goldens_below_a_link(corpus: Desk) -> None:
    (corpus.folder / "far" / "away").mkdir(parents=True)
    (corpus.folder / "link").symlink_to(corpus.folder / "far" / "away")
    assert corpus.run("regress", "record", "out", "-o", "link/goldens", "-q").code == 0
    assert corpus.run("regress", "check", "link/goldens", "-q").code == 0


def test_recording_over_goldens(corpus: Desk) -> None:
    (corpus.folder / "new" / "items").mkdir(parents=True)
    (corpus.folder / "new" / "items" / "left.json").write_text("{}")
    result = corpus.run("regress", "record", "out", "-o", "new")
    assert (result.code, "new/items: is not empty" in result.errors[0]) == (2, True)
    before = snapshot(corpus)
    result = corpus.run("regress", "record", "out", "-o", "kept/goldens")
    assert result.code == 2
    assert "holds goldens already" in result.errors[0]
    assert snapshot(corpus) == before


def test_recording_tokens_of_another_answer(corpus: Desk) -> None:
    tokens = list((corpus.folder / "out").rglob("*.tokens.safetensors"))
    shutil.copyfile(tokens[1], tokens[0])
    result = corpus.run("regress", "record", "out", "-o", "new")
    assert result.code == 2
    assert "its tokens are not those of the transcript's tokens_sha256" in result.errors[0]


def test_recording_what_has_failed_in_part_or_saved_no_tokens(corpus: Desk) -> None:
    (corpus.folder / "calls" / "bad.wav").write_bytes(b"")
    assert corpus.batch("calls", out="part").code == 1
    result = corpus.run("regress", "record", "part", "-o", "kept/part")
    assert result.code == 0
    assert "1 of 3 items have no answer in part" in result.err
    assert "2 goldens hold no audio tokens" in result.err
    assert corpus.run("regress", "check", "kept/part", "-q").code == 0


def test_recording_a_run_whose_source_is_gone(corpus: Desk) -> None:
    (corpus.folder / "calls.jsonl").unlink()
    result = corpus.run("regress", "record", "out", "-o", "new")
    assert result.code == 2
    assert "calls.jsonl" in result.errors[0]


def test_kept_audio_is_played_beside_the_new_one(corpus: Desk) -> None:
    assert corpus.run("regress", "record", "out", "-o", "kept/loud", "--audio").code == 0
    manifest = corpus.folder / "kept" / "loud" / "manifest.jsonl"
    manifest.write_text(manifest.read_text().replace('"seed": 5', '"seed": 6'))
    assert corpus.run("regress", "check", "kept/loud", "-q", "--html", "page.html").code == 4
    assert (corpus.folder / "page.html").read_text().count("<audio") == 2
    assert corpus.run("regress", "update", "kept/loud", "-q", "--yes").code == 0
    heard, kept = (corpus.folder / path for path in ("out/one/a.wav", "kept/loud/items/one/a.wav"))
    assert kept.read_bytes() != heard.read_bytes()
    assert soundfile.info(kept).frames == soundfile.info(heard).frames
