"""The Python API answers as the command line does, one call or many."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest
import soundfile
from safetensors.numpy import load_file

from personaplex import api
from personaplex.api import (
    Answer,
    Call,
    Failure,
    InputError,
    ModelError,
    PersonaplexError,
    Sampling,
    Settings,
    UsageError,
    VoiceError,
    load_model,
)
from personaplex.core.weights.model import Model as LoadedModel
from tests.api.conftest import noise, stable

if TYPE_CHECKING:
    from tests.api.conftest import Desk

VOICE = Settings(voice_prompt="voice.wav")


def test_every_name_is_exported() -> None:
    assert [name for name in api.__all__ if not hasattr(api, name)] == []
    assert api.__all__ == sorted(api.__all__)


def test_what_an_answer_holds(desk: Desk) -> None:
    answer = desk.model.answer(Call("call.wav", voice_prompt="voice.wav"))
    assert (answer.id, answer.sample_rate, answer.error) == ("call", 24_000, None)
    assert (answer.audio.dtype, answer.audio.shape) == (np.float32, (12_000,))
    assert (answer.tokens.dtype, answer.tokens.shape) == (np.int32, (7, 9))
    assert answer.tokens[:, 0].tolist() == answer.transcript["text_tokens"]
    assert " ".join(word.word for word in answer.words) == answer.text
    assert all(0 <= word.start < word.end <= 0.56 for word in answer.words)
    assert (desk.model.name, desk.model.device) == ("tiny", "cpu")


@pytest.mark.parametrize("align", ["reference", "model"])
def test_an_answer_is_that_of_offline(desk: Desk, align: Literal["reference", "model"]) -> None:
    options = ("--align", align, "--save-tokens", "--format", "srt,frames", "--temp-text", "0.9", "--mix-wav", "m.wav")
    (desk.folder / "cli").mkdir()
    offline = ("offline", "--input-wav", "call.wav", "--voice-prompt", "voice.wav", "--output-wav", "cli/a.wav")
    desk.run(*offline, *options[:-1], "cli/m.wav")
    settings = Settings("voice.wav", align=align, sampling=Sampling(temp_text=0.9))
    answer = desk.model.answer(Call("call.wav"), settings)
    saved = answer.save("api/a.wav", formats=["srt", "frames"], tokens=True, mix="api/m.wav")

    made = {path.name: path.read_bytes() for path in (desk.folder / "cli").iterdir() if path.name != "a.json"}
    assert made == {path.name: path.read_bytes() for path in (desk.folder / "api").iterdir() if path.name != "a.json"}
    assert len(made) == 5
    assert desk.document("api/a.json") == desk.document("cli/a.json") == stable(saved)
    assert np.array_equal(answer.tokens, load_file("cli/a.tokens.safetensors")["tokens"])


def test_a_saved_wav_holds_the_audio(desk: Desk) -> None:
    answer = desk.model.answer(Call("call.wav"), VOICE)
    answer.save("a.wav", subtype="FLOAT")
    assert np.array_equal(soundfile.read("a.wav", dtype="float32")[0], answer.audio)


def rows(desk: Desk) -> list[dict[str, Any]]:
    """A manifest of calls that differ in length, voice, role, seed and part."""
    desk.write("long.flac", np.stack([noise(0.9, seed=4), noise(0.9, seed=5)], axis=1), 16_000)
    return [
        {"audio_filepath": "call.wav"},
        {"audio_filepath": "long.flac", "channel": "right", "seed": 5, "id": "a/right"},
        {"audio_filepath": "long.flac", "id": "part", "offset": 0.25, "duration": 0.3, "text_prompt": "Be brief."},
        {"audio_filepath": "call.wav", "id": "other", "voice_prompt": "other.wav", "role": "conversation"},
    ]


def as_call(row: dict[str, Any]) -> Call:
    return Call(row["audio_filepath"], **{key: value for key, value in row.items() if key != "audio_filepath"})


def answered(outcomes: Any) -> dict[str, Answer]:
    found = list(outcomes)
    assert all(isinstance(one, Answer) for one in found)
    return {one.id: one for one in found}


def test_answers_are_those_of_batch_whatever_runs_beside_them(desk: Desk) -> None:
    given = rows(desk)
    (desk.folder / "calls.jsonl").write_text("".join(json.dumps(row) + "\n" for row in given), encoding="utf-8")
    desk.run("batch", "calls.jsonl", "-o", "out", "--voice-prompt", "voice.wav", "--save-tokens", "--slots", "2")
    runs = [
        answered(desk.model.answers("calls.jsonl", VOICE, slots=3)),
        answered(desk.model.answers([as_call(row) for row in reversed(given)], VOICE, slots=1)),
        {row["audio_filepath"] + row.get("id", ""): one for row in given for one in alone(desk, row)},
    ]
    runs[2] = {one.id: one for one in runs[2].values()}
    for answers in runs:
        assert answers.keys() == {"call", "a/right", "part", "other"}
        for name, answer in answers.items():
            expected = desk.document(f"out/{name}.json")
            del expected["files"][f"{name.rpartition('/')[2]}.tokens.safetensors"]
            assert stable(answer.transcript) == expected
            assert np.array_equal(answer.tokens, load_file(f"out/{name}.tokens.safetensors")["tokens"])
            assert np.array_equal(pcm(answer), soundfile.read(f"out/{name}.wav", dtype="int16")[0])


def alone(desk: Desk, row: dict[str, Any]) -> list[Answer]:
    return list(answered(desk.model.answers([as_call(row)], VOICE)).values())


def pcm(answer: Answer) -> Any:
    """An answer's samples as its WAV holds them."""
    answer.save(f"again/{answer.id}.wav")
    return soundfile.read(f"again/{answer.id}.wav", dtype="int16")[0]


