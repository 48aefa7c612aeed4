"""Many calls in one run: what is written, what is told, and how broken ones end."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile

if TYPE_CHECKING:
    from tests.cli.conftest import Desk


@pytest.fixture
def calls(desk: Desk) -> Desk:
    """A desk with the recordings calls/1.wav and calls/sub/2.flac."""
    (desk.folder / "calls" / "sub").mkdir(parents=True)
    desk.sound("calls/1.wav", desk.noise(0.2, seed=3))
    desk.sound("calls/sub/2.flac", desk.noise(0.3, seed=4)[:4800], 16_000)
    return desk


def test_a_directory_is_mirrored(calls: Desk) -> None:
    result = calls.batch("calls")
    assert (result.code, result.err) == (0, "")
    assert set(calls.tree()) == {"1.json", "1.wav", "sub/2.json", "sub/2.wav", "results.jsonl", "run.json"}
    document = calls.document("out/sub/2.json")
    assert (document["id"], document["input"]["path"], document["output"]["path"]) == ("sub/2", "sub/2.flac", "2.wav")
    assert document["prompt"]["voice"] == "voice"
    assert "teacher" in document["prompt"]["text"]
    assert soundfile.info("out/sub/2.wav").frames == 7200
    rows = calls.rows()
    assert list(rows) == ["1", "sub/2"]
    assert rows["sub/2"]["output"] == "sub/2.wav"
    assert rows["sub/2"]["transcript"] == "sub/2.json"
    assert rows["sub/2"]["seed"] == document["sampling"]["seed"] != rows["1"]["seed"]


def test_the_users_folder_of_voices_is_not_the_option_voices(calls: Desk) -> None:
    """PERSONAPLEX_VOICES, which would be that option's variable by the rule of all others."""
    (calls.folder / "mine").mkdir()
    (calls.folder / "voice.wav").rename(calls.folder / "mine" / "tom.wav")
    calls.monkeypatch.setenv("PERSONAPLEX_VOICES", "mine")
    assert calls.run("batch", "calls", "-o", "out", "--model", "tiny", "--voice-prompt", "tom", "-q").code == 0
    assert {row["voice"] for row in calls.rows().values()} == {"tom"}
    assert set(calls.rows()) == {"1", "sub/2"}


def test_the_summary(calls: Desk) -> None:
    result = calls.batch("calls")
    assert [line.split()[:2] for line in result.out.splitlines()[:3]] == [
        ["done", "2"],
        ["failed", "0"],
        ["skipped", "0"],
    ]
    assert "× real time; results in out" in result.out
    assert "slots stood empty for" in result.out
    result = calls.batch("calls", "--json")
    summary = json.loads(result.out)
    assert summary | {"seconds": 1} == {
        "items": 2,
        "done": 0,
        "failed": 0,
        "skipped": 2,
        "not_run": 0,
        "flagged": 0,
        "audio_seconds": 0.0,
        "seconds": 1,
        "times_real_time": 0.0,
        "output": "out",
        "passed_over": {"files": {}, "links": [], "runs": [], "answers": []},
        "tail": None,
    }


def test_messages_go_to_stderr(calls: Desk) -> None:
    result = calls.run("batch", "calls", "-o", "out", "--model", "tiny", "--voice-prompt", "voice.wav", "--json")
    assert json.loads(result.out)["done"] == 2
    warning, slots = result.err.splitlines()
    assert warning.startswith("warning: tiny is made of random weights")
    assert slots.startswith("slots: 2, each with 0.0")


def test_other_outputs(calls: Desk) -> None:
    formats = "json,srt,vtt,ctm,textgrid,frames"
    options = ("--mix", "--save-tokens", "--format", formats, "--output-subtype", "ALAW", "--output-rate", "8000")
    assert calls.batch("calls", *options).code == 0
    suffixes = ("wav", "json", "mix.wav", "tokens.safetensors", "srt", "vtt", "ctm", "TextGrid", "frames.json")
    assert {f"sub/2.{suffix}" for suffix in suffixes} == {name for name in calls.tree() if name.startswith("sub/")}
    info = soundfile.info("out/sub/2.mix.wav")
    assert (info.channels, info.samplerate, info.frames, info.subtype) == (2, 8000, 2400, "ALAW")


