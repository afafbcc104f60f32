"""Python's search for garbage in cycles, where regions or the control plane run: seldom.

By default it looks through what is new after every 700 objects, and through everything whenever a quarter is new. Many
small micro-batches make many objects, nearly all of which go without it, and a fleet keeps many more: with 32 shapes
the search took 14 % of the processor time, 0.2 s at a time in which no region did anything (docs/results/latency.md).
Planning for 80,000 devices took 30 s of processor time with it, and 16 s without.
"""

from __future__ import annotations

import gc

USUAL, SELDOM = (700, 10, 10), (50_000, 20, 20)


def search_seldom() -> None:
    """Unless the program has chosen something itself."""
    if gc.get_threshold() == USUAL:
        gc.set_threshold(*SELDOM)
