"""The output folder of a batch: which file there is whose, and what stands in an answer's way."""

import unicodedata
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TypeVar

from personaplex.core.answers.ownership import made_files, made_with, refuse_foreign
from personaplex.core.corpus.results import RESULTS, RUN, check_own_files, read_results
from personaplex.core.errors import UsageError
from personaplex.core.files import ignores_case, make_folder
from personaplex.runs.planning.planned import PlannedItem
from personaplex.runs.planning.request import BatchRequest

Made = TypeVar("Made")


class Places:
    """Where a batch's answers go; raises UsageError for a folder whose own files a batch can't go on with."""

    def __init__(self, planned: Sequence[PlannedItem], request: BatchRequest) -> None:
        self._outputs = request.outputs
        self._folder = request.source.output
        self._outlet = request.source.outlet
        if self._outlet is not None:
            self._outlet.open([item.paths for item in planned])
        check_own_files(self._folder)
        self._rows = read_results(self._folder)
        self._planned = planned

    def check_names(self) -> None:
        """Raise UsageError for two files that the folder, which is there, would take for one."""
        if not ignores_case(self._folder):
            return
        seen: dict[str, str] = {_letters(self._folder / name): "the run itself" for name in (RESULTS, RUN)}
        for item in self._planned:
            for path in item.paths.all(self._outputs):
                other = seen.setdefault(_letters(path), item.item.where)
                if other != item.item.where:
                    clash = f"{item.item.where} and {other} would both write {path}: this folder takes A and a as one"
                    raise UsageError(clash, "give one of them another id, or rename the file")

    def refuse_foreign(self, item: PlannedItem, gone: Collection[Path] = ()) -> None:
        """Raise InputError if something stands in an item's way that it may not replace, and that isn't `gone` soon."""
        made = made_files(self._rows.get(item.item.id), item.paths.json.parent)
        if self._outlet is not None:  # which looks at the item's own when they are replaced
            gone = {*gone, *self._outlet.unseen([*made, *made_with(item.paths.json)])}
        refuse_foreign(item.paths.all(self._outputs), item.paths.json, made, gone)

    def written(self, item: PlannedItem, write: Callable[[], Made]) -> Made:
        """What `write` returns, which writes an item's files; raises InputError, and StorageError for an outlet."""

        def checked() -> Made:
            make_folder(item.paths.wav.parent)
            self.refuse_foreign(item)
            return write()

        if self._outlet is None:
            return checked()
        return self._outlet.written(item.paths, item.paths.all(self._outputs), checked)


def _letters(path: Path) -> str:
    """What is the same of two paths that such a folder takes for one."""
    return unicodedata.normalize("NFC", str(path)).casefold()
