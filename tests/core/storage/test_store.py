"""Objects in a store: whole or not there, tried again, and what is told where that fails."""

from __future__ import annotations

import errno
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem

from personaplex.core.errors import InputError, StorageError
from personaplex.core.storage import scratch, store
from personaplex.core.storage.spool import Spool, fetched
from personaplex.core.storage.stand_in import StandIn
from personaplex.core.storage.urls import Stored

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryFileSystem]:
    """A store in memory, empty but for the folder that this test makes."""
    monkeypatch.setattr(store, "PAUSES", (0.0, 0.0))
    system = fsspec.filesystem("memory")
    system.makedirs("/store", exist_ok=True)
    yield system
    system.rm("/store", recursive=True)


def failing(error: Exception, times: int, then: Any = None) -> tuple[Any, list[int]]:
    """A method that raises so many times, and how often it was called."""
    called: list[int] = []

    def method(*arguments: Any, **more: Any) -> Any:
        called.append(1)
        if len(called) <= times:
            raise error
        return then(*arguments, **more)

    return method, called


def test_put_list_fetch_and_remove(memory: MemoryFileSystem, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"sound")
    root = Stored("memory://store/x")
    assert store.listed(root) == {}
    store.put(tmp_path / "a", root / "y/b.wav")
    (name, entry), *none = store.listed(root).items()
    assert (name, entry.size, none) == ("y/b.wav", 5, [])
    store.fetch(root / "y/b.wav", tmp_path / "new/c")
    assert (tmp_path / "new/c").read_bytes() == store.read_bytes(root / "y/b.wav") == b"sound"
    store.remove(root / "y/b.wav")
    store.remove(root / "y/b.wav")
    with pytest.raises(store.MissingError, match=r"^memory://store/x/y/b.wav: is not there"):
        store.read_bytes(root / "y/b.wav")


def test_a_connection_that_breaks_is_tried_again(
    memory: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    memory.pipe_file("/store/a", b"sound")
    get, called = failing(ConnectionError("gone"), 2, MemoryFileSystem.get_file)
    monkeypatch.setattr(MemoryFileSystem, "get_file", get)
    store.fetch(Stored("memory://store/a"), tmp_path / "a")
    assert ((tmp_path / "a").read_bytes(), len(called)) == (b"sound", 3)


def test_a_connection_that_ends_early(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A server that promises 1,000 bytes and closes after 500, each time."""
    pytest.importorskip("aiohttp")
    monkeypatch.setattr(store, "PAUSES", (0.0, 0.0))

    class Half(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(bytes(500))

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Half) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(StorageError, match="ClientPayloadError"):
            store.fetch(Stored(f"http://127.0.0.1:{server.server_port}/a.wav?sig=secret"), tmp_path / "a")
        server.shutdown()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "told", "tries"),
    [
        (PermissionError("Access Denied"), "access is denied (Access Denied)", 1),
        (type("NoCredentialsError", (Exception,), {})("none found"), "access is denied (none found)", 1),
        (OSError(errno.ENOSPC, "No space left"), "no room for a copy here", 1),
        (RuntimeError("https://h/a?sig=secret failed"), "RuntimeError (https://h/a failed)", 3),
    ],
)
def test_what_is_told(
    memory: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch, error: Exception, told: str, tries: int
) -> None:
    cat, called = failing(error, 9)
    monkeypatch.setattr(MemoryFileSystem, "cat_file", cat)
    with pytest.raises(StorageError) as raised:
        store.read_bytes(Stored("memory://store/a"))
    assert (raised.value.what, len(called)) == (f"memory://store/a: {told}", tries)
    assert raised.value.mend


def test_files_take_their_places_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def half(self: Any, here: str, there: str, **more: Any) -> None:
        with open(there, "wb") as file:
            file.write(b"half")
        raise PermissionError("stopped")

    (tmp_path / "a").write_bytes(b"sound")
    there = Stored(f"file://{tmp_path}/store/b.wav")
    store.put(tmp_path / "a", there)
    (tmp_path / "a").write_bytes(b"other")
    with monkeypatch.context() as patched:
        patched.setattr(LocalFileSystem, "put_file", half)
        with pytest.raises(StorageError):
            store.put(tmp_path / "a", there)
    assert (tmp_path / "store/b.wav").read_bytes() == b"sound"
    store.put(tmp_path / "a", there)
    assert (tmp_path / "store/b.wav").read_bytes() == b"other"


def test_copies_are_bounded_but_for_those_in_use(memory: MemoryFileSystem, tmp_path: Path) -> None:
    stored = [Stored(f"memory://store/{number}.wav") for number in range(4)]
    for one in stored:
        memory.pipe_file(one.url.removeprefix("memory:/"), bytes(10))
    spool = Spool(tmp_path, limit=25)
    with spool.held(stored[0]) as first, spool.held(stored[0]) as again:
        assert first == again
        for one in stored[1:]:
            with spool.held(one) as copy:
                assert copy.suffix == ".wav"
        assert first.exists()
        assert len(list(tmp_path.iterdir())) == 2
    memory.pipe_file("/store/0.wav", bytes(11))
    with spool.held(stored[0]) as newer:
        assert newer.stat().st_size == 11


def test_an_error_about_a_copy_names_the_object(memory: MemoryFileSystem) -> None:
    memory.pipe_file("/store/a.wav", b"sound")
    with (
        pytest.raises(InputError, match=r"^memory://store/a.wav: odd$"),
        fetched(Stored("memory://store/a.wav")) as path,
    ):
        raise InputError(f"{path}: odd")


def test_an_object_that_is_gone_when_it_is_fetched(memory: MemoryFileSystem) -> None:
    for name in ("a", "b"):
        memory.pipe_file(f"/store/{name}", b"sound")
    stand_in = StandIn(Stored("memory://store"))
    stand_in.list()
    memory.rm_file("/store/a")
    stand_in.fetch(stand_in.objects)
    assert [path.name for path in stand_in.folder.iterdir()] == ["b"]


def test_names_that_no_file_can_have(memory: MemoryFileSystem) -> None:
    for name in ("a/b.wav", "c" * 300):
        memory.store[f"/store/{name}"] = MemoryFile(memory, f"/store/{name}", b"")
    stand_in = StandIn(Stored("memory://store"))
    stand_in.list()
    assert [path.relative_to(stand_in.folder).as_posix() for path in stand_in.objects] == ["a/b.wav"]
    assert stand_in.odd == ["c" * 300]


def test_what_dead_processes_left_goes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(scratch.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(scratch, "_own", scratch._own.__wrapped__)
    for name in ("personaplex.999999999.abc", "personaplex.1.abc", "personaplex.notes"):
        (tmp_path / name).mkdir()
    made = scratch.new_folder("kind")
    left = {path.name for path in tmp_path.iterdir()} - {made.parent.name}
    assert left == {"personaplex.1.abc", "personaplex.notes"}