def test_a_directory(desk: Desk) -> None:
    (desk.folder / "calls/deep").mkdir(parents=True)
    desk.write("calls/a.wav", noise(0.2, seed=6))
    desk.write("calls/deep/b.flac", noise(0.1, seed=7))
    assert answered(desk.model.answers("calls", VOICE)).keys() == {"a", "deep/b"}
    assert answered(desk.model.answers(desk.folder / "calls", VOICE, glob="*.flac")).keys() == {"deep/b"}


@pytest.mark.parametrize("rate", [24_000, 8000])
def test_an_array_is_answered_as_a_file_of_it(desk: Desk, rate: int) -> None:
    samples = np.stack([noise(0.4, seed=8), noise(0.4, seed=9)], axis=1)
    desk.write("both.wav", samples, rate, subtype="FLOAT")
    part = {"channel": "right", "offset": 0.1, "seed": 3}
    file = desk.model.answer(Call("both.wav", **part), VOICE)
    array = desk.model.answer(Call(samples, rate, id="both", **part), VOICE)
    transposed = desk.model.answer(Call(np.asfortranarray(samples), rate, id="both", **part), VOICE)
    for one in (array, transposed):
        assert np.array_equal(one.audio, file.audio)
        assert np.array_equal(one.tokens, file.tokens)
    array.save("a.wav", mix="a.mix.wav")
    file.save("f.wav", mix="f.mix.wav")
    assert (desk.folder / "a.mix.wav").read_bytes() == (desk.folder / "f.mix.wav").read_bytes()
    told = array.transcript["input"]
    assert (told.pop("path"), told.pop("sha256") == file.transcript["input"].pop("sha256")) == ("<array>", False)
    assert told | {"path": "both.wav"} == file.transcript["input"]


def test_an_array_of_integers_is_pcm(desk: Desk) -> None:
    samples = (noise(0.2, seed=8) * 32_768).round().astype(np.int16)
    desk.write("pcm.wav", samples)
    file, array = desk.model.answer(Call("pcm.wav"), VOICE), desk.model.answer(Call(samples), VOICE)
    assert np.array_equal(file.audio, array.audio)


def test_arrays_are_called_by_their_place(desk: Desk) -> None:
    calls = [Call(noise(0.1, seed=1)), Call("call.wav"), Call(noise(0.1, seed=1))]
    answers = answered(desk.model.answers(calls, VOICE))
    assert answers.keys() == {"call-0", "call", "call-2"}
    assert len({answers[name].transcript["sampling"]["seed"] for name in answers}) == 3


