"""Downloads: what is asked of the library, and every failure of it in the user's words."""

import errno
import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub import errors

from personaplex.core.errors import ModelError
from personaplex.core.weights.hub import fetch, fetch_weights, revision_of, shard_names

COMMIT = "0123456789abcdef0123456789abcdef01234567"
ABSENT = getattr(errors, "RemoteEntryNotFoundError", errors.EntryNotFoundError)


def answered(kind: type[errors.HfHubHTTPError], status: int) -> errors.HfHubHTTPError:
    """The library's error `kind`, with the long text it usually has."""
    response: Any = SimpleNamespace(status_code=status, headers={}, request=None)
    return kind(f"{status} Client Error.\n\nA long text\nof many lines.", response=response)


def not_cached(cause: Exception) -> errors.LocalEntryNotFoundError:
    """What the library raises when it could not ask the hub, because of `cause`."""
    error = errors.LocalEntryNotFoundError("An error happened while trying to locate the file on the Hub.")
    error.__cause__ = cause
    return error


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[str], str]], list[tuple[str, str, str | None]]]:
    """Put a function of the file's name in the place of the library's download; gives the calls made of it."""

    def install(answer: Callable[[str], str]) -> list[tuple[str, str, str | None]]:
        calls: list[tuple[str, str, str | None]] = []

        def download(repo: str, filename: str, *, revision: str | None = None) -> str:
            calls.append((repo, filename, revision))
            return answer(filename)

        monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
        return calls

    return install


class TransportError(Exception):
    """As httpx raises them: unlike those of requests, no OSError."""


FAILURES = [
    pytest.param(
        answered(errors.GatedRepoError, 403),
        ["gated", "https://huggingface.co/o/m", "hf auth login", "HF_TOKEN"],
        id="gated",
    ),
    pytest.param(
        answered(errors.RepositoryNotFoundError, 401),
        ["no such repository", "private", "hf auth login"],
        id="repository",
    ),
    pytest.param(
        answered(errors.RevisionNotFoundError, 404),
        ["no revision v9", "https://huggingface.co/o/m/commits"],
        id="revision",
    ),
    pytest.param(
        answered(ABSENT, 404), ["no file f.bin at revision v9", "https://huggingface.co/o/m/tree/v9"], id="file"
    ),
    pytest.param(
        answered(errors.HfHubHTTPError, 401),
        ["does not accept your token", "https://huggingface.co/settings/tokens"],
        id="bad token",
    ),
    pytest.param(
        not_cached(answered(errors.HfHubHTTPError, 403)),
        ["token may not read f.bin", "/settings/tokens"],
        id="narrow token",
    ),
    pytest.param(not_cached(answered(errors.HfHubHTTPError, 503)), ["answered 503", "later"], id="hub down"),
    pytest.param(
        not_cached(errors.OfflineModeIsEnabled("offline")),
        ["HF_HUB_OFFLINE", "`personaplex models fetch o/m --revision v9`"],
        id="offline",
    ),
    pytest.param(
        not_cached(ConnectionError("Name or service not known")),
        ["could not be downloaded", "Name or service not known", "network"],
        id="unreachable",
    ),
    pytest.param(
        TransportError("Connection refused"), ["could not be downloaded", "Connection refused", "network"], id="cut off"
    ),
    pytest.param(TimeoutError("read\ntimed out"), ["could not be downloaded", "read timed out"], id="time-out"),
    pytest.param(errors.HFValidationError("long\ntext"), ["'o/m' can't be", "owner/name"], id="name"),
    pytest.param(OSError(errno.ENOSPC, "No space left on device"), ["no space left", "HF_HOME"], id="disk full"),
    pytest.param(
        RuntimeError("Data processing error: No space left on device (os error 28)"),
        ["no space left", "HF_HOME"],
        id="disk full, told by the Rust downloader",
    ),
    pytest.param(PermissionError(errno.EACCES, "Permission denied"), ["can't be written", "HF_HOME"], id="permission"),
    pytest.param(OSError(errno.EROFS, "Read-only file system"), ["can't be written", "HF_HOME"], id="read-only"),
]


@pytest.mark.parametrize(("error", "parts"), FAILURES)
def test_every_failure_says_what_mends_it(hub: Any, error: Exception, parts: list[str]) -> None:
    def fail(filename: str) -> str:
        raise error

    hub(fail)
    with pytest.raises(ModelError) as caught:
        fetch("o/m", "f.bin", "v9")
    told = str(caught.value)
    for part in ("o/m", *parts):
        assert part in told
    assert told.count("\n") == 1, "what is wrong, and the mend, on a line each"
    assert "long text" not in told
    assert caught.value.__cause__ is error


