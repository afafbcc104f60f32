"""Keys that follow their sources, in the running fleet: what is seen goes to the policy, what it advises is done.

Off unless `Fleet(mobility=True)` or `mobility=Following(...)`. The policy is `migration/source_mobility.py`, one for
each operator whose key is made of columns of a stream. It learns about a key from three sides:

    rows            entries of the source logs, as they come: a row of the key came in under an edge
    attachments     the device was attached to another site: by itself, or as a trace has it
    notifications   `fleet.notify_handover`: the network says so (the paper's MEC messages)

A key that several devices send stays where it is. Advice becomes commands like any other, so
a fleet that is opened again goes on with them; the policy itself begins again with what the routes say.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from godwit.api.core import FleetCore
from godwit.api.key_names import COLUMN
from godwit.control.commands import MigrateKeys
from godwit.control.key_routes import region_of, route_table
from godwit.errors import DeploymentError, MissingFileError
from godwit.ids import DeviceId, NodeId, QueryId, RegionId, SiteId, StreamId
from godwit.migration.key_migrations import KeyMigration
from godwit.migration.source_mobility import Following, HoldAndSort, KeyGoes, MobilityAdvice, SourceMobility, StopGoing
from godwit.model.instances import instance_id
from godwit.model.keys import Key, contains, listed
from godwit.observe.key_usage import columns_of, texts
from godwit.storage.log import Segment
from godwit.storage.names import source_log

log = logging.getLogger(__name__)

#: how often the driver looks, at the latest (seconds)
EVERY = 0.05
Operated = tuple[QueryId, int]


@dataclass
class _Watched:
    """An operator whose keys follow their sources."""

    policy: SourceMobility
    #: stream -> columns of the key
    columns: dict[StreamId, list[str]]
    #: whose rows a key has; None: several devices'
    senders: dict[Key, DeviceId | None] = field(default_factory=dict)
    #: key -> (the command that sends it, where to)
    sent: dict[Key, tuple[int, SiteId]] = field(default_factory=dict)


class MobilityDriver:
    """One per fleet; a thread of its own while the fleet runs."""

    def __init__(self, fleet: FleetCore, wanted: bool | Following) -> None:
        self._fleet = fleet
        self.following = (wanted if isinstance(wanted, Following) else Following()) if wanted else None
        self.watched: dict[Operated, _Watched] = {}
        self._epoch = -1
        self._read: dict[tuple[RegionId, StreamId], int] = {}
        self._devices: dict[DeviceId, SiteId | None] = {}
        self._lock = threading.RLock()
        self._news, self._stopping = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        #: what ended the thread, if something did
        self.failure: BaseException | None = None

    # --- running

    def start(self) -> None:
        if self.following is not None and self._thread is None:
            self._stopping.clear()
            self._thread = threading.Thread(target=self._run, name="godwit-mobility", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._news.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def wake(self) -> None:
        """Rows have come in."""
        self._news.set()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._news.clear()
                self.look(time.time())
                self._news.wait(EVERY)
        except BaseException as error:
            self.failure = error
            log.exception("source mobility has stopped: keys stay where they are")

    def look(self, now: float) -> None:
        """Take in what is new, and do what follows."""
        if self.following is None:
            return
        with self._lock:
            self._follow_queries()
            self._read_on(now)
            self._follow_devices(now)
            for operated, one in self.watched.items():
                self._hear_of_ended(operated, one, now)
                self._act(operated, one, one.policy.tick(now))

    def notified(self, device: DeviceId, site: SiteId, now: float) -> None:
        """A notification that a device is attached there: its keys are seen there before any row is."""
        with self._lock:
            for operated, one in self.watched.items():
                for key in [key for key, sender in one.senders.items() if sender == device]:
                    self._seen(operated, one, key, site, now)

    # --- what is seen

    def _follow_queries(self) -> None:
        deployment = self._fleet.deployment
        if deployment.epoch == self._epoch or self.following is None:
            return
        self._epoch = int(deployment.epoch)
        wanted = self.following.queries
        known: dict[Operated, _Watched] = {}
        for query in deployment.queries.values():
            if query.internal or (wanted is not None and query.id not in wanted):
                continue
            for operator, node in enumerate(query.shape.plan.operators):
                if not node.stateful or not node.state[0].keys:
                    continue
                columns = {StreamId(s): c for s, c in columns_of(query.shape.plan, operator)}
                if columns and all(deployment.streams[stream].device for stream in columns):
                    old = self.watched.get((query.id, operator))
                    one = old or _Watched(SourceMobility({}, self.following.dwell, self.following.within), columns)
                    one.policy.parents = self._parents(query.id, operator)
                    known[query.id, operator] = one
        self.watched = known

    def _parents(self, query: QueryId, operator: int) -> dict[SiteId, SiteId]:
        """The hierarchy around the site that has the rest of the keys: each site's next one on the way there."""
        home = self._fleet.deployment.placement.get(instance_id(query, operator))
        found = {}
        for site in self._fleet.deployment.sites if home is not None else ():
            way = self._fleet.path(NodeId(site), home)  # type: ignore[arg-type]
            if way is not None and len(way) > 1:
                found[site] = SiteId(way[1])
        return found

    def _read_on(self, now: float) -> None:
        """Entries of source logs that are new."""
        streams = {stream for one in self.watched.values() for stream in one.columns}
        for region in set(self._fleet.deployment.sites.values()):
            for stream in streams:
                source = self._fleet.store.log(source_log(region, stream))
                after = self._read.setdefault((region, stream), source.last)
                for number, record in source.after(after):
                    self._read[region, stream] = number
                    if record["segment"] is not None:
                        self._take(region, stream, Segment.from_json(record["segment"], self._fleet.store), now)

    def _take(self, region: RegionId, stream: StreamId, rows: Segment, now: float) -> None:
        device = self._fleet.deployment.streams[stream].device
        for operated, one in self.watched.items():
            if stream not in one.columns or device is None:
                continue
            names = [device, *(name for name in one.columns[stream] if name != device)]
            try:
                found = [texts(table, [device, *one.columns[stream]]) or [] for table in rows.tables(names)]
            except MissingFileError:
                continue
            for sender, *key in {pair: None for pairs in found for pair in pairs}:
                self._row(operated, one, tuple(key), DeviceId(sender), region, now)

    def _row(self, operated: Operated, one: _Watched, key: Key, sender: DeviceId, region: RegionId, now: float) -> None:
        if one.senders.setdefault(key, sender) != sender:
            one.senders[key] = None
            one.policy.keys.pop(key, None)
            return
        site = self._fleet.deployment.devices.get(sender)
        if site is None or self._fleet.deployment.sites.get(site) != region:
            return  # it has moved on since; its attachment says where to
        self._seen(operated, one, key, site, now)

    def _follow_devices(self, now: float) -> None:
        """Devices that are attached elsewhere since the last look."""
        devices = self._fleet.deployment.devices
        for device, site in devices.items():
            if site is not None and self._devices.get(device) not in (None, site):
                self.notified(device, site, now)
        self._devices = {**self._devices, **{d: s for d, s in devices.items() if s is not None}}

    def _seen(self, operated: Operated, one: _Watched, key: Key, site: SiteId, now: float) -> None:
        known = one.policy.keys.get(key)
        if known is None:
            one.policy.place(key, self._at(operated, key) or site, site, now)
        elif known.edge != site:
            one.policy.put(key, self._at(operated, key) or known.at)  # (it may have been migrated by hand meanwhile)
        self._act(operated, one, one.policy.seen(key, site, now))

    def _at(self, operated: Operated, key: Key) -> SiteId | None:
        """Where a key is processed."""
        planner = self._fleet.plane.planner
        table, home = route_table(planner, *operated), planner.rows.placement.get(instance_id(*operated))
        site = table.route_of(key).site if table is not None else ""
        return SiteId(site or str(home)) if site or home else None

    # --- what is done

    def _act(self, operated: Operated, one: _Watched, advice: Iterable[MobilityAdvice]) -> None:
        for told in list(advice):
            match told:
                case KeyGoes(key, to):
                    assert self.following is not None
                    query, operator = operated
                    command = MigrateKeys(query, (COLUMN.join(key),), to, self.following.strategy, operator)
                    one.sent[key] = (self._fleet.control.post(command), to)
                case StopGoing(key):
                    self._stop(operated, one, key)
                case HoldAndSort(key, until):
                    if (sender := one.senders.get(key)) is not None:
                        self._fleet.gate.hold(sender, until)

    def _stop(self, operated: Operated, one: _Watched, key: Key) -> None:
        """Cancel the migration of a key, if its source still answers; otherwise it will end."""
        _, to = one.sent.get(key, (0, None))
        with self._fleet.control.driving():
            number = next((m.number for m in self._underway(operated) if m.keys == listed(key)), None)
            try:
                if number is not None:
                    self._fleet.executor.carry_out(self._fleet.plane.cancel_keys(number))
                    one.sent.pop(key, None)
                    return
            except DeploymentError:
                pass  # switched over already
        if to is not None:
            one.policy.still_going(key, to)

    def _hear_of_ended(self, operated: Operated, one: _Watched, now: float) -> None:
        """Migrations that are over, however they have ended."""
        for key, (number, to) in list(one.sent.items()):
            answer = self._fleet.control.answer_of(number)
            if answer is None or any(contains(m.keys, key) for m in self._underway(operated)):
                continue
            del one.sent[key]
            planner = self._fleet.plane.planner
            table = route_table(planner, *operated)
            if table is not None and table.route_of(key).process == region_of(planner, NodeId(to)):
                self._act(operated, one, one.policy.arrived(key))
            else:
                log.warning("key %s of %s/%s did not get to %s: %s", "/".join(key), *operated, to, answer.message)
                one.policy.not_moved(key, now)

    def _underway(self, operated: Operated) -> Iterator[KeyMigration]:
        keys = self._fleet.plane.keys
        mine = (m for m in (*keys.active.values(), *keys.queued) if (m.query, m.operator) == operated)
        yield from (one for m in mine for one in m.members or (m,))
