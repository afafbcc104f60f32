"""A fleet of processes as users hold it: commands go to the coordinator, rows to the regions; results come from the
store. No Spark here.

    fleet = connect("file:/data/fleet")          # the token: GODWIT_FLEET_TOKEN, or the one `godwit up` has made
    fleet.submit("SELECT ...", "busy")
    fleet.push("passengers", rows, device="t7", sequence=12)
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from godwit import errors
from godwit.api.key_names import as_keys
from godwit.api.options import AHEAD, check_changes
from godwit.api.query_versions import executions
from godwit.control.commands import (
    Alter,
    ChangeTopology,
    Command,
    Connect,
    Declare,
    MigrateKeys,
    PlaceByHand,
    Replace,
    Replan,
    Submit,
    Withdraw,
)
from godwit.delivery.archive import gathered
from godwit.errors import (
    DeploymentError,
    ElsewhereError,
    GodwitError,
    NotAttachedError,
    SourceError,
    StoreAwayError,
)
from godwit.ids import DeviceId, QueryId, RegionId, SiteId, StreamId
from godwit.ingest.batches import as_table, together
from godwit.ingest.pipeline import WINDOW, Pipeline
from godwit.model.change_text import as_changes
from godwit.model.changes import Change, DeviceMoved, LinkAdded, SiteAdded
from godwit.model.codec import decode
from godwit.model.deployment import Deployment
from godwit.model.plan import QUERY, Column, Query, Stream
from godwit.model.topology import Topology
from godwit.process.members import COORDINATOR, ProcessMember, member, region_document, region_members
from godwit.process.wire import TOKEN, Head, WireCaller, WireError, token_of
from godwit.sql.hinted import hinted
from godwit.storage import names
from godwit.storage.by_query import may_hold
from godwit.storage.command_log import CommandLog
from godwit.storage.epoch_log import Control
from godwit.storage.names import regions_of
from godwit.storage.open_store import folder_of, is_folder, open_store

#: how often whoever waits looks (seconds)
LOOK_EVERY = 0.02
TOKEN_FILE = "token"


def connect(url: str | Path, token: str | None = None) -> ConnectedFleet:
    """A running fleet, by the URL of its store."""
    return ConnectedFleet(url, token or known_token(folder_of(url) / "run" if is_folder(url) else None))


def known_token(run: Path | None) -> str:
    """From the environment or, of a fleet that `godwit up` has started, from its folder for logs."""
    file = None if run is None else run / TOKEN_FILE
    if TOKEN not in os.environ and file is not None and file.exists():
        return file.read_text().strip()
    return token_of(os.environ)


class ConnectedFleet:
    """Not thread-safe: one a thread."""

    def __init__(self, url: str | Path, token: str) -> None:
        self.url, self.store, self.token = url, open_store(url), token
        self.commands, self._control = CommandLog(self.store, must_exist=True), Control(self.store)
        self._callers: dict[str, WireCaller] = {}
        self._number = 0
        self._deployment = Deployment()

    # --- what is published

    @property
    def deployment(self) -> Deployment:
        if self._number == 0:
            self._number, self._deployment = self._control.oldest()
        if self.store.floor(names.CONTROL) > self._number + 1:  # epochs that this client has not seen are gone
            self._number, self._deployment = self._control.oldest()
        for number, deployment, _ in self._control.after(self._number, self._deployment):
            self._number, self._deployment = number, deployment
        return self._deployment

    # --- commands

    def execute(self, command: Command, timeout: float = 60.0) -> int:
        """Write a command, and wait for its answer: the epoch that brought it, or the error."""
        return self.await_command(self.post(command), timeout)

    def post(self, command: Command) -> int:
        """Write a command; its number."""
        number = self.commands.append(command)
        with contextlib.suppress(GodwitError, OSError):
            self._caller(COORDINATOR).send({"do": "command"})
        return number

    def await_command(self, number: int, timeout: float = 60.0) -> int:
        answer = self.commands.await_answer(number, timeout)
        if answer is None:
            msg = f"command {number} has no answer after {timeout:g} s: is the coordinator running? It stays in the log"
            raise DeploymentError(msg)
        if not answer.taken:
            kind = getattr(errors, answer.error, DeploymentError)
            raise (kind if issubclass(kind, GodwitError) else DeploymentError)(answer.message)
        assert answer.epoch is not None
        self.store.refresh(names.CONTROL)  # who has the answer sees what it says
        return answer.epoch

    def stream(
        self,
        name: str,
        schema: str,
        *,
        time: str = "ts",
        device: str | None = None,
        disorder: str | None = None,
        idle: str | None = None,
        ahead: str | None = AHEAD,
        site: str | None = None,
    ) -> None:
        """As `Fleet.stream`."""
        from godwit.api.options import declared_of

        roles: dict[str, Any] = {"time": time, "device": device, "disorder": disorder, "idle": idle, "ahead": ahead}
        known = self.deployment.streams
        stream: Stream = declared_of(name, self._columns(schema), known, mbps=None, **roles)
        if known.get(stream.id) != stream:
            self.execute(Declare(stream))
        if device is None:
            self.device(name, site=site, streams=[name])

    def device(self, name: str, *, site: str | None = None, streams: Sequence[str] = ()) -> None:
        self.execute(Connect(name, site, tuple(streams)))

    def submit(
        self, sql: str, name: str, *, sink: str | None = None, order: Literal["device", "none"] = "device"
    ) -> None:
        """`order`: as of `Fleet.submit`."""
        self.execute(Submit(name, hinted(sql, order=order), sink))

    def withdraw(self, name: str) -> None:
        self.execute(Withdraw(name))

    def change(self, changes: Change | str | Iterable[Change | str]) -> None:
        given = as_changes(changes)
        check_changes(given)
        self.execute(ChangeTopology(given))

    def add_topology(self, topology: Topology) -> None:
        """Sites and links that are not there yet."""
        sites = [SiteAdded(site) for site in topology.sites.values()]
        self.change([*sites, *(LinkAdded(link) for link in topology.links.values())])

    def move_device(self, device: str, site: str | None) -> None:
        self.change([DeviceMoved(DeviceId(device), SiteId(site) if site else None)])

    def ask_coordinator(self, head: Head) -> Head:
        try:
            return self._caller(COORDINATOR).call(head)[0]
        except WireError:
            self._forget(COORDINATOR)
            raise

    def ask_regions(self, head: Head) -> list[Head]:
        """What every region's process answers."""
        return list(self._of_all(head))

    def place(self, placement: Mapping[str, str], cause: str = "moved by hand") -> None:
        """Put instances (`query/operator`) on sites by hand."""
        self.execute(PlaceByHand(dict(placement), cause))

    def alter(self, name: str, sql: str) -> None:
        """As `Fleet.alter`."""
        self.execute(Alter(name, sql))

    def replan(
        self, name: str, *, order: str, strategy: str = "auto", run_out: bool = False, alone: bool = False
    ) -> None:
        """As `Fleet.replan`."""
        self.execute(Replan(name, order, strategy, run_out, alone=alone))

    def replace(self, name: str, sql: str) -> None:
        """As `Fleet.replace`."""
        self.execute(Replace(name, sql))

    def migrate(self, query: str, *, keys: str | Sequence[Any], to: str, strategy: str = "auto") -> None:
        """As `Fleet.migrate`."""
        self.execute(MigrateKeys(query, as_keys(keys), to, strategy))

    # --- rows

    def push(
        self,
        stream: str,
        rows: Any,
        *,
        device: str | None = None,
        sequence: int | None = None,
        timeout: float = 30.0,
        dead: list[dict[str, Any]] | None = None,
        unknown: dict[str, str] | None = None,
    ) -> bool:
        """Rows of one device, or of several told apart by the stream's device column, to where they are attached.

        With a `sequence` they are sent again until they are taken, once. Without, an error may mean either. `dead` is
        filled with those that did not fit, each with the reason, `unknown` with columns that the stream has not.
        """

        def told(answer: Head) -> bool:
            if dead is not None:
                dead.extend(answer["dead"])
            if unknown is not None:
                unknown.update(answer["unknown"])
            return bool(answer["taken"])

        table = as_table(stream, rows)
        head: Head = {"do": "push", "stream": stream, "device": device, "sequence": sequence}
        if device is not None:
            return told(self._push(head, table, device, timeout))
        known = self.deployment.streams.get(StreamId(stream))
        if known is None or known.device is None:
            return told(self._push(head, table, stream, timeout))
        taken = False
        senders = table.column(known.device).cast(pa.string())
        for one in pc.unique(senders).to_pylist():
            mine = table.filter(pc.equal(senders, one))
            taken = told(self._push({**head, "device": one}, mine, one, timeout)) or taken
        return taken

    def push_many(
        self,
        stream: str,
        batches: Sequence[tuple[int, Any]],
        device: str,
        dead: list[dict[str, Any]] | None = None,
        timeout: float = 30.0,
    ) -> int:
        """Numbered batches of a device, in order: one trip, and one entry of its source log, for those that are new.
        They are sent again until they are taken, once; how many were new. `dead`: see `push`."""
        taken = 0
        for group in together(stream, batches):
            head: Head = {"do": "push_many", "stream": stream, "device": device, "batches": list(group.parts)}
            answer = self._push(head, group.table, device, timeout)
            taken += int(answer["taken"])
            if dead is not None:
                dead += answer["dead"]
        return taken

    def pipeline(self, window: int = WINDOW) -> Pipeline:
        """Pushes that need not wait for each other: at most `window` of a device's are on their way."""
        workers = _Workers(self.url, self.token)
        return Pipeline(workers.push_many, window, workers.close)

    def _push(self, head: Head, rows: pa.Table, of: str, timeout: float) -> Head:
        from godwit.process.region_process import as_body

        numbered = "batches" in head or head["sequence"] is not None
        body, until, region = as_body(rows), time.monotonic() + timeout, None
        while True:
            try:
                region = region or self._home(of)
                return self._caller(region_document(region)).call(head, body)[0]
            except ElsewhereError as elsewhere:
                region = RegionId(elsewhere.region)
            except NotAttachedError:
                if time.monotonic() > until:
                    raise
                region = None
            except (WireError, StoreAwayError) as lost:
                self._forget(region_document(region or ""))
                if not numbered or time.monotonic() > until:
                    if not numbered:
                        msg = f"{lost}; whether the rows were taken is not known: push with a sequence number"
                        raise SourceError(msg) from lost
                    raise
                region = None
            time.sleep(LOOK_EVERY)

    def _home(self, device: str) -> RegionId:
        now = self.deployment
        site = now.devices.get(DeviceId(device))
        region = None if site is None else now.sites.get(site)
        if region is None:
            msg = f"device '{device}' is not attached to any site; attach it, or buffer its rows"
            raise NotAttachedError(msg)
        return region

    def close_sources(self) -> None:
        """Nothing more comes from anybody: every window closes. Whoever sends later begins again."""
        ends = [int(answer["end"]) for answer in self._of_all({"do": "end"})]
        for _ in self._of_all({"do": "close", "end": max(ends)}):
            pass

    # --- results and status

    def results(self, query: str) -> pa.Table:
        """The committed results of a query, from all regions and versions, as they were committed."""
        versions = executions(self.store, QueryId(query), self.deployment)
        found = [table for version in versions for table in self._results_of(version)]
        return pa.concat_tables(found, promote_options="permissive") if found else pa.table({})

    def _results_of(self, version: Query) -> Iterator[pa.Table]:
        for region in regions_of(self.store.disk, version.shape.key):
            for entry in gathered(self.store, region, version.shape.key).entries:
                held = (segment for segment in entry.results if may_hold(segment, version.id))
                for table in (table for segment in held for table in segment.tables(keep=False)):
                    mine = table.filter(pc.equal(table.column(QUERY), version.id))
                    yield mine.select(list(version.shape.plan.sink.columns))

    def regions(self) -> dict[RegionId, ProcessMember]:
        """The processes that were ever there."""
        return region_members(self.store)

    def status(self, waits: bool = False) -> dict[str, Head]:
        """What each process that answers says of itself. `waits`: somebody waits for all that has been pushed."""
        told: dict[str, Head] = {}
        for name in (COORDINATOR, *map(region_document, self.regions())):
            try:
                told[name], _ = self._caller(name).call({"do": "status", "waits": waits}, timeout=5.0)
            except (GodwitError, OSError) as fault:
                self._forget(name)
                told[name] = {"error": str(fault)}
        return told

    def process_available(self, timeout: float = 120.0) -> None:
        """Wait until everything that was pushed has been answered: also while a disk is full, or a server away, for
        what these have ended is tried again. DeploymentError: something has failed for good, or the time is over."""
        until, before = time.monotonic() + timeout, None
        while time.monotonic() < until:
            told = self.status(waits=True)
            failed = {name: one["failures"] for name, one in told.items() if one.get("failures")}
            if failed:
                msg = f"the fleet cannot go on: {failed}"
                raise DeploymentError(msg)
            idle = all(one.get("idle", one.get("quiet", False)) for one in told.values())
            if idle and told == before:
                return
            before = told if idle else None
            time.sleep(LOOK_EVERY)
        msg = f"the fleet was still busy after {timeout:g} s: {told}"
        raise DeploymentError(msg)

    # --- processes

    def _columns(self, schema: str) -> tuple[Column, ...]:
        for answer in self._of_all({"do": "columns", "schema": schema}):
            found: tuple[Column, ...] = decode(answer["columns"])
            return found
        msg = "no region's process is running, and one is needed to read a schema; start one (`godwit region`)"
        raise DeploymentError(msg)

    def _of_all(self, head: Head) -> Iterator[Head]:
        for region, one in self.regions().items():
            if not one.left:
                yield self._caller(region_document(region)).call(head)[0]

    def _caller(self, name: str) -> WireCaller:
        if name not in self._callers:
            known = member(self.store, name)
            if known is None or known.left:
                msg = f"{name} is not running; start it (`godwit up`, `godwit region`)"
                raise WireError(msg)
            self._callers[name] = WireCaller(known.address, self.token, name)
        return self._callers[name]

    def _forget(self, name: str) -> None:
        if (caller := self._callers.pop(name, None)) is not None:
            caller.close()

    def close(self) -> None:
        for name in list(self._callers):
            self._forget(name)
        self.store.close()

    def __enter__(self) -> ConnectedFleet:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Workers:
    """Clients for the threads of a pipeline, one each."""

    def __init__(self, url: str | Path, token: str) -> None:
        self._url, self._token, self._mine = url, token, threading.local()
        self._all: list[ConnectedFleet] = []

    def push_many(
        self, stream: str, batches: Sequence[tuple[int, Any]], device: str, dead: list[dict[str, Any]]
    ) -> int:
        if not hasattr(self._mine, "fleet"):
            self._mine.fleet = ConnectedFleet(self._url, self._token)
            self._all.append(self._mine.fleet)
        fleet: ConnectedFleet = self._mine.fleet
        return fleet.push_many(stream, batches, device, dead)

    def close(self) -> None:
        for one in self._all:
            one.close()
