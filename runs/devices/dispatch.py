"""One queue of calls for all workers: each gets a call as soon as it has a slot for it, the longest first.

Ahead of its slots a worker gets calls only while there are more of them than all slots could take. So none waits
behind a busy slot while another worker has a free one.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from personaplex.core.errors import InputError, ModelError, PersonaplexError
from personaplex.runs.devices.crew import Crew
from personaplex.runs.devices.messages import Broken, Close, Failed, FromWorker, Gone, Ready, Said, Take, Ticked
from personaplex.runs.devices.queue import Call, Queue
from personaplex.runs.ledger import Written
from personaplex.runs.observer import Standing

log = logging.getLogger(__name__)

MOST_IDLE_LOSSES = 2
"""A worker that went down so often, one after the other, without a single call done is not replaced."""
MOST_PLACE_FAULTS = 2
"""A worker that can't write so many calls, one after the other, gets no more while there are others."""
_HEAR_SECONDS = 0.2


class Account(Protocol):
    """Whoever keeps account of a run."""

    def ready(self, name: str, ready: Ready) -> None:
        """A worker is ready; raises PersonaplexError if the run must not go on with it."""

    def ticked(self, calls: Sequence[Standing]) -> None:
        """So far are calls."""

    def done(self, written: Written) -> None:
        """A call's files are written."""

    def failed(self, load: Any, error: PersonaplexError) -> None:
        """A call can't be run."""

    def lost(self, slots: int) -> None:
        """A worker with so many slots is no more."""

    @property
    def is_over(self) -> bool:
        """Whether the run is to end early."""


@dataclass(eq=False)
class _Hand:
    """What is known of a worker: `held` calls are not done yet, those of them in `slotted` still need a slot."""

    slots: int = 0
    ahead: int = 0
    held: dict[str, Call] = field(default_factory=dict)
    slotted: set[str] = field(default_factory=set)
    idle_losses: int = 0
    place_faults: int = 0
    fault: PersonaplexError | None = None

    @property
    def is_dismissed(self) -> bool:
        """Whether it gets no more calls."""
        return self.place_faults >= MOST_PLACE_FAULTS


class Dispatcher:
    """Runs calls on a crew; each ends in the account as done or failed, unless the run is over early."""

    def __init__(self, calls: Sequence[Call], crew: Crew, account: Account) -> None:
        self._queue = Queue(calls)
        self._crew = crew
        self._account = account
        self._hands: dict[str, _Hand] = {}
        self._said: set[tuple[int, str]] = set()
        self._fault: PersonaplexError | None = None
        self._is_closing = False

    def run(self) -> None:
        """Run all calls; raises PersonaplexError where no worker is left for them."""
        try:
            while self._is_wanted():
                self._hear()
                self._deal()
                if not self._crew.names:
                    raise self._fault or ModelError("no worker is left", "see above why; run the same command again")
            self._close()
        finally:
            self._crew.end()

    def _is_wanted(self) -> bool:
        return not self._account.is_over and bool(self._queue or any(hand.held for hand in self._hands.values()))

    def _close(self) -> None:
        """Have the workers end, and hear what they still have to say."""
        self._is_closing = True
        for name in self._crew.names:
            self._crew.tell(name, Close(drops=self._account.is_over))
        while any(hand.slots for hand in self._hands.values()):
            self._hear()

    def _hear(self) -> None:
        for name, message in self._crew.hear(_HEAR_SECONDS):
            self._take(name, self._hands.setdefault(name, _Hand()), message)

    def _take(self, name: str, hand: _Hand, message: FromWorker) -> None:
        match message:
            case Ready():
                hand.slots, hand.ahead = message.slots, message.ahead
                self._account.ready(name, message)
            case Ticked():
                self._account.ticked(message.calls)
                hand.slotted -= {call.id for call in message.calls if call.done == call.total}
            case Written():
                self._ended(hand, message.row["id"])
                hand.idle_losses = hand.place_faults = 0
                self._account.done(message)
            case Failed():
                self._failed(name, hand, message)
            case Said():
                self._say(message)
            case Broken():
                hand.fault = message.error
            case Gone():
                self._lost(name, hand, message.why)

    @staticmethod
    def _ended(hand: _Hand, call: str) -> Call:
        hand.slotted.discard(call)
        return hand.held.pop(call)

    def _failed(self, name: str, hand: _Hand, message: Failed) -> None:
        call = self._ended(hand, message.id)
        call.shunned.add(name)
        others = [other for other, one in self._hands.items() if other not in call.shunned and not one.is_dismissed]
        if not (message.is_place and others) or self._is_closing:
            self._account.failed(call.load, message.error)
            return
        self._queue.put_back(call)
        hand.place_faults += 1
        if hand.place_faults == MOST_PLACE_FAULTS:
            log.error("%s gets no more calls: %s", name, message.error.what)
            self._crew.tell(name, Close(drops=False))

    def _say(self, message: Said) -> None:
        """Once, where several workers have the same to say."""
        if (message.level, message.text) not in self._said:
            self._said.add((message.level, message.text))
            log.log(message.level, "%s", message.text)

    def _lost(self, name: str, hand: _Hand, why: str) -> None:
        """A worker is no more: its calls are for others, and for one in its place unless there is no hope in that."""
        del self._hands[name]
        if self._is_closing:
            return
        self._account.lost(hand.slots)
        if hand.fault is not None:
            why, self._fault = hand.fault.what, self._fault or hand.fault
        if hand.held or not hand.is_dismissed:
            log.warning("%s is lost: %s; calls to be run again: %d", name, why, len(hand.held))
        for call in self._queue.lost(hand.held.values()):
            what = f"has brought down {call.lost} workers, the last one {name}: {why}"
            self._account.failed(call.load, InputError(what, "look at its recording, or try it alone with `offline`"))
        is_unfit = hand.is_dismissed or (hand.fault is not None and not hand.slots)
        losses = hand.idle_losses + 1
        if not is_unfit and losses < MOST_IDLE_LOSSES:
            self._hands[name] = _Hand(idle_losses=losses)
            self._crew.again(name)

    def _deal(self) -> None:
        """Give out calls, first to the emptiest workers; none takes more than its part of what is left."""
        hands = {name: hand for name, hand in self._hands.items() if not hand.is_dismissed}
        slots = sum(hand.slots for hand in hands.values())
        left = len(self._queue) + sum(len(hand.slotted) for hand in hands.values())
        fair = -(-left // max(1, len(self._crew.names)))
        for is_ahead in (False, True):
            for name, hand in sorted(hands.items(), key=lambda pair: len(pair[1].slotted) - pair[1].slots):
                most = hand.slots + hand.ahead if is_ahead else min(hand.slots, fair)
                while len(hand.slotted) < most and not (is_ahead and len(self._queue) <= slots):
                    call = self._queue.take(name, hand.held.values())
                    if call is None:
                        break
                    hand.held[call.id] = call
                    hand.slotted.add(call.id)
                    self._crew.tell(name, Take(call.id, call.load))
