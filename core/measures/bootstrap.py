"""How sure a figure is: intervals by drawing the calls anew, with replacement, and of the difference of two runs.

The draws come from a generator of their own with a fixed seed, so the same calls give the same intervals.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from personaplex.core.measures.figures import pooled
from personaplex.core.measures.pooled import DIGITS, Figure, Measured, Pooled, Ratio

DRAWS = 1000
SHARE = 0.95
"""The share of the draws that an interval holds."""

Interval: TypeAlias = tuple[float, float] | None

_SEED = 20_251
_MOST_WEIGHTS = 4_000_000  # drawn at a time


@dataclass(frozen=True)
class Versus:
    """A figure of two runs, each with its interval, and by how much the second's is higher, with its own."""

    expected: Figure
    got: Figure
    expected_interval: Interval
    got_interval: Interval
    change: float | None
    change_interval: Interval

    @property
    def is_clear(self) -> bool:
        """Whether the interval of the change leaves out none at all."""
        return self.change_interval is not None and not self.change_interval[0] <= 0 <= self.change_interval[1]


def versus(expected: Sequence[Measured], got: Sequence[Measured]) -> dict[str, Versus]:
    """Every figure of the same N calls in two runs, in one order; a call is drawn for both runs at once."""
    if len(expected) != len(got):
        raise ValueError(f"{len(expected)} calls against {len(got)}")
    ours, theirs = pooled(expected), pooled(got)
    names = [name for name in ours if name in theirs]
    draws: dict[str, list[NDArray[np.float64]]] = {name: [] for name in names}
    generator = np.random.default_rng(_SEED)
    step = max(1, _MOST_WEIGHTS // max(1, len(expected)))
    for start in range(0, DRAWS, step):
        weights = _weights(generator, min(step, DRAWS - start), len(expected))
        for name in names:
            draws[name].append(np.stack([_drawn(ours[name], weights), _drawn(theirs[name], weights)]))
    return {name: _versus(ours[name], theirs[name], np.concatenate(draws[name], axis=1)) for name in names}


def _weights(generator: np.random.Generator, draws: int, calls: int) -> NDArray[np.int64]:
    """How often each call is drawn: `[D, N]`."""
    chosen = generator.integers(calls, size=(draws, calls))
    weights = np.zeros((draws, calls), np.int64)
    np.add.at(weights, (np.arange(draws)[:, None], chosen), 1)
    return weights


def _drawn(part: Pooled, weights: NDArray[np.int64]) -> NDArray[np.float64]:
    """A figure in each draw of the calls, `[D]`; NaN where it has no value."""
    if isinstance(part, Ratio):
        below = weights @ part.below
        drawn = np.full(len(weights), np.nan)
        np.divide(weights @ part.above, below, out=drawn, where=below > 0)
        return drawn
    order = np.argsort(part.values)
    values, calls = part.values[order], part.calls[order]
    return np.array([_quantile(values, draw[calls], part.share) for draw in weights])


def _quantile(values: NDArray[np.float64], counts: NDArray[np.int64], share: float) -> float:
    """The quantile of sorted values, each as often as `counts` says."""
    until = np.cumsum(counts)
    if not len(until) or not until[-1]:
        return float("nan")
    place = share * (until[-1] - 1)
    low, high = np.searchsorted(until, (np.floor(place), np.ceil(place)), side="right")
    return float(values[low] + (values[high] - values[low]) * (place % 1))


def _versus(ours: Pooled, theirs: Pooled, draws: NDArray[np.float64]) -> Versus:
    expected, got = ours.figure, theirs.figure
    change = None if expected.value is None or got.value is None else round(got.value - expected.value, DIGITS)
    return Versus(expected, got, _interval(draws[0]), _interval(draws[1]), change, _interval(draws[1] - draws[0]))


def _interval(draws: NDArray[np.float64]) -> Interval:
    """That of the draws that gave a value."""
    known = draws[np.isfinite(draws)]
    if not len(known):
        return None
    low, high = np.quantile(known, [(1 - SHARE) / 2, (1 + SHARE) / 2])
    return round(float(low), DIGITS), round(float(high), DIGITS)
