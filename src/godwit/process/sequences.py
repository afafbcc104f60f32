"""Sequence numbers that another region has taken from a device before it came here: sent again, they are known.

Read from the other regions' source logs when the first numbered rows of a session come, and only what is new since
then: at first all logs there are, later those of the regions that the device has been to.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from godwit.ids import DeviceId, RegionId, StreamId
from godwit.storage import names
from godwit.storage.store import Store


class SequenceIndex:
    """For callers of any thread: epochs are noted while other regions' logs are read."""

    def __init__(self, store: Store, region: RegionId) -> None:
        self._store, self._region = store, region
        self._guard, self._reading = threading.Lock(), threading.Lock()
        #: source log -> (how far it was read, sender -> the last number)
        self._known: dict[str, tuple[int, dict[str, int]]] = {}
        #: the last session for which other regions were asked; the last session of a device in each region
        self._asked: dict[tuple[StreamId, DeviceId], int] = {}
        self._been: dict[DeviceId, dict[RegionId, int]] = {}

    def attached(self, device: DeviceId, region: RegionId, session: int) -> None:
        """An epoch says where a device is."""
        with self._guard:
            self._been.setdefault(device, {})[region] = session

    def forget(self, device: DeviceId) -> None:
        with self._guard:
            self._been.pop(device, None)
            for key in [key for key in self._asked if key[1] == device]:
                del self._asked[key]

    def of(self, stream: StreamId, device: DeviceId, session: int) -> int | None:
        """The last number that any other region has taken; 0: none. None: it is known in this session (`known`)."""
        with self._guard:
            asked, been = self._asked.get((stream, device)), dict(self._been.get(device, {}))
        if asked == session:
            return None
        others = self._sources(stream) if asked is None else {region for region, last in been.items() if last > asked}
        with self._reading:
            found = [self._read(names.source_log(r, stream)).get(device, 0) for r in sorted(others - {self._region})]
        return max(found, default=0)

    def known(self, stream: StreamId, device: DeviceId, session: int) -> None:
        """What `of` has found was noted: other regions need not be asked again in this session. Not before: the same
        rows may be pushed twice at once."""
        with self._guard:
            self._asked[stream, device] = session

    def _sources(self, stream: StreamId) -> set[RegionId]:
        return {region for region, fed in names.sources(self._store.disk) if fed == stream}

    def _read(self, name: str) -> dict[str, int]:
        read, found = self._known.get(name, (0, {}))
        first, last = self._store.bounds_after(name, read)  # as it is now: news of a moment ago are not enough here
        if name not in self._known or first > read + 1:  # records that were not read here are gone: folded
            folded = self._store.get_document(f"{name}/folded") or {"sequence": {}}
            _merge(found, folded["sequence"])
        for number in range(max(read + 1, first), last + 1):
            if (record := self._store.read_record(name, number)) is not None:
                _merge(found, record["sequence"])
        self._known[name] = (max(read, last), found)
        return found


def _merge(found: dict[str, int], more: Mapping[str, int]) -> None:
    for sender, sequence in more.items():
        found[sender] = max(found.get(sender, 0), sequence)
