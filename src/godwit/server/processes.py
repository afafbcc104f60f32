"""A fleet of processes (`godwit up`) as the routes see it: commands go to its coordinator, rows to its regions, results
and status come from its store. What needs Spark in this process is not there, and says so."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from godwit.api.query_aliases import QueryAliases
from godwit.api.query_versions import executions
from godwit.control.commands import Answer, ChangeTopology, Command, MigrateKeys, to_json
from godwit.delivery.archive import ArchiveEntry, Gathered, entries_in_order, gathered
from godwit.errors import DeploymentError, SourceError
from godwit.ids import DeviceId, QueryId, RegionId, StreamId
from godwit.ingest.together import Parcel
from godwit.model.codec import decode, encode
from godwit.model.deployment import Deployment
from godwit.model.instances import InstanceId
from godwit.model.plan import Column, Query, Stream
from godwit.model.topology import Topology
from godwit.observe.before_after import moved
from godwit.observe.history import newest, readable
from godwit.observe.status import Ledger, Status
from godwit.process.connect import ConnectedFleet
from godwit.process.members import region_members
from godwit.server.backend import Backend, CommandProgress, Committed, Told
from godwit.storage.epoch_log import Control, Standing
from godwit.storage.log import Segment
from godwit.storage.names import HISTORY, regions_of

#: how often the logs are looked at while there are subscribers, and how often otherwise (seconds)
LOOK_EVERY, LOOK_IDLE = 0.02, 0.25
#: a status, which reads many logs, is good for so long (seconds)
FRESH = 0.5


class ProcessBackend(Backend):
    kind = "processes"

    def __init__(self, connect: Callable[[], ConnectedFleet]) -> None:
        """`connect`: another connection to the fleet; each thread has its own."""
        self._connect, self._mine, self._all = connect, threading.local(), list[ConnectedFleet]()
        self._store = self._fleet.store
        self._ledger, self._looking = Ledger(self._store), threading.Lock()
        self._status: tuple[float, Status] | None = None
        self._standing: tuple[int, Standing] | None = None
        #: (region, shape) -> how often its old commits were merged into few files, and what is there
        self._gathered: dict[tuple[RegionId, str], Gathered] = {}
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def _fleet(self) -> ConnectedFleet:
        found: ConnectedFleet | None = getattr(self._mine, "fleet", None)
        if found is None:
            found = self._mine.fleet = self._connect()
            self._all.append(found)
        return found

    # --- what is there

    @property
    def deployment(self) -> Deployment:
        return self._fleet.deployment

    @property
    def topology(self) -> Topology:
        return self._stands.topology

    @property
    def _stands(self) -> Standing:
        """Where the control plane stands; read again when there is another epoch."""
        control, known = Control(self._store), self._standing
        if known is None or known[0] != control.last:
            known = self._standing = (control.last, control.standing())
        return known[1]

    @property
    def queries(self) -> list[QueryId]:
        return QueryAliases(self._store).names(self.deployment)

    def execution(self, query: QueryId) -> Query:
        return QueryAliases(self._store).runs(query, self.deployment)

    def executions(self, query: QueryId) -> list[Query]:
        return executions(self._store, query, self.deployment)

    def segments(self, shape: str) -> Mapping[RegionId, Sequence[Segment]]:
        found: dict[RegionId, Sequence[Segment]] = {}
        with self._looking:
            for region in sorted(regions_of(self._store.disk, shape)):
                known = gathered(self._store, region, shape, self._gathered.get((region, shape), Gathered()))
                self._gathered[region, shape] = known
                found[region] = [segment for entry in known.entries for segment in entry.results]
        return found

    def output(self, query: Query) -> tuple[Column, ...]:
        streams = encode(list(self.deployment.streams.values()))
        for answer in self._fleet.ask_regions({"do": "analyse", "streams": streams, "sql": query.oracle_sql}):
            found: tuple[Column, ...] = decode(answer["columns"])
            return found
        msg = "no region's process is running, and one is needed to check a query; start one (`godwit region`)"
        raise DeploymentError(msg)

    # --- commands

    def execute(self, command: Command) -> tuple[int, int]:
        number = self._fleet.post(command)
        return number, self._fleet.await_command(number)

    def post(self, command: Command) -> int:
        return self._fleet.post(command)

    def answer_of(self, number: int) -> Answer | None:
        return self._fleet.commands.answer_of(number)

    def known_command(self, number: int) -> bool:
        return 0 < number <= self._fleet.commands.last

    def stream(self, name: str, schema: str, **options: Any) -> Stream:
        options.pop("mbps", None)  # (admission, which it is for, is not there)
        self._fleet.stream(name, schema, **options)
        return self.deployment.streams[StreamId(name)]

    def explain_command(self, command: ChangeTopology | MigrateKeys) -> str:
        return str(self._fleet.ask_coordinator({"do": "explain", "command": to_json(command)})["text"])

    # --- rows

    def push(self, parcel: Parcel) -> bool:
        stream, rows = parcel.stream, parcel.rows
        try:
            table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(rows)
        except (pa.ArrowException, TypeError, AttributeError) as error:
            msg = f"rows of '{stream}' are not a table ({error}); each is an object with the stream's columns"
            raise SourceError(msg) from error
        device, sequence, dead, unknown = parcel.device, parcel.sequence, parcel.dead, parcel.unknown
        return self._fleet.push(stream, table, device=device, sequence=sequence, dead=dead, unknown=unknown)

    def unread(self, stream: str) -> int:
        reading = {
            query.shape.key
            for query in self.deployment.queries.values()
            if any(scan.stream == stream for _, scan in query.shape.plan.scans)
        }
        return max((one.unread for one in self.status().runners if one.shape in reading), default=0)

    def tell_time(self, stream: str, clocks: Mapping[DeviceId, int]) -> None:
        self._fleet.ask_regions({"do": "tell", "stream": stream, "clocks": dict(clocks)})

    def close_sources(self) -> None:
        self._fleet.close_sources()

    def close_device(self, device: DeviceId) -> None:
        ends = [int(answer["end"]) for answer in self._fleet.ask_regions({"do": "end"})]
        self._fleet.ask_regions({"do": "close", "devices": [device], "end": max(ends, default=0)})

    # --- looks

    def status(self) -> Status:
        with self._looking:
            if self._status is None or time.monotonic() - self._status[0] > FRESH:
                self._status = (time.monotonic(), self._ledger.status())
            return self._status[1]

    def waits(self, query: QueryId) -> list[str]:
        with self._looking:
            return self._ledger.waits(self.execution(query))

    def history(self) -> list[dict[str, Any]]:
        return newest(readable(self._store.read_lines(HISTORY)))

    def moved(self, epochs: Sequence[int]) -> list[dict[str, Any]] | None:
        return moved(Control(self._store), epochs)

    def progress(self) -> CommandProgress:
        answer = self._fleet.ask_coordinator({"do": "progress"})
        regions = {str(name): one.epoch for name, one in region_members(self._store).items() if not one.left}
        waiting = tuple(map(int, answer["waiting"]))
        return CommandProgress(self._fleet.commands.last, waiting, answer["epoch"], answer["in_force"], regions)

    def check(self) -> None:
        for name, known in self._fleet.status().items():
            if wrong := known.get("error") or known.get("failures"):
                msg = f"{name}: {wrong}"
                raise DeploymentError(msg)

    def hints(self) -> tuple[Mapping[QueryId, str], Mapping[InstanceId, str]]:
        return self._stands.sinks, self._stands.by_hand

    def process_available(self) -> None:
        self._fleet.process_available()

    # --- live

    def follow(self, committed: Committed, told: Told, listened: Callable[[], bool]) -> None:
        def run() -> None:
            at, lines = self._ends(), len(self._store.read_lines(HISTORY))
            while not self._stopping.wait(LOOK_EVERY if listened() else LOOK_IDLE):
                for region, shape, entry in self._news(at):
                    committed(region, shape, entry.results)
                written = self._store.read_lines(HISTORY) if listened() else []
                if written:
                    for record in readable(written[lines if len(written) >= lines else 0 :]):
                        told(record)
                    lines = len(written)

        self._thread = threading.Thread(target=run, name="godwit-served", daemon=True)
        self._thread.start()

    def _ends(self) -> dict[tuple[RegionId, str], int]:
        return {key: entry.number for key, entry in self._newest({})}

    def _news(self, at: dict[tuple[RegionId, str], int]) -> Iterator[tuple[RegionId, str, ArchiveEntry]]:
        for key, entry in self._newest(at):
            at[key] = entry.number
            yield *key, entry

    def _newest(self, at: Mapping[tuple[RegionId, str], int]) -> Iterator[tuple[tuple[RegionId, str], ArchiveEntry]]:
        for shape in self.deployment.shapes():
            regions = regions_of(self._store.disk, shape)
            read = {region: at.get((region, shape), 0) for region in regions}
            for region in regions:
                for one, entry in entries_in_order(self._store, region, shape, read):
                    read[one] = entry.number
                    yield (one, shape), entry

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(10)
        for one in self._all:
            one.close()
