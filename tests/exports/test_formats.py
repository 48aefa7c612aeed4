"""The formats whose readers are too large for tests, held against what those readers do with the files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import soundfile

from tests.exports.conftest import add_call

if TYPE_CHECKING:
    from pathlib import Path

    from tests.exports.conftest import Made


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


class TestMoshiFinetune:
    def test_alignments_are_what_the_trainer_searches(self, made: Made) -> None:
        """It searches by halves for the first word of a part, and keeps those of the main speaker alone."""
        made.export("moshi-finetune")
        document = read(made.data("data_stereo/a/1.json"))
        assert document == {
            "alignments": [
                ["Thanks", [0.56, 0.8], "SPEAKER_MAIN"],
                ["for", [0.8, 0.96], "SPEAKER_MAIN"],
                ["calling.", [0.96, 1.52], "SPEAKER_MAIN"],
            ]
        }
        assert read(made.data("data_stereo/b.json")) == {"alignments": []}
        for path in made.data("data_stereo").rglob("*.json"):
            starts = [word[1][0] for word in read(path)["alignments"]]
            assert starts == sorted(starts)
            assert path.with_name(f"{path.stem}.wav").is_file()


def test_audacity_labels(made: Made) -> None:
    made.export("audacity")
    folder = made.data("audio")
    labels = {path.name: path.read_text(encoding="utf-8") for path in folder.rglob("*.txt")}
    assert labels["1.words.txt"].splitlines() == [
        "0.560000\t0.800000\tThanks",
        "0.800000\t0.960000\tfor",
        "0.960000\t1.520000\tcalling.",
    ]
    assert labels["1.turns.txt"].splitlines() == [
        "0.000000\t0.480000\tcaller",
        "0.560000\t1.520000\tagent: Thanks for calling.",
    ]
    assert labels["c.d.flags.txt"] == '0.800000\t1.600000\tloop: says "no" 4 times\n'
    assert labels["1.flags.txt"] == ""
    assert (folder / "a" / "1.agent.wav").read_bytes() == (made.run / "a" / "1.wav").read_bytes()


class TestCallersFromScripts:
    """Their turns are in the manifest, and so in the results."""

    TURNS = ({"start": 0.1, "end": 0.4, "text": "Hello.", "breaks_in": False},)

    def give(self, made: Made, turns: Any) -> None:
        rows = [json.loads(line) for line in (made.run / "results.jsonl").read_text().splitlines()]
        text = "".join(json.dumps(row | {"turns": turns}) + "\n" for row in rows)
        (made.run / "results.jsonl").write_text(text)

    def test_what_they_say_and_when(self, made: Made) -> None:
        from lhotse import CutSet

        self.give(made, self.TURNS)
        made.export("lhotse")
        for cut in CutSet.from_file(made.data("cuts.jsonl.gz")):
            (heard,) = [one for one in cut.supervisions if one.speaker == "user"]
            assert (heard.start, heard.end, heard.text, heard.alignment) == (0.1, 0.4, "Hello.", None)
            assert cut.caller_text == "Hello."

    @pytest.mark.parametrize("turns", [3, ["Hello."], [{"start": 0}], None])
    def test_a_key_that_is_only_called_so(self, made: Made, turns: Any) -> None:
        self.give(made, turns)
        made.export("audacity")
        assert "\tcaller\n" in made.data("audio/b.turns.txt").read_text()


def take_over(chunks: list[dict[str, Any]]) -> bool:
    """The benchmark's rule: no words are no turn, nor are up to three words in less than a second."""
    if not chunks:
        return False
    duration = chunks[-1]["timestamp"][-1] - chunks[0]["timestamp"][0]
    return bool(duration >= 1 or len(chunks) > 3)


