"""What one device move costs, from the command to the published epoch, on the real control path and on disk.

Command log, control loop, coordinator, epoch log, answer: all as in a running fleet. Only the runners are left out, so
that no Spark job is measured: regions acknowledge at once.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections import deque
from pathlib import Path
from random import Random
from typing import Any

from bench.control_plane.world import DEVICES_A_QUERY, FAN_OUT, READINGS, STREAM, query_of
from godwit.api.control_loop import ControlLoop
from godwit.api.executor import Executor
from godwit.control.commands import ChangeTopology, Command
from godwit.control.control_plane import ControlPlane
from godwit.control.events import ChangesArrived, DeviceFeeds, Event, QuerySubmitted, StreamDeclared
from godwit.ids import DeviceId, RegionId
from godwit.ingest.gateway import Gateway
from godwit.model.changes import DeviceAdded, DeviceMoved, LinkAdded, SiteAdded
from godwit.model.topology import Device, Topology
from godwit.observe.history import History
from godwit.observe.tracker import ReconfigurationTracker
from godwit.region.pool import RunnerPool
from godwit.region.runner import Limits
from godwit.storage.command_log import CommandLog
from godwit.storage.epoch_log import Control
from godwit.storage.store import Store
from godwit.testing.topologies import levels


class NoRunners(RunnerPool):
    """Notes which runners an epoch needs, as in a fleet, and starts none."""

    def hire(self) -> None:
        pass

    def runs(self, region: RegionId) -> bool:
        return False


def device_move(sites: int, queries: int = 1000, moves: int = 50, seed: int = 7) -> dict[str, Any]:
    """Milliseconds for one device move (p50, p95) in a topology of that size."""
    with tempfile.TemporaryDirectory() as folder:
        rng = Random(seed)
        loop, devices, edges = _control(Path(folder), sites, queries, rng)
        took = []
        for _ in range(moves + 5):
            change = ChangeTopology((DeviceMoved(rng.choice(devices), rng.choice(edges)),))
            began = time.perf_counter()
            loop.execute(change)
            took.append((time.perf_counter() - began) * 1000)
        took = sorted(took[5:])
        return {
            "sites": sites,
            "queries": queries,
            "p50_ms": round(took[len(took) // 2], 2),
            "p95_ms": round(took[int(len(took) * 0.95)], 2),
        }


def _control(root: Path, sites: int, queries: int, rng: Random) -> tuple[ControlLoop, list[DeviceId], list[Any]]:
    events, news, lock = deque[Event](), threading.Condition(), threading.RLock()
    store = Store.local(root)
    pool = NoRunners(None, store, Limits(), lambda moment: None, ())  # type: ignore[arg-type]
    tracker = ReconfigurationTracker(History(store), lambda instance, epoch: None)
    executor = Executor(ControlPlane(Topology()), Control(store), Gateway(store), pool, tracker, lock, events.append)

    def carry_out(command: Command, again: bool) -> None:
        raise AssertionError(command)

    loop = ControlLoop(executor, CommandLog(store), carry_out, pool, events, news, 10.0)
    ground, edges = levels(sites, FAN_OUT)
    devices = [DeviceId(f"d{k}") for k in range(queries * DEVICES_A_QUERY)]
    loop.ask(StreamDeclared(STREAM))
    added = [SiteAdded(s) for s in ground.sites.values()], [LinkAdded(link) for link in ground.links.values()]
    attached = [DeviceAdded(Device(device, rng.choice(edges))) for device in devices]
    loop.ask(ChangesArrived((*added[0], *added[1], *attached)))
    loop.ask(*(DeviceFeeds(device, (READINGS,)) for device in devices))
    loop.ask(*(QuerySubmitted(query_of(k, devices)) for k in range(queries)))
    return loop, devices, edges


if __name__ == "__main__":
    for size in (100, 1000, 10_000):
        print(device_move(size))
