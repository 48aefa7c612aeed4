"""A folder of Full-Duplex-Bench: a sample's folder holds `input.wav` and annotations in JSON, all carried through.

Versions 1.0 and 1.5 lie as `<task>/<sample>/input.wav`, 1.5 with `clean_input.wav` beside it. Other sound in a sample's
folder is a part of the input, or another model's answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from personaplex.core.corpus.raw import loads
from personaplex.core.corpus.walking import named
from personaplex.core.errors import InputError

KEY = "full_duplex_bench"
"""The key of a row that says of which sample it is, with `folder`, `input` and, by name, the JSON `files`."""
INPUT, CLEAN = "input.wav", "clean_input.wav"

_ANNOTATIONS = {"transcription.json", "pause.json", "turn_taking.json", "interrupt.json", "metadata.json"}
_RESULTS = ("output", "clean_output", "rating")  # what models and judges leave, by how its name begins


@dataclass(frozen=True)
class Sample:
    """An input of the benchmark: its recording and its folder, relative to the source, and the id of its item."""

    path: Path
    folder: str
    id: str

    @classmethod
    def of(cls, source: Path, path: Path) -> "Sample":
        """The sample of a recording; of one whose folder is the source itself, the folder has the source's name."""
        folder = named(path.parent) if path.parent.name else named(Path(source.resolve().name))
        return cls(path, folder, folder + (".clean" if path.name == CLEAN else ""))

    def own(self, source: Path) -> dict[str, Any]:
        """What the row of the item carries through; raises InputError for an annotation that is no JSON."""
        folder = source / self.path.parent
        names = sorted(path.name for path in folder.glob("*.json")) if self.path.name == INPUT else []
        files = {name: _annotation(folder / name) for name in names if not name.startswith(_RESULTS)}
        return {KEY: {"folder": self.folder, "input": self.path.name, "files": files}}


def bench_samples(source: Path, recordings: Sequence[Path]) -> dict[Path, Sample]:
    """The samples of a folder by their recordings, relative to it; none if a recording lies outside of samples."""
    folders = {path.parent for path in recordings}
    if not all(_is_sample(source / folder) for folder in folders):
        return {}
    return {path: Sample.of(source, path) for path in recordings if path.name in (INPUT, CLEAN)}


def _is_sample(folder: Path) -> bool:
    return (folder / INPUT).is_file() and any((folder / name).is_file() for name in _ANNOTATIONS)


def _annotation(path: Path) -> Any:
    try:
        return loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}", "make the file readable") from error
    except ValueError as error:
        raise InputError(f"{path}: not JSON ({error})", "get the sample again, or take the file away") from error
