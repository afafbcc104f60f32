"""What is known of each source: its clock, session and region, and the sequence numbers that came through.

All of it can be made again from the source logs. Entries that are no longer kept leave it in the log's `folded` file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from godwit.ids import DeviceId, RegionId, StreamId
from godwit.protocol.watermarks import NEVER, Mark
from godwit.storage.log import Log, Record
from godwit.storage.names import source_log
from godwit.storage.store import Store


@dataclass
class SourceState:
    """What is known of one device's rows of one stream."""

    clock: int = NEVER
    session: int = 1
    region: RegionId | None = None
    #: see `Mark`
    turn: int = 0
    #: the greatest event time so far; after a restart, as far as its clock had come
    newest: int = NEVER
    #: the device has left; the number of the entry that says so in its region's log, or of a later one
    left: int | None = None

    @property
    def mark(self) -> Mark:
        return Mark(self.session, self.clock, turn=self.turn)

    def hear(self, mark: Mark, region: RegionId, entry: int) -> None:
        if (mark.session, mark.turn) < (self.session, self.turn if mark.session == self.session else 0):
            return
        goes_on = not self.mark.closed and (mark.session > self.session or mark.turn == self.turn)
        clock = max(mark.clock, self.clock) if goes_on else mark.clock
        # (the process may have died before the session that follows had an entry of its own)
        self.session, self.clock, self.region, self.turn = mark.following or mark.session, clock, region, mark.turn
        self.left = entry if mark.left else None
        self.newest = max(self.newest, clock)

    def advance(self, session: int, region: RegionId, clock: int, newest: int) -> None:
        """It has sent rows, or said how far it has come; if it was closed, it begins again."""
        if self.mark.closed:
            self.begin_again()
        self.session, self.region, self.clock = session, region, max(self.clock, clock)
        self.newest = max(self.newest, newest)

    def close(self, end: int) -> None:
        self.turn, self.clock = self.turn + 1, end

    def begin(self, session: int, region: RegionId) -> None:
        """It attaches for the first time, or after it had left."""
        self.session, self.region, self.clock, self.turn, self.left = session, region, NEVER, 0, None

    def begin_again(self) -> None:
        """Its clock is what it sends from now on: after it was closed, or because its clock was wrong."""
        self.turn, self.clock = self.turn + (1 if self.mark.closed else 2), NEVER


@dataclass
class StreamState:
    """One stream's devices, and the last sequence number of each sender."""

    devices: dict[DeviceId, SourceState] = field(default_factory=dict)
    #: a device's name, or "feeder|device" where a feeder sends a device's rows -> the last that came through
    sequences: dict[str, int] = field(default_factory=dict)
    #: the greatest event time of devices that are forgotten
    newest: int = NEVER
    #: when the newest entry entered the fleet (seconds)
    entered: float = 0.0

    def take(self, record: Record, region: RegionId, entry: int) -> None:
        for name, told in record["marks"].items():
            self.devices.setdefault(DeviceId(name), SourceState()).hear(Mark.from_json(told), region, entry)
        for name, number in record["sequence"].items():
            self.sequences[name] = max(self.sequences.get(name, 0), number)

    def forget(self, device: DeviceId) -> None:
        """The device has left, and its state is no longer needed: if it returns, it begins again."""
        known = self.devices.pop(device, None)
        self.newest = max(self.newest, known.newest if known is not None else NEVER)
        for sender in [s for s in self.sequences if sender_device(s) == device]:
            del self.sequences[sender]


def sender_device(sender: str) -> DeviceId:
    """The device whose rows a sender sends: itself, or the one that "feeder|device" names."""
    return DeviceId(sender.rpartition("|")[2])


def remembered(
    store: Store, regions: Iterable[RegionId], stream: StreamId, known: Callable[[DeviceId], bool]
) -> StreamState:
    """What the source logs of a stream say of devices that are `known`, after a restart."""
    state = StreamState()
    for region in regions:
        log = store.log(source_log(region, stream))
        folded = _folded(store, log)
        state.newest = max(state.newest, folded["newest"])
        state.entered = max(state.entered, folded.get("entered", 0.0))
        state.take(folded, region, log.first - 1)
        for number, record in log.after(log.first - 1):
            state.take(record, region, number)
            state.entered = max(state.entered, record["entered"])
    for device in {*state.devices, *map(sender_device, state.sequences)}:
        if not known(device):
            state.forget(device)
    return state


def fold_marks(store: Store, log: Log, below: int, known: Callable[[DeviceId], bool]) -> None:
    """Keep what the entries below a number say of devices that are `known`, before the entries go."""
    if below <= log.first:
        return
    folded = _folded(store, log)
    for number, record in log.after(log.first - 1):
        if number >= below:
            break
        # Later marks say more than earlier ones of the same device, so the last one is enough.
        folded["marks"].update(record["marks"])
        folded["sequence"].update(record["sequence"])
        folded["entered"] = max(folded.get("entered", 0.0), record["entered"])
    for name in [name for name in folded["marks"] if not known(DeviceId(name))]:
        folded["newest"] = max(folded["newest"], Mark.from_json(folded["marks"].pop(name)).clock)
    for sender in [sender for sender in folded["sequence"] if not known(sender_device(sender))]:
        del folded["sequence"][sender]
    store.put_document(f"{log.name}/folded", folded)


def _folded(store: Store, log: Log) -> Record:
    return store.get_document(f"{log.name}/folded") or {"marks": {}, "sequence": {}, "newest": NEVER}
