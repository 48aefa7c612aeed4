"""Work on a GPU that is short of memory for a moment."""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import torch

from personaplex.core.errors import ModelError, PersonaplexError

Done = TypeVar("Done")


class Retry:
    """Does work for several threads; what finds too little memory is done once more, one thread after the other."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._lock = threading.Lock()

    def __call__(self, work: Callable[..., Done], *arguments: Any) -> Done:
        """What `work` returns; where memory does not suffice, what is not in use is given back before a second try."""
        with suppress(torch.OutOfMemoryError):
            return work(*arguments)
        with self._lock:  # so that those who try again don't take it from each other
            torch.cuda.empty_cache()
            return work(*arguments)

    def told(self, error: Exception) -> PersonaplexError:
        """An error of `work` as the user is told of it."""
        if isinstance(error, PersonaplexError):
            return error
        what = f"{self._device}: not enough memory left for this call beside those in the slots"
        return ModelError(what, "run it again with fewer --slots")
