"""Whether two answers could be expected to be equal at all: what their bits depend on, side by side."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from personaplex.compare.verdicts import Comparison, IdentityDifference

_PLACES = (
    *("model.weights_sha256", "model.tokenizer_sha256", "prompt.voice_sha256", "prompt.text"),
    *("input.sha256", "input.channel", "input.part"),
    *("engine.device", "engine.device_kind", "engine.products", "engine.rounding"),
    *("engine.dtype", "engine.quantize", "engine.threads", "engine.slots", "engine.pace"),
    *("output.align", "output.subtype", "output.sample_rate"),
)
_NAMES_OF_WEIGHTS = ("model.name", "model.revision")
_NAMES_OF_PROCESSORS = ("engine.device_kind", "engine.products")


class IdentityCount(NamedTuple):
    """Something that differs, and in how many items; both values are None where they vary from item to item."""

    name: str
    expected: Any
    got: Any
    items: int


def identity_differences(expected: Mapping[str, Any], got: Mapping[str, Any]) -> tuple[IdentityDifference, ...]:
    """What two transcripts don't have in common of all that an answer's bits depend on.

    A value that one side doesn't hold is None there. Other weights are named too, if their names tell them apart; so
    are other processors, unless the same weights round alike on both.
    """
    ours, theirs = _facts(expected), _facts(got)
    passed_over: tuple[str, ...] = ()
    if ours["model.weights_sha256"] == theirs["model.weights_sha256"]:
        passed_over += _NAMES_OF_WEIGHTS
        if ours["engine.rounding"] is not None and ours["engine.rounding"] == theirs["engine.rounding"]:
            passed_over += _NAMES_OF_PROCESSORS
    return tuple(
        IdentityDifference(name, ours.get(name), theirs.get(name))
        for name in ours | theirs
        if ours.get(name) != theirs.get(name) and name not in passed_over
    )


def _facts(document: Mapping[str, Any]) -> dict[str, Any]:
    """What the bits depend on, by place."""
    sampling = {f"sampling.{name}": value for name, value in document["sampling"].items()}
    versions = {f"engine.versions.{name}": value for name, value in document["engine"]["versions"].items()}
    gpu = {f"engine.gpu.{name}": value for name, value in (document["engine"].get("gpu") or {}).items()}
    return {place: _at(document, place) for place in (*_NAMES_OF_WEIGHTS, *_PLACES)} | sampling | gpu | versions


def _at(document: Mapping[str, Any], place: str) -> Any:
    block, _, field = place.partition(".")
    return document[block].get(field)


def identity_summary(comparison: Comparison) -> list[IdentityCount]:
    """What differs over all items, what differs in most of them first."""
    by_name: dict[str, list[IdentityDifference]] = {}
    for item in comparison.items:
        for difference in item.identity:
            by_name.setdefault(difference.name, []).append(difference)
    counts = [_count(name, found) for name, found in by_name.items()]
    return sorted(counts, key=lambda count: -count.items)


def _count(name: str, found: list[IdentityDifference]) -> IdentityCount:
    first = found[0]
    if all(other == first for other in found):
        return IdentityCount(name, first.expected, first.got, len(found))
    return IdentityCount(name, None, None, len(found))
