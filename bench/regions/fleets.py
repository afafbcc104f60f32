"""The same fleet twice: regions as threads of one process over a folder, and as processes over NATS.

Rows of `d0` enter in the region `edge`, rows of `d1` in `west`; every result is committed in `cloud`. A row's event
time is when it was sent, so latency is the commit's time minus it: the clocks are those of one machine.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import numpy as np
import pyarrow as pa

from godwit.ids import RegionId, SiteId
from godwit.ingest.pipeline import Pipeline
from godwit.model.topology import Link, Site, Topology
from godwit.process.connect import ConnectedFleet
from godwit.process.fleet_file import FleetFile, RegionSpec
from godwit.process.launcher import Launcher
from godwit.process.proxy import Proxy
from godwit.storage import names
from godwit.storage.segment import Segment
from godwit.storage.store import Store
from godwit.testing.broker import LocalNats

SCHEMA = "device string, n int, ts timestamp"
SQL = "SELECT device, n, ts FROM rows WHERE n >= 0"
REGIONS = {"d0": "edge", "d1": "west"}
#: the site, and the region, where results are
RESULTS = "cloud"
Push = Callable[[str, Any, int], object]
#: (device, n) -> (when it was sent, when its result was committed), seconds
Seen = dict[tuple[str, int], tuple[float, float]]


def topology() -> Topology:
    cloud = Site(SiteId("cloud"), RegionId("cloud"), cpu=1000.0, kind="cloud")
    edges = [Site(SiteId(name), RegionId(name)) for name in REGIONS.values()]
    return Topology.of([*edges, cloud], [Link(edge.id, cloud.id, ms=1) for edge in edges])


@dataclass
class Ran:
    """A running fleet as the bench uses it."""

    push: Push
    #: pushes that need not wait for each other
    pipeline: Callable[[], Pipeline]
    store: Store
    process_available: Callable[[], None]
    #: of processes
    launcher: Launcher | None = None
    fleet: ConnectedFleet | None = None
    #: before the store, as `west` reaches it
    west: Proxy | None = None
    start_s: float = 0.0


@contextmanager
def embedded(folder: Path) -> Iterator[Ran]:
    from godwit.api.fleet import Fleet
    from godwit.engine.session import spark_session
    from godwit.maintenance.housekeeping import Retention

    # (the oracle reads all rows of the processes in the same session)
    with Fleet(folder, spark_session(memory="2g"), retention=Retention(keep=True)) as fleet:
        fleet.topology.add(topology())
        fleet.stream("rows", SCHEMA, device="device")
        for device, site in REGIONS.items():
            fleet.device(device, site=site, streams=["rows"])
        fleet.submit(SQL, "q", sink=RESULTS)
        fleet.start()
        yield Ran(
            lambda device, rows, n: fleet.push("rows", rows, device=device, sequence=n),  # type: ignore[arg-type]
            fleet.pipeline,
            fleet.store,
            fleet.process_available,
        )


@contextmanager
def processes(folder: Path, proxied: bool = False) -> Iterator[Ran]:
    """Three regions, a coordinator and NATS on loopback. `proxied`: with proxies before the regions, and between `west`
    and its store, that can cut links: they are threads of this process, and what passes them costs it time."""
    with ExitStack() as ending:
        broker = ending.enter_context(LocalNats(folder / "nats"))
        url, link = f"{broker.address}/fleet", None
        if proxied:
            link = Proxy()
            link.target = broker.address.removeprefix("nats://")
            ending.callback(link.close)
        apart = RegionSpec("west", keep=True, store=f"nats://{link.address}/fleet" if link else None)
        spec = (RegionSpec("edge", keep=True), apart, RegionSpec("cloud", keep=True))
        launcher, began = Launcher(FleetFile(url, spec, run_folder=folder / "run"), proxied=proxied), time.monotonic()
        ending.callback(launcher.down)
        launcher.up()
        started = time.monotonic() - began
        fleet = ending.enter_context(ConnectedFleet(url, launcher.token()))
        fleet.add_topology(topology())
        fleet.stream("rows", SCHEMA, device="device")
        for device, site in REGIONS.items():
            fleet.device(device, site=site, streams=["rows"])
        fleet.submit(SQL, "q", sink=RESULTS)
        yield Ran(
            lambda device, rows, n: fleet.push("rows", rows, device=device, sequence=n),
            fleet.pipeline, fleet.store, fleet.process_available, launcher, fleet, link, started,
        )  # fmt: skip


def results_of(
    store: Store, read: dict[tuple[str, str], int] | None = None, region: str | None = None
) -> Iterator[tuple[float, pa.Table]]:
    """(when they were committed, results), from what was read on; of one region: no other is looked at."""
    read = {} if read is None else read
    here = [(RegionId(region), shape) for shape in store.disk.names(f"regions/{region}/shapes")] if region else None
    for key in names.shapes(store.disk) if here is None else here:
        for number, record in store.log(names.commit_log(*key)).after(read.get(key, 0)):
            read[key] = number
            for segment in record["results"]:
                for table in Segment.from_json(segment, store).tables(keep=False):
                    yield record["metrics"]["wall"], table


class Sender:
    """Numbers rows per device; looks at commits as they come."""

    def __init__(self, ran: Ran) -> None:
        self._ran = ran
        self._sequence = dict.fromkeys(REGIONS, 0)
        self.sent = dict.fromkeys(REGIONS, 0)
        self._read: dict[tuple[str, str], int] = {}
        self.seen: Seen = {}

    def row(self, device: str, at: float | None = None) -> None:
        """One row, of now or of an earlier moment."""
        moment = dt.datetime.fromtimestamp(time.time() if at is None else at, dt.UTC)
        self._push(device, [{"device": device, "n": self.sent[device], "ts": moment}], 1)

    def pipeline(self) -> Pipeline:
        return self._ran.pipeline()

    def many(self, device: str, rows: int, pipeline: Pipeline | None = None) -> None:
        """`pipeline`: pushed without waiting for it."""
        now, first = int(time.time() * 1e6), self.sent[device]
        table = pa.table(
            {
                "device": pa.array([device] * rows),
                "n": pa.array(np.arange(first, first + rows), pa.int32()),
                "ts": pa.array(np.full(rows, now), pa.timestamp("us", "UTC")),
            }
        )
        self._push(device, table, rows, pipeline)

    def _push(self, device: str, rows: Any, count: int, pipeline: Pipeline | None = None) -> None:
        self._sequence[device] += 1
        if pipeline is None:
            self._ran.push(device, rows, self._sequence[device])
        else:
            pipeline.push("rows", rows, device=device, sequence=self._sequence[device])
        self.sent[device] += count

    def look(self) -> int:
        """How many results there are so far."""
        for wall, table in results_of(self._ran.store, self._read, RESULTS):
            at = table.column("ts").cast(pa.int64()).to_pylist()
            told = zip(table.column("device").to_pylist(), table.column("n").to_pylist(), at, strict=True)
            self.seen |= {(str(d), n): (ts / 1e6, wall) for d, n, ts in told}
        return len(self.seen)

    def wait(self, seconds: float = 60.0) -> float:
        """Until every row has its result; how long that took."""
        began = time.monotonic()
        while self.look() < sum(self.sent.values()):
            if time.monotonic() - began > seconds:
                msg = f"{len(self.seen)} of {sum(self.sent.values())} rows have a result after {seconds:g} s"
                raise AssertionError(msg)
            time.sleep(0.05)
        return time.monotonic() - began


def latency(sender: Sender, since: float, until: float, device: str | None = None) -> dict[str, float]:
    """Of rows that were sent between two moments."""
    took = [
        (done - sent) * 1000
        for (who, _), (sent, done) in sender.seen.items()
        if since <= sent < until and device in (None, who)
    ]
    return {"p50_ms": median(took), "p95_ms": quantiles(took, n=20)[18], "rows": len(took)}
