"""What each device sends, measured where rows enter the source logs: Mbit/s, the last half minute weighing most.

Admission plans with it in place of what was declared or guessed (`api/admission_controller.py`). A device that has been
watched for less than `WARM_S` says nothing yet: the first rows often come in a burst.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from godwit.ids import DeviceId, StreamId

#: after so long a row counts for a third of a new one
MEMORY_S = 30.0
WARM_S = 10.0


@dataclass
class _Flow:
    """A leaky sum of bytes: `held` at `at`, begun at `since`."""

    since: float
    at: float
    held: float = 0.0

    def leak(self, now: float) -> float:
        self.held *= math.exp((self.at - now) / MEMORY_S)
        self.at = now
        return self.held


class Meter:
    """One per gateway. Not thread-safe: hold the fleet's lock."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._flows: dict[tuple[StreamId, DeviceId], _Flow] = {}

    def count(self, stream: StreamId, rows: Mapping[str, int], size: int) -> None:
        """Count rows of each device, and their bytes together."""
        now, total = self._clock(), sum(rows.values())
        for device, count in rows.items():
            flow = self._flows.setdefault((stream, DeviceId(device)), _Flow(now, now))
            flow.held = flow.leak(now) + size * count / max(total, 1)

    def forget(self, devices: Collection[DeviceId]) -> None:
        """These devices are gone."""
        if devices:
            self._flows = {key: flow for key, flow in self._flows.items() if key[1] not in devices}

    def mbps(self) -> dict[tuple[StreamId, DeviceId], float]:
        """What each device sends that was watched for long enough."""
        now = self._clock()
        watched = {key: flow for key, flow in self._flows.items() if now - flow.since >= WARM_S}
        # So young a flow cannot have filled the whole memory yet.
        return {
            key: flow.leak(now) * 8e-6 / (MEMORY_S * (1 - math.exp((flow.since - now) / MEMORY_S)))
            for key, flow in watched.items()
        }
