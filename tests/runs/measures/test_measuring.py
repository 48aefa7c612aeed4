"""Runs measured: where recordings are found, what fails alone, what is written."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import soundfile

from personaplex.core.errors import UsageError
from personaplex.core.measures.events import Kind
from personaplex.core.measures.rows import MEASURES, Call, read_measures
from personaplex.prompts import library
from personaplex.runs.measures.ears import silero
from personaplex.runs.measures.measuring import RunMeasures, check_places, measure_run
from personaplex.runs.measures.summary import SUMMARY
from tests.runs.conftest import MadeRun, sound

TALK = ([(1.0, 2.0)], [(2.4, 4.0)])


def turns(found: RunMeasures, side: str) -> list[tuple[float, float]]:
    (call,) = found.calls
    return [(event.start, event.end) for event in call.measured.of(Kind.turn, side)]


def told(found: RunMeasures) -> str:
    (failed,) = found.failed
    return str(failed.error)


def test_a_call_is_its_recording_and_its_wav(run: MadeRun) -> None:
    run.add("a/1", *TALK, text="Good morning to you")
    found = measure_run(run.out)
    assert turns(found, "caller") == TALK[0]
    assert turns(found, "agent") == TALK[1]
    call = found.calls[0]
    assert (call.made.id, call.made.voice, call.made.role, call.made.seed) == ("a/1", "agent_f", "You are kind.", 7)
    assert call.measured.words == {"caller": None, "agent": 4}
    assert call.measured.of(Kind.response, "agent")[0].offset == 0.4


def test_the_reference_is_measured_in_the_models_own_time(run: MadeRun) -> None:
    run.add("a", *TALK, output={"align": "reference"})
    found = measure_run(run.out)
    assert turns(found, "caller") == TALK[0]
    assert turns(found, "agent") == [(2.32, 3.92)]
    assert found.calls[0].made.shift == 0.08


def test_the_part_and_the_channel_are_those_of_the_call(run: MadeRun) -> None:
    document = run.add("a", *TALK, seconds=5)
    recording = run.calls / "a.wav"
    samples = sound([(2.5, 4.0)], 20)
    soundfile.write(recording, [[0.3, one] for one in samples.tolist()], 24_000)
    part = {"part": {"offset": 2, "duration": 5}, "channel": "right"}
    document["input"] |= part | {"sha256": hashlib.sha256(recording.read_bytes()).hexdigest()}
    run.write("a", document)
    assert turns(measure_run(run.out), "caller") == [(0.5, 2.0)]


def test_recordings_may_have_moved(run: MadeRun, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run.add("a", *TALK)
    run.calls.rename(tmp_path / "archive")
    assert "a.wav: the caller's recording is not there" in told(measure_run(run.out))
    assert len(measure_run(run.out, tmp_path / "archive").calls) == 1
    monkeypatch.chdir(tmp_path / "archive")
    assert len(measure_run(run.out).calls) == 1


def test_a_changed_recording_is_told_and_a_mix_stands_in_for_it(run: MadeRun) -> None:
    document = run.add("a", *TALK)
    soundfile.write(run.calls / "a.wav", sound([(5, 6)], 10), 24_000)
    assert "is not the recording that the call was made of any more" in told(measure_run(run.out))
    caller, agent = (sound(spoken, 10) for spoken in TALK)
    soundfile.write(run.out / "a.mix.wav", list(zip(caller.tolist(), agent.tolist(), strict=True)), 24_000)
    assert len(measure_run(run.out).calls) == 0, "nothing says that it is of this call"
    run.write("a", document | {"files": {"a.mix.wav": "0"}})
    assert turns(measure_run(run.out), "caller") == TALK[0]


def test_each_call_that_can_not_be_measured_fails_alone(run: MadeRun) -> None:
    good = run.add("good", *TALK)
    for name in ("broken", "foreign", "older", "gone", "mute", "short", "silent", "seedless"):
        run.add(name, *TALK)
    (run.out / "broken.json").write_text('{"schema": ', encoding="utf-8")
    run.write("foreign", {"schema": "somebody.else/1"})
    run.write("older", good | {"schema": "personaplex.transcript/9"})
    (run.out / "gone.json").unlink()
    (run.out / "mute.wav").unlink()
    soundfile.write(run.out / "short.wav", sound([], 3), 24_000)
    (run.calls / "silent.wav").unlink()
    run.write("seedless", good | {"sampling": {}})
    run.fail("refused")
    found = measure_run(run.out)
    assert [call.made.id for call in found.calls] == ["good"]
    assert found.unanswered == 1
    said = {one.id: str(one.error) for one in found.failed}
    assert list(said) == ["broken", "foreign", "older", "gone", "mute", "short", "silent", "seedless"]
    for name, part in (
        ("broken", "not whole JSON"),
        ("foreign", "not a transcript of personaplex"),
        ("older", "its schema is"),
        ("gone", "gone.json: No such file"),
        ("mute", "mute.wav: cannot be read"),
        ("short", "lasts 3.00 s, where its transcript has 10.00 s"),
        ("silent", "the caller's recording is not there"),
        ("seedless", "sampling.seed: Field required"),
    ):
        assert part in said[name]
    assert all("\n" in text for text in said.values()), "each with its mend"


def test_what_is_written_is_read_again_and_written_over(run: MadeRun) -> None:
    run.add("a", *TALK)
    run.add("b", *TALK)
    (run.out / "b.wav").unlink()
    for _ in range(2):
        found = measure_run(run.out)
        found.write(run.out)
        lines = [json.loads(line) for line in (run.out / MEASURES).read_text(encoding="utf-8").splitlines()]
        assert [(line["id"], line["status"]) for line in lines] == [("a", "measured"), ("b", "failed")]
        assert read_measures(run.out)["a"].row == lines[0]
        summary = json.loads((run.out / SUMMARY).read_text(encoding="utf-8"))
        assert (summary["calls"], summary["failed"], summary["unanswered"]) == (1, 1, 0)
        assert summary["figures"]["gaps_per_minute"] == {"value": 6.0, "count": 1, "few": True}


@pytest.mark.parametrize("name", [MEASURES, SUMMARY])
def test_somebody_elses_file_is_not_replaced(run: MadeRun, name: str) -> None:
    for text in ("mine", "[1]", '{"schema": "personaplex.transcript/1"}'):
        (run.out / name).write_text(text, encoding="utf-8")
        with pytest.raises(UsageError, match="holds no measures, and is not replaced"):
            check_places(run.out)


def test_groups_are_of_two_calls_or_more(run: MadeRun) -> None:
    voices = {"a": "f", "b": "f", "c": "m", "d": "m", "e": "x"}
    for number, (name, voice) in enumerate(voices.items()):
        run.add(name, *TALK, prompt={"voice": voice}, sampling={"seed": number})
    groups = measure_run(run.out).document["groups"]
    assert {name: group["calls"] for name, group in groups["voice"].items()} == {"f": 2, "m": 2}
    assert groups.keys() == {"voice"}, "one role, and no seed twice"


def test_roles_go_by_their_name_whatever_their_fields(run: MadeRun) -> None:
    for name in library.names():
        fields = {field: f"the {field}, say" for field in library.fields(library.text(name))}
        run.add(name, *TALK, prompt={"text": library.render(name, fields)})
    assert [call.made.role for call in measure_run(run.out).calls] == library.names()


def test_a_folder_without_results_is_looked_through(run: MadeRun) -> None:
    run.add("a/1", *TALK)
    run.add("b", *TALK)
    (run.out / "results.jsonl").unlink()
    (run.out / "notes.json").write_text("{", encoding="utf-8")
    (run.out / "other.json").write_text("[]", encoding="utf-8")
    found = measure_run(run.out)
    assert [call.made.id for call in found.calls] == ["a/1", "b"]
    assert [one.id for one in found.failed] == ["notes"]


def test_a_transcript_alone_is_measured(run: MadeRun) -> None:
    run.add("a", *TALK)
    assert turns(measure_run(run.out / "a.json"), "agent") == TALK[1]


def test_where_there_is_no_answer_there_is_nothing_to_measure(run: MadeRun, tmp_path: Path) -> None:
    for path in (run.out, tmp_path / "nowhere"):
        with pytest.raises(UsageError, match="name a folder that batch or offline wrote to"):
            measure_run(path)


def test_the_order_is_the_runs_and_every_time_the_same(run: MadeRun) -> None:
    names = [f"{number:02}" for number in (5, 3, 9, 1, 7, 2, 8)]
    for name in names:
        run.add(name, *TALK)
    once, again = measure_run(run.out), measure_run(run.out)
    assert [call.made.id for call in once.calls] == names
    assert [one.row for one in once.outcomes if isinstance(one, Call)] == [call.row for call in again.calls]


def conversation(run: MadeRun, name: str = "talk") -> dict[str, Any]:
    """A conversation in which b answers a after 0.4 s, and a falls in 0.5 s before b has ended."""
    spoken = {"a": [(0.0, 2.0), (4.5, 6.0)], "b": [(2.4, 5.0)]}
    sides: dict[str, Any] = {}
    for side, stretches in spoken.items():
        soundfile.write(run.out / f"{name}.{side}.wav", sound(stretches, 8), 24_000)
        sides[side] = {
            "output": {"path": f"{name}.{side}.wav", "pcm_sha256": "0"},
            "prompt": {"voice": f"voice_{side}", "text": f"You are {side}."},
            "sampling": {"seed": 7},
        }
    words = [{"word": "Hi", "start": 0.08, "end": 0.4}, {"word": "there", "start": 0.4, "end": 0.8}]
    document = {
        "schema": "personaplex.conversation/1",
        "duration": 8.0,
        "output": {"path": f"{name}.wav", "pcm_sha256": "1"},
        "sides": sides,
        "segments": [{"speaker": "a", "words": words}],
    }
    run.write(name, document)
    return document


def test_both_sides_of_a_conversation_listen(run: MadeRun) -> None:
    document = conversation(run)
    found = measure_run(run.out)
    (call,) = found.calls
    assert (call.made.voice, call.made.role) == ("voice_a and voice_b", "You are a. and You are b.")
    assert call.measured.words == {"a": 2, "b": 0}
    answers = [(event.side, event.offset, event.success) for event in call.measured.of(Kind.response, None)]
    assert answers == [("b", 0.4, True), ("a", -0.5, True), ("b", None, False)]
    found.write(run.out)
    assert read_measures(run.out)["talk"].row == call.row
    del document["sides"]["b"]
    run.write("talk", document)
    assert "sides: Dictionary should have at least 2 items" in told(measure_run(run.out))
    run.write("talk", document | {"schema": "personaplex.conversation/2"})
    assert "its schema is" in told(measure_run(run.out))


def test_silero_hears_speech_and_no_noise(run: MadeRun) -> None:
    pytest.importorskip("silero_vad")
    run.add("a", [], [(2.4, 4.0)], seconds=5.592925)
    speech = Path(__file__).parents[3] / "samples/calls/repair.wav"
    document = json.loads((run.out / "a.json").read_text(encoding="utf-8"))
    document["input"] |= {"path": str(speech), "sha256": hashlib.sha256(speech.read_bytes()).hexdigest()}
    run.write("a", document)
    found = measure_run(run.out, ear=silero())
    (turn,) = turns(found, "caller")
    assert turn == pytest.approx((1.0, 3.1), abs=0.15)
    assert turns(found, "agent") == []
    assert found.calls[0].made.vad == "silero"
