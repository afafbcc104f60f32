"""The coordinator as a process: control loop, command log and epoch log, without Spark. Regions are other processes.

It is the control plane of an embedded fleet whose regions are elsewhere: what they report comes from their logs, and
whoever is silent for longer than the lease counts as lost until it is heard from again. It may be killed and started
again at any time; while it is away the regions go on under the last epoch.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from godwit.api.core import Elsewhere, FleetOptions
from godwit.api.migrating import asked_keys, explain_keys
from godwit.api.running import RunningFleet
from godwit.control.commands import ChangeTopology, Command, MigrateKeys, from_json
from godwit.control.events import RegionAcked, RegionBack, RegionEvacuated, RegionLost
from godwit.delivery.sinks.base import ResultSink
from godwit.errors import DeploymentError, GodwitError
from godwit.ids import DeviceId, Epoch, QueryId, RegionId, StreamId
from godwit.ingest.gateway import Gateway
from godwit.maintenance.duties import Duty
from godwit.maintenance.housekeeping import MANY_EPOCHS, Housekeeper, Swept
from godwit.maintenance.integrity import inspect
from godwit.model.codec import decode, encode
from godwit.model.deployment import Deployment
from godwit.model.plan import Column, Query, Stream
from godwit.process.departures import Departures
from godwit.process.fleet_document import FleetDocument, write_fleet_options
from godwit.process.members import Membership, ProcessMember, SilenceWatch, region_document, region_members
from godwit.process.notify import Notifier
from godwit.process.reports import ReportReader
from godwit.process.wire import Head, WireCaller, WireError
from godwit.region.legacy import PlanReport
from godwit.storage import names
from godwit.storage.names import source_log
from godwit.storage.store import Store

log = logging.getLogger(__name__)

#: how often reports and beats are looked at, should nobody have told us (seconds)
LOOK_EVERY = 0.2
#: how often logs are tried that could not be inspected at the start (seconds)
INSPECT_EVERY = 5.0
#: how often sinks are served and housekeeping is looked at (seconds)
DUTIES_EVERY = 0.05


@dataclass(frozen=True)
class CoordinatorExtras:
    """What a coordinator does beside placing queries; off unless asked for."""

    #: None: on once every site says what CPU and bandwidth it has
    admission: bool | None = None
    #: move operators when what is measured says so
    reoptimise: bool = False
    #: query -> its sinks
    sinks: Mapping[str, Sequence[ResultSink]] = field(default_factory=dict)


class RemoteGateway(Gateway):
    """Knows where the source logs of regions' processes stand; writes none."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, only=RegionId(""))
        self._declared: set[StreamId] = set()
        #: how far source logs went when they were last looked at, by an earlier process for a start
        self.known_ends = {source_log(*place.split("/", 1)): end for place, end in _known_ends(store).items()}

    def declare(self, schema: Any, deployment: Deployment) -> None:
        self._declared.add(schema.id)

    def starts(self, regions: Iterable[RegionId], streams: Iterable[StreamId]) -> dict[str, int]:
        """As far as they go now: an epoch that is published after this look begins at or behind it. Those of a region
        that is cut off: as far as they were known to go, which is a lower bound, too."""
        found = {}
        for stream, region in itertools.product(self._declared & set(streams), regions):
            name = source_log(region, stream)
            with contextlib.suppress(OSError):
                self.known_ends[name] = self.store.log(name).last
            found[f"{region}/{stream}"] = self.known_ends.get(name, 0)
        return found


def _known_ends(store: Store) -> dict[str, int]:
    control, ends = store.log(names.CONTROL), dict[str, int]()
    for _, record in control.after(control.first - 1):
        ends |= record["starts"]
    return ends


class RemoteAnalyst:
    """Asks the process of a region what Spark says of a query."""

    def __init__(self, store: Store, token: str) -> None:
        self._store, self._token = store, token
        self._streams: dict[StreamId, Stream] = {}

    def declare(self, stream: Stream) -> Stream:
        self._streams[stream.id] = stream
        return stream

    def output(self, query: Query) -> tuple[Column, ...]:
        return self._columns({"sql": query.oracle_sql})

    def rows_of(self, query: Query, operator: int) -> tuple[Column, ...]:
        return self._columns({"query": encode(query), "operator": operator})

    def _columns(self, of: Head) -> tuple[Column, ...]:
        ask: Head = {"do": "analyse", "streams": encode(list(self._streams.values())), **of}
        tried = []
        for region, one in region_members(self._store).items():
            if one.left:
                continue
            caller = WireCaller(one.address, self._token, region, timeout=20.0)
            try:
                head, _ = caller.call(ask)
            except WireError as fault:
                tried.append(str(fault))
                continue
            finally:
                caller.close()
            found: tuple[Column, ...] = decode(head["columns"])
            return found
        msg = (
            f"no region's process answers, and one is needed to check a query: start one ({'; '.join(tried) or 'none'})"
        )
        raise DeploymentError(msg)


