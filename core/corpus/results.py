"""What a run leaves beside its outputs: `results.jsonl`, a row an item, and `run.json`, what it takes to repeat it.

Rows hold nothing that differs between two runs of the same items, so a resumed or sharded run ends with the same file
as an undisturbed one. Several processes may write to one folder: each merges its rows in under a lock.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from personaplex.core.errors import InputError, PersonaplexError, UsageError
from personaplex.core.files import make_folder, remove_stale_parts, write_text

if TYPE_CHECKING:
    from personaplex.core.corpus.sources import Item  # which imports torch; comparing results needs none

RESULTS = "results.jsonl"
RUN = "run.json"
SCHEMA = "personaplex.run/1"
MEND = "move it away, or choose another folder with -o"

ResultRow = dict[str, Any]

_OWN = {
    *("id", "status", "audio_filepath", "output", "transcript", "text", "duration", "voice", "seed"),
    *("tokens_sha256", "pcm_sha256", "files", "flags", "warnings", "error"),
}


def done_row(item: "Item", document: Mapping[str, Any]) -> ResultRow:
    """The row of an item with a transcript; the manifest's other keys come first."""
    output, prompt = document["output"], document["prompt"]
    folder = os.path.dirname(item.id)
    return _passed_through(item) | {
        "id": item.id,
        "status": "done",
        "audio_filepath": item.source,
        "output": os.path.join(folder, output["path"]),
        "transcript": f"{item.id}.json",
        "text": document["text"],
        "duration": document["input"]["duration"],
        "voice": prompt["voice"],
        "seed": document["sampling"]["seed"],
        "tokens_sha256": document["tokens_sha256"],
        "pcm_sha256": output["pcm_sha256"],
        "files": document.get("files", {}),
        "flags": sorted({flag["kind"] for flag in document["flags"]}),
        "warnings": document["warnings"],
    }


def failed_row(item: "Item", error: PersonaplexError) -> ResultRow:
    """The row of an item that could not be run."""
    return _passed_through(item) | {
        "id": item.id,
        "status": "failed",
        "audio_filepath": item.source,
        "error": {"kind": type(error).__name__, "what": error.what, "mend": error.mend},
    }


def _passed_through(item: "Item") -> ResultRow:
    """The manifest's other keys; one that results use themselves, such as NeMo's `text`, as `manifest_text`."""
    own = {} if item.row.asked is None else {"expect": item.row.asked}
    return {f"manifest_{key}" if key in _OWN else key: value for key, value in item.row.passed_through.items()} | own


def read_results(folder: Path) -> dict[str, ResultRow]:
    """The rows that a folder holds, by id, without other lines; raises UsageError for a file of another kind."""
    return _read_lines(folder)[0]


def _read_lines(folder: Path) -> tuple[dict[str, ResultRow], list[str]]:
    """Rows by id, and the lines that are none, which are somebody else's."""
    try:
        lines = (folder / RESULTS).read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        return {}, []
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{folder / RESULTS}: can't be read ({error})", MEND) from error
    rows: dict[str, ResultRow] = {}
    others = []
    for line in lines:
        row = _row(line)
        if row is None or (row["id"] in rows and _is_outcome(rows[row["id"]]) and not _is_outcome(row)):
            others.append(line)
        else:
            rows[row["id"]] = row
    return rows, [line for line in others if line.strip()]


def _row(line: str) -> ResultRow | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) and isinstance(row.get("id"), str) else None


def _is_outcome(row: ResultRow) -> bool:
    return row.get("status") in {"done", "failed"}


def merge_results(folder: Path, order: Sequence[str], rows: Mapping[str, ResultRow]) -> None:
    """Put `rows` into a folder's results, the ids of `order` first and in that order; raises InputError.

    Lines that are no rows of results stay, behind them.
    """
    make_folder(folder)
    with _lock(folder):
        there, others = _read_lines(folder)
        merged = there | dict(rows)
        others = [*(_line(row) for name, row in there.items() if name in rows and not _is_outcome(row)), *others]
        known = set(order)
        ids = [*(name for name in order if name in merged), *(name for name in merged if name not in known)]
        lines = [*(_line(merged[name]) for name in ids), *others]
        write_text(folder / RESULTS, "".join(f"{line}\n" for line in lines))


def _line(row: ResultRow) -> str:
    return json.dumps(row, ensure_ascii=False)


def check_own_files(folder: Path) -> None:
    """Raise UsageError if a folder's `results.jsonl` can't be gone on with, or its `run.json` is not a run's record."""
    read_results(folder)
    path = folder / RUN
    if not os.path.lexists(path):
        return
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        document = None
    schema = document.get("schema") if isinstance(document, dict) else None
    if not str(schema).startswith(SCHEMA.partition("/")[0] + "/"):
        raise UsageError(f"{path}: is there and is no record of a run, and is not replaced", MEND)


def write_run(folder: Path, settings: Mapping[str, Any], volatile: Mapping[str, Any]) -> None:
    """Record what it takes to repeat a run; raises InputError.

    Bytes of names that are not UTF-8 are lone surrogates, as Python has them; `not_utf8` tells of these.
    """
    document = {"schema": SCHEMA, **settings, "volatile": dict(volatile)}
    text = json.dumps(document, indent=2, ensure_ascii=False)
    if not _is_utf8(text):
        text = json.dumps({"schema": SCHEMA, "not_utf8": "surrogateescape", **document}, indent=2, ensure_ascii=False)
    make_folder(folder)
    with _lock(folder):
        write_text(folder / RUN, text + "\n")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, which the system lets go of when a process dies; clear away what such a one left."""
    if os.name != "posix":
        yield
        return
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            mend = "write to a folder on a file system that has locks"
            raise InputError(f"{folder}: cannot be locked: {error.strerror}", mend) from error
        remove_stale_parts((folder / RESULTS, folder / RUN))
        yield
    finally:
        os.close(descriptor)
