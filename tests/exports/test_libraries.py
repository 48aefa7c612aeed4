"""Each export, read back by the library that it is for."""

from __future__ import annotations

import json
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile

if TYPE_CHECKING:
    from pathlib import Path

    from tests.exports.conftest import Made

IDS = ["a/1", "a/1.x", "b", "c.d"]

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")


def read(path: Path) -> Any:
    return soundfile.read(path, dtype="float32")[0]


def close(one: Any, other: Any) -> bool:
    """Whether two sounds are the same but for the rounding to 16 bits."""
    return len(one) == len(other) and bool(np.abs(np.ravel(one) - np.ravel(other)).max() < 2**-15)


class TestLhotse:
    def test_manifests(self, made: Made) -> None:
        from lhotse import CutSet, RecordingSet, SupervisionSet, validate

        made.export("lhotse")
        recordings = RecordingSet.from_file(made.data("recordings.jsonl.gz"))
        supervisions = SupervisionSet.from_file(made.data("supervisions.jsonl.gz"))
        cuts = CutSet.from_file(made.data("cuts.jsonl.gz"))
        for manifest in (recordings, supervisions, cuts):
            validate(manifest, read_data=manifest is not supervisions)
        assert {recording.id for recording in recordings} == {f"{name}-{side}" for name in IDS for side in SIDES}
        assert [cut.id for cut in cuts] == IDS
        assert {one.recording_id for one in supervisions} <= {recording.id for recording in recordings}

    def test_cuts(self, made: Made) -> None:
        from lhotse import CutSet

        made.export("lhotse")
        for cut in CutSet.from_file(made.data("cuts.jsonl.gz")):
            self.check(made, cut)

    def test_shar(self, made: Made) -> None:
        from lhotse import CutSet

        made.export("lhotse-shar")
        cuts = list(CutSet.from_shar(in_dir=made.folder / "data"))
        assert [cut.id for cut in cuts] == IDS
        for cut in cuts:
            self.check(made, cut)

    def test_shar_in_several_shards(self, made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
        from lhotse import CutSet

        for module in ("personaplex.exports.tars", "personaplex.exports.formats.lhotse"):
            monkeypatch.setattr(f"{module}.SHARD_CALLS", 3)
        made.export("lhotse-shar")
        assert len(list((made.folder / "data").iterdir())) == 2 * 3
        cuts = list(CutSet.from_shar(in_dir=made.folder / "data"))
        assert [cut.id for cut in cuts] == IDS
        for cut in cuts:
            self.check(made, cut)

    @staticmethod
    def check(made: Made, cut: Any) -> None:
        """A cut is the caller's sound with the agent's as its target, and both sides' turns."""
        document, (caller, rate) = made.document(cut.id), made.samples(cut.id)
        assert (cut.sampling_rate, cut.num_samples) == (rate, len(caller))
        assert close(cut.load_audio()[0], caller)
        assert close(cut.load_target_audio()[0], read(made.run / f"{cut.id}.wav"))
        agent = [one for one in cut.supervisions if one.speaker == "agent"]
        assert [one.text for one in agent] == [segment["text"] for segment in document["segments"]]
        words = [word for segment in document["segments"] for word in segment["words"]]
        aligned = [word for one in agent for word in one.alignment["word"]]
        assert [(word.symbol, word.start) for word in aligned] == [(word["word"], word["start"]) for word in words]
        heard = [(one.start, one.end, one.text) for one in cut.supervisions if one.speaker == "user"]
        assert heard == [(0.0, 0.48, None)]
        assert (cut.voice, cut.model, cut.seed) == ("anna", "tiny", str(document["sampling"]["seed"]))


SIDES = ("agent", "caller")


class TestMoshiFinetune:
    def test_its_reader_gives_both_channels(self, made: Made) -> None:
        """As the trainer reads: parts of a fixed length, the last one padded, each with the path of its words."""
        import sphn

        made.export("moshi-finetune")
        source = sphn.dataset_jsonl(
            str(made.data("data.jsonl")), duration_sec=1.0, num_threads=1, sample_rate=24_000, pad_last_segment=True
        )
        parts: dict[str, list[Any]] = {}
        for part in source.seq(skip=0, step_by=1):
            name = part["path"].removeprefix(f"{made.data('data_stereo')}/").removesuffix(".wav")
            parts.setdefault(name, []).append(part["data"][:, : part["unpadded_len"]])
            words = json.loads(made.data(f"data_stereo/{name}.json").read_text(encoding="utf-8"))["alignments"]
            assert [word for word, _, _ in words] == made.document(name)["text"].split()
        assert sorted(parts) == IDS
        for name, found in parts.items():
            agent, caller = np.concatenate(found, axis=1)
            assert close(agent, read(made.run / f"{name}.wav"))
            heard, rate = made.samples(name)
            assert len(caller) == round(len(heard) * 24_000 / rate)
            assert np.sqrt(np.square(caller).mean()) == pytest.approx(np.sqrt(np.square(heard).mean()), rel=0.05)


def test_webdataset(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    import webdataset

    monkeypatch.setattr("personaplex.exports.tars.SHARD_CALLS", 3)
    made.export("webdataset")
    shards = sorted(str(path) for path in (made.folder / "data").iterdir())
    assert [path.rpartition("/")[2] for path in shards] == ["calls-000000.tar", "calls-000001.tar"]
    samples = list(webdataset.WebDataset(shards, shardshuffle=False))
    assert [sample["__key__"] for sample in samples] == ["a/1", "a/1_x", "b", "c_d"]
    for name, sample in zip(IDS, samples, strict=True):
        caller, rate = soundfile.read(io.BytesIO(sample["caller.wav"]), dtype="float32")
        expected, expected_rate = made.samples(name)
        assert rate == expected_rate
        assert close(caller, expected)
        assert sample["agent.wav"] == (made.run / f"{name}.wav").read_bytes()
        record = json.loads(sample["json"])
        assert (record["id"], record["text"]) == (name, made.document(name)["text"])
        assert record["own"] == {"scenario": f"of {name}"}


class TestAudiofolder:
    @pytest.fixture
    def load(self, made: Made, monkeypatch: pytest.MonkeyPatch) -> Any:
        """What the library makes of the folder. Files are left undecoded: its decoder, torchcodec, isn't installed.

        The library imports that before it looks whether there is anything to encode.
        """
        monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
        encoders = ModuleType("torchcodec.encoders")
        encoders.AudioEncoder = None  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "torchcodec.encoders", encoders)
        import datasets

        def load() -> Any:
            found = datasets.load_dataset(str(made.folder / "data"), cache_dir=str(made.folder / "cache"))
            sides = {side: datasets.Audio(decode=False) for side in SIDES}
            for name in found:
                for side, kind in sides.items():
                    assert type(found[name].features[side]) is datasets.Audio
                    found[name] = found[name].cast_column(side, kind)
            return found

        return load

    def test_rows(self, made: Made, load: Any) -> None:
        made.export("audiofolder")
        found = load()
        assert list(found) == ["train"]
        rows = {row["id"]: row for row in found["train"]}
        assert sorted(rows) == IDS
        for name, row in rows.items():
            assert read(row["agent"]["path"]).tolist() == read(made.run / f"{name}.wav").tolist()
            assert close(read(row["caller"]["path"]), made.samples(name)[0])
            assert row["text"] == made.document(name)["text"]
        assert rows["a/1.x"]["seed"] == str(2**53 - 1)
        assert [rows[name]["flags"] for name in IDS] == ["", "", "", "loop"]

    def test_splits(self, made: Made, load: Any) -> None:
        exported = made.export("audiofolder", shares={"train": 0.34, "dev": 0.33, "test": 0.33}, link=True)
        found = load()
        assert {name: found[name].num_rows for name in found} == exported.splits
        assert sorted(row["id"] for name in found for row in found[name]) == IDS

    def test_a_card_says_what_it_was_made_with(self, made: Made) -> None:
        from huggingface_hub import DatasetCard

        made.export("audiofolder", shares={"train": 0.67, "test": 0.33})
        card = DatasetCard.load(made.data("README.md"))
        assert card.data.license == "other"
        assert [entry["split"] for entry in card.data.configs[0]["data_files"]] == ["train", "test"]
        for said in (
            "| model | `tiny` |",
            "| revision | `one` |",
            "| voices | `anna` |",
            f"| seeds | 7, {2**53 - 1} |",
        ):
            assert said in card.text
        assert "4 calls" in card.text


def test_nemo_manifests_are_read_by_batch(made: Made) -> None:
    """They are relative to their folder and hold what NeMo asks for; NeMo itself is too large for tests."""
    from personaplex.core.corpus.sources import read_source

    made.export("nemo")
    items = read_source(str(made.data("manifest.jsonl")), None, None).whole()
    assert [item.id for item in items] == IDS
    for item in items:
        assert read(item.path).tolist() == read(made.run / f"{item.id}.wav").tolist()
        assert item.row.duration == pytest.approx(soundfile.info(item.path).duration)
        own = item.row.passed_through
        assert own["text"] == made.document(item.id)["text"]
        assert close(read(item.folder / own["caller_filepath"]), made.samples(item.id)[0])
    rows = [json.loads(line) for line in made.data("segments.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(row["text"], row["offset"], row["duration"]) for row in rows] == [
        ("Thanks for calling.", 0.56, 0.94),  # until the sound ends, which is within the last frame
        ("Hello.", 0.64, 0.4),
        ("No. No.", 0.8, 0.8),
    ]