def test_long_reasons_are_cut(hub: Any) -> None:
    def fail(filename: str) -> str:
        raise TransportError("Connection refused " + "and so on " * 50)

    hub(fail)
    with pytest.raises(ModelError, match="TransportError: Connection refused") as caught:
        fetch("o/m", "f.bin")
    assert len(caught.value.what) < 250


def test_an_interrupt_is_no_failed_download(hub: Any) -> None:
    def interrupt(filename: str) -> str:
        raise KeyboardInterrupt

    hub(interrupt)
    with pytest.raises(KeyboardInterrupt):
        fetch("o/m", "f.bin")


def snapshot(folder: Path) -> Path:
    path = folder / "hub" / "models--o--m" / "snapshots" / COMMIT
    path.mkdir(parents=True)
    return path


def test_the_revision_is_the_snapshot_s_commit(tmp_path: Path) -> None:
    folder = tmp_path / "snapshots" / ("f" * 40) / "models--x--y"
    assert revision_of(snapshot(folder) / "snapshots" / ("e" * 40) / "f.bin") == COMMIT
    with pytest.raises(ValueError, match="not in a Hugging Face cache"):
        revision_of(tmp_path / "f.bin")


def test_whole_weights_are_one_file(hub: Any, tmp_path: Path) -> None:
    calls = hub(lambda name: str(tmp_path / name))
    assert fetch_weights("o/m", "v9") == [tmp_path / "model.safetensors"]
    assert calls == [("o/m", "model.safetensors", "v9")]


@pytest.mark.parametrize("online", [True, False])
def test_sharded_weights_are_the_index_and_its_shards_at_its_commit(
    hub: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, online: bool
) -> None:
    folder = snapshot(tmp_path)
    index = folder / "model.safetensors.index.json"
    shards = ["model-1-of-2.safetensors", "model-2-of-2.safetensors"]
    index.write_text(json.dumps({"weight_map": {"b": shards[1], "a": shards[0], "c": shards[1]}}))
    refs = tmp_path / "hub" / "models--o--m" / "refs"
    refs.mkdir()
    (refs / "main").write_text(COMMIT)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))

    def answer(name: str) -> str:
        if name == "model.safetensors":
            raise answered(ABSENT, 404) if online else not_cached(ConnectionError("no network"))
        return str(folder / name)

    calls = hub(answer)
    assert fetch_weights("o/m", None) == [index, *(folder / shard for shard in shards)]
    assert [revision for _, _, revision in calls] == [None] * (1 + online) + [COMMIT] * 2


def test_weights_out_of_reach_are_waited_for_once(hub: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> str:
        raise not_cached(ConnectionError("no network"))

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    calls = hub(fail)
    with pytest.raises(ModelError, match=r"model\.safetensors could not be downloaded .*no network"):
        fetch_weights("o/m", None)
    assert len(calls) == 1


def test_an_index_refused_is_told_as_that(hub: Any) -> None:
    def fail(name: str) -> str:
        raise answered(ABSENT, 404) if name == "model.safetensors" else not_cached(ConnectionError("cut off"))

    hub(fail)
    with pytest.raises(ModelError, match=r"index\.json could not be downloaded .*cut off"):
        fetch_weights("o/m", None)


def test_weights_that_are_nowhere_are_told_by_their_usual_name(hub: Any) -> None:
    def fail(name: str) -> str:
        raise answered(ABSENT, 404)

    hub(fail)
    with pytest.raises(ModelError, match=r"has no file model\.safetensors"):
        fetch_weights("o/m", None)


def test_no_index_is_sought_in_a_gated_repository(hub: Any) -> None:
    def fail(name: str) -> str:
        raise answered(errors.GatedRepoError, 403)

    calls = hub(fail)
    with pytest.raises(ModelError, match="gated"):
        fetch_weights("o/m", None)
    assert len(calls) == 1


@pytest.mark.parametrize(
    "name", ["../a.safetensors", "/a.safetensors", "b/a.safetensors", "b\\a.safetensors", "..", "", 3]
)
def test_a_shard_outside_the_model_is_refused(tmp_path: Path, name: object) -> None:
    index = tmp_path / "index.json"
    index.write_text(json.dumps({"weight_map": {"a": name}}))
    with pytest.raises(ModelError, match=re.escape(f"names the shard {name!r}")):
        shard_names(index)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"weight_map": [1]}', '{"weight_map": {"a": {}}}', '"x"'])
def test_what_is_no_index_is_refused(tmp_path: Path, text: str) -> None:
    index = tmp_path / "index.json"
    index.write_text(text)
    with pytest.raises(ModelError, match="not an index of shards"):
        shard_names(index)
