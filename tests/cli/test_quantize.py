"""`--quantize int8`: what it changes is recorded, planned for and run again; `models quantize` writes it down."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from personaplex.core.config import PERSONAPLEX_7B
from personaplex.core.lm.temporal import TemporalTransformer

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Desk
    from tests.conftest import BuildModel

INT8 = ("--quantize", "int8")
BRIEF = ("--text-prompt", "Be brief.")  # for a context of 64


@pytest.fixture
def calls(desk: Desk) -> Desk:
    """A desk with two calls."""
    for seed, name in enumerate("ab"):
        desk.sound(f"{name}.wav", desk.noise(0.6, seed=seed))
    desk.manifest([{"audio_filepath": f"{name}.wav"} for name in "ab"])
    return desk


def plan(desk: Desk, *options: str) -> dict[str, Any]:
    planned: dict[str, Any] = json.loads(desk.batch("calls.jsonl", "--dry-run", "--json", *options).out)
    return planned


def test_it_is_recorded(desk: Desk) -> None:
    assert desk.offline("--save-tokens").code == desk.offline(*INT8, "--output-wav", "int8.wav").code == 0
    plain, held = desk.document("call.agent.json"), desk.document("int8.json")
    assert (plain["engine"]["quantize"], held["engine"]["quantize"]) == (None, "int8")
    assert held["engine"]["products"].startswith("int8, ")
    assert "int8" not in plain["engine"]["products"]
    assert plain["model"] == held["model"]
    assert plain["engine"]["rounding"] != held["engine"]["rounding"]


def test_a_run_in_another_type_is_another_run(calls: Desk) -> None:
    for options in ((), INT8):
        assert plan(calls, *options)["to_run"] == 2
        assert calls.batch("calls.jsonl", *options).code == 0
        assert plan(calls, *options)["skipped"] == 2
        assert json.loads(calls.batch("calls.jsonl", "--json", *options).out)["skipped"] == 2
    run = json.loads((calls.folder / "out" / "run.json").read_text())
    assert run["engine"]["quantize"] == "int8"
    assert json.loads(calls.batch("calls.jsonl", "--json", "--quantize", "none").out)["done"] == 2


def test_what_was_done_before_there_was_a_choice_is_done(calls: Desk) -> None:
    assert calls.batch("calls.jsonl").code == 0
    for name in "ab":
        document = calls.document(f"out/{name}.json")
        del document["engine"]["quantize"]
        (calls.folder / f"out/{name}.json").write_text(json.dumps(document), encoding="utf-8")
    assert json.loads(calls.batch("calls.jsonl", "--json").out)["skipped"] == 2
    assert plan(calls, *INT8)["to_run"] == 2


def test_it_is_planned_for(calls: Desk) -> None:
    plain, held = (plan(calls, *options)["weights_bytes"] for options in ((), INT8))
    dim, feedforward, layers = 128, 352, 3
    weights = layers * dim * (4 * dim + 3 * feedforward)
    rows = layers * (5 * dim + 2 * feedforward)
    assert plain - held == 3 * weights - 4 * rows
    sizes = [json.loads(calls.run("models", "info", "--json", *options).out)["weights_bytes"] for options in ((), INT8)]
    assert sizes[1] < 0.6 * sizes[0]


def test_goldens_run_again_as_they_were_run(calls: Desk) -> None:
    assert calls.batch("calls.jsonl", "--save-tokens", *INT8).code == 0
    assert calls.run("regress", "record", "out", "-o", "goldens").code == 0
    assert calls.run("regress", "check", "goldens").code == 0
    told = calls.run("regress", "check", "goldens", "--quantize", "none")
    assert told.code == 4
    assert "engine.quantize" in told.out


def test_a_loaded_model_is_benched(desk: Desk) -> None:
    options = ("bench", "--slots", "2", "--frames", "2", "--context-used", "5", "--quiet", "--json")
    for model in ((), ("--model", "tiny")):
        plain, held = (json.loads(desk.run(*options, *model, *more).out) for more in ((), INT8))
        assert (plain["quantize"], held["quantize"]) == (None, "int8")
        assert held["products"].startswith("int8, ")
        assert held["rows"][0]["bytes_per_tick"] < plain["rows"][0]["bytes_per_tick"]


def test_no_more_than_one_layer_is_there_twice(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint is never filled in whole before it is quantised: modules are, while they are empty."""
    held: list[bool] = []
    hold = TemporalTransformer.hold_int8

    def watched(self: TemporalTransformer) -> None:
        held.append(self.out_norm.alpha.is_meta)
        hold(self)

    monkeypatch.setattr(TemporalTransformer, "hold_int8", watched)
    assert desk.run("bench", "--slots", "1", "--frames", "1", "--context-used", "1", "--quiet", *INT8).code == 0
    assert held == [True]


