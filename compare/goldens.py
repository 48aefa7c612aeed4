"""Goldens: what a run said, kept as small text files that diff well, with all that it takes to run it again.

A folder of goldens holds `goldens.json` (the run's settings), `manifest.jsonl` (its calls, with paths relative to the
folder) and `items/<id>.json`, a golden each: its transcript without what varies, and every token, a frame a line.
"""

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError

from personaplex.compare.difference import foreign_tokens, tokens_of
from personaplex.compare.document import answer, checked
from personaplex.compare.verdicts import Recorded
from personaplex.core.answers.transcript import dumps, tokens_sha256, without_volatile
from personaplex.core.config import CODEBOOKS
from personaplex.core.corpus.sources import read_source
from personaplex.core.errors import UsageError
from personaplex.core.files import check_schema, make_folder, read_json, replacing, write_text

SCHEMA, ITEM_SCHEMA = "personaplex.goldens/1", "personaplex.golden/1"
SETTINGS, MANIFEST, ITEMS = "goldens.json", "manifest.jsonl", "items"

MEND = "restore it, or record the goldens again with `personaplex regress record`"
_Token = Annotated[int, Field(ge=0, lt=2**31)]
_TOKENS = TypeAdapter(list[Annotated[list[_Token], Field(min_length=1 + CODEBOOKS, max_length=1 + CODEBOOKS)]])


@dataclass(frozen=True)
class Goldens:
    """A folder of goldens: `calls` are the manifest's ids; `items` in their order, then those of none, `unused`."""

    folder: Path
    settings: Mapping[str, Any]
    calls: Sequence[str]
    items: Mapping[str, Recorded]
    unused: Sequence[str]

    @property
    def manifest(self) -> Path:
        """The calls to run."""
        return self.folder / MANIFEST


def golden_path(folder: Path, name: str) -> Path:
    """Where an item's golden lies."""
    return folder / ITEMS / f"{name}.json"


def golden(item: Recorded) -> dict[str, Any]:
    """What is kept of an item that has a transcript: every token, or those of the text where they were not saved.

    Raises UsageError if its file of tokens is broken, or of another answer.
    """
    foreign = foreign_tokens(item)
    if foreign is not None:
        raise UsageError(foreign, "run the item again with --save-tokens, or remove the file")
    tokens = tokens_of(item)
    document = without_volatile(answer(item)) | {"schema": ITEM_SCHEMA, "id": item.id}
    document.pop("files", None)  # those of the run; a golden's lie elsewhere
    document["input"] = {key: value for key, value in document["input"].items() if key != "path"}
    if tokens.shape[1] > 1:
        document["tokens"] = tokens.tolist()
        del document["text_tokens"]
    return document


def write_golden(folder: Path, item: Recorded, audio: bool) -> dict[str, Any]:
    """Write an item's golden, which is returned, and with `audio` its WAV beside it; raises InputError."""
    path, document = golden_path(folder, item.id), golden(item)
    write_text(path, dumps(document))
    sound = path.with_suffix(".wav")
    if audio and item.audio is not None:
        with replacing(sound) as part:
            shutil.copyfile(item.audio, part)
    else:
        sound.unlink(missing_ok=True)
    return document


def remove_golden(folder: Path, name: str) -> None:
    """Remove an item's golden, its audio, and the folders that this empties."""
    path = golden_path(folder, name)
    for file in (path, path.with_suffix(".wav")):
        file.unlink(missing_ok=True)
    for parent in path.parents:
        if parent == folder or any(parent.iterdir()):
            break
        parent.rmdir()


def write_manifest(folder: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write the calls to run, and make the folder; raises InputError."""
    make_folder(folder)
    write_text(folder / MANIFEST, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def write_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Write how the calls are run; raises InputError."""
    write_text(folder / SETTINGS, dumps({"schema": SCHEMA} | dict(settings)))


def read_goldens(folder: Path) -> Goldens:
    """A folder of goldens; raises UsageError that names a file which is missing, broken or of another schema."""
    if not (folder / SETTINGS).is_file():
        raise UsageError(f"{folder}: holds no {SETTINGS}", "name a folder that `personaplex regress record` made")
    settings = _read(folder / SETTINGS, SCHEMA)
    listed = {item.id: item.row for item in read_source(str(folder / MANIFEST), None, folder).whole()}
    items: dict[str, Recorded] = {}
    for name, row in listed.items():
        path = golden_path(folder, name)
        if path.is_file():
            items[name] = _read_golden(path, name, row.asked or {})
    root = folder / ITEMS
    found = (path.relative_to(root).with_suffix("") for path in sorted(root.rglob("*.json")))
    # Hidden files are half written, by a killed process, or the system's own.
    names = [path.as_posix() for path in found if not any(part.startswith(".") for part in path.parts)]
    unused = [name for name in names if name not in listed]
    items |= {name: _read_golden(golden_path(folder, name), name, {}) for name in unused}
    return Goldens(folder, settings, list(listed), items, unused)


def _read_golden(path: Path, name: str, expect: Mapping[str, Any]) -> Recorded:
    document = _read(path, ITEM_SCHEMA)
    if "tokens" in document:
        try:
            tokens = np.array(_TOKENS.validate_python(document["tokens"]), dtype=np.int64).reshape(-1, 1 + CODEBOOKS)
        except ValidationError as error:
            raise UsageError(f"{path}: its tokens are not rows of {1 + CODEBOOKS} numbers", MEND) from error
        if tokens_sha256(tokens) != document.get("tokens_sha256"):
            raise UsageError(f"{path}: its tokens are not those of its tokens_sha256", MEND)
        document["text_tokens"] = tokens[:, 0].tolist()
    sound = path.with_suffix(".wav")
    return Recorded(name, checked(document, str(path)), audio=sound if sound.is_file() else None, expect=expect)


def _read(path: Path, schema: str) -> dict[str, Any]:
    document = read_json(path, "make it readable, or record the goldens again", MEND)
    check_schema(document, schema, path, MEND)
    return dict(document)