def test_run_json_says_how_to_repeat_the_run(calls: Desk) -> None:
    assert calls.batch("calls", "--seed", "7", "--greedy", "--temp-text", "0.5", "--shard", "1/1").code == 0
    run = json.loads((calls.folder / "out" / "run.json").read_text())
    assert (run["source"], run["seed"], run["voice_prompt"], run["align"]) == ("calls", 7, "voice.wav", "reference")
    assert run["sampling"] == {
        "temp_text": 0.5,
        "top_k_text": 25,
        "temp_audio": 0.8,
        "top_k_audio": 250,
        "greedy": True,
        "top_p_text": 1.0,
        "repetition_penalty": 1.0,
        "no_repeat_ngram": 0,
    }
    assert run["model"]["name"] == "tiny"
    assert run["engine"]["versions"]["personaplex"]
    assert run["volatile"]["command"][1:3] == ["batch", "calls"]
    assert run["volatile"]["shard"] == [1, 1]


def test_a_drawn_seed_is_recorded(calls: Desk) -> None:
    seeds = set()
    for out in ("one", "two"):
        assert calls.batch("calls", "--seed", "-1", out=out).code == 0
        run = json.loads((calls.folder / out / "run.json").read_text())
        assert calls.batch("calls", "--seed", str(run["seed"]), "--json", out=out).out.count('"skipped": 2') == 1
        seeds.add(run["seed"])
    assert len(seeds) == 2


def test_a_manifest(calls: Desk) -> None:
    calls.sound("calls/own.wav", calls.noise(0.5, seed=9))
    (calls.folder / "calls" / "role.txt").write_text("You sell tea.\n")
    rows = [
        {"audio_filepath": "1.wav", "id": "x/one", "seed": 3, "voice_prompt": "own.wav", "scenario": {"a": [1]}},
        {"input_wav": "sub/2.flac", "text_prompt_file": "role.txt", "duration": 0.2, "offset": 0.05, "text": "hello"},
    ]
    assert calls.batch(calls.manifest(rows, "calls/list.jsonl")).code == 0
    one, two = calls.document("out/x/one.json"), calls.document("out/sub/2@0.05s.json")
    assert (one["sampling"]["seed"], one["prompt"]["voice"]) == (3, "own")
    assert two["prompt"]["text"] == "You sell tea."
    assert (two["prompt"]["voice"], two["input"]["part"]) == ("voice", {"offset": 0.05, "duration": 0.2})
    assert soundfile.info("out/sub/2@0.05s.wav").frames == 4800
    rows_made = calls.rows()
    assert rows_made["x/one"]["scenario"] == {"a": [1]}
    assert rows_made["sub/2@0.05s"]["manifest_text"] == "hello"


