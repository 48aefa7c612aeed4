"""Two runs' measures side by side, of the calls that both have them of."""

from collections.abc import Mapping
from dataclasses import dataclass

from personaplex.compare.verdicts import Comparison
from personaplex.core.measures.bootstrap import Versus, versus


@dataclass(frozen=True)
class MeasuresCompared:
    """Figures of two runs, and of how many calls they are: those that were measured alike in both."""

    calls: int
    figures: Mapping[str, Versus]


def compare_measures(comparison: Comparison) -> MeasuresCompared:
    """The figures of a comparison's runs; none where no call was measured in both by the same ear."""
    pairs = [
        (item.expected.measures, item.got.measures)
        for item in comparison.items
        if item.expected is not None and item.got is not None
    ]
    alike = [(ours, theirs) for ours, theirs in pairs if ours and theirs and ours.made.vad == theirs.made.vad]
    found = versus([ours.measured for ours, _ in alike], [theirs.measured for _, theirs in alike])
    return MeasuresCompared(len(alike), found)
