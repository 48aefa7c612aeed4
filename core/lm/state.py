"""What a call carries from one frame to the next, row by row."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from personaplex.core.config import STREAMS
from personaplex.core.nn.cache import KVCache

FREE = -1  # in `held`: the token is not forced


@dataclass
class LMState:
    """The delay line and the cache: columns up to `column` are fixed, all before it are in the cache."""

    cache: KVCache
    column: Tensor  # int64 [B, 17]: the newest column, read by the next step
    held: Tensor  # int64 [B, 17]: tokens of delayed streams waiting for the next column, or FREE

    @classmethod
    def zeros(cls, rows: int, cache: KVCache, device: torch.device) -> "LMState":
        """Idle rows: any column will do, as long as its tokens can be embedded."""
        column = torch.zeros(rows, STREAMS, dtype=torch.int64, device=device)
        return cls(cache, column, torch.full_like(column, FREE))

    def advance(self, column: Tensor, held: Tensor, active: Tensor) -> None:
        """Take the next column and what waits for the one after, in the rows of the mask `active`, bool [B].

        On the device alone: the caller counts the position in the cache on the host.
        """
        self.column.copy_(torch.where(active[:, None], column, self.column))
        self.held.copy_(torch.where(active[:, None], held, self.held))
        self.cache.length += active

    def reset(self, rows: Sequence[int]) -> None:
        """Make these rows idle."""
        self.cache.reset(rows)
        for row in rows:  # a list as an index would be copied to the device, which waits for it
            self.column[row] = 0
            self.held[row] = FREE

    def copy_row(self, row: int, source: "LMState", source_row: int) -> None:
        """Make `row` equal to a row of `source`; see `KVCache.copy_row`."""
        self.cache.copy_row(row, source.cache, source_row)
        self.column[row] = source.column[source_row]
        self.held[row] = source.held[source_row]
