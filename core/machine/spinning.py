"""How long kernels' threads wait for each other before they sleep. Imports nothing, to come before torch."""

import os


def spin_less() -> None:
    """Have threads sleep soon, unless the environment says how they wait; too late once torch is imported.

    They wait by spinning, by default so long that two processes on the same cores bring each other nearly to a stand.
    torch's OpenMP reads this when torch is imported.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "3000")