class CoordinatorAgent(RunningFleet):
    """The control plane of a fleet of processes."""

    def __init__(
        self,
        store: Store,
        token: str,
        options: FleetOptions,
        member: Membership,
        *,
        lease: float = 5.0,
        extras: CoordinatorExtras = CoordinatorExtras(),  # noqa: B008 - a frozen value
    ) -> None:
        """`member`: has joined as the coordinator."""
        self.membership = member
        write_fleet_options(store, FleetDocument(options.rule, options.redeployment, options.state))
        elsewhere = Elsewhere(RemoteAnalyst(store, token), RemoteGateway(store))
        super().__init__(store, None, options, extras.admission, extras.reoptimise, elsewhere=elsewhere)
        self._wanted, self._swept_at, self._inspect_at = dict(extras.sinks), 0, 0.0
        if self.uninspected:
            log.warning("logs of %s are cut off: they are inspected later", ", ".join(sorted(self.uninspected)))
        self._departures, self._keeper = (
            Departures(),
            Housekeeper(self.store, options.retention, mine=lambda region: False, epochs=self._followed_by_all),
        )
        self.notifier = Notifier(self.store, token, "coordinator")
        self.executor.announce = self.notifier.epoch
        if self.store.served is not None:
            self.store.served.on_append = self._on_append
        self._watch, self._silent = SilenceWatch(lease), set[str]()
        self._reports: dict[RegionId, ReportReader] = {}
        #: regions whose reports from before this process are still to be read
        self._earlier: set[RegionId] = set()
        self._stopping_watch, self._reported = threading.Event(), threading.Event()
        self._watcher = threading.Thread(target=self._watch_regions, name="coordinator/watch", daemon=True)
        self._beats = threading.Thread(target=self._watch_beats, name="coordinator/beats", daemon=True)
        self._duties = (
            Duty("copies of the control log", self.keep_copies),
            Duty("inspection", self._inspect_the_rest),
            Duty("housekeeping", self._keep_house),
            Duty("re-optimiser", self.reoptimiser.look_if_due),
            Duty("admission", self.admission.look_if_due),
            Duty("sinks", self._deliver_all),
        )
        self._keeping = threading.Thread(target=self._keep, name="coordinator/duties", daemon=True)

    def serve(self, address: str) -> None:
        """Run until `stop`."""
        self.membership.describe = lambda: ProcessMember(address, int(self.plane.epoch), failures=self._failures())
        self.notifier.start()
        self.pool.start()
        self.membership.start()
        self._earlier = set(region_members(self.store))
        self._look_at_regions()
        self.control.start()
        self.dispatcher.start()
        for thread in (self._watcher, self._beats, self._keeping):
            thread.start()
        self.notifier.epoch()  # the last process may have died before it had told anybody

    def stop(self) -> None:
        self._stopping_watch.set()
        self._reported.set()
        for thread in (self._watcher, self._beats, self._keeping):
            if thread.is_alive():
                thread.join()
        self._duties[-1].run()  # what regions committed before they stopped
        self.dispatcher.stop()
        self.control.stop()
        self.pool.stop()
        self.notifier.stop()
        self.membership.leave()
        self.folder_lock.release()

    def handle(self, head: Head, body: bytes) -> tuple[Head, bytes] | None:
        """What other processes say to the coordinator (`wire.Listener`)."""
        match head.get("do"):
            case "report":
                self._reported.set()
                return None
            case "command":
                self.control.look()
                return None
            case "status":
                return {"epoch": int(self.plane.epoch), "quiet": self._quiet()}, b""
            case "progress":
                stable, waiting = int(self.plane.coordinator.stable), self.control.waiting()
                return {"epoch": int(self.plane.epoch), "in_force": stable, "waiting": waiting}, b""
            case "explain":
                return {"text": self.explain_command(from_json(head["command"]))}, b""
            case other:
                msg = f"the coordinator does not know '{other}'"
                raise DeploymentError(msg)

    def _quiet(self) -> bool:
        """Whether nothing is to be done; not while reports of a region cannot be reached."""
        try:
            self.store.refresh()
        except OSError:
            return False
        return self.control.quiet and not self.plane.keys.busy

    def _on_append(self, log_name: str) -> None:
        """The store's server has news of a log."""
        if log_name == names.COMMANDS:
            self.control.look()
        elif log_name.startswith(f"{names.REPORTS}/"):
            self._reported.set()

    def explain_command(self, command: Command) -> str:
        """What a change of the topology, or a migration of keys, would do."""
        with self.control.driving():
            match command:
                case ChangeTopology(changes):
                    return self.plane.explain_change(changes)
                case MigrateKeys():
                    return explain_keys(self, asked_keys(self, command))
        msg = f"there is no dry run of {type(command).__name__}"
        raise DeploymentError(msg)

    def _failures(self) -> dict[str, str]:
        found: dict[str, BaseException] = {**self.dispatcher.failures()}
        found |= {duty.name: duty.attempts.failure for duty in self._duties if duty.attempts.failure is not None}
        if self.control.failure is not None:
            found["control loop"] = self.control.failure
        return {name: f"{type(failed).__name__}: {failed}" for name, failed in found.items()}

    # --- beside the control loop

    def _keep(self) -> None:
        while not self._stopping_watch.wait(DUTIES_EVERY):
            for duty in self._duties:
                duty.run()

    def _inspect_the_rest(self) -> None:
        """Logs that were cut off when this process was started, once they can be reached."""
        if self.uninspected and time.monotonic() >= self._inspect_at:
            self._inspect_at = time.monotonic() + INSPECT_EVERY
            self.uninspected = inspect(self.store)

    def _keep_house(self) -> None:
        """Epochs that every region has followed go, and devices that have left and were read to the end."""
        epoch, now = int(self.plane.epoch), self.deployment
        gone = now.stays.keys() - now.devices.keys()
        self._departures.at(epoch, gone)
        if gone:
            self.forget_devices(self._departures.forgettable(region_members(self.store)))
        if epoch - self._swept_at >= MANY_EPOCHS:
            self._swept_at = epoch
            for _ in self._keeper.bits(now.shapes().values(), set(now.queries), 0, Swept()):
                pass

    def _followed_by_all(self) -> int | None:
        """Up to which epoch nobody needs them: what a region has followed it may have to look up once more, and who
        has just come is about to begin."""
        followed = [
            (self.store.get_document(f"{region_document(region)}/followed") or {"epoch": 0})["epoch"]
            for region in region_members(self.store)
        ]
        return min(followed, default=0) - MANY_EPOCHS

    def _deliver_all(self) -> None:
        """Sinks that the coordinator was started with, each from when its query is there."""
        for query in [name for name in self._wanted if name in self.queries]:
            for sink in self._wanted.pop(query):
                self.supervisor.deliver(QueryId(query), sink)
        for delivery in self.dispatcher.deliveries.values():
            delivery.pump()
            delivery.keep(wait=False)

    # --- what regions say

    def _watch_regions(self) -> None:
        while not self._stopping_watch.is_set():
            self._reported.wait(LOOK_EVERY)
            self._reported.clear()
            try:
                self._look_at_regions()
            except (OSError, GodwitError):
                log.exception("the reports of regions cannot be read; tried again")
                self._stopping_watch.wait(1.0)

    def _watch_beats(self) -> None:
        """Beside the reports: who is silent must be found whatever others have to say."""
        while not self._stopping_watch.wait(LOOK_EVERY):
            try:
                self._look_at_beats()
            except (OSError, GodwitError):
                log.exception("who is alive cannot be read; tried again")

    def _look_at_regions(self) -> None:
        for region in region_members(self.store):
            try:
                self._read_reports(region)
            except OSError as fault:  # (of a region that keeps its own logs, and is cut off: others go on)
                log.warning("the reports of region '%s' cannot be read now: %s", region, fault)

    def _look_at_beats(self) -> None:
        members, now = region_members(self.store), time.monotonic()
        self._watch.looks(now)
        for region, one in members.items():
            self._watch.observe(region, one, now)
        silent = self._watch.silent(now) & members.keys() | {region for region, one in members.items() if one.left}
        for name in sorted(silent - self._silent):
            log.warning("region '%s' is silent: it counts as lost until it is heard from again", name)
            self._post(RegionLost(RegionId(name)))
            if not members[RegionId(name)].left:  # who has said goodbye may be about to be started again
                self._post(RegionEvacuated(RegionId(name)))
        for name in sorted(self._silent - silent):
            log.warning("region '%s' is %s", name, "back" if name in members else "forgotten")
            self._post(RegionBack(RegionId(name)))
        self._silent = silent

    def _read_reports(self, region: RegionId) -> None:
        if region not in self._reports:
            self._reports[region] = ReportReader(self.store, region)
        for report in self._reports[region].unread():
            if "read" in report:
                self._departures.record(region, report["epoch"], map(DeviceId, report["read"]))
                continue
            if "plan" in report:
                self._operations.plans.hear(region, PlanReport.from_json(report))
                continue
            if region in self._earlier and "acked" in report:
                continue  # of epochs from before this process
            if "acked" in report:
                self._post(RegionAcked(region, Epoch(report["acked"])))
            else:
                self.tracker.committed(None, 0, report["commit"])  # type: ignore[arg-type]
        self._earlier.discard(region)
