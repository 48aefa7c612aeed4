"""An export from end to end: a run's calls read, split, written in a format, and what was left out."""

import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from personaplex.core.errors import InputError, UsageError
from personaplex.core.files import placing_folder, writing
from personaplex.exports.calls import Call, LeftOut, RunCalls
from personaplex.exports.formats.audacity import AudacityWriter
from personaplex.exports.formats.audiofolder import AudiofolderWriter, write_card
from personaplex.exports.formats.full_duplex_bench import FullDuplexBenchWriter
from personaplex.exports.formats.lhotse import LhotseWriter, SharWriter
from personaplex.exports.formats.moshi_finetune import MoshiFinetuneWriter
from personaplex.exports.formats.nemo import NemoWriter
from personaplex.exports.formats.webdataset import WebdatasetWriter
from personaplex.exports.reading import read_calls
from personaplex.exports.splits import split_calls
from personaplex.exports.writer import Format, Target

FORMATS: Mapping[str, Format] = {
    "lhotse": Format(LhotseWriter),
    "lhotse-shar": Format(SharWriter, links=False),
    "nemo": Format(NemoWriter),
    "webdataset": Format(WebdatasetWriter, links=False),
    "audiofolder": Format(AudiofolderWriter, finish=write_card),
    "moshi-finetune": Format(MoshiFinetuneWriter, links=False),
    "full-duplex-bench": Format(FullDuplexBenchWriter, splits=False),
    "audacity": Format(AudacityWriter, splits=False),
}


@dataclass(frozen=True)
class Request:
    """What to export, as which format, and where to; `shares` are those of the splits, `callers` as in `read_calls`."""

    run: Path
    to: str
    output: Path
    shares: Mapping[str, float] = field(default_factory=dict)
    seed: int = 0
    link: bool = False
    callers: Path | None = None


@dataclass(frozen=True)
class Exported:
    """What became of a run's calls: how many are in each split, which failed in the run, which were left out."""

    splits: Mapping[str, int]
    failed: list[LeftOut]
    left_out: list[LeftOut]

    @property
    def calls(self) -> int:
        """How many were exported."""
        return sum(self.splits.values())


def export(request: Request) -> Exported:
    """Export a run's calls; raises UsageError for what makes no sense, InputError for what can't be written.

    A call whose sound can't be read is left out alone. If none is left, nothing is written.
    """
    chosen = _format(request)
    found = read_calls(request.run, request.callers)
    if not found.calls:
        raise _nothing(request, found.left_out + found.failed)
    splits = split_calls(found.calls, request.shares, request.seed)
    _refuse(request.output)
    with placing_folder(request.output) as folder:
        made = {name: _written(chosen, request, folder, name, calls, found) for name, calls in splits.items()}
        if not any(made.values()):
            raise _nothing(request, found.left_out + found.failed)
        if chosen.finish is not None:
            chosen.finish(folder, made)
    return Exported({name: len(calls) for name, calls in made.items()}, found.failed, found.left_out)


def _refuse(path: Path) -> None:
    """Raise UsageError if there is anything at `path` but an empty folder."""
    mend = "name a folder that is not there yet"
    if path.is_symlink() or (os.path.lexists(path) and not path.is_dir()):
        raise UsageError(f"{path}: is there and is no folder", mend)
    if path.is_dir():
        with writing(path):
            is_empty = not any(path.iterdir())
        if not is_empty:
            raise UsageError(f"{path}: is not empty, and nothing in it is replaced", mend)


def _format(request: Request) -> Format:
    if request.to not in FORMATS:
        raise UsageError(f'--to "{request.to}" is not a format', f"choose one of {', '.join(FORMATS)}")
    chosen = FORMATS[request.to]
    if request.link and not chosen.links:
        linking = ", ".join(name for name, one in FORMATS.items() if one.links)
        raise UsageError(f"--link: {request.to} holds its sound itself", f"leave it out; these can link: {linking}")
    if request.shares and not chosen.splits:
        raise UsageError(f"--split: {request.to} has no splits", "leave it out")
    return chosen


def _written(
    chosen: Format, request: Request, folder: Path, name: str, calls: list[Call], found: RunCalls
) -> list[Call]:
    """The calls of a split that were written; those that can't be read are added to what is left out."""
    target = Target(folder / name, request.output / name, request.link)
    target.folder.mkdir(exist_ok=True)
    made = []
    with closing(chosen.writer(target)) as writer:
        for call in calls:
            try:
                writer.add(call)
            except InputError as error:
                found.left_out.append(LeftOut(call.id, error.what))
            else:
                made.append(call)
    return made


def _nothing(request: Request, left_out: list[LeftOut]) -> UsageError:
    first = f", such as {left_out[0].id}: {left_out[0].why}" if left_out else ""
    mend = "mend what it says and export again; --callers names the folder of the callers' recordings"
    return UsageError(f"{request.run}: none of its calls can be exported{first}", mend)