def test_csv_and_standard_input(calls: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    (calls.folder / "calls" / "list.csv").write_text("audio_filepath,id,channel\n1.wav,,left\nsub/2.flac,,\n")
    assert calls.batch("calls/list.csv").code == 0
    lines = '{"audio_filepath": "calls/1.wav", "channel": 0}\n{"audio_filepath": "calls/sub/2.flac"}\n'
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    assert calls.batch("-", out="in").code == 0
    assert list(calls.rows("in")) == ["calls/1", "calls/sub/2"]
    assert calls.document("out/1.json")["input"]["channel"] == "left"


def test_a_product(calls: Desk) -> None:
    calls.sound("other.wav", calls.noise(0.5, seed=9))
    options = ("--voices", "voice.wav, other.wav", "--roles", "teacher,conversation", "--seeds", "1,2")
    assert calls.batch("calls", "--glob", "1.*", *options).code == 0
    rows = calls.rows()
    assert list(rows)[:3] == ["1.voice.teacher.seed1", "1.voice.teacher.seed2", "1.voice.conversation.seed1"]
    assert len(rows) == len({row["tokens_sha256"] for row in rows.values()}) == 8
    assert {(row["voice"], row["seed"]) for row in rows.values()} == {
        (v, s) for v in ("voice", "other") for s in (1, 2)
    }


def test_a_voice_of_the_product_is_not_looked_for_beside_the_manifest(calls: Desk) -> None:
    calls.sound("calls/voice.wav", calls.noise(0.5, seed=9))
    rows = [{"audio_filepath": "1.wav"}, {"audio_filepath": "1.wav", "id": "own", "voice_prompt": "voice.wav"}]
    source = calls.manifest(rows, "calls/list.jsonl")
    assert calls.batch(source).code == 0
    assert calls.batch(source, "--voices", "voice.wav", out="product").code == 0
    shas = {
        out: [calls.document(f"{out}/{name}.json")["prompt"]["voice_sha256"] for name in names]
        for out, names in (("out", ("1", "own")), ("product", ("1.voice", "own.voice")))
    }
    assert shas["product"] == [shas["out"][0]] * 2
    assert shas["out"][0] != shas["out"][1]


def test_a_mu_law_corpus_with_a_channel_for_each_side(desk: Desk) -> None:
    """The caller is heard on the left, the right side plays no part."""
    (desk.folder / "calls").mkdir()
    (desk.folder / "left").mkdir()
    for number in range(3):
        left, right = (
            desk.noise(0.3 + 0.1 * number, seed=seed)[: 2400 + number * 800] for seed in (number, 50 + number)
        )
        desk.sound(f"calls/{number}.wav", np.stack([left, right], axis=1), 8000, subtype="ULAW")
        heard = soundfile.read(f"calls/{number}.wav")[0][:, 0]
        desk.sound(f"left/{number}.wav", heard, 8000, subtype="DOUBLE")
    assert desk.batch("calls", "--channel", "left").code == 0
    assert desk.batch("left", out="alone").code == 0
    assert desk.batch("calls", "--channel", "1", out="right").code == 0
    for number in range(3):
        made = {out: desk.document(f"{out}/{number}.json") for out in ("out", "alone", "right")}
        assert (made["out"]["input"]["channel"], made["out"]["input"]["sample_rate"]) == ("left", 8000)
        assert made["out"]["tokens_sha256"] == made["alone"]["tokens_sha256"] != made["right"]["tokens_sha256"]
        assert desk.tree()[f"{number}.wav"] == desk.tree("alone")[f"{number}.wav"]


# Failures

BROKEN = ("04-empty", "11-text", "19-missing", "25-nan", "33-folder", "37-voice")


@pytest.fixture
def forty(desk: Desk) -> Desk:
    """A manifest of forty short calls, of which those of `BROKEN` can't be run."""
    names = {int(name[:2]): name for name in BROKEN}
    rows = []
    for number in range(40):
        name = names.get(number, f"{number:02}-good")
        desk.sound(f"{name}.wav", desk.noise(0.08, seed=number))
        rows.append({"audio_filepath": f"{name}.wav", "number": number})
    rows[37]["voice_prompt"] = "broken.pt"
    (desk.folder / "04-empty.wav").write_bytes(b"")
    (desk.folder / "11-text.wav").write_text("not audio")
    (desk.folder / "19-missing.wav").unlink()
    desk.sound("25-nan.wav", np.full(2000, np.nan), subtype="FLOAT")
    (desk.folder / "33-folder.wav").unlink()
    (desk.folder / "33-folder.wav").mkdir()
    (desk.folder / "broken.pt").write_bytes(b"no voice")
    desk.manifest(rows)
    return desk


def test_broken_calls_fail_alone(forty: Desk) -> None:
    result = forty.batch("calls.jsonl", "--json", "--slots", "8")
    assert result.code == 1
    summary = json.loads(result.out)
    assert (summary["done"], summary["failed"], summary["not_run"]) == (34, 6, 0)
    rows = forty.rows()
    assert [row["number"] for row in rows.values()] == list(range(40))
    failed = {name: row for name, row in rows.items() if row["status"] == "failed"}
    assert set(failed) == set(BROKEN)
    reasons = ("empty (0 bytes)", "not audio", "No such file", "not a finite number", "Is a directory", "not a voice")
    for name, reason in zip(BROKEN, reasons, strict=True):
        assert reason in failed[name]["error"]["what"]
        assert failed[name]["error"]["mend"]
        assert failed[name]["error"]["kind"] in {"InputError", "VoiceError"}
        assert f"error: {name}: " in result.err
    assert "Traceback" not in result.err
    made = {name for name in forty.tree() if name.endswith((".wav", ".json"))}
    assert made == {f"{name}.{kind}" for name in rows.keys() - failed.keys() for kind in ("wav", "json")} | {"run.json"}


def test_retry_failed(forty: Desk) -> None:
    assert forty.batch("calls.jsonl").code == 1
    before = {path: path.stat().st_mtime_ns for path in (forty.folder / "out").glob("*good*")}
    for name in BROKEN[:2]:
        forty.sound(f"{name}.wav", forty.noise(0.1, seed=1))
    (forty.folder / "out" / "00-good.wav").unlink()  # not a failure's: it is left
    result = forty.batch("calls.jsonl", "--retry-failed", "--json")
    assert result.code == 1
    summary = json.loads(result.out)
    assert (summary["items"], summary["done"], summary["failed"]) == (6, 2, 4)
    rows = forty.rows()
    assert len(rows) == 40
    assert [name for name, row in rows.items() if row["status"] == "failed"] == list(BROKEN[2:])
    del before[forty.folder / "out" / "00-good.wav"]
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.parametrize(
    ("options", "failed"), [(("--fail-fast",), 1), (("--max-failures", "0"), 1), (("--max-failures", "2"), 3)]
)
def test_too_many_failures_end_the_run(forty: Desk, options: tuple[str, ...], failed: int) -> None:
    result = forty.batch("calls.jsonl", *options, "--json")
    assert result.code == 1
    summary = json.loads(result.out)
    assert (summary["done"], summary["failed"], summary["not_run"]) == (0, failed, 40 - failed)
    assert f"error: stopped after {failed} failure" in result.err
    assert sum(row["status"] == "failed" for row in forty.rows().values()) == failed


def test_a_failure_while_running_ends_the_run(desk: Desk) -> None:
    """One that a header doesn't tell: the calls that are complete are kept."""
    desk.sound("a.wav", desk.noise(0.8))
    desk.sound("b.wav", np.append(desk.noise(0.4), np.nan), subtype="FLOAT")
    rows = [{"audio_filepath": "a.wav"}, {"audio_filepath": "b.wav"}]
    rows += [{"audio_filepath": "call.wav", "id": f"c{number}", "duration": 0.1} for number in range(20)]
    summary = json.loads(desk.batch(desk.manifest(rows), "--fail-fast", "--slots", "1", "--json").out)
    assert (summary["done"], summary["failed"], summary["not_run"]) == (1, 1, 20)
    done = {name for name, row in desk.rows().items() if row["status"] == "done"}
    assert {name.removesuffix(".wav") for name in desk.tree() if name.endswith(".wav")} == done


def test_max_failures_that_is_not_reached(forty: Desk) -> None:
    result = forty.batch("calls.jsonl", "--max-failures", "6", "--json")
    assert (result.code, json.loads(result.out)["done"]) == (1, 34)


def test_every_call_fails(desk: Desk) -> None:
    rows: list[dict[str, Any]] = [{"audio_filepath": f"none{number}.wav"} for number in range(3)]
    result = desk.batch(desk.manifest(rows), "--json")
    assert (result.code, json.loads(result.out)["failed"]) == (1, 3)
    assert set(desk.tree()) == {"results.jsonl", "run.json"}


def test_a_call_longer_than_the_context_can_be_refused(desk: Desk) -> None:
    text = "word " * 742  # 2,996 frames with the voice, and the call has 7
    rows = [{"audio_filepath": "call.wav", "id": "a"}, {"audio_filepath": "call.wav", "id": "b", "text_prompt": text}]
    assert desk.batch(desk.manifest(rows), "--long-audio", "error").code == 1
    made = desk.rows()
    assert (made["a"]["status"], made["b"]["status"]) == ("done", "failed")
    assert "exceed the context of 3000" in made["b"]["error"]["what"]
