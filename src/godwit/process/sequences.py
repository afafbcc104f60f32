"""Sequence numbers that another region has taken from a device before it came here: sent again, they are known.

Read from the other regions' source logs when a device's first numbered rows come, and only what is new since then.
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

    def of(self, stream: StreamId, device: DeviceId) -> int:
        """The last number that any other region has taken; 0: none."""
        others = [region for region, fed in names.sources(self._store.disk) if fed == stream and region != self._region]
        return max((self._read(names.source_log(region, stream)).get(device, 0) for region in others), default=0)

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
