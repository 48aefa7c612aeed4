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

from personaplex.core.errors import InputError, UsageError
from personaplex.core.files import make_folder, read_object, remove_stale_parts, schema_of, write_text

if TYPE_CHECKING:
    from personaplex.core.corpus.items import Item, Refused  # which imports torch; comparing results needs none

RESULTS = "results.jsonl"
RUN = "run.json"
SCHEMA = "personaplex.run/1"
TALK_SCHEMA = "personaplex.talk/1"
"""Of a `run.json` of conversations."""
MEND = "move it away, or choose another folder with -o"

ResultRow = dict[str, Any]

OWN_KEYS = {
    *("id", "status", "audio_filepath", "output", "transcript", "text", "duration", "voice", "seed"),
    *("tokens_sha256", "pcm_sha256", "files", "flags", "warnings", "device", "error"),
}
"""Keys of a row that are not the manifest's; one of that name is `manifest_<key>`."""


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
        "device": document["engine"].get("device_kind"),
    }


def failed_row(refused: "Refused") -> ResultRow:
    """The row of what could not be run; `error.row` is there where only its number names it."""
    error = refused.error
    source = {} if refused.source is None else {"audio_filepath": refused.source}
    number = {} if refused.row is None else {"row": refused.row}
    return {
        **apart(refused.own),
        "id": refused.id,
        "status": "failed",
        **source,
        "error": {"kind": type(error).__name__, "what": error.what, "mend": error.mend, **number},
    }


def failure(row: ResultRow) -> str | None:
    """Why the item of a row failed; None where the row doesn't say."""
    error = row.get("error")
    return str(error["what"]) if isinstance(error, dict) and "what" in error else None


def _passed_through(item: "Item") -> ResultRow:
    return apart(item.row.passed_through) | ({} if item.row.asked is None else {"expect": item.row.asked})


def apart(own: Mapping[str, Any]) -> ResultRow:
    """The manifest's other keys; one that results use themselves, such as NeMo's `text`, as `manifest_text`."""
    return {f"manifest_{key}" if key in OWN_KEYS else key: value for key, value in own.items()}


def read_results(folder: Path) -> dict[str, ResultRow]:
    """The rows that a folder holds, by id, without other lines; raises UsageError for a file of another kind."""
    return _read_lines(folder)[0]


def _read_lines(folder: Path) -> tuple[dict[str, ResultRow], list[str]]:
    """Rows by id, and the lines that are none, which are somebody else's."""
    path = folder / RESULTS
    if not _is_there(path):
        return {}, []
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: is not UTF-8 text ({error.reason} at byte {error.start:,})", MEND) from error
    except OSError as error:
        raise UsageError(f"{path}: can't be read: {error.strerror}", MEND) from error
    rows: dict[str, ResultRow] = {}
    others = []
    for line in lines:
        row = _row(line)
        if row is None or (row["id"] in rows and _is_outcome(rows[row["id"]]) and not _is_outcome(row)):
            others.append(line)
        else:
            rows[row["id"]] = row
    return rows, [line for line in others if line.strip()]


def _is_there(path: Path) -> bool:
    """Whether there is such a file; raises UsageError for what is no file, or a link, which a new one would replace."""
    if os.path.lexists(path) and (path.is_symlink() or not path.is_file()):
        kind = "a link" if path.is_symlink() else "a folder" if path.is_dir() else "a pipe or a device"
        raise UsageError(f"{path}: is {kind}, and is not replaced", MEND)
    return os.path.lexists(path)


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

    Earlier rows stay, but for those that are called by a number only and not in `order`: they were mended. Lines that
    are no rows of results stay, behind them.
    """
    make_folder(folder)
    with _lock(folder):
        there, others = _read_lines(folder)
        others = [*(_line(row) for name, row in there.items() if name in rows and not _is_outcome(row)), *others]
        known = set(order)
        there = {name: row for name, row in there.items() if name in known or not _is_numbered(row)}
        merged = there | dict(rows)
        ids = [*(name for name in order if name in merged), *(name for name in merged if name not in known)]
        lines = [*(_line(merged[name]) for name in ids), *others]
        write_text(folder / RESULTS, "".join(f"{line}\n" for line in lines))


def _line(row: ResultRow) -> str:
    return json.dumps(row, ensure_ascii=False)


def check_own_files(folder: Path, schema: str = SCHEMA) -> None:
    """Raise UsageError if a folder's `results.jsonl` can't be gone on with, or its `run.json` has another `schema`."""
    read_results(folder)
    path = folder / RUN
    if not _is_there(path):
        return
    if not is_of_schema(read_object(path), schema):
        raise UsageError(f"{path}: is there and is no record of a run of this kind, and is not replaced", MEND)


def is_of_schema(document: Mapping[str, Any] | None, schema: str) -> bool:
    """Whether a document has this schema, of whatever version."""
    return str(schema_of(document)).startswith(schema.partition("/")[0] + "/")


def write_run(folder: Path, settings: Mapping[str, Any], volatile: Mapping[str, Any], schema: str = SCHEMA) -> None:
    """Record what it takes to repeat a run; raises InputError.

    Bytes of names that are not UTF-8 are lone surrogates, as Python has them; `not_utf8` tells of these.
    """
    document = {"schema": schema, **settings, "volatile": dict(volatile)}
    text = json.dumps(document, indent=2, ensure_ascii=False)
    if not _is_utf8(text):
        text = json.dumps({"schema": schema, "not_utf8": "surrogateescape", **document}, indent=2, ensure_ascii=False)
    make_folder(folder)
    with _lock(folder):
        write_text(folder / RUN, text + "\n")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_numbered(row: ResultRow) -> bool:
    error = row.get("error")
    return isinstance(error, dict) and "row" in error


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, which the system lets go of when a process dies; clear away what such a one left."""
    if os.name != "posix":
        yield
        return
    import fcntl

    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        mend = "write to a folder that this user may read"
        raise InputError(f"{folder}: cannot be opened: {error.strerror}", mend) from error
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