def test_a_call_at_fault_fails_alone(desk: Desk) -> None:
    (desk.folder / "bad.wav").write_bytes(b"no sound")
    quiet = noise(0.1, seed=1)
    quiet[24] = np.nan
    calls = [
        Call("call.wav"),
        Call("bad.wav"),
        Call("none.wav"),
        Call("call.wav", id="seed", seed=-1),
        Call("call.wav", id="voice", voice_prompt="nobody"),
        Call(quiet, id="nan"),
        Call(np.zeros((2, 24_000)), id="shape"),
        Call(np.zeros(24_000, np.complex64), id="type"),
        Call(noise(0.1, seed=1), 0, id="rate"),
    ]
    found = {one.id: one for one in desk.model.answers(calls, VOICE)}
    assert isinstance(found.pop("call"), Answer)
    assert all(isinstance(one, Failure) for one in found.values())
    told = {name: (type(one.error).__name__, one.error.what) for name, one in found.items() if one.error is not None}
    assert told == {
        "bad": ("InputError", "bad.wav: is not audio that can be read: Format not recognised"),
        "none": ("InputError", "none.wav: cannot be read: No such file or directory"),
        "seed": ("UsageError", "calls[3]: seed: Input should be greater than or equal to 0"),
        "voice": ("VoiceError", "calls[4]: voice 'nobody' is unknown: no file of that name, not in the catalogue"),
        "nan": ("InputError", "<array>: the sample at 0.001000 s is not a finite number (NaN or infinite)"),
        "shape": ("UsageError", "calls[6]: an array of shape [2, 24000] is no sound"),
        "type": ("UsageError", "calls[7]: samples of type complex64 are not understood"),
        "rate": ("UsageError", "calls[8]: a sample rate of 0 makes no sense"),
    }


REFUSED: list[tuple[Call, Settings, type[PersonaplexError], str]] = [
    (Call("none.wav"), VOICE, InputError, "none.wav: cannot be read: No such file or directory"),
    (Call("call.wav"), Settings(), UsageError, "the call: no voice is chosen"),
    (Call("call.wav"), Settings("nobody"), VoiceError, "voice 'nobody' is unknown"),
    (Call("call.wav"), Settings("NATM1"), VoiceError, 'the model "tiny" comes with no voices'),
    (Call("call.wav", channel="2"), VOICE, InputError, 'call.wav: has 1 channel, so no channel "2"'),
    (Call("call.wav", channel="up"), VOICE, UsageError, "the call: channel: String should match pattern"),
    (Call("call.wav", offset=9), VOICE, InputError, "call.wav: lasts 0.500 s, so nothing is left from 9 s on"),
    (Call("call.wav", seed=2**63), VOICE, UsageError, "the call: seed: Input should be less than or equal to"),
    (Call("call.wav", role="pirate"), VOICE, UsageError, 'the call: no role is called "pirate"'),
    (Call(np.zeros(0, np.float32)), VOICE, InputError, "<array>: holds no audio"),
    (Call("call.wav"), Settings("voice.wav", text_prompt="long " * 9000), UsageError, "the prompt takes"),
]


@pytest.mark.parametrize(("call", "settings", "kind", "what"), REFUSED, ids=[one[3] for one in REFUSED])
def test_a_single_call_at_fault_is_raised(
    desk: Desk, call: Call, settings: Settings, kind: type[PersonaplexError], what: str
) -> None:
    with pytest.raises(PersonaplexError) as raised:
        desk.model.answer(call, settings)
    assert type(raised.value) is kind
    assert raised.value.what.startswith(what)


def test_what_makes_no_sense_for_all_is_raised_at_once(desk: Desk) -> None:
    def refused(source: Any = "call.wav", settings: Settings = VOICE, **more: Any) -> str:
        with pytest.raises(UsageError) as raised:
            desk.model.answers(source, settings, **more)
        return raised.value.what

    assert refused().startswith("call.wav: not a directory, a .jsonl or a .csv")
    assert refused("none.jsonl") == "none.jsonl: No such file or directory"
    assert refused([]) == "there are no calls to run"
    assert refused([Call("call.wav")], glob="*.wav") == "glob chooses files in a directory"
    assert refused([Call("call.wav")], slots=0) == "slots is 0"
    assert refused([Call("call.wav")] * 2).startswith('the id "call" stands for several items: calls[0], calls[1]')
    assert refused([Call("call.wav")], Settings("voice.wav", role="a", text_prompt="b")).endswith("exclude each other")


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"seed": -1}, "seed -1 is out of range"),
        ({"align": "sideways"}, '--align "sideways" is unknown'),
        ({"long_audio": "cut"}, '--long-audio "cut" is unknown'),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, Any], what: str) -> None:
    with pytest.raises(UsageError) as raised:
        Settings(**settings)
    assert raised.value.what == what


