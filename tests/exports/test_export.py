"""Exports from end to end: what is in them, what is left out, and that nothing half-written is left."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile

from personaplex.core.audio.reading import sha256
from personaplex.core.errors import InputError, UsageError
from personaplex.core.files import temporary
from personaplex.exports import tracks
from personaplex.exports.export import FORMATS, Request, export
from personaplex.exports.formats.nemo import NemoWriter
from personaplex.exports.reading import read_calls
from personaplex.exports.writer import Target

if TYPE_CHECKING:
    from pathlib import Path

    from tests.exports.conftest import Made

LINKING = [name for name, chosen in FORMATS.items() if chosen.links]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def left_over(made: Made) -> list[str]:
    """What is in the folder of data sets beside the run and its callers."""
    return sorted(path.name for path in made.folder.iterdir() if path.name not in {"run", "callers"})


@pytest.mark.parametrize("to", FORMATS)
class TestEveryFormat:
    def test_failed_calls_are_left_out_and_told(self, made: Made, to: str) -> None:
        exported = made.export(to)
        assert (exported.calls, exported.left_out) == (4, [])
        assert [(one.id, one.why) for one in exported.failed] == [("e", "is empty (0 bytes)")]
        assert left_over(made) == ["data"]

    def test_the_same_run_is_the_same_bytes(self, made: Made, to: str) -> None:
        made.export(to)
        first = contents(made.folder / "data")
        shutil.rmtree(made.folder / "data")
        made.export(to)
        assert contents(made.folder / "data") == first
        assert first

    def test_a_call_whose_sound_is_gone_is_left_out_alone(self, made: Made, to: str) -> None:
        (made.callers / "three.flac").unlink()
        (made.run / "b.wav").unlink()
        exported = made.export(to)
        assert exported.calls == 2
        assert [one.id for one in exported.left_out] == ["b", "c.d"]
        assert "its WAV b.wav is missing" in exported.left_out[0].why
        assert "three.flac is not there" in exported.left_out[1].why
        assert not any("c.d" in name or "c_d" in name for name in contents(made.folder / "data"))

    def test_nothing_is_left_of_an_export_that_breaks_off(
        self, made: Made, to: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whatever ends it: here the interrupt key, while the second call is written."""
        chosen, calls = FORMATS[to].writer, []

        def broken(target: Any) -> Any:
            writer = chosen(target)
            add = writer.add

            def counted(call: Any) -> None:
                calls.append(call)
                if len(calls) == 2:
                    raise KeyboardInterrupt
                add(call)

            monkeypatch.setattr(writer, "add", counted)
            return writer

        monkeypatch.setattr("personaplex.exports.export.FORMATS", {to: type(FORMATS[to])(broken)})
        with pytest.raises(KeyboardInterrupt):
            made.export(to)
        assert left_over(made) == []

    def test_a_folder_that_holds_something_is_refused(self, made: Made, to: str) -> None:
        (made.folder / "data").mkdir()
        (made.folder / "data" / "notes").touch()
        with pytest.raises(UsageError, match="is not empty"):
            made.export(to)
        assert contents(made.folder / "data") == {"notes": b""}


class TestLinks:
    @pytest.mark.parametrize("to", LINKING)
    def test_files_that_are_handed_on_as_they_are_become_links(self, made: Made, to: str) -> None:
        made.export(to)
        copied = contents(made.folder / "data")
        shutil.rmtree(made.folder / "data")
        made.export(to, link=True)
        assert contents(made.folder / "data") == copied
        links = {os.readlink(path) for path in (made.folder / "data").rglob("*") if path.is_symlink()}
        assert all(os.path.isabs(link) for link in links)
        assert str((made.run / "a" / "1.wav").resolve()) in links
        assert str((made.callers / "one.wav").resolve()) in links
        assert not any("two.wav" in link for link in links), "one of its channels is used"

    @pytest.mark.parametrize("to", sorted(FORMATS.keys() - set(LINKING)))
    def test_formats_that_hold_their_sound_refuse(self, made: Made, to: str) -> None:
        with pytest.raises(UsageError, match=f"--link: {to} holds its sound itself"):
            made.export(to, link=True)


