"""What was recorded: the items of a results folder, or one transcript."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from personaplex.compare.document import read_document
from personaplex.compare.expectations import read_expect
from personaplex.compare.verdicts import Recorded
from personaplex.core.corpus.results import RESULTS, ResultRow, failure, read_results
from personaplex.core.errors import UsageError
from personaplex.core.measures.rows import Call, read_measures


def read_run(path: Path) -> dict[str, Recorded]:
    """The items in a results folder, by id and in its order; for a file, its transcript by the file's stem.

    In a folder, an id is a transcript's path below it without `.json`; other JSON files are passed over, and an item
    that failed is known by its row of results. Empty where there is nothing of the kind. Raises UsageError for what
    can't be read, the first of the files in order.
    """
    return _read_folder(path) if path.is_dir() else {path.stem: read_transcript(path)}


def read_transcript(path: Path) -> Recorded:
    """The transcript in a file, its id the file's stem. Raises UsageError for a file that holds none."""
    document = read_document(path)
    if document is None:
        mend = "name a folder of results or a transcript's JSON file"
        raise UsageError(f"{path}: not a transcript of personaplex", mend)
    return _recorded(path.stem, document, path.parent, {})


def _read_folder(folder: Path) -> dict[str, Recorded]:
    rows = {name: row for name, row in read_results(folder).items() if isinstance(name, str)}
    expects = {name: read_expect(row["expect"], f"{folder / RESULTS}, {name}") for name, row in _with_expect(rows)}
    run = {
        name: Recorded(name, failure=failure(row) or "failed", expect=expects.get(name, {}))
        for name, row in rows.items()
        if row.get("status") == "failed"
    }
    measures = read_measures(folder)
    for file in _json_files(folder):
        name = file.relative_to(folder).with_suffix("").as_posix()
        # Of an item that has failed, what lies there is an earlier run's answer.
        document = None if name in run else read_document(file)
        if document is not None:
            item = _recorded(name, document, file.parent, expects.get(name, {}))
            run[name] = replace(item, measures=_of_this_answer(measures.get(name), document))
    return {name: run[name] for name in sorted(run)}


def _with_expect(rows: Mapping[str, ResultRow]) -> Iterator[tuple[str, ResultRow]]:
    return ((name, row) for name, row in rows.items() if row.get("expect") is not None)


def _json_files(folder: Path) -> list[Path]:
    """Every `.json` file below a folder, in sorted order, but for hidden ones, which are half written."""
    found = []
    for where, folders, names in os.walk(folder, onerror=_unreadable):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(where, name) for name in names if name.endswith(".json") and not name.startswith(".")]
    return sorted(found)


def _unreadable(error: OSError) -> NoReturn:
    raise UsageError(f"{error.filename}: {error.strerror}", "make the folder readable to this user") from error


def _of_this_answer(measures: Call | None, document: Mapping[str, Any]) -> Call | None:
    """Measures, unless another answer was measured, before the item was run again."""
    is_other = measures is None or measures.made.pcm_sha256 != document["output"]["pcm_sha256"]
    return None if is_other else measures


def _recorded(name: str, document: Mapping[str, Any], folder: Path, expect: Mapping[str, Any]) -> Recorded:
    """The transcript with the files beside it; of the WAV's path only its name counts, so none leads elsewhere."""
    audio = folder / Path(document["output"]["path"]).name
    tokens = folder / f"{audio.stem}.tokens.safetensors"
    return Recorded(name, document, tokens=_if_file(tokens), audio=_if_file(audio), expect=expect)


def _if_file(path: Path) -> Path | None:
    return path if os.path.isfile(path) else None  # unlike Path.is_file, False for a name that no file can have
