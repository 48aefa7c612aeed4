"""The samples are what their README and manifest promise."""

import json
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import soundfile

from personaplex.core.errors import ModelError
from personaplex.samples import catalog, make_tokenizer
from personaplex.samples.make_calls import CLIPS

SAMPLES = catalog.manifest_path().parent
ROWS = [json.loads(line) for line in catalog.manifest_path().read_text(encoding="utf-8").splitlines()]
CALLS = catalog.call_paths()
VOICES = sorted((SAMPLES / "voices").glob("*.wav"))
README = (SAMPLES / "README.md").read_text(encoding="utf-8")


def name(path: Path) -> str:
    return path.relative_to(SAMPLES).as_posix()


def properties(file: str) -> tuple[int, str, int]:
    info = soundfile.info(SAMPLES / file)
    return info.samplerate, info.subtype, info.channels


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return sentencepiece.SentencePieceProcessor(model_file=str(catalog.model_folder("tiny") / "tokenizer.model"))


def test_manifest_runs_every_call_once() -> None:
    assert sorted(row["audio_filepath"] for row in ROWS) == [name(path) for path in CALLS]
    assert len({row["id"] for row in ROWS}) == len(ROWS) >= 6


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_manifest_row(row: dict[str, str]) -> None:
    assert (SAMPLES / row["voice_prompt"]) in VOICES
    assert row["text_prompt"].startswith("You work for ")
    assert " which is a" in row["text_prompt"]
    assert " and your name is " in row["text_prompt"]
    assert " Information: " in row["text_prompt"]
    assert row["scenario"]
    assert row.get("channel") == ("left" if properties(row["audio_filepath"])[2] == 2 else None)


@pytest.mark.parametrize("path", CALLS, ids=name)
def test_call_lasts_5_to_30_seconds_at_a_sensible_level(path: Path) -> None:
    samples, rate = soundfile.read(path, always_2d=True)
    assert 5 <= len(samples) / rate <= 30
    # µ-law's steps are 0.3 dB wide near full scale.
    assert 20 * np.log10(np.abs(samples).max()) == pytest.approx(-3, abs=0.3)


@pytest.mark.parametrize("path", VOICES, ids=name)
def test_voice_prompt(path: Path) -> None:
    assert properties(name(path)) == (24_000, "PCM_16", 1)
    assert 5 <= soundfile.info(path).duration <= 6


def test_formats_cover_what_users_meet() -> None:
    assert properties("calls/bank_card.wav") == (8_000, "ULAW", 1)
    assert properties("calls/repair.wav") == (44_100, "PCM_24", 1)
    assert properties("calls/internet.wav") == (8_000, "PCM_16", 2)
    assert soundfile.info(SAMPLES / "calls/parcel.flac").format == "FLAC"
    assert soundfile.info(SAMPLES / "calls/clinic.wav").format == "WAV"


def test_24_bits_are_used() -> None:
    samples, _ = soundfile.read(SAMPLES / "calls/repair.wav", dtype="int32")
    assert np.any(samples >> 8 & 0xFF)


def test_stereo_holds_the_caller_on_the_left_and_a_faint_line_on_the_right() -> None:
    samples, _ = soundfile.read(SAMPLES / "calls/internet.wav")
    left, right = np.sqrt(np.mean(samples**2, axis=0))
    assert left > 5 * right > 0
    assert abs(np.corrcoef(samples.T)[0, 1]) < 0.05


def test_one_call_holds_a_long_silence_between_words() -> None:
    samples, rate = soundfile.read(SAMPLES / "calls/parcel.flac", dtype="int16")
    heard = np.flatnonzero(samples)
    assert 8 * rate <= np.diff(heard).max() <= 10 * rate


def test_noisy_call_is_never_silent() -> None:
    samples, rate = soundfile.read(SAMPLES / "calls/hotel.wav", dtype="int16")
    longest = max(len(list(run)) for silent, run in groupby(samples == 0) if silent)
    assert longest < 0.01 * rate


def test_recordings_are_small() -> None:
    assert sum(path.stat().st_size for path in CALLS + VOICES) < 4_000_000


def test_script_makes_exactly_these_recordings() -> None:
    assert sorted(clip.path for clip in CLIPS) == [name(path) for path in CALLS + VOICES]


@pytest.mark.parametrize("clip", CLIPS, ids=lambda clip: clip.path)
def test_script_promises_what_the_file_is(clip: Any) -> None:
    assert properties(clip.path) == (clip.rate, clip.subtype, 2 if clip.hold_line else 1)


@pytest.mark.parametrize("path", CALLS + VOICES, ids=name)
def test_readme_tells_each_recording_as_it_is(path: Path) -> None:
    rate, subtype, channels = properties(name(path))
    seconds = soundfile.info(path).duration
    assert f"| `{name(path)}` | {rate} | {subtype} | {channels} | {seconds:.2f} |" in README


@pytest.mark.parametrize(
    "file", ["manifest.jsonl", "corpus.txt", "models/tiny/tokenizer.model", "make_calls.py", "make_tokenizer.py"]
)
def test_readme_names_the_other_files(file: str) -> None:
    assert (SAMPLES / file).is_file()
    assert f"| `{file}` |" in README


def test_tokenizer_has_the_promised_ids(tokenizer: Any) -> None:
    assert tokenizer.vocab_size() == make_tokenizer.VOCABULARY == 512
    assert [tokenizer.unk_id(), tokenizer.bos_id(), tokenizer.eos_id(), tokenizer.pad_id()] == [0, 1, 2, 3]
    assert all(tokenizer.is_byte(index) for index in range(4, 260))
    assert not any(tokenizer.is_byte(index) for index in range(260, 512))


@pytest.mark.parametrize("text", ["Thanks for calling.", "<system> You work here. <system>", "naïve 5 € 🙂 Zażółć"])
def test_tokenizer_round_trips_any_text_without_special_ids(tokenizer: Any, text: str) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert min(ids) > 3


def test_tokenizer_marks_the_starts_of_words(tokenizer: Any) -> None:
    pieces = tokenizer.encode("please hold the line", out_type=str)
    assert sum(piece.startswith("▁") for piece in pieces) == 4


def test_corpus_is_enough_to_learn_from() -> None:
    lines = make_tokenizer.CORPUS.read_text(encoding="utf-8").splitlines()
    assert len(set(lines)) == len(lines)
    assert f"{len(lines)} lines" in README


def test_packaged_models() -> None:
    assert "tiny" in catalog.model_names()
    with pytest.raises(ModelError, match=r"packaged models: .*tiny"):
        catalog.model_folder("tinny")


def test_a_packaged_model_is_in_its_folder_if_its_weights_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("seeded", "trained"):
        (tmp_path / "models" / name).mkdir(parents=True)
    (tmp_path / "models" / "trained" / "config.json").touch()
    monkeypatch.setattr(catalog, "_FOLDER", tmp_path)
    assert catalog.placed("trained") == str(tmp_path / "models" / "trained")
    assert [catalog.placed(name) for name in ("seeded", "owner/trained", "../models/trained")] == [
        "seeded",
        "owner/trained",
        "../models/trained",
    ]
