"""What tells speech from silence in a call's two sides: their energy, or Silero's model where it is installed."""

import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from personaplex.core.audio.activity import recorded_speech, sounding
from personaplex.core.audio.power import WINDOWS, window_power
from personaplex.core.audio.reading import Samples, part_of
from personaplex.core.errors import UsageError
from personaplex.core.measures.tracks import Mask
from personaplex.runs.measures.recordings import Recording

_SILERO_RATE, _SILERO_CHUNK = 16_000, 512  # as the model takes it
_SILERO_BEGINS, _SILERO_ENDS = 0.5, 0.35  # its authors' own thresholds

Vad = Callable[[Recording], Mask]
"""Tells in which windows of a side there is speech."""


@dataclass(frozen=True)
class Ear:
    """What tells speech from silence: its name, and how it hears the agent's clean WAV and a caller's recording."""

    name: str
    agent: Vad
    caller: Vad


def _agent_energy(side: Recording) -> Mask:
    return sounding(_power(side))


def _caller_energy(side: Recording) -> Mask:
    return recorded_speech(_power(side))


def _power(side: Recording) -> NDArray[np.float64]:
    return window_power(side.path, channel=side.channel, offset=side.offset, duration=side.duration)


ENERGY = Ear("energy", _agent_energy, _caller_energy)


def silero() -> Ear:
    """Silero's VAD for both sides; raises UsageError where it is not installed."""
    try:
        import torch

        threads = torch.get_num_threads()
        from silero_vad import load_silero_vad

        torch.set_num_threads(threads)  # importing it takes all but one away
    except ImportError as error:
        what = "--vad silero needs the package silero-vad, which is not installed"
        raise UsageError(what, "install it with `pip install 'personaplex[vad]'`, or use --vad energy") from error
    own, loading = threading.local(), threading.Lock()

    def heard(side: Recording) -> Mask:
        if not hasattr(own, "model"):  # a model keeps what it heard, so each thread has its own
            with loading, warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of TorchScript, which is how it comes
                own.model = load_silero_vad()
        own.model.reset_states()
        return _speech(*_chances(side, own.model))

    return Ear("silero", heard, heard)


def _chances(side: Recording, model: Any) -> tuple[NDArray[np.float64], int]:
    """How likely there is speech in each chunk of a side, `[C]`, and how many windows it lasts."""
    import torch

    found: list[float] = []
    kept, samples = np.zeros(0, np.float32), 0
    with (
        part_of(side.path, channel=side.channel, offset=side.offset, duration=side.duration, rate=_SILERO_RATE) as (
            _,
            blocks,
        ),
        torch.inference_mode(),
    ):
        for block in blocks:
            kept, samples = np.concatenate([kept, block]), samples + len(block)
            whole = len(kept) // _SILERO_CHUNK * _SILERO_CHUNK
            found += _heard(kept[:whole], model)
            kept = kept[whole:]
        found += _heard(np.pad(kept, (0, -len(kept) % _SILERO_CHUNK)), model)
    return np.array(found), -(-samples * WINDOWS // _SILERO_RATE)


def _heard(samples: Samples, model: Any) -> list[float]:
    """How likely there is speech in each chunk of `[C * 512]` samples at 16 kHz."""
    import torch

    return [float(model(chunk, _SILERO_RATE)) for chunk in torch.from_numpy(samples).reshape(-1, _SILERO_CHUNK)]


def _speech(chances: NDArray[np.float64], windows: int) -> Mask:
    """The windows with speech: it begins at the first of Silero's thresholds, and ends below the second."""
    speech, going = np.zeros(len(chances), bool), False
    for number, chance in enumerate(chances):
        going = chance >= (_SILERO_ENDS if going else _SILERO_BEGINS)
        speech[number] = going
    middles = (np.arange(windows) + 0.5) / WINDOWS * _SILERO_RATE / _SILERO_CHUNK
    return speech[np.minimum(middles.astype(np.int64), len(speech) - 1)]