@pytest.mark.parametrize(
    ("name", "options", "kind", "what"),
    [
        ("nothing", {}, ModelError, 'there is no model "nothing"'),
        ("tiny", {"device": "cuda:77"}, ModelError, "--device cuda:77: this machine has no such device"),
        ("tiny", {"dtype": "float8"}, UsageError, '--dtype "float8" is unknown'),
        ("tiny", {"revision": "main"}, UsageError, "tiny is made in memory"),
    ],
)
def test_models_that_cannot_be_loaded(
    name: str, options: dict[str, Any], kind: type[PersonaplexError], what: str
) -> None:
    with pytest.raises(kind) as raised:
        load_model(name, **options)
    assert raised.value.what.startswith(what)


def test_saving_replaces_no_input(desk: Desk) -> None:
    answer = desk.model.answer(Call("call.wav"), VOICE)
    before = {path: path.read_bytes() for path in desk.folder.iterdir()}
    for path, more, what in (
        ("call.wav", {}, "would replace the input"),
        ("voice.wav", {}, "would replace the voice"),
        ("a.json", {}, "two outputs would be"),
        ("a.wav", {"mix": "a.wav"}, "two outputs would be"),
        ("a.wav", {"formats": ["doc"]}, '"doc" is not a format'),
        ("a.wav", {"subtype": "PCM_99"}, '"PCM_99" is unknown'),
    ):
        with pytest.raises(UsageError, match=what):
            answer.save(path, **more)
    assert {path: path.read_bytes() for path in desk.folder.iterdir()} == before
    with pytest.raises(InputError, match="cannot write"):
        answer.save("call.wav/a.wav")


def test_calls_run_only_while_an_answer_is_asked_for(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    read = prepared(monkeypatch)
    calls = [Call(noise(0.1, seed=number)) for number in range(9)]
    answers = desk.model.answers(calls, VOICE, slots=1)
    assert read == []
    next(answers)
    assert 1 <= len(read) <= 6  # the call, one behind it, one in the slot, and two ahead
    assert len({one.id for one in answers}) == 8
    assert len(read) == 9


def test_closing_the_iterator_stops_what_it_runs(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    read = prepared(monkeypatch)
    threads = threading.active_count()
    answers = desk.model.answers([Call(noise(0.1, seed=number)) for number in range(9)], VOICE, slots=2)
    next(answers)
    answers.close()
    count = len(read)
    assert count < 9
    assert threading.active_count() == threads
    assert list(answers) == []
    for _ in desk.model.answers([Call(noise(0.1, seed=1)), Call(noise(0.1, seed=2))], VOICE, slots=1):
        break  # which lets go of the iterator
    assert threading.active_count() == threads
    assert desk.model.answer(Call("call.wav"), VOICE).error is None


def prepared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of calls that are read and encoded, as that happens."""
    from personaplex.core.engine import batch

    prepare, read = batch.prepare, list[str]()

    def noted(job: Any, *more: Any) -> Any:
        read.append(job.id)
        return prepare(job, *more)

    monkeypatch.setattr(batch, "prepare", noted)
    return read


def test_a_full_device_is_told_as_on_the_command_line(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    from personaplex.core.engine import batch

    def full(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(batch, "Engine", full)
    with pytest.raises(ModelError, match="this machine: not enough memory"):
        desk.model.answer(Call("call.wav"), VOICE)


def test_a_bug_keeps_its_traceback(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LoadedModel, "device", property(lambda self: 1 / 0))
    with pytest.raises(ZeroDivisionError):
        desk.model.answer(Call("call.wav"), VOICE)
