"""The figures that measures give: the names that they go by, and how each is made of calls."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from personaplex.core.measures.events import Kind, events_of, sides_of
from personaplex.core.measures.pooled import (
    Figure,
    Measured,
    Pool,
    Pooled,
    per_minute,
    quantile,
    seconds_per_minute,
    success_rate,
    talk_share,
    words_per_minute,
)
from personaplex.core.measures.tracks import Track


class Unit(StrEnum):
    """What a figure is counted in."""

    per_minute = "a minute"
    seconds_per_minute = "s a minute"
    seconds = "s"
    share = "%"


class Of(StrEnum):
    """Whose a figure is: each side's own, that of a side that listens, or of both together."""

    side = "side"
    listener = "listener"
    both = "both"
    either = "either"
    """Of each side and of both."""


@dataclass(frozen=True)
class Definition:
    """How a figure is made: whose it is, in which unit."""

    pool: Pool
    of: Of
    unit: Unit


_PER, _SECONDS = Unit.per_minute, Unit.seconds_per_minute

DEFINITIONS: dict[str, Definition] = {
    "talk_share": Definition(talk_share, Of.side, Unit.share),
    "words_per_minute": Definition(words_per_minute, Of.side, _PER),
    "units_per_minute": Definition(per_minute(Kind.unit), Of.side, _PER),
    "speech_seconds_per_minute": Definition(seconds_per_minute(Kind.unit), Of.side, _SECONDS),
    "pauses_per_minute": Definition(per_minute(Kind.pause), Of.side, _PER),
    "pause_seconds_per_minute": Definition(seconds_per_minute(Kind.pause), Of.side, _SECONDS),
    "gaps_per_minute": Definition(per_minute(Kind.gap), Of.both, _PER),
    "gap_seconds_per_minute": Definition(seconds_per_minute(Kind.gap), Of.both, _SECONDS),
    "overlaps_per_minute": Definition(per_minute(Kind.overlap), Of.both, _PER),
    "overlap_seconds_per_minute": Definition(seconds_per_minute(Kind.overlap), Of.both, _SECONDS),
    "dead_air_per_minute": Definition(per_minute(Kind.dead_air), Of.both, _PER),
    "dead_air_seconds_per_minute": Definition(seconds_per_minute(Kind.dead_air), Of.both, _SECONDS),
    "transfer_offset_median": Definition(quantile(Kind.transfer, 0.5), Of.either, Unit.seconds),
    "transfer_offset_p10": Definition(quantile(Kind.transfer, 0.1), Of.either, Unit.seconds),
    "transfer_offset_p90": Definition(quantile(Kind.transfer, 0.9), Of.either, Unit.seconds),
    "response_rate": Definition(success_rate(Kind.response), Of.listener, Unit.share),
    "response_latency_median": Definition(quantile(Kind.response, 0.5), Of.listener, Unit.seconds),
    "response_latency_p10": Definition(quantile(Kind.response, 0.1), Of.listener, Unit.seconds),
    "response_latency_p90": Definition(quantile(Kind.response, 0.9), Of.listener, Unit.seconds),
    "takeover_rate": Definition(success_rate(Kind.takeover), Of.listener, Unit.share),
    "interruptions_per_minute": Definition(per_minute(Kind.interruption), Of.side, _PER),
    "yield_rate": Definition(success_rate(Kind.yielding), Of.listener, Unit.share),
    "yield_latency_median": Definition(quantile(Kind.yielding, 0.5), Of.listener, Unit.seconds),
    "backchannels_per_minute": Definition(per_minute(Kind.backchannel), Of.side, _PER),
}
"""Every figure by its base name; that of a side has its name behind a dot, such as `talk_share.agent`."""


def measure(one: Track, other: Track, duration: float) -> Measured:
    """The events of a call of two tracks that lasts `duration` seconds; ValueError for tracks of one name."""
    sides = sides_of(one, other)
    return Measured(
        duration=duration,
        sides=(one.name, other.name),
        listening=tuple(side.name for side in sides if side.track.listens),
        words={side.name: None if side.track.words is None else len(side.track.words) for side in sides},
        events=events_of(*sides),
    )


def pooled(calls: Sequence[Measured]) -> dict[str, Pooled]:
    """What calls add to every figure, by its full name; nothing of no calls."""
    return {_full(name, side): DEFINITIONS[name].pool(calls, side) for name, side in _names(calls)}


def figures(calls: Sequence[Measured]) -> dict[str, Figure]:
    """Every figure of calls taken together."""
    return {name: part.figure for name, part in pooled(calls).items()}


def _names(calls: Sequence[Measured]) -> Iterator[tuple[str, str | None]]:
    sides = list(dict.fromkeys(side for call in calls for side in call.sides))
    listening = {side for call in calls for side in call.listening}
    for name, definition in DEFINITIONS.items() if calls else ():
        if definition.of in (Of.both, Of.either):
            yield name, None
        if definition.of is not Of.both:
            yield from ((name, side) for side in sides if definition.of is not Of.listener or side in listening)


def _full(name: str, side: str | None) -> str:
    return name if side is None else f"{name}.{side}"


def parted(name: str) -> tuple[str, str | None]:
    """The base name of a figure, and the side that it is of; raises ValueError for a name that no figure has."""
    base, dot, side = name.partition(".")
    definition = DEFINITIONS.get(base)
    if definition is None:
        raise ValueError(f'there is no measure "{base}"')
    fits = definition.of is not Of.both if side else not dot and definition.of in (Of.both, Of.either)
    if not fits:
        form = base if definition.of is Of.both else f"{base}.agent"
        raise ValueError(f'there is no measure "{name}"; {form} is one')
    return base, side or None
