"""A batch against a real S3 server on the loopback, in processes of their own, as users run it."""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from personaplex.core.storage import store

pytest.importorskip("s3fs")
server = pytest.importorskip("moto.server")

import s3fs  # noqa: E402

from tests.cli.test_batch_storage import OPTIONS, Bucket, without_source  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cli.conftest import Desk

SECRET = "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY"  # noqa: S105 (of no account)
CALLS = 6

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="killed as POSIX kills"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


class Requests(logging.Handler):
    """What a server was asked, by method and by what was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        asked = re.search(r'"(\w+) /(\S*) HTTP', re.sub(r"\x1b\[\d+m", "", record.getMessage()))  # some are coloured
        if asked is not None:
            self.seen.append(f"{asked[1]} {asked[2]}")

    def counted(self) -> Counter[str]:
        """How many requests there were, by method; lists apart."""
        return Counter("LIST" if "list-type=2" in one else one.partition(" ")[0] for one in self.seen)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server with nothing in it."""
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    yield f"http://{host}:{port}"
    running.stop()


@pytest.fixture
def requests() -> Iterator[Requests]:
    """The requests of a test."""
    log, kept = logging.getLogger("werkzeug"), Requests()
    before, handlers, propagates = log.level, log.handlers, log.propagate
    log.handlers, log.propagate = [kept], False
    log.setLevel(logging.INFO)
    yield kept
    log.handlers, log.propagate = handlers, propagates
    log.setLevel(before)


