"""A wall clock that can be set from outside: `time.time` is off by what a file says. For processes of tests.

Python runs this file before anything else if its folder is on PYTHONPATH. (libfaketime 0.9.10 moves sleeps, too, which
no jump of a wall clock does; Java's clock stays as it is.)
"""

from __future__ import annotations

import os
import time

FILE, LOOK_EVERY = "GODWIT_TEST_CLOCK", 0.05
_real, _monotonic = time.time, time.monotonic


class _Clock:
    off, next_look = 0.0, 0.0

    def __call__(self) -> float:
        if (now := _monotonic()) >= self.next_look:
            self.next_look = now + LOOK_EVERY
            with open(os.environ[FILE], encoding="utf-8") as told:
                self.off = float(told.read())
        return _real() + self.off


if FILE in os.environ:
    time.time = _Clock()
