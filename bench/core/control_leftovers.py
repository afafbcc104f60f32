"""Leftovers of the control plane: what 10,000 submit / withdraw and attach / leave cycles leave in memory and on disk.

Commands, control loop, coordinator, planner, epoch log and history are as in a running fleet; the runners are left out
(as in `device_move.py`), so that 10,000 cycles take minutes. What runners and sources leave behind: `leftovers.py`.
"""

from __future__ import annotations

import gc
import statistics
import tempfile
import threading
import types
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.control_plane.world import FAN_OUT, MINUTE, READINGS, STREAM
from bench.core.device_move import NoRunners
from godwit.api.control_loop import ControlLoop
from godwit.api.executor import Executor
from godwit.control.commands import ChangeTopology, Command, Connect, Submit, Withdraw
from godwit.control.control_plane import ControlPlane
from godwit.control.events import (
    ChangesArrived,
    DeviceFeeds,
    DevicesForgotten,
    Event,
    QuerySubmitted,
    QueryWithdrawn,
    StreamDeclared,
)
from godwit.ids import DeviceId, QueryId, SiteId
from godwit.ingest.gateway import Gateway
from godwit.maintenance.housekeeping import MANY_EPOCHS
from godwit.model.changes import DeviceAdded, DeviceRemoved, LinkAdded, SiteAdded
from godwit.model.topology import Device, Topology
from godwit.observe.history import History
from godwit.observe.tracker import ReconfigurationTracker
from godwit.region.runner import Limits
from godwit.storage.chunk import Chunk
from godwit.storage.command_log import CommandLog
from godwit.storage.epoch_log import Control
from godwit.storage.names import HISTORY
from godwit.storage.store import Store
from godwit.testing import queries
from godwit.testing.topologies import levels

#: growth per cycle that is still called flat
FLAT = {"items": 0.01, "files": 0.01, "folder_bytes": 50.0}
#: so many cycles lie between two passes of housekeeping
PASS_EVERY = 25
#: after so many cycles all that is bounded by a number (commands) has reached it
WARM = 100


class ControlCycles:
    """A control plane on disk that queries and devices come to and leave again."""

    def __init__(self, root: Path, sites: int = 100) -> None:
        self.root = root
        events = deque[Event]()
        store = Store.local(root)
        pool = NoRunners(None, store, Limits(), lambda moment: None, ())  # type: ignore[arg-type]
        tracker = ReconfigurationTracker(History(store), lambda instance, epoch: None)
        parts = (pool, tracker, threading.RLock(), events.append)
        self.log = Control(store)
        self.executor = Executor(ControlPlane(Topology()), self.log, Gateway(store), *parts)
        waits = (events, threading.Condition(), 10.0)
        self.loop = ControlLoop(self.executor, CommandLog(store), self._carry_out, pool, *waits)
        ground, self.edges = levels(sites, FAN_OUT)
        self.loop.ask(StreamDeclared(STREAM))
        stays = DeviceAdded(Device(DeviceId("stays"), self.edges[0]))
        self.loop.ask(
            ChangesArrived((*map(SiteAdded, ground.sites.values()), *map(LinkAdded, ground.links.values()), stays))
        )
        self.loop.ask(DeviceFeeds(DeviceId("stays"), (READINGS,)))
        self._submit("stays")

    def run(self, number: int) -> None:
        """A device comes, a query begins; the query ends, the device leaves."""
        device = DeviceId(f"d{number}")
        self.loop.execute(Connect(device, self.edges[number % len(self.edges)], (READINGS,)))
        self.loop.execute(Submit(f"q{number}", str(number)))
        self.loop.execute(Withdraw(f"q{number}"))
        self.loop.execute(ChangeTopology((DeviceRemoved(device),)))
        if (number + 1) % PASS_EVERY == 0:
            self._keep_house()

    def _submit(self, name: str, over: str = "-1") -> None:
        self.loop.ask(QuerySubmitted(queries.aggregate(name, STREAM, None, over, MINUTE)))

    def _keep_house(self) -> None:
        """As the housekeeper does when all regions have read everything."""
        deployment = self.executor.deployment
        if gone := frozenset(deployment.stays.keys() - deployment.devices.keys()):
            self.loop.ask(DevicesForgotten(gone))
        if self.log.last - self.log.first >= MANY_EPOCHS:
            self.log.forget(self.log.last - 1)

    def _carry_out(self, command: Command, again: bool) -> None:
        match command:
            case Connect(device, site, streams):
                assert site is not None
                self.loop.ask(ChangesArrived((DeviceAdded(Device(DeviceId(device), SiteId(site))),)))
                self.loop.ask(DeviceFeeds(DeviceId(device), tuple(READINGS for _ in streams)))
            case Submit(name, over):
                self._submit(name, over)
            case Withdraw(name):
                self.loop.ask(QueryWithdrawn(QueryId(name)))
            case _:
                raise AssertionError(command)

    def sample(self) -> dict[str, int]:
        # (the history is left out: it is cut at a number of lines, which takes longer to reach than a short run lasts)
        files = [file for file in self.root.rglob("*") if file.is_file() and file.name != HISTORY]
        return {
            "items": sum(map(len, containers(self.loop))),
            "files": len(files),
            "folder_bytes": sum(file.stat().st_size for file in files),
        }


def containers(start: object) -> Iterator[Any]:
    """Every dict, list, set and tuple that can be reached from an object."""
    gc.collect()
    seen, waiting = {id(start)}, [start]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Chunk):
            continue  # where the records of a log's file lie: bounded by the length of the file
        if isinstance(one, dict | list | set | frozenset | tuple | deque):
            yield one
        for other in gc.get_referents(one):
            code = isinstance(other, type | types.ModuleType | types.CodeType | types.BuiltinFunctionType)
            if id(other) not in seen and not code:
                if isinstance(other, dict) and "__builtins__" in other:
                    continue  # a module's names, by way of a function
                seen.add(id(other))
                waiting.append(other)


def control_leftovers(cycles: int = 10_000, every: int = 500) -> dict[str, Any]:
    """Samples, and the growth per cycle of each measure once everything that has a bound has reached it."""
    with tempfile.TemporaryDirectory() as folder:
        run, samples = ControlCycles(Path(folder)), []
        for number in range(cycles):
            run.run(number)
            if (number + 1) % every == 0:
                samples.append({"cycle": number + 1, **run.sample()})
    kept = [sample for sample in samples if sample["cycle"] >= min(WARM, cycles // 2)]
    slopes = {
        name: round(statistics.linear_regression([s["cycle"] for s in kept], [s[name] for s in kept]).slope, 4)
        for name in FLAT
    }
    flat = all(slopes[name] <= limit for name, limit in FLAT.items())
    return {"cycles": cycles, "limits": FLAT, "slopes_per_cycle": slopes, "flat": flat, "samples": samples}


if __name__ == "__main__":
    print(control_leftovers())
