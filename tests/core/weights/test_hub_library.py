"""Downloads through the library itself, from a little hub on this machine, and without one."""

import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(BaseHTTPRequestHandler):
    """A little hub on this machine: what the real one answers, as headers."""

    ANSWERS = {  # noqa: RUF012
        "/o/m/resolve/main/f.bin": (200, {"ETag": '"e1"', "X-Repo-Commit": COMMIT}),
        "/o/m/resolve/main/none.bin": (404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT}),
        "/o/m/resolve/v9/f.bin": (404, {"X-Error-Code": "RevisionNotFound"}),
        "/o/gated/resolve/main/f.bin": (401, {"X-Error-Code": "GatedRepo"}),
        "/o/none/resolve/main/f.bin": (401, {"X-Error-Code": "RepoNotFound"}),
        "/o/token/resolve/main/f.bin": (401, {"X-Error-Message": "Invalid credentials in Authorization header"}),
        "/o/narrow/resolve/main/f.bin": (403, {"X-Error-Message": "Enable access to gated repositories"}),
    }

    def do_HEAD(self) -> None:
        status, headers = self.ANSWERS.get(self.path, (404, {}))
        self.send_response(status)
        for key, value in {**headers, "Content-Length": "5" if status == 200 else "0"}.items():
            self.send_header(key, value)
        self.end_headers()

    def do_GET(self) -> None:
        self.do_HEAD()
        if self.ANSWERS.get(self.path, (404, {}))[0] == 200:
            self.wfile.write(b"hello")

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


CHILD = """
import sys
from personaplex.core.errors import ModelError
from personaplex.core.weights.hub import fetch, revision_of
for argument in sys.argv[1:]:
    try:
        path = fetch(*argument.split(":"))
        print(path.read_text(), revision_of(path))
    except ModelError as error:
        print(error.what)
"""


def told_by_the_library(home: Path, *wanted: str, **environment: str) -> list[str]:
    """What comes of each `repo:file[:revision]` in a process of its own: the library reads its settings once."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("HF_") and "proxy" not in key.lower()}
    settings = {"HF_HOME": str(home), "HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    command = [sys.executable, "-c", CHILD, *wanted]
    run = subprocess.run(
        command, env={**kept, **settings, **environment}, stdout=subprocess.PIPE, text=True, check=True, timeout=120
    )
    return run.stdout.splitlines()


def test_the_library_itself_raises_what_is_told(tmp_path: Path, endpoint: str) -> None:
    wanted = "o/m:f.bin o/m:none.bin o/m:f.bin:v9 o/gated:f.bin o/none:f.bin o/token:f.bin o/narrow:f.bin o/m/x:f.bin"
    assert told_by_the_library(tmp_path, *wanted.split(), HF_ENDPOINT=endpoint) == [
        f"hello {COMMIT}",
        "o/m: has no file none.bin",
        "o/m: has no revision v9",
        "o/gated: the repository is gated, and you have no access to it yet",
        "o/none: Hugging Face has no such repository, or it is private",
        "o/token: Hugging Face does not accept your token",
        "o/narrow: your token may not read f.bin",
        "'o/m/x' can't be the name of a repository",
    ]
    offline = told_by_the_library(tmp_path, "o/m:f.bin", "o/m:g.bin", HF_ENDPOINT=endpoint, HF_HUB_OFFLINE="1")
    assert offline == [
        f"hello {COMMIT}",
        "o/m: g.bin is not in the cache, and HF_HUB_OFFLINE forbids downloads",
    ]
