"""Broken off - killed, interrupted, out of disk, with another process at the same work - and taken up again."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import select
import signal
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from personaplex.core.engine.slots import Engine

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

    from tests.cli.conftest import Desk

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and limits as POSIX has them")

OPTIONS = ("--slots", "2", "--mix", "--save-tokens", "--format", "srt,vtt,ctm")
CALLS = 10


@pytest.fixture
def corpus(desk: Desk) -> Desk:
    """A desk with ten calls, the last of them broken, and what comes of an undisturbed run in `whole`."""
    rows: list[dict[str, Any]] = []
    for number in range(CALLS):
        rows.append({"audio_filepath": f"{number}.wav"})
        desk.sound(f"{number}.wav", desk.noise(0.3 + 0.05 * number, seed=number))
    desk.sound(f"{CALLS - 1}.wav", np.append(desk.noise(0.3), np.nan), subtype="FLOAT")
    desk.manifest(rows)
    assert desk.batch("calls.jsonl", *OPTIONS, out="whole").code == 1
    return desk


def start(desk: Desk, *options: str) -> subprocess.Popen[str]:
    return desk.spawn(*desk.batch_arguments("calls.jsonl", *OPTIONS, *options))


def wait_until(child: subprocess.Popen[str], condition: Callable[[], bool]) -> None:
    while child.poll() is None and not condition():
        time.sleep(0.002)


def complete(desk: Desk) -> dict[str, int]:
    """When each file of a complete item was written."""
    out = desk.folder / "out"
    done = {path.stem for path in out.glob("*.json") if path.stem != "run"}
    made = (path for path in out.glob("*") if path.name.partition(".")[0] in done)
    return {path.name: path.stat().st_mtime_ns for path in made}


def hidden(desk: Desk) -> list[str]:
    return [path.name for path in (desk.folder / "out").rglob(".*")]


def test_killed_at_any_moment(corpus: Desk) -> None:
    """Before anything is written, after some items, and within the writing of one."""
    out, moments = corpus.folder / "out", random.Random(1)  # noqa: S311
    conditions: list[Callable[[], bool]] = [
        lambda: out.exists(),
        lambda: len(list(out.glob("*.json"))) > 2,
        lambda: len(list(out.glob("*.wav"))) > 10 and bool(hidden(corpus)),
    ]
    for condition in conditions:
        with start(corpus) as child:
            wait_until(child, condition)
            time.sleep(moments.random() * 0.05)
            child.kill()
        before = complete(corpus)
        for name in before:
            if name.endswith((".wav", ".safetensors", ".srt")):
                assert (out / name).read_bytes() == (corpus.folder / "whole" / name).read_bytes(), name
    assert before

    result = corpus.batch("calls.jsonl", *OPTIONS, "--json")
    assert result.code == 1
    summary = json.loads(result.out)
    assert summary["skipped"] == sum(name.endswith(".json") for name in before)
    assert summary["done"] + summary["skipped"] == CALLS - 1
    assert corpus.tree() == corpus.tree("whole")
    assert {name: time for name, time in complete(corpus).items() if name in before} == before
    assert hidden(corpus) == []


def test_interrupted(corpus: Desk) -> None:
    with start(corpus, "--json") as child:
        wait_until(child, lambda: len(complete(corpus)) > 0)
        child.send_signal(signal.SIGINT)
        output, errors = child.communicate(timeout=60)
    before = complete(corpus)
    summary = json.loads(output)
    assert child.returncode == 130
    assert f"error: interrupted: {summary['not_run']} items not run" in errors
    assert "Traceback" not in errors
    assert summary["done"] == sum(name.endswith(".json") for name in before)
    assert summary["done"] + summary["failed"] + summary["not_run"] == CALLS
    assert summary["done"] >= 1
    assert summary["not_run"] >= 1
    made = {name for name in corpus.tree() if name not in {"results.jsonl", "run.json"}}
    assert made == set(before)  # no file of an item that is not complete
    assert hidden(corpus) == []
    assert [row["status"] for row in corpus.rows().values()].count("done") == summary["done"]

    assert corpus.batch("calls.jsonl", *OPTIONS).code == 1
    assert corpus.tree() == corpus.tree("whole")
    assert {name: time for name, time in complete(corpus).items() if name in before} == before


@pytest.mark.parametrize("breaking", ["full", "bug", "interrupted twice"])
def test_broken_off_in_the_middle(corpus: Desk, monkeypatch: pytest.MonkeyPatch, breaking: str) -> None:
    """What was done until then is in the results, and the same command goes on."""
    step, release, ended = Engine.step, Engine.release, []

    def releases(engine: Engine, slot: int) -> None:
        ended.append(slot)
        release(engine, slot)

    def breaks(engine: Engine, *arguments: Any) -> Any:
        if len(ended) < 3:
            return step(engine, *arguments)
        if breaking == "full":
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.50 GiB.")
        if breaking == "bug":
            raise KeyError("a bug")
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("the second one interrupts at once")

    with monkeypatch.context() as broken:
        broken.setattr(Engine, "step", breaks)
        broken.setattr(Engine, "release", releases)
        if breaking == "bug":
            with pytest.raises(KeyError, match="a bug"):
                corpus.batch("calls.jsonl", *OPTIONS)
        else:
            assert corpus.batch("calls.jsonl", *OPTIONS).code == {"full": 3, "interrupted twice": 130}[breaking]
    before, rows = complete(corpus), corpus.rows()
    done = {name for name, row in rows.items() if row["status"] == "done"}
    assert done == {name.removesuffix(".json") for name in before if name.endswith(".json")}
    assert len(rows) == len(done) == len(ended)

    assert corpus.batch("calls.jsonl", *OPTIONS).code == 1
    assert corpus.tree() == corpus.tree("whole")
    assert {name: time for name, time in complete(corpus).items() if name in before} == before


def test_two_shards_at_once(corpus: Desk) -> None:
    children = [start(corpus, "--shard", f"{index}/2") for index in (1, 2)]
    ended = [child.communicate(timeout=120) for child in children]
    assert sorted(child.returncode for child in children) == [0, 1]
    assert sum("error: 9: 9.wav: the sample at" in errors for _, errors in ended) == 1
    assert corpus.tree() == corpus.tree("whole")
    assert hidden(corpus) == []


@contextlib.contextmanager
def largest_file(size: int) -> Iterator[None]:
    """No file may grow beyond `size` bytes, as on a disk with no more room."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_fails_the_items_that_do_not_fit(corpus: Desk) -> None:
    with largest_file(26_000):  # the WAV of half a second, its mix excepted
        result = corpus.batch("calls.jsonl", "--slots", "2")
    assert result.code == 1
    rows = corpus.rows()
    assert [row["status"] for row in rows.values()] == ["done"] * 5 + ["failed"] * 5
    for name in "5678":
        assert rows[name]["error"]["what"] == f"out/{name}.wav: cannot write: File too large"
    kept = {f"{name}.{kind}" for name in "01234" for kind in ("wav", "json")}
    assert set(corpus.tree()) == kept | {"results.jsonl", "run.json"}
    assert hidden(corpus) == []

    assert corpus.batch("calls.jsonl", *OPTIONS).code == 1
    assert corpus.tree() == corpus.tree("whole")


def test_a_terminal_shows_how_far_it_is(corpus: Desk) -> None:
    """On stderr; stdout has the summary alone. A message doesn't break the bars."""
    pty = pytest.importorskip("pty")
    mine, theirs = pty.openpty()
    to_terminal = f"import os; os.dup2(os.open({os.ttyname(theirs)!r}, os.O_RDWR), 2); os.environ['TERM'] = 'linux'\n"
    arguments = [part for part in corpus.batch_arguments("calls.jsonl", *OPTIONS, "--json") if part != "--quiet"]
    shown = b""
    with corpus.spawn(*arguments, before=to_terminal) as child:
        while child.poll() is None or select.select([mine], [], [], 0)[0]:
            if select.select([mine], [], [], 0.05)[0]:
                shown += os.read(mine, 4096)
        assert json.loads(child.communicate()[0])["done"] == CALLS - 1
    for end in (mine, theirs):
        os.close(end)
    lines = re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode()))
    assert any(line.startswith("all calls, 1 failed") and "× real time" in line for line in lines)
    assert any(line.startswith("8 ") and "/9 frames" in line for line in lines)
    assert any(line.startswith("error: 9: 9.wav: the sample at") for line in lines)