class TestCallers:
    def sound(self, made: Made, name: str) -> tuple[Any, int]:
        rows = [json.loads(line) for line in made.data("manifest.jsonl").read_text(encoding="utf-8").splitlines()]
        row = next(row for row in rows if row["id"] == name)
        found: tuple[Any, int] = soundfile.read(made.data(row["caller_filepath"]), dtype="float32")
        return found

    def test_the_channel_that_was_heard(self, made: Made) -> None:
        made.export("nemo")
        expected, rate = made.samples("b")
        found, found_rate = self.sound(made, "b")
        assert found_rate == rate
        assert np.abs(found - expected).max() < 2**-15

    def test_the_part_that_was_heard(self, made: Made) -> None:
        change(made, "a/1", {"part": {"offset": 0.5, "duration": 0.25}})
        made.export("nemo")
        found, rate = self.sound(made, "a/1")
        assert (len(found), rate) == (4000, 16_000)
        assert np.abs(found - made.samples("a/1")[0][8000:12_000]).max() < 2**-15

    def test_a_folder_that_they_were_moved_to(self, made: Made) -> None:
        made.callers.rename(made.folder / "moved")
        with pytest.raises(UsageError, match="none of its calls can be exported"):
            made.export("nemo")
        assert left_over(made) == ["moved"]
        assert made.export("nemo", callers=made.folder / "moved").calls == 4

    def test_a_recording_of_another_content_is_not_taken(self, made: Made) -> None:
        soundfile.write(made.callers / "one.wav", np.zeros(24_000), 16_000)
        exported = made.export("nemo")
        assert [one.id for one in exported.left_out] == ["a/1", "a/1.x"]
        assert "its content has changed" in exported.left_out[0].why

    def test_a_mix_stands_in_for_a_recording_that_is_gone(self, made: Made) -> None:
        caller = 0.5 * np.sin(np.arange(36_000) / 50)
        mix = np.stack([caller, np.zeros(36_000)], axis=1)
        soundfile.write(made.run / "a" / "1.mix.wav", mix, 24_000)
        (made.callers / "one.wav").unlink()
        exported = made.export("nemo")
        assert [one.id for one in exported.left_out] == ["a/1.x"]
        found, rate = self.sound(made, "a/1")
        assert rate == 24_000
        assert np.abs(found - caller).max() < 2**-14

    def test_a_mix_of_another_run_does_not(self, made: Made) -> None:
        soundfile.write(made.run / "a" / "1.mix.wav", np.zeros((36_000, 2)), 24_000)
        document = made.document("a/1")
        document["files"]["1.mix.wav"] = "5" * 64
        (made.run / "a" / "1.json").write_text(json.dumps(document), encoding="utf-8")
        (made.callers / "one.wav").unlink()
        why = {one.id: one.why for one in made.export("nemo").left_out}
        assert "not the WAV that the transcript was written with" in why["a/1"]

    def test_one_whose_header_was_never_finished_is_written_anew(self, made: Made) -> None:
        """As a recorder leaves it that was switched off: others see no sound in it."""
        content = bytearray((made.callers / "one.wav").read_bytes())
        content[4:8] = content[40:44] = bytes(4)
        (made.callers / "one.wav").write_bytes(content)
        for name in ("a/1", "a/1.x"):
            change(made, name, {"sha256": sha256(made.callers / "one.wav")})
        assert made.export("nemo", link=True).left_out == []
        found, rate = self.sound(made, "a/1")
        assert (len(found), rate) == (24_000, 16_000)

    def test_one_that_cannot_be_read_is_left_out(self, made: Made) -> None:
        """Its content is what the call heard, but here nothing reads it, as without FFmpeg an M4A."""
        (made.callers / "one.wav").write_bytes(b"no sound")
        for name in ("a/1", "a/1.x"):
            change(made, name, {"sha256": sha256(made.callers / "one.wav")})
        exported = made.export("lhotse")
        assert [one.id for one in exported.left_out] == ["a/1", "a/1.x"]

    def test_an_agents_wav_of_another_run_is_not_taken(self, made: Made) -> None:
        shutil.copy(made.run / "b.wav", made.run / "c.d.wav")
        exported = made.export("nemo")
        assert [one.id for one in exported.left_out] == ["c.d"]
        assert "not the WAV that the transcript was written with" in exported.left_out[0].why