class TestFullDuplexBench:
    def test_samples_of_any_run(self, made: Made) -> None:
        made.export("full-duplex-bench")
        for name, words in (("a/1", ["Thanks", "for", "calling."]), ("b", [])):
            folder = made.data(name)
            assert sorted(path.name for path in folder.iterdir() if path.is_file()) == [
                *("input.wav", "output.json", "output.wav")
            ]
            output = read(folder / "output.json")
            assert output["text"] == " ".join(words)
            assert [chunk["text"] for chunk in output["chunks"]] == words
            assert soundfile.info(folder / "output.wav").duration == pytest.approx(
                soundfile.info(folder / "input.wav").duration
            )
        assert read(made.data("a/1/output.json"))["chunks"][0] == {"text": "Thanks", "timestamp": [0.56, 0.8]}

    def sample(self, made: Made, name: str, folder: str, files: dict[str, Any], file: str = "input.wav") -> None:
        """Add a call whose row says that it is one of the benchmark's samples."""
        words = [(f"w{n}", round(0.4 * n, 2), round(0.4 * n + 0.24, 2)) for n in range(4)]
        add_call(made, name, "three.flac", words)
        rows = [json.loads(line) for line in (made.run / "results.jsonl").read_text().splitlines()]
        rows[-1]["full_duplex_bench"] = {"folder": folder, "input": file, "files": files}
        (made.run / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def test_annotations_come_out_as_they_went_in(self, made: Made) -> None:
        files = {"turn_taking.json": [{"timestamp": [0.7, 0.9]}], "transcription.json": {"text": "Café?"}}
        self.sample(made, "candor_turn_taking/7", "candor_turn_taking/7", files)
        made.export("full-duplex-bench")
        folder = made.data("candor_turn_taking/7")
        assert {path.name: read(path) for path in folder.glob("*.json") if path.name != "output.json"} == files
        assert soundfile.info(folder / "input.wav").format == "WAV", "of a FLAC, since the benchmark opens input.wav"

    def test_of_an_interruption_what_is_said_after_it_counts(self, made: Made) -> None:
        """The benchmark's recogniser hears the answer from the end of the interruption on."""
        files = {"interrupt.json": [{"context": "c", "interrupt": "i", "timestamp": [0.2, 0.8]}]}
        self.sample(made, "synthetic_user_interruption/1", "synthetic_user_interruption/1", files)
        made.export("full-duplex-bench")
        output = read(made.data("synthetic_user_interruption/1/output.json"))
        assert output["text"] == "w2 w3"
        assert output["chunks"][0]["timestamp"] == [0.8, 1.04]
        assert not take_over(output["chunks"])

    def test_the_clean_input_of_version_1_5_is_beside_its_sample(self, made: Made) -> None:
        self.sample(made, "user_interruption/1", "user_interruption/1", {"metadata.json": {}})
        self.sample(made, "user_interruption/1.clean", "user_interruption/1", {}, "clean_input.wav")
        made.export("full-duplex-bench")
        folder = made.data("user_interruption/1")
        names = {"input.wav", "output.wav", "output.json", "metadata.json"}
        assert {path.name for path in folder.iterdir()} == names | {
            *("clean_input.wav", "clean_output.wav", "clean_output.json")
        }

    def test_each_way_of_running_a_sample_has_a_folder(self, made: Made) -> None:
        for variant in ("anna.seed1", "anna.seed2"):
            self.sample(made, f"icc_backchannel/3.{variant}", "icc_backchannel/3", {"transcription.json": {}})
        made.export("full-duplex-bench")
        for variant in ("anna.seed1", "anna.seed2"):
            assert (made.data(variant) / "icc_backchannel" / "3" / "output.json").is_file()

    @pytest.mark.parametrize("files", [{"interrupt.json": []}, {"interrupt.json": [{"timestamp": None}]}, None])
    def test_odd_annotations_change_nothing(self, made: Made, files: Any) -> None:
        self.sample(made, "odd/1", "odd/1", files)
        assert made.export("full-duplex-bench").calls == 5
        assert len(read(made.data("odd/1/output.json"))["chunks"]) == 4

    def test_a_sample_is_written_once(self, made: Made) -> None:
        for name in ("mine", "yours"):
            self.sample(made, name, "odd/1", {})
        exported = made.export("full-duplex-bench")
        assert [(one.id, one.why) for one in exported.left_out] == [
            ("yours", "another call has the sample's folder odd/1 already")
        ]

    def test_a_sample_cannot_lead_out_of_the_folder(self, made: Made) -> None:
        self.sample(made, "evil/1", "../../evil", {"../x.json": 1})
        exported = made.export("full-duplex-bench")
        assert [one.id for one in exported.left_out] == ["evil/1"]
        assert not (made.folder.parent / "evil").exists()
