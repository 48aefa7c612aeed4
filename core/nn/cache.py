"""Keys and values of a transformer stack: a ring for every row, each row with a length of its own."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

READ_BLOCK = 128


@dataclass
class KVCache:
    """Position p of a row lies in slot p mod S. With S = window, a full ring holds just what the next query may see.

    `filled` is `length` on the host, so that choosing what to read never waits for the device.
    """

    keys: Tensor  # [layers, B, H, S, head_dim]
    values: Tensor  # [layers, B, H, S, head_dim]
    length: Tensor  # int64 [B]: positions written since the row's reset
    filled: list[int]

    @classmethod
    def zeros(
        cls, layers: int, rows: int, heads: int, slots: int, head_dim: int, device: torch.device, dtype: torch.dtype
    ) -> "KVCache":
        """An empty cache of `rows` rows."""
        shape = (layers, rows, heads, slots, head_dim)
        keys = torch.zeros(shape, device=device, dtype=dtype)
        length = torch.zeros(rows, device=device, dtype=torch.int64)
        return cls(keys, torch.zeros_like(keys), length, [0] * rows)

    @property
    def rows(self) -> int:
        """B, the number of rows."""
        return self.keys.shape[1]

    @property
    def slots(self) -> int:
        """S, the ring's size."""
        return self.keys.shape[3]

    @property
    def read(self) -> int:
        """Ring slots that hold all that the next position of any row sees: whole blocks, or the ring."""
        longest = max(self.filled) + 1
        return min(-(-longest // READ_BLOCK) * READ_BLOCK, self.slots)

    def advance(self, steps: int, active: Sequence[bool]) -> None:
        """Count `steps` written positions in the active rows."""
        self.count(steps, active)
        self.length += steps * torch.tensor(active, device=self.length.device)

    def count(self, steps: int, active: Sequence[bool]) -> None:
        """The host's half of `advance`, for a caller that has moved `length` on the device."""
        self.filled = [n + steps if on else n for n, on in zip(self.filled, active, strict=True)]

    def reset(self, rows: Sequence[int]) -> None:
        """Empty these rows. Their old keys stay in memory, but nothing reads past a row's length."""
        for row in rows:
            self.filled[row] = 0
            self.length[row] = 0

    def copy_row(self, row: int, source: "KVCache", source_row: int) -> None:
        """Make `row` equal to a row of `source`, whose ring may be smaller as long as it has not wrapped.

        Raises ValueError where positions would land in other slots.
        """
        length = source.filled[source_row]
        if length > source.slots != self.slots or length > self.slots != source.slots:
            raise ValueError(f"{length} positions in a ring of {source.slots} do not fit one of {self.slots}")
        used = min(length, source.slots)
        self.keys[:, row, :, :used] = source.keys[:, source_row, :, :used]
        self.values[:, row, :, :used] = source.values[:, source_row, :, :used]
        self.filled[row] = length
        self.length[row] = length