def change(made: Made, name: str, heard: dict[str, Any]) -> None:
    """Put something into the `input` of a call's transcript."""
    document = made.document(name)
    document["input"] |= heard
    (made.run / f"{name}.json").write_text(json.dumps(document), encoding="utf-8")


def test_keys_of_the_users_own_make_no_conversation_of_a_call(made: Made) -> None:
    rows = [json.loads(line) for line in (made.run / "results.jsonl").read_text().splitlines()]
    text = "".join(json.dumps(row | {"sides": {"a": "left", "b": "right"}}) + "\n" for row in rows)
    (made.run / "results.jsonl").write_text(text)
    assert made.export("nemo").calls == 4


class TestRefused:
    def test_what_is_no_run(self, made: Made) -> None:
        for folder, message in ((made.callers, "holds no transcripts"), (made.folder / "none", "no such folder")):
            with pytest.raises(UsageError, match=message):
                export(Request(folder, "nemo", made.folder / "data"))
        assert left_over(made) == []

    def test_an_unknown_format(self, made: Made) -> None:
        with pytest.raises(UsageError, match='--to "kaldi" is not a format') as caught:
            made.export("kaldi")
        assert "lhotse, lhotse-shar, nemo" in caught.value.mend

    @pytest.mark.parametrize("to", ["full-duplex-bench", "audacity"])
    def test_splits_of_a_format_without(self, made: Made, to: str) -> None:
        with pytest.raises(UsageError, match=f"--split: {to} has no splits"):
            made.export(to, shares={"train": 1.0})

    def test_a_file_or_a_link_in_the_folders_place(self, made: Made) -> None:
        (made.folder / "data").write_text("mine")
        with pytest.raises(UsageError, match="is there and is no folder"):
            made.export("nemo")
        (made.folder / "data").unlink()
        (made.folder / "data").symlink_to(made.callers)
        with pytest.raises(UsageError, match="is there and is no folder"):
            made.export("nemo")

    def test_an_empty_folder_is_taken(self, made: Made) -> None:
        (made.folder / "data").mkdir()
        assert made.export("nemo").calls == 4

    def test_a_full_disk_ends_it(self, made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is no call's fault: none is left out for it."""

        def full(*_: Any) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(tracks.shutil, "copyfile", full)
        with pytest.raises(InputError, match="cannot write: No space left") as caught:
            made.export("nemo")
        assert "free some space" in caught.value.mend
        assert left_over(made) == []

    def test_what_a_killed_export_left_goes_with_the_next(self, made: Made) -> None:
        part = temporary(made.folder / "data")
        part.mkdir()
        (part / "half").touch()
        made.export("nemo")
        assert left_over(made) == ["data"]


def test_a_writer_leaves_nothing_of_a_call_that_it_refuses(made: Made) -> None:
    """Its agent's WAV is written before the caller's turns out to be no sound."""
    call = read_calls(made.run, None).calls[0]
    call.caller.path.write_bytes(b"no sound")
    target = Target(made.folder / "part", made.folder / "data", link=False)
    writer = NemoWriter(target)
    with pytest.raises(InputError):
        writer.add(call)
    writer.close()
    assert contents(target.folder) == {"manifest.jsonl": b"", "segments.jsonl": b""}