@pytest.fixture
def bucket(desk: Desk, address: str, requests: Requests, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """An empty bucket, and credentials for it in the environment."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": address,
        "AWS_CONFIG_FILE": str(desk.folder / "none"),
        "AWS_SHARED_CREDENTIALS_FILE": str(desk.folder / "none"),
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(store, "PAUSES", (0.0, 0.0))
    s3fs.S3FileSystem.clear_instance_cache()
    system = s3fs.S3FileSystem()
    system.mkdir("bucket")
    yield Bucket("s3://bucket")
    if system.exists("bucket"):
        system.rm("bucket", recursive=True)
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture
def calls(desk: Desk, bucket: Bucket) -> Bucket:
    """Some calls, here in `calls` and in the bucket, and what comes of them in `here`."""
    (desk.folder / "calls").mkdir()
    for number in range(CALLS - 1):
        desk.sound(f"calls/{number}.wav", desk.noise(0.2 + 0.05 * number, seed=number))
    desk.sound("calls/b #?%20::é=[1]*+&.wav", desk.noise(0.2, seed=9))
    for path in sorted((desk.folder / "calls").iterdir()):
        bucket.system.pipe_file(f"bucket/calls/{path.name}", path.read_bytes())
    bucket.system.pipe_file("bucket/calls/", b"")  # as consoles mark a folder
    assert desk.batch("calls", *OPTIONS, out="here").code == 0
    return bucket


def rows(bucket: Bucket) -> list[dict[str, Any]]:
    return [json.loads(line) for line in bucket.system.cat_file("bucket/out/results.jsonl").splitlines()]


def test_calls_and_answers_in_a_bucket(desk: Desk, calls: Bucket, requests: Requests) -> None:
    requests.seen.clear()
    arguments = desk.batch_arguments("s3://bucket/calls", *OPTIONS, "--json", out="s3://bucket/out")
    result = desk.process(*arguments)
    assert (result.code, result.err) == (0, "")
    made = requests.counted()
    assert made["PUT"] == CALLS * 6 + 2  # five files and a marker each, the run and its results
    assert made["DELETE"] == CALLS  # the markers
    assert calls.tree() | {"run.json": None} == desk.tree("here") | {"run.json": None}
    assert without_source(calls.tree()) == without_source(desk.tree("here"))
    requests.seen.clear()
    again = desk.process(*arguments)
    assert json.loads(again.out)["skipped"] == CALLS
    found = requests.counted()
    assert found["GET"] <= CALLS + 3, requests.seen  # a transcript each, the run and its results; no sound
    assert not any(".wav" in one for one in requests.seen)
    assert (found["PUT"], found["DELETE"]) == (1, 0)  # the results


def test_killed_and_taken_up_again(desk: Desk, calls: Bucket, requests: Requests) -> None:
    arguments = desk.batch_arguments("s3://bucket/calls", *OPTIONS, "--slots", "2", out="s3://bucket/out")
    for put in (3, 17):  # objects, after which it is killed
        requests.seen.clear()
        with desk.spawn(*arguments) as child:
            while child.poll() is None and requests.counted()["PUT"] < put:
                time.sleep(0.002)
            child.kill()
    result = desk.process(*arguments)
    assert (result.code, result.err) == (0, "")
    made = {name: content for name, content in calls.tree().items() if not name.endswith(".part")}
    assert without_source(made) == without_source(desk.tree("here"))


@pytest.mark.parametrize("shares", [("1/2", "2/2"), ("1/1", "1/1")])
def test_two_at_the_same_time(desk: Desk, calls: Bucket, shares: tuple[str, str]) -> None:
    arguments = desk.batch_arguments("s3://bucket/calls", *OPTIONS, out="s3://bucket/out")
    running = [desk.spawn(*arguments, "--shard", share) for share in shares]
    for child in running:
        with child:
            assert (child.communicate()[1], child.returncode) == ("", 0)
    made = {name: content for name, content in calls.tree().items() if not name.startswith("results.shards/")}
    assert without_source(made) == without_source(desk.tree("here"))


def test_a_bucket_that_vanishes(desk: Desk, calls: Bucket) -> None:
    slow = "import personaplex.runs.planning.outlet as o; w = o.Outlet.written\n"
    gone = (
        "def written(*a):\n import s3fs; f = s3fs.S3FileSystem(); f.invalidate_cache()\n"
        " made = w(*a)\n f.exists('bucket') and f.rm('bucket', recursive=True)\n return made\n"
        "o.Outlet.written = written\n"
    )
    arguments = desk.batch_arguments("calls", *OPTIONS, out="s3://bucket/out")
    result = desk.process(*arguments, before=slow + gone)
    assert result.code == 3
    assert result.err.count("is not there (The specified bucket does not exist)") == CALLS  # all but one, and the run
    assert "Traceback" not in result.err
    assert not calls.system.exists("bucket")
    calls.system.invalidate_cache()
    calls.system.mkdir("bucket")
    assert desk.process(*arguments).code == 0
    assert calls.tree() == desk.tree("here")


def test_a_missing_object_and_a_missing_bucket(desk: Desk, calls: Bucket) -> None:
    desk.manifest([{"audio_filepath": f"s3://{name}.wav"} for name in ("bucket/calls/0", "bucket/none", "other/1")])
    result = desk.process(*desk.batch_arguments("calls.jsonl", out="s3://bucket/out"))
    assert result.code == 1
    done, none, other = rows(calls)
    assert (done["status"], none["status"], other["status"]) == ("done", "failed", "failed")
    assert none["error"]["what"].startswith("s3://bucket/none.wav: is not there")
    assert none["error"]["kind"] == "InputError"
    assert other["error"]["what"].startswith("s3://other/1.wav: is not there")
    away = desk.process(*desk.batch_arguments("s3://other/calls", out="out"))
    assert (away.code, away.errors[0].startswith("error: s3://other/calls: is not there")) == (3, True)
    nowhere = desk.process(*desk.batch_arguments("calls", out="s3://other/out"))
    assert (nowhere.code, nowhere.errors[0].startswith("error: s3://other/out: is not there")) == (3, True)


def test_access_is_denied(desk: Desk, calls: Bucket) -> None:
    deny = "import s3fs\ndef no(*a, **k):\n raise PermissionError('Access Denied')\ns3fs.S3FileSystem.{} = no\n"
    arguments = desk.batch_arguments("s3://bucket/calls", out="s3://bucket/out")
    for method, address in (("put_file", "s3://bucket/out/run.json"), ("find", "s3://bucket/calls")):
        result = desk.process(*arguments, before=deny.format(method))
        assert (result.code, result.errors[0]) == (3, f"error: {address}: access is denied (Access Denied)")
        assert "AWS_PROFILE" in result.errors[1]
        assert SECRET not in result.err + result.out
    sounds = (
        "import s3fs; w = s3fs.S3FileSystem._get_file\nasync def no(self, name, *a, **k):\n"
        " if name.endswith('.wav'): raise PermissionError('Access Denied')\n return await w(self, name, *a, **k)\n"
        "s3fs.S3FileSystem._get_file = no\n"
    )
    result = desk.process(*arguments, before=sounds)
    assert (result.code, result.err.count("access is denied")) == (1, CALLS)


def test_no_credentials(desk: Desk, calls: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    result = desk.process(*desk.batch_arguments("s3://bucket/calls", out="out"))
    assert (result.code, len(result.errors)) == (3, 2)
    assert "s3://bucket/calls: access is denied" in result.err


def test_nobody_answers(desk: Desk, calls: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    quick = "from personaplex.core.storage import store; store.PAUSES = ()\n"
    result = desk.process(*desk.batch_arguments("s3://bucket/calls", out="out"), before=quick)
    assert (result.code, result.errors[0].startswith("error: s3://bucket/calls: ")) == (3, True)
    assert SECRET not in result.err


def test_s3fs_is_missing(desk: Desk) -> None:
    without = "import sys; sys.modules['s3fs'] = None\n"
    for arguments in (("s3://bucket/calls",), ("call.wav", "s3://bucket/out")):
        result = desk.process(*desk.batch_arguments(arguments[0], out=arguments[-1]), before=without)
        assert result.code == 3
        assert "a package that reads and writes s3:// is missing" in result.errors[0]
        assert "s3fs" in result.errors[1]
