"""Conversations between two personas: side a is the agent, side b the caller, whose words are known."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import soundfile

from personaplex.core.errors import UsageError
from personaplex.exports.export import FORMATS

if TYPE_CHECKING:
    from tests.exports.conftest import Made


@pytest.mark.parametrize("to", FORMATS)
def test_every_format(talked: Made, to: str) -> None:
    exported = talked.export(to)
    assert (exported.calls, exported.left_out) == (1, [])
    assert [(one.id, one.why) for one in exported.failed] == [("bad", "no role")]


def test_the_sides(talked: Made) -> None:
    talked.export("nemo")
    row = json.loads(talked.data("manifest.jsonl").read_text(encoding="utf-8"))
    for key, wav in (("audio_filepath", "talk.a.wav"), ("caller_filepath", "talk.b.wav")):
        assert talked.data(row[key]).read_bytes() == (talked.run / wav).read_bytes()
    assert (row["text"], row["caller_text"]) == ("Good morning.", "Hello? Bye.")
    assert (row["voice"], row["prompt"], row["flags"]) == ("anna", "You are anna.", ["both_waiting"])


def test_both_sides_words_in_lhotse(talked: Made) -> None:
    from lhotse import CutSet, validate

    talked.export("lhotse")
    cuts = CutSet.from_file(talked.data("cuts.jsonl.gz"))
    validate(cuts)
    (cut,) = cuts
    assert [(one.speaker, one.start, one.text) for one in cut.supervisions] == [
        ("user", 0.0, "Hello?"),
        ("agent", 0.56, "Good morning."),
        ("user", 1.2, "Bye."),
    ]
    assert [word.symbol for word in cut.supervisions[0].alignment["word"]] == ["Hello?"]
    assert cut.load_target_audio().shape == (1, soundfile.info(talked.run / "talk.a.wav").frames)


def test_both_sides_turns_in_audacity(talked: Made) -> None:
    talked.export("audacity")
    assert talked.data("audio/talk.turns.txt").read_text(encoding="utf-8").splitlines() == [
        "0.000000\t0.480000\tcaller: Hello?",
        "0.560000\t1.040000\tagent: Good morning.",
        "1.200000\t1.600000\tcaller: Bye.",
    ]


def test_keys_of_the_manifest_are_handed_on(talked: Made) -> None:
    import tarfile

    talked.export("webdataset")
    with tarfile.open(talked.data("calls-000000.tar")) as tar:
        member = tar.extractfile("talk.json")
        assert member is not None
        assert json.loads(member.read())["own"] == {"ticket": "A-17"}


def test_a_side_that_is_missing_leaves_it_out(talked: Made) -> None:
    (talked.run / "talk.b.wav").unlink()
    with pytest.raises(UsageError, match=r"its WAV talk\.b\.wav is missing"):
        talked.export("nemo")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not whole JSON"),
        ('{"schema": "personaplex.conversation/2"}', "conversation/2"),
        ('{"schema": "personaplex.conversation/1"}', "not a whole conversation"),
    ],
)
def test_a_broken_transcript_is_told(talked: Made, text: str, message: str) -> None:
    (talked.run / "talk.json").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=message):
        talked.export("nemo")
