"""Which devices that have left may be forgotten: those whose rows every region has read to the end.

A region says again and again which ones it is done with, and at which epoch. What it said before a device left does not
count: it may have been there, gone, come back and left again meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, field

from godwit.ids import DeviceId, RegionId


@dataclass
class Departures:
    """Pure: fed with epochs and reports."""

    #: device -> the epoch at which it was first seen to have left
    _left: dict[DeviceId, int] = field(default_factory=dict)
    #: (region, device) -> the epoch at which the region had read all of it
    _read: dict[tuple[RegionId, DeviceId], int] = field(default_factory=dict)

    def at(self, epoch: int, departed: Set[DeviceId]) -> None:
        """Those that have left, as of an epoch."""
        self._left = {device: self._left.get(device, epoch) for device in departed}
        self._read = {key: at for key, at in self._read.items() if key[1] in departed}

    def record(self, region: RegionId, epoch: int, devices: Iterable[DeviceId]) -> None:
        for device in devices:
            self._read[region, device] = epoch

    def forgettable(self, regions: Iterable[RegionId]) -> set[DeviceId]:
        """`regions`: all that may have rows of devices."""
        regions = list(regions)
        return {
            device
            for device, left in self._left.items()
            if regions and all(self._read.get((region, device), -1) >= left for region in regions)
        }
