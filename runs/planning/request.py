"""A batch as its caller describes it, and what of that any calls need."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from personaplex.core.answers.outputs import OutputOptions
from personaplex.core.corpus.sources import Product
from personaplex.core.sampling.draw import Sampling
from personaplex.runs.choices import Alignment, Existing, LongAudio
from personaplex.runs.models.located import ModelOptions
from personaplex.runs.planning.outlet import Outlet


@dataclass(frozen=True)
class Defaults:
    """What stands in where a call is silent; `seed` is what its own is made of, with its id."""

    voice: str | None
    voice_folder: Path | None
    text: str
    channel: str
    seed: int


@dataclass(frozen=True)
class SourceOptions(Defaults):
    """What a batch runs over, and what stands in where a row is silent.

    `source` may be a URL. With an `outlet`, `output` is its folder, and nothing stays there.
    """

    source: str
    output: Path
    pattern: str | None
    product: Product
    mix: bool
    outlet: Outlet | None = None

    def told(self) -> AbstractContextManager[None]:
        """Make errors about files in the folder of an outlet such about what they stand for."""
        return nullcontext() if self.outlet is None else self.outlet.told()


@dataclass(frozen=True)
class CallOptions:
    """How calls are run.

    graphs: whether ticks are replayed as CUDA graphs where they can be.
    slots: calls at a time; None takes as many as fit into memory.
    """

    sampling: Sampling
    align: Alignment
    long_audio: LongAudio
    graphs: bool
    slots: int | None


@dataclass(frozen=True)
class BatchRequest(CallOptions):
    """What to run, how, and what of it.

    shard: (i, n) takes the i-th of n stable shares of the items, from 1.
    max_failures: stop when more items than that have failed; None never does.
    retry_failed: run only the items that the results have as failed.
    command: the command line that asked for it, for the record.
    """

    source: SourceOptions
    outputs: OutputOptions
    model: ModelOptions
    shard: tuple[int, int]
    existing: Existing
    max_failures: int | None
    retry_failed: bool
    command: tuple[str, ...]