class TestModelsQuantize:
    @pytest.fixture
    def source(self, desk: Desk, build_model: BuildModel) -> Path:
        return build_model("short")

    def test_the_new_model_answers_as_the_old_one_in_int8(self, desk: Desk, source: Path) -> None:
        made = desk.run("models", "quantize", str(source), "-o", "made", "--json")
        assert made.code == 0
        assert json.loads(made.out) | {"lm_bytes": 0} == {"model": "made", "source": source.name, "lm_bytes": 0}
        documents = {}
        for name, model, options in (("old", str(source), INT8), ("new", "made", ())):
            given = ("--input-wav", "call.wav", "--voice-prompt", "voice.wav", "--output-wav", f"{name}.wav", *BRIEF)
            assert desk.run("offline", "--model", model, *given, *options).code == 0
            documents[name] = desk.document(f"{name}.json")
        old, new = documents["old"], documents["new"]
        assert old["tokens_sha256"] == new["tokens_sha256"]
        assert old["engine"] == new["engine"]
        assert old["model"]["weights_sha256"] != new["model"]["weights_sha256"]

    def test_it_is_told(self, desk: Desk, source: Path) -> None:
        made = desk.run("models", "quantize", str(source), "-o", "made")
        assert made.out.startswith("made: the language model takes 0.0")
        assert desk.run("models", "verify", "made").code == 0
        info = desk.run("models", "info", "made").out
        assert f"made from   {source.name}, weights_sha256 " in info
        about = json.loads(desk.run("models", "info", "made", "--json").out)
        assert about["quantized"]["type"] == "int8"
        plain = json.loads(desk.run("models", "info", str(source), "--json").out)
        assert plain["quantized"] is None
        assert about["weights_bytes"] < plain["weights_bytes"]
        assert about["lm_parameters"] == plain["lm_parameters"]

    def test_a_batch_knows_it_for_int8(self, calls: Desk, source: Path) -> None:
        assert calls.run("models", "quantize", str(source), "-o", "made", "--quiet").code == 0
        given = (
            "batch",
            "calls.jsonl",
            "-o",
            "out",
            "--model",
            "made",
            "--voice-prompt",
            "voice.wav",
            "--json",
            *BRIEF,
        )
        assert json.loads(calls.run(*given).out)["done"] == 2
        for options in ((), INT8):
            assert json.loads(calls.run(*given, *options).out)["skipped"] == 2

    @pytest.mark.parametrize(
        ("given", "code", "told"),
        [
            (("tiny", "-o", "made"), 2, "tiny is made in memory"),
            (("nowhere", "-o", "made"), 3, 'there is no model "nowhere"'),
            (("made", "-o", "again"), 3, "is in int8 already"),
            (("made", "-o", "made"), 2, "not an empty folder"),
            (("made", "-o", "again", "--revision", "main"), 2, "a model directory has no revisions"),
        ],
    )
    def test_refused(self, desk: Desk, source: Path, given: tuple[str, ...], code: int, told: str) -> None:
        assert desk.run("models", "quantize", str(source), "-o", "made", "--quiet").code == 0
        result = desk.run("models", "quantize", *given)
        assert (result.code, "Traceback" in result.err) == (code, False)
        assert told in result.err
        assert not (desk.folder / "again").exists()


def test_the_7b_takes_little_more_than_half() -> None:
    from personaplex.core.machine.memory import model_size

    plain, held = (model_size(PERSONAPLEX_7B, 1, 1, 2, int8).weights_bytes for int8 in (False, True))
    assert held < 0.62 * plain
