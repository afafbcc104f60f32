"""The control side of a played trace: changes queue and are taken batch by batch, while the rows go on.

A batch of changes is *in force* once every region works under its epoch. Rows of a device that has moved wait on the
device until the control plane has taken its move in: no link leads from it to where it was.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from godwit.api.fleet import Fleet
from godwit.ids import DeviceId, SiteId
from godwit.mobility.driver import Cue, FleetTarget
from godwit.model.changes import DeviceMoved


@dataclass
class Batch:
    """One batch of changes, with the wall times (seconds) at which it arrived, was begun and was in force."""

    arrived: float
    moves: list[Cue] = field(default_factory=list)
    began: float | None = None
    in_force: float | None = None


@dataclass(frozen=True)
class Handled:
    """One reconfiguration: seconds of placing, and of everything else until all regions had acknowledged."""

    at: float
    batches: int
    placement: float
    deployment: float


class QueueTarget(FleetTarget):
    """A fleet whose changes are carried out by a thread of their own."""

    def __init__(self, fleet: Fleet, device_column: str) -> None:
        super().__init__(fleet)
        self._column = device_column
        self.batches: list[Batch] = []
        self.handled: list[Handled] = []
        self.failure: BaseException | None = None
        self._waiting: list[Batch] = []
        self._held: dict[str, list[pa.Table]] = {}
        self._stream, self._where = "", dict[str, str]()
        self._news, self._ending = threading.Condition(), False
        #: whoever holds rows back or lets them go
        self._rows = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="reconfigure", daemon=True)
        self._thread.start()

    # --- what the driver tells

    def move(self, moves: Sequence[Cue]) -> None:
        with self._news:
            batch = Batch(time.time(), list(moves))
            self.batches.append(batch)
            self._waiting.append(batch)
            self._news.notify()

    def push(self, stream: str, rows: pa.Table, where: Mapping[str, str]) -> None:
        with self._rows:
            self._stream, self._where = stream, dict(where)
            behind = [d for d, site in where.items() if d in self._held or self._known(d) != site]
            if behind:
                waits = pc.is_in(rows.column(self._column), pa.array(behind))
                for device in behind:
                    self._hold(device, rows.filter(waits))
                rows = rows.filter(pc.invert(waits))
            if rows.num_rows:
                self._fleet.push(stream, rows)

    def tell(self, stream: str, clocks: Mapping[str, int]) -> None:
        """Devices that hold rows back cannot say that nothing older will follow."""
        with self._rows:
            free = {DeviceId(d): c for d, c in clocks.items() if d not in self._held}
            self._fleet.tell_time(stream, free)

    def _known(self, device: str) -> str | None:
        """Where the control plane takes the device to be."""
        return self._fleet.deployment.devices.get(DeviceId(device))

    def _hold(self, device: str, rows: pa.Table) -> None:
        mine = rows.filter(pc.equal(rows.column(self._column), device))
        if mine.num_rows:
            self._held.setdefault(device, []).append(mine)

    # --- the thread

    def _run(self) -> None:
        try:
            while (batches := self._next()) is not None:
                self._carry_out(batches)
        except BaseException as error:
            self.failure = error

    def _next(self) -> list[Batch] | None:
        with self._news:
            self._news.wait_for(lambda: self._waiting or self._ending)
            batches, self._waiting = self._waiting, []
            return batches or None

    def _carry_out(self, batches: list[Batch]) -> None:
        began = time.time()
        last = {cue.device: cue.site for batch in batches for cue in batch.moves}
        self._fleet.change([DeviceMoved(DeviceId(d), SiteId(s) if s else None) for d, s in last.items()])
        self._let_go()
        self._fleet.control.rest()
        now = time.time()
        story = self._fleet.history.last
        planned = 0.0 if story is None else story.phases.get("plan", 0.0)
        self.handled.append(Handled(began, len(batches), planned, now - began - planned))
        for batch in batches:
            batch.began, batch.in_force = began, now

    def _let_go(self) -> None:
        """Devices are where the control plane knows them to be: what they held back goes out."""
        with self._rows:
            there = [d for d in self._held if self._known(d) == self._where.get(d)]
            tables = [table for device in there for table in self._held.pop(device)]
            if tables:
                self._fleet.push(self._stream, pa.concat_tables(tables))

    def end(self, timeout: float = 120.0) -> None:
        """Carry out what still waits, and stop."""
        with self._news:
            self._ending = True
            self._news.notify()
        self._thread.join(timeout)
        if self.failure is not None:
            raise self.failure
