"""Splits: every call of one caller in the same one, so that no voice is both trained and tested on."""

import hashlib
import math
import re
from collections.abc import Iterable, Mapping
from itertools import accumulate

from personaplex.core.errors import UsageError
from personaplex.exports.calls import Call

WHOLE = ""
"""The name of the only split where none are asked for."""

_NAME = re.compile(r"[A-Za-z0-9]\w*")


def parse_splits(text: str) -> dict[str, float]:
    """The shares in `train=0.8,dev=0.1,test=0.1`, by name; raises UsageError for what makes no sense."""
    shares: dict[str, float] = {}
    mend = "write shares that add up to 1, such as train=0.8,dev=0.1,test=0.1"
    for part in text.split(","):
        name, _, value = (piece.strip() for piece in part.partition("="))
        try:
            share = float(value)
        except ValueError as error:
            raise UsageError(f'--split: "{part.strip()}" is not a name and a share', mend) from error
        if not _NAME.fullmatch(name) or name in shares:
            raise UsageError(f'--split: the name "{name}" is given twice, or not one word', mend)
        if not 0 < share <= 1:
            raise UsageError(f"--split: the share of {name} is {value}", mend)
        shares[name] = share
    if not math.isclose(sum(shares.values()), 1, abs_tol=1e-6):
        raise UsageError(f"--split: the shares add up to {sum(shares.values()):g}", mend)
    return shares


def split_calls(calls: Iterable[Call], shares: Mapping[str, float], seed: int) -> dict[str, list[Call]]:
    """The calls by split, in their order; all in `WHOLE` without shares.

    Callers are put in an order that the seed and they alone decide, and cut where the shares say, to the nearest
    caller: with few of them a split may be empty.
    """
    if not shares:
        return {WHOLE: list(calls)}
    by_caller: dict[str, list[Call]] = {}
    for call in calls:
        by_caller.setdefault(call.group, []).append(call)
    callers = sorted(by_caller, key=lambda group: hashlib.sha256(f"{seed}:{group}".encode()).digest())
    ends = [round(len(callers) * share) for share in accumulate(shares.values())]
    ends[-1] = len(callers)
    of = {
        caller: name
        for name, start, end in zip(shares, [0, *ends], ends, strict=False)
        for caller in callers[start:end]
    }
    made: dict[str, list[Call]] = {name: [] for name in shares}
    for group, own in by_caller.items():
        made[of[group]] += own
    return {name: sorted(found, key=lambda call: call.id) for name, found in made.items()}
