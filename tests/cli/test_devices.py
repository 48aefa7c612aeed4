"""A batch on several processes: the files of a run of one, whatever becomes of the processes."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import TYPE_CHECKING, Any

import psutil
import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Desk

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")

OPTIONS = ("--slots", "2", "--save-tokens")
DEVICES = ("--devices", "cpu:2")
CALLS = 8


@pytest.fixture
def corpus(desk: Desk, template: Path) -> Desk:
    """A desk with eight calls and one that can't be read, and what comes of a run of one process in `whole`."""

    def make(new: Desk) -> None:
        for number in range(CALLS):
            new.sound(f"{number}.wav", new.noise(0.3 + 0.1 * number, seed=number))
        (new.folder / "broken.wav").write_bytes(b"RIFF")
        new.manifest(
            [*({"audio_filepath": f"{number}.wav"} for number in range(CALLS)), {"audio_filepath": "broken.wav"}]
        )
        assert new.batch("calls.jsonl", *OPTIONS, out="whole").code == 1

    return desk.made_once(template, make)


def start(desk: Desk, *options: str) -> subprocess.Popen[str]:
    return desk.spawn(*desk.batch_arguments("calls.jsonl", *OPTIONS, *DEVICES, "--json", *options))


def workers(child: subprocess.Popen[str]) -> list[psutil.Process]:
    """The processes that calls run in."""
    found = psutil.Process(child.pid).children()
    return [process for process in found if any("spawn_main" in part for part in process.cmdline())]


def wait_for(child: subprocess.Popen[str], condition: Callable[[], Any]) -> None:
    while child.poll() is None and not condition():
        time.sleep(0.005)


def transcripts(desk: Desk) -> set[str]:
    return {path.stem for path in (desk.folder / "out").glob("*.json")} - {"run"}


def test_the_files_are_those_of_one_process(corpus: Desk) -> None:
    result = corpus.process(*corpus.batch_arguments("calls.jsonl", *OPTIONS, *DEVICES, "--json"))
    assert result.code == 1, result.err
    summary = json.loads(result.out)
    assert (summary["done"], summary["failed"], summary["not_run"]) == (CALLS, 1, 0)
    assert summary["tail"]["least_seconds"] <= summary["tail"]["running_seconds"]
    assert corpus.tree() == corpus.tree("whole")
    devices = corpus.document("out/run.json")["volatile"]["devices"]
    assert sorted(device["name"] for device in devices) == ["cpu:0", "cpu:1"]
    assert {device["kind"] for device in devices} == {corpus.document("out/0.json")["engine"]["device_kind"]}


def test_a_killed_process_is_replaced_and_its_calls_run_again(corpus: Desk) -> None:
    with start(corpus) as child:
        wait_for(child, lambda: transcripts(corpus))
        workers(child)[0].kill()
        out, err = child.communicate(timeout=120)
    assert child.returncode == 1, err
    assert json.loads(out)["done"] == CALLS
    assert corpus.tree() == corpus.tree("whole")


def test_a_killed_run_leaves_no_process_behind_and_is_taken_up_again(corpus: Desk) -> None:
    with start(corpus) as child:
        wait_for(child, lambda: transcripts(corpus))
        orphans = workers(child)
        child.kill()
        child.communicate()
    assert orphans
    assert psutil.wait_procs(orphans, timeout=30)[1] == []
    assert corpus.batch("calls.jsonl", *OPTIONS).code == 1  # on one process
    assert corpus.tree() == corpus.tree("whole")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_writes_what_is_done(corpus: Desk, number: int) -> None:
    with start(corpus) as child:
        wait_for(child, lambda: transcripts(corpus))
        for process in (*workers(child), child):  # as a terminal does, or Slurm
            process.send_signal(number)
        out, err = child.communicate(timeout=60)
    summary = json.loads(out)
    assert child.returncode == 128 + number
    assert "Traceback" not in err
    assert summary["done"] == len(transcripts(corpus)) >= 1
    assert summary["done"] + summary["failed"] + summary["not_run"] == CALLS + 1
    assert [row["status"] for row in corpus.rows().values()].count("done") == summary["done"]
    result = corpus.process(*corpus.batch_arguments("calls.jsonl", *OPTIONS, *DEVICES))
    assert result.code == 1, result.err
    assert corpus.tree() == corpus.tree("whole")


def test_a_model_that_is_missing_is_told_once(corpus: Desk) -> None:
    result = corpus.batch("calls.jsonl", *DEVICES, "--model", "nowhere/at-all", out="other")
    assert result.code == 3
    assert len(result.errors) <= 2


@pytest.mark.parametrize(
    ("devices", "code", "told"),
    [
        ("cpu:0", 2, "0 processes"),
        ("cpu", 2, "makes no sense"),
        ("cuda:0,cuda:0", 2, "makes no sense"),
        ("cuda:77", 3, "no such device"),
    ],
)
def test_devices_that_make_no_sense(desk: Desk, devices: str, code: int, told: str) -> None:
    result = desk.batch("call.wav", "--devices", devices)
    assert (result.code, told in result.errors[0]) == (code, True), result.err


def test_a_device_and_devices(desk: Desk) -> None:
    result = desk.batch("call.wav", "--devices", "cpu:2", "--device", "cpu")
    assert result.code == 2
    assert "exclude each other" in result.errors[0]


def test_stores_are_for_one_process(corpus: Desk) -> None:
    told = corpus.batch("calls.jsonl", *DEVICES, out="memory://answers")
    assert (told.code, "--devices writes to a folder" in told.err) == (2, True)
    corpus.manifest([{"audio_filepath": "memory://calls/a.wav"}], "stored.jsonl")
    told = corpus.batch("stored.jsonl", *DEVICES)
    assert (told.code, "--devices reads files" in told.err) == (2, True)
