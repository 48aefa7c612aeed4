"""The dispatcher with workers that are made up: who gets which calls, and what becomes of those of lost ones."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import pytest

from personaplex.core.answers.transcript import EngineInfo, ModelInfo
from personaplex.core.errors import InputError, ModelError, PersonaplexError
from personaplex.runs.devices.dispatch import Dispatcher
from personaplex.runs.devices.kinds import Kinds
from personaplex.runs.devices.messages import Broken, Close, Failed, FromWorker, Gone, Ready, Ticked, ToWorker
from personaplex.runs.devices.queue import Call
from personaplex.runs.ledger import Written
from personaplex.runs.observer import Sizing, Standing

if TYPE_CHECKING:
    from collections.abc import Sequence

MODEL = ModelInfo("made up", "", "0", "0")
ENGINE = EngineInfo("cpu", "made up", "float32", None, None, None, 1, None, "batch", None, {})


class MadeUpCrew:
    """Workers of `slots` slots that do every call at once, but for `poison`, in `full` places, and `broken` ones."""

    def __init__(
        self, names: Sequence[str], slots: int = 2, poison: str = "", full: str = "", broken: Sequence[str] = ()
    ) -> None:
        self.slots, self.poison, self.full, self.broken = slots, poison, full, broken
        self.alive: set[str] = set()
        self.starts = 0
        self.ran: dict[str, list[str]] = {name: [] for name in names}
        self.heard: deque[tuple[str, FromWorker]] = deque()
        for name in names:
            self.again(name)

    @property
    def names(self) -> Sequence[str]:
        return sorted(self.alive)

    def again(self, name: str) -> None:
        self.starts += 1
        self.alive.add(name)
        if name in self.broken:
            self.heard.append((name, Broken(ModelError("no such model"))))
            self._gone(name)
        else:
            self.heard.append((name, Ready("node", MODEL, ENGINE, Sizing(self.slots, 0, 0, 0), self.slots, 2)))

    def _gone(self, name: str) -> None:
        self.heard.append((name, Gone("killed by SIGKILL")))

    def hear(self, seconds: float) -> Sequence[tuple[str, FromWorker]]:
        if not self.heard:
            return []
        name, message = self.heard.popleft()
        if isinstance(message, Gone):
            self.alive.discard(name)
            self.heard = deque(one for one in self.heard if one[0] != name)
        return [(name, message)]

    def tell(self, name: str, message: ToWorker) -> None:
        if isinstance(message, Close) or message.id == self.poison:
            self._gone(name)
            return
        self.ran[name].append(message.id)
        self.heard.append((name, Ticked((Standing(message.id, 1, 1),))))
        if name == self.full:
            error = InputError("the disk is full")
            self.heard.append((name, Failed(message.id, error, is_place=True)))
        else:
            self.heard.append((name, Written({"id": message.id}, 1.0, 1.0)))

    def end(self) -> None:
        self.alive.clear()


class Noted:
    """An account that notes all."""

    is_over = False

    def __init__(self) -> None:
        self.written: list[str] = []
        self.failures: dict[str, str] = {}

    def ready(self, name: str, ready: Ready) -> None: ...

    def ticked(self, calls: Sequence[Standing]) -> None: ...

    def lost(self, slots: int) -> None: ...

    def done(self, written: Written) -> None:
        self.written.append(written.row["id"])

    def failed(self, load: Any, error: PersonaplexError) -> None:
        self.failures[load] = error.what


def run(crew: MadeUpCrew, calls: int) -> Noted:
    noted = Noted()
    made = [Call(str(number), calls - number, str(number)) for number in range(calls)]
    Dispatcher(made, crew, noted).run()
    assert len(noted.written) + len(noted.failures) == calls == len({*noted.written, *noted.failures})
    return noted


def test_each_call_is_run_once_and_every_worker_has_some() -> None:
    crew = MadeUpCrew("ab")
    assert run(crew, 50).failures == {}
    assert min(map(len, crew.ran.values())) >= 10


def test_a_poisonous_call_fails_alone() -> None:
    crew = MadeUpCrew("ab", poison="7")
    noted = run(crew, 30)
    assert list(noted.failures) == ["7"]
    assert "has brought down" in noted.failures["7"]
    assert "killed by SIGKILL" in noted.failures["7"]


def test_a_worker_without_a_model_is_left_out() -> None:
    crew = MadeUpCrew("abc", broken="b")
    assert run(crew, 30).failures == {}
    assert (crew.starts, crew.ran["b"]) == (3, [])


def test_without_any_worker_the_first_fault_is_raised() -> None:
    with pytest.raises(ModelError, match="no such model"):
        run(MadeUpCrew("ab", broken="ab"), 5)


def test_a_full_disk_in_one_place_fails_no_call() -> None:
    crew = MadeUpCrew("ab", full="b")
    assert run(crew, 50).failures == {}
    assert len(crew.ran["b"]) < 10, "it gets no more"


def test_a_full_disk_everywhere_fails_calls() -> None:
    noted = run(MadeUpCrew("a", full="a"), 5)
    assert len(noted.failures) == 5


def test_unlike_devices_are_refused_if_asked() -> None:
    kinds = Kinds(must_agree=True, before=["H100"])
    kinds.add("cuda:0", "H100")
    with pytest.raises(ModelError, match="unlike devices"):
        kinds.add("cuda:1", "A100")
    Kinds(must_agree=False, before=["H100"]).add("cuda:1", "A100")
