"""How the reports say what was found: the first difference, what the answers depend on, an item's details."""

import json
from collections.abc import Iterator
from typing import Any

from personaplex.compare.identity import IdentityCount
from personaplex.compare.verdicts import FirstDifference, IdentityDifference, ItemComparison


def plural(count: int, noun: str) -> str:
    """Such as "1 item" and "2 items"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def place(difference: FirstDifference) -> str:
    """Where answers part: `frame 12, 0.96 s, codebook 0`."""
    return f"frame {difference.frame}, {difference.second:.2f} s, {difference.stream}"


def change(difference: FirstDifference) -> str:
    """The two tokens: `1023 → 77`; an answer that has ended says so."""
    expected, got = ("end" if token is None else str(token) for token in (difference.expected, difference.got))
    return f"{expected} → {got}"


def values(difference: IdentityDifference | IdentityCount) -> tuple[str, str]:
    """What was expected and what was got: text as it is, nothing as "none", anything else as JSON.

    A count without either varies from item to item.
    """
    if difference.expected is None and difference.got is None:
        return "varies", "varies"
    return _shown(difference.expected), _shown(difference.got)


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "none" if value is None else json.dumps(value, ensure_ascii=False, sort_keys=True)


def details(item: ItemComparison) -> Iterator[str]:
    """An item's findings, a line each: failures, verdicts, the first difference with its words, identities."""
    for name, side in (("expected", item.expected), ("got", item.got)):
        if side and side.failure:
            yield f"{name}: failed: {side.failure}"
    for verdict in item.verdicts:
        yield ": ".join(filter(None, (verdict.rung, verdict.outcome, verdict.detail)))
    if item.difference:
        yield f"first difference: {place(item.difference)}: {change(item.difference)}"
        yield f"  expected words: {item.difference.expected_words}"
        yield f"  got words:      {item.difference.got_words}"
    for identity in item.identity:
        yield f"not alike: {identity.name}: {' → '.join(values(identity))}"
    for expectation in item.expectations:
        if not expectation.passed:
            yield f"not met: {expectation.name}: {expectation.detail}"
