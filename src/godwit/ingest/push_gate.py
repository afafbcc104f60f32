"""A gate that pushes of some devices wait at for a moment, to go on by event time: the reordering buffer of a source
that goes back and forth between edges.

What it sent under the edge it has left is on its way, perhaps over a slow link; what it sends now would overtake that.
Who pushes waits, so nothing is held that is not yet in a log, and nothing can be lost here.
"""

from __future__ import annotations

import threading
import time

from godwit.ids import DeviceId


class PushGate:
    """Open, except for devices that are held."""

    def __init__(self) -> None:
        self._until: dict[DeviceId, float] = {}
        #: device -> event times of the pushes that wait
        self._waiting: dict[DeviceId, list[int]] = {}
        self._news = threading.Condition()

    def hold(self, device: DeviceId, until: float) -> None:
        """Pushes of a device wait until then (wall clock)."""
        with self._news:
            self._until[device] = max(until, self._until.get(device, 0.0))

    def holds(self, device: DeviceId) -> bool:
        return device in self._until

    def wait(self, device: DeviceId, at: int) -> None:
        """Returns when a push, whose first row is of that event time, may go on: after those of older rows."""
        with self._news:
            waiting = self._waiting.setdefault(device, [])
            waiting.append(at)
            while (left := self._until.get(device, 0.0) - time.time()) > 0 or min(waiting) < at:
                self._news.wait(max(left, 0.001))
            waiting.remove(at)
            if not waiting:
                self._until.pop(device, None)
                self._waiting.pop(device, None)
            self._news.notify_all()
