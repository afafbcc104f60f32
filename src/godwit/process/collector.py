"""Python's search for garbage in cycles, where the control plane runs alone: seldom.

By default it looks through what is new after every 700 objects, and through everything whenever a quarter is new. A
control plane keeps millions of objects for good: planning for 80,000 devices took 30 s of processor time with that, and
16 s without. Not where Spark runs: objects of Java's that cycles keep would stay until its heap is full.
"""

from __future__ import annotations

import gc

USUAL, SELDOM = (700, 10, 10), (50_000, 20, 20)


def search_seldom() -> None:
    """Unless the program has chosen something itself."""
    if gc.get_threshold() == USUAL:
        gc.set_threshold(*SELDOM)
