"""What a batch tells: its plan and its outcome, as a table or as JSON."""

import json
from dataclasses import asdict, dataclass

from personaplex.cli.console import result
from personaplex.core.config import FRAME_RATE
from personaplex.core.corpus.walking import PassedOver
from personaplex.core.faults import shown


@dataclass
class Counts:
    """How a batch went. `flagged` items hold a loop or dead air; seconds are of audio, and of the run."""

    items: int = 0
    done: int = 0
    failed: int = 0
    skipped: int = 0
    not_run: int = 0
    flagged: int = 0
    audio_seconds: float = 0.0
    seconds: float = 0.0

    @property
    def times_real_time(self) -> float:
        """Seconds of calls made in a second."""
        return self.audio_seconds / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class BatchPlan:
    """What a batch would do."""

    items: int
    skipped: int
    refused: int
    unreadable: int
    to_run: int
    frames: int
    longest_frames: int
    slots: int
    cache_bytes: int
    weights_bytes: int

    @property
    def audio_hours(self) -> float:
        """Hours of callers' audio to run."""
        return self.frames / FRAME_RATE / 3600


@dataclass(frozen=True)
class Left:
    """What a batch would not do: rows and files that can't be run, and what it passes over in a folder."""

    refused: list[str]
    unreadable: list[str]
    passed_over: PassedOver


def show_plan(plan: BatchPlan, left: Left, as_json: bool) -> None:
    """Print a plan, the first calls that would fail, and what would be passed over."""
    if as_json:
        document = asdict(plan) | {"audio_hours": round(plan.audio_hours, 4), "unreadable_files": left.unreadable}
        document |= {"refused_rows": left.refused, "passed_over": left.passed_over.document()}
        result(json.dumps(document, indent=2, ensure_ascii=False))
        return
    gib = 2**30
    result(f"items         {plan.items:,}")
    result(f"  skipped     {plan.skipped:,} (done already)")
    if plan.refused:
        result(f"  refused     {plan.refused:,} (rows or names at fault)")
    result(f"  unreadable  {plan.unreadable:,}")
    result(f"  to run      {plan.to_run:,}: {plan.audio_hours:.2f} hours of audio, {plan.frames:,} frames")
    result(f"longest call  {plan.longest_frames:,} frames, {plan.longest_frames / FRAME_RATE:.1f} s")
    result(f"memory        {plan.weights_bytes / gib:.2f} GiB of weights, about {plan.cache_bytes / gib:.2f} GiB of")
    result(f"              cache for {plan.slots} slots")
    for line in left.passed_over.lines():
        result(line)
    for text in (left.refused + left.unreadable)[:10]:
        result(f"would fail    {shown(text)}")


def show_summary(counts: Counts, passed_over: PassedOver, output: str, as_json: bool) -> None:
    """Print how a batch went, and what it passed over."""
    if as_json:
        document = asdict(counts) | {"times_real_time": round(counts.times_real_time, 2), "output": output}
        document |= {"passed_over": passed_over.document()}
        result(json.dumps(document, ensure_ascii=False))
        return
    result(f"done     {counts.done:,}")
    result(f"failed   {counts.failed:,}")
    result(f"skipped  {counts.skipped:,} (done already)")
    if counts.not_run:
        result(f"not run  {counts.not_run:,}")
    if counts.flagged:
        result(f"flagged  {counts.flagged:,} (loops or dead air: see flags in the transcripts)")
    for line in passed_over.lines():
        result(line)
    audio, spent = f"{counts.audio_seconds:,.1f} s of audio", f"{counts.seconds:,.1f} s"
    result(f"{audio} in {spent}: {counts.times_real_time:.2f} × real time; results in {output}")
