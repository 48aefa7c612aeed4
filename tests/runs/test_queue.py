"""Which calls go back to the queue when workers are lost, and which have gone too often."""

from __future__ import annotations

from personaplex.runs.devices.queue import Call, Queue


def calls(*frames: int) -> list[Call]:
    return [Call(str(number), length, None) for number, length in enumerate(frames)]


def drain(queue: Queue, worker: str = "w") -> list[str]:
    found = []
    while (call := queue.take(worker, ())) is not None:
        found.append(call.id)
    return found


def test_the_longest_goes_first() -> None:
    assert drain(Queue(calls(3, 9, 5, 9))) == ["1", "3", "2", "0"]


def test_a_call_that_was_alone_in_two_lost_workers_is_to_blame() -> None:
    queue = Queue(calls(5))
    call = queue.take("w", ())
    assert call is not None
    assert queue.lost([call]) == []
    assert queue.take("w", ()) is call
    assert queue.lost([call]) == [call]
    assert drain(queue) == []


def test_only_the_call_that_was_in_both_is_to_blame() -> None:
    poison, first, second = calls(3, 2, 1)
    queue = Queue(())
    assert queue.lost([poison, first]) == []
    assert queue.take("w", ()) is poison
    assert queue.lost([poison, second]) == [poison]
    assert drain(queue) == ["2", "1"]


def test_calls_that_went_down_together_twice_are_kept_apart() -> None:
    """So that none is blamed for its neighbour, as where two machines in a row were taken away."""
    poison, innocent = calls(2, 1)
    queue = Queue((poison, innocent))
    for _ in range(2):
        held = [queue.take("w", ()), queue.take("w", ())]
        assert queue.lost([call for call in held if call is not None]) == []
    taken = queue.take("w", ())
    assert taken is poison
    assert queue.take("w", [poison]) is None
    assert queue.take("other", ()) is innocent
    assert queue.lost([poison]) == [poison]


def test_a_call_is_not_given_where_it_could_not_be_written() -> None:
    (call,) = calls(1)
    call.shunned.add("full")
    queue = Queue((call,))
    assert queue.take("full", ()) is None
    assert queue.take("other", ()) is call
