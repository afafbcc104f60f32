"""Sequence numbers that another region has taken from a device before it came here: sent again, they are known.

Read from the other regions' source logs when the first numbered rows of a session come, and only what is new since
then: at first all logs there are, later those of the regions that the device has been to.
"""

from __future__ import annotations

from godwit.ids import DeviceId, RegionId, StreamId
from godwit.storage import names
from godwit.storage.store import Store


class SequenceIndex:
    """Callers hold the region's lock."""

    def __init__(self, store: Store, region: RegionId) -> None:
        self._store, self._region = store, region
        #: source log -> (how far it was read, sender -> the last number)
        self._known: dict[str, tuple[int, dict[str, int]]] = {}
        #: the last session for which other regions were asked; the last session of a device in each region
        self._asked: dict[tuple[StreamId, DeviceId], int] = {}
        self._been: dict[DeviceId, dict[RegionId, int]] = {}

    def attached(self, device: DeviceId, region: RegionId, session: int) -> None:
        """An epoch says where a device is."""
        self._been.setdefault(device, {})[region] = session

    def forget(self, device: DeviceId) -> None:
        self._been.pop(device, None)
        for key in [key for key in self._asked if key[1] == device]:
            del self._asked[key]

    def of(self, stream: StreamId, device: DeviceId, session: int) -> int | None:
        """The last number that any other region has taken; 0: none. None: they were asked in this session."""
        asked = self._asked.get((stream, device))
        if asked == session:
            return None
        been = self._been.get(device, {})
        others = self._sources(stream) if asked is None else {region for region, last in been.items() if last > asked}
        found = (self._read(names.source_log(r, stream)).get(device, 0) for r in sorted(others - {self._region}))
        newest = max(found, default=0)
        self._asked[stream, device] = session
        return newest

    def _sources(self, stream: StreamId) -> set[RegionId]:
        return {region for region, fed in names.sources(self._store.disk) if fed == stream}

    def _read(self, name: str) -> dict[str, int]:
        log = self._store.log(name)  # (which asks how far it goes now: hearsay is not enough here)
        if name not in self._known:
            folded = self._store.get_document(f"{name}/folded") or {"sequence": {}}
            self._known[name] = (log.first - 1, dict(folded["sequence"]))
        read, found = self._known[name]
        for number, record in log.after(read):
            read = number
            for sender, sequence in record["sequence"].items():
                found[sender] = max(found.get(sender, 0), sequence)
        self._known[name] = (read, found)
        return found
