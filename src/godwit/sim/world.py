"""The simulated world: the real control plane, regions in memory, devices that buffer, messages that take time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from godwit.control.control_plane import ControlPlane
from godwit.control.events import (
    DeviceFeeds,
    DevicesForgotten,
    Event,
    HandoverDone,
    Instruction,
    KeysArrived,
    PlacedByHand,
    PlanChanged,
    Publish,
    QueryAdjusted,
    QueryWithdrawn,
    RegionAcked,
    RegionBack,
    RegionLost,
    ReplicasDue,
    Revert,
    TimedOut,
)
from godwit.errors import ConfigError, DeploymentError, TopologyError
from godwit.ids import DeviceId, Epoch, QueryId, RegionId, SiteId, StreamId
from godwit.migration.base import HandOver
from godwit.model.changes import (
    CapacityChanged,
    Change,
    DeviceAdded,
    DeviceMoved,
    DeviceRemoved,
    LinkAdded,
    LinkRemoved,
    SiteAdded,
    SiteFailed,
)
from godwit.model.changes import SiteRemoved as Removed
from godwit.model.deployment import Deployment
from godwit.model.instances import instance_id
from godwit.model.keys import HashRange, listed
from godwit.model.plan import Query, Scan
from godwit.model.taps import find
from godwit.model.topology import Device
from godwit.protocol import delivery_order
from godwit.protocol.watermarks import FOREVER, NEVER, Mark
from godwit.sim import schedule as act
from godwit.sim.operators import bound
from godwit.sim.oracle import Answer, answer, in_place, totals
from godwit.sim.over import SimOver
from godwit.sim.plan_versions import Shelves, SimPlanVersions
from godwit.sim.region import LogEntry, Published, SimCommit, SimRunner, StepCrashed
from godwit.sim.running import SimRunning
from godwit.sim.schedule import Sight
from godwit.sim.top import SimTop
from godwit.sim.worlds import (
    ALL_KINDS,
    DEVICES,
    FEEDS,
    LEFT,
    PARENT,
    REGIONS,
    STREAMS,
    link,
    lowest,
    promise,
    site,
    topology,
    whole,
)


@dataclass
class Source:
    clock: int = NEVER
    session: int = 1
    region: RegionId | None = None
    #: the entry that says that the device has left
    left: int = 0
    #: whether nothing comes any more: said again to queries that begin afterwards
    closed: bool = False


@dataclass
class World:
    """Plays a schedule."""

    schedule: act.Schedule
    runners: dict[tuple[RegionId, str], SimRunner] = field(default_factory=dict)
    queries: dict[QueryId, Query] = field(default_factory=dict)
    withdrawn: set[QueryId] = field(default_factory=set)
    #: queries whose keys were migrated without regard to the order of results
    unordered: set[QueryId] = field(default_factory=set)
    down: set[RegionId] = field(default_factory=set)
    inbox: list[Event] = field(default_factory=list)
    #: the regions' wall clock, in seconds
    now: float = 0.0
    #: the commits of all regions so far
    committed: int = 0
    #: what came of rows that had gathered although somebody waited for it
    waited_for: list[str] = field(default_factory=list)
    #: what the control plane did, for the script of a failing run
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        #: whether rows gather now
        self.gathers = self.schedule.gathers
        self.plane = ControlPlane(
            topology(),
            rule=self.schedule.rule,
            redeployment_strategy=self.schedule.strategy,
            streams=STREAMS,
            feeds=FEEDS,
        )
        self.control = [Published(self.plane.deployment)]
        self.shelves = Shelves()
        self.plans = SimPlanVersions(self.shelves, self.runners, self._change_version, self.plane.keys.migrates)
        self._logs: dict[tuple[RegionId, StreamId], list[LogEntry]] = {}
        self._sources: dict[tuple[StreamId, DeviceId], Source] = {}
        self._waiting: dict[tuple[StreamId, DeviceId], list[act.Reading]] = {}
        self._acked: dict[RegionId, Epoch] = {}
        #: all that each source sent, in this order
        self._sent: dict[tuple[StreamId, DeviceId], list[act.Reading]] = {}

    # -- reading

    @property
    def deployment(self) -> Deployment:
        return self.control[-1].deployment

    def source_log(self, region: RegionId, stream: StreamId) -> list[LogEntry]:
        return self._logs.setdefault((region, stream), [])

    # -- playing

    def play(self, action: act.Action) -> None:
        match action:
            case act.Send(device, stream, readings):
                self._send(StreamId(stream), DeviceId(device), list(readings))
            case act.Tick(region, sight, crash):
                self._tick(RegionId(region), sight, crash)
            case act.Deliver(count, reverse):
                for _ in range(min(count, len(self.inbox))):
                    self._handle(self.inbox.pop(self._newest_first() if reverse else 0))
            case act.Down(region):
                self._down(RegionId(region))
            case act.Up(region):
                self._up(RegionId(region))
            case act.Wait(seconds):
                self.now += seconds
            case act.Settle():
                self._rest()
            case act.Timeout():
                self._handle(TimedOut(self.plane.epoch))
            case act.Enter(device, _):
                for change in self._changes(action):
                    self._ask(lambda one=change: self.plane.change([one]))  # type: ignore[misc]
                fed = tuple(stream for stream, devices in FEEDS.items() if device in devices)
                self._ask(lambda: self.plane.handle(DeviceFeeds(DeviceId(device), fed)))
            case act.Forget():
                self._forget()
            case act.Put(name, operator, to):
                placed = PlacedByHand({instance_id(QueryId(name), operator): SiteId(to)}, "by hand")
                if name in self.shelves.versions:
                    name = self.shelves.versions[QueryId(name)][-1].id
                    placed = PlacedByHand({instance_id(QueryId(name), operator): SiteId(to)}, "by hand")
                if name in self.deployment.queries:
                    self._ask(lambda: self.plane.handle(placed))
            case act.SubmitQuery(name, kind, over, cut):
                query = lowest(ALL_KINDS[kind](name, over)) if cut else ALL_KINDS[kind](name, over)
                if self.schedule.shares:
                    taps = find(query, self.plane.planner.rows.queries.values())
                    query = replace(query, taps=taps, begins=len(self.queries) + 1)
                self.queries[query.id] = query
                self.shelves.versions[query.id] = [query]
                # Whether results come in order can be said where they leave at one place.
                sink = SiteId("c") if cut or kind in ("running", "over") else None
                self._ask(lambda: self.plane.submit(query, sink))
            case act.WithdrawQuery(name):
                if (
                    name in self.queries
                    and name not in self.withdrawn
                    and len(self.shelves.versions[QueryId(name)]) == 1
                ):
                    self.withdrawn.add(QueryId(name))
                    self.shelves.versions.pop(QueryId(name))
                    self._ask(lambda: self.plane.withdraw(QueryId(name)))
            case act.MoveKeys(name, keys, to, strategy):
                self._migrate(QueryId(name), keys, SiteId(to), strategy)
            case act.RefreshReplicas():
                self._ask(lambda: self.plane.handle(ReplicasDue()))
            case act.ChangePlan(name, order, strategy, alone):
                self._drop_unplaced()
                self.plans.change(self.deployment, QueryId(name), order, strategy, alone)
            case act.FailAhead(name):
                self.plans.fail(self.deployment, QueryId(name))
            case act.AdvancePlans():
                self._drop_unplaced()
                self.plans.advance(self.deployment)
            case act.CancelKeys():
                for number in list(self.plane.keys.active):
                    self._ask(lambda one=number: self.plane.cancel_keys(one))  # type: ignore[misc]
            case _:
                for change in self._changes(action):
                    self._ask(lambda one=change: self.plane.change([one]))  # type: ignore[misc]

    def _change_version(self, event: Event, *more: Event) -> bool:
        """What is asked for while the coordinator is busy comes with its next batch, or turns out to have no place."""
        idle, queries = self.plane.coordinator.phase == "idle", self.plane.planner.rows.queries
        given_up = isinstance(event, QueryAdjusted) and event.successor is None
        if not idle and (more or given_up or isinstance(event, QueryWithdrawn)):
            return False
        coordinator = self.plane.coordinator
        self._ask(lambda: coordinator.together([event, *more]) if more else self.plane.handle(event))  # type: ignore[list-item]
        if isinstance(event, QueryWithdrawn):
            return event.query not in queries
        return given_up or (isinstance(event, PlanChanged) and (not idle or event.query.id in queries))

    def _drop_unplaced(self) -> None:
        if self.plane.coordinator.phase == "idle":
            for versions in self.shelves.versions.values():
                while len(versions) > 1 and versions[-1].id not in self.plane.planner.rows.queries:
                    versions.pop()

    def _migrate(self, name: QueryId, keys: tuple[int, ...] | tuple[str, int, int], to: SiteId, strategy: str) -> None:
        versions = self.shelves.versions.get(name, ())
        query = self.queries.get(name) if len(versions) < 2 else versions[-1]
        if query is None or name in self.withdrawn:
            return
        name = query.id
        operator = next(i for i, node in enumerate(query.shape.plan.operators) if node.stateful)
        some = HashRange(int(keys[1]), int(keys[2])) if keys[0] == "buckets" else listed(*map(str, keys))
        if strategy == "falcon-oop":
            self.unordered.add(name)
        self._ask(lambda: self.plane.migrate(name, operator, some, to, strategy))

    def _changes(self, action: act.Action) -> list[Change]:
        ground = self.plane.topology
        match action:
            case act.Move(device, to):
                return [DeviceMoved(DeviceId(device), None if to is None else SiteId(to))]
            case act.Leave(device):
                return [DeviceRemoved(DeviceId(device))]
            case act.Enter(device, to):
                return [DeviceAdded(Device(DeviceId(device), None if to is None else SiteId(to)))]
            case act.Lose(name, failed):
                return [SiteFailed(SiteId(name)) if failed else Removed(SiteId(name))]
            case act.Return(name) if name not in ground.sites:
                return [SiteAdded(site(name)), LinkAdded(link(name))]
            case act.Return(name) if link(name).ends not in ground.links:
                return [LinkAdded(link(name))]
            case act.Cut(name):
                return [LinkRemoved(SiteId(name), SiteId(PARENT[name]))]
            case act.Squeeze(name, cpu):
                return [CapacityChanged(SiteId(name), float(cpu))]
        return []

    def _ask(self, do: Callable[[], list[Instruction]]) -> None:
        # The schedule may ask for something that does not fit; then the control plane says so, and that is that.
        with suppress(TopologyError, DeploymentError, ConfigError):
            self._carry_out(do())

    def _newest_first(self) -> int:
        """The newest message that may overtake the others: those of one region keep their order."""
        senders = [getattr(event, "region", None) for event in self.inbox]
        return max(k for k, sender in enumerate(senders) if sender is None or sender not in senders[:k])

    def _handle(self, event: Event) -> None:
        self._carry_out(self.plane.handle(event))

    def _carry_out(self, instructions: list[Instruction]) -> None:
        for one in instructions:
            self.log.append(_line(one))
            if isinstance(one, Publish | Revert):
                self._publish(one)
                self._done_in_place(one)

    # -- the control log and the gateway

    def _publish(self, one: Publish | Revert) -> None:
        starts = {f"{region}/{stream}": len(log) for (region, stream), log in self._logs.items()}
        self.control.append(Published(self.deployment.apply(one.delta), one.moves, starts))
        for shape in self.deployment.shapes().values():
            for region in sorted(self.deployment.regions_of(shape)):
                if (region, shape.key) not in self.runners:
                    self.runners[region, shape.key] = SimRunner(self, region, shape)
        for device in self.deployment.devices:
            self._follow(device)
        for device in one.delta.gone:
            self._end(device)
        for query in one.delta.queries.values():
            for stream in {scan.stream for _, scan in query.shape.plan.scans} if query is not None else ():
                self._repeat_ends(stream)
        for region in self.plane.planner.regions:
            if not any(r == region for r, _ in self.runners):
                self.inbox.append(RegionAcked(region, self.deployment.epoch))

    def _done_in_place(self, one: Publish | Revert) -> None:
        """State that stays in its region's log is where it must be as soon as the epoch is."""
        for step in one.steps:
            before, now = self.control[-2].deployment, self.deployment
            here = now.region_of(step.target)
            if not isinstance(step, HandOver) or before.region_of(step.source) == here:
                self.inbox.append(HandoverDone(step.instance, one.epoch))

    def _follow(self, device: DeviceId) -> None:
        """The device may have changed region: end its old session where it was, begin the new one."""
        # One that is away is where it was last: there its session will end.
        region, session = self.deployment.stays.get(device), self.deployment.sessions.get(device, 1)
        for stream, devices in FEEDS.items():
            if device not in devices or region is None:
                continue
            if device not in self.deployment.feeds[stream]:
                continue
            source = self._sources.setdefault((stream, device), Source(session=session, region=region))
            if source.region is not None and session > source.session and not source.left:
                over = Mark(source.session, source.clock, over=True, following=session)
                self.source_log(source.region, stream).append(LogEntry([], {device: over}))
            source.session, source.region, source.left = session, region, 0
            self._send(stream, device, self._waiting.pop((stream, device), []))

    def _end(self, device: DeviceId) -> None:
        """The device has left: its session is over, and none follows."""
        for stream in FEEDS:
            self._waiting.pop((stream, device), None)
            source = self._sources.get((stream, device))
            if source is not None and source.region is not None and not source.left:
                source.clock = NEVER
                self._say_left(stream, device, source)

    def _say_left(self, stream: StreamId, device: DeviceId, source: Source) -> None:
        assert source.region is not None
        log = self.source_log(source.region, stream)
        log.append(LogEntry([], {device: Mark(source.session, source.clock, over=True)}))
        source.left = len(log)

    def _repeat_ends(self, stream: StreamId) -> None:
        for (name, device), source in self._sources.items():
            if name == stream and source.left:
                self._say_left(stream, device, source)
            elif name == stream and source.closed:
                self._close(stream, device, source)

    def _forget(self) -> None:
        """As housekeeping does: everybody who reads its log has committed past the end of a device."""
        gone = self.deployment.stays.keys() - self.deployment.devices.keys()
        done = frozenset(device for device in gone if all(map(self._is_read, self._ends_of(device))))
        if done:
            self._ask(lambda: self.plane.handle(DevicesForgotten(done)))
            for key in [key for key in self._sources if key[1] in done and key[1] not in self.deployment.stays]:
                del self._sources[key]

    def _ends_of(self, device: DeviceId) -> Iterator[tuple[RegionId, StreamId, int]]:
        for (stream, name), source in self._sources.items():
            if name == device and source.region is not None and source.left:
                yield source.region, stream, source.left

    def _is_read(self, end: tuple[RegionId, StreamId, int]) -> bool:
        region, stream, number = end
        readers = [runner for (where, _), runner in self.runners.items() if where == region]
        return all(
            bool(runner.commits) and runner.commits[-1].positions.get(f"source:{i}:{stream}", 0) >= number
            for runner in readers
            for i, scan in runner.shape.plan.scans
            if scan.stream == stream
        )

    def _send(self, stream: StreamId, device: DeviceId, readings: list[act.Reading]) -> None:
        if not readings:
            return
        place = self.deployment.devices.get(device)
        region = None if place is None else self.deployment.sites.get(place)
        if region is None or device not in self.deployment.feeds[stream]:
            self._waiting.setdefault((stream, device), []).extend(readings)
            return
        source = self._sources.setdefault((stream, device), Source())
        source.session, source.region = self.deployment.sessions.get(device, 1), region
        source.clock = max(source.clock, max(at for at, _, _ in readings) - STREAMS[stream].disorder_us)
        rows = [{"device": device, "ts": at, "k": k, "v": v} for at, k, v in readings]
        self._sent.setdefault((stream, device), []).extend(readings)
        self.source_log(region, stream).append(LogEntry(rows, {device: Mark(source.session, source.clock)}))

    # -- regions

    def _tick(self, region: RegionId, sight: Sight, crash: str = "") -> bool:
        if region in self.down:
            return False
        moved = False
        for runner in [r for (where, _), r in self.runners.items() if where == region]:
            positions = runner.kernel.positions
            try:
                moved |= runner.step(sight, crash)
            except StepCrashed:
                runner.recover()
                moved = True
            moved |= runner.kernel.positions != positions
            self._report(runner)
        self._acknowledge(region)
        return moved

    def _report(self, runner: SimRunner) -> None:
        for record in runner.commits[runner.reported :]:
            for move in record.arrived:
                done = HandoverDone(instance_id(move.query, move.operator), move.epoch)
                self.inbox.append(KeysArrived(move) if move.number else done)
        runner.reported = len(runner.commits)

    def _acknowledge(self, region: RegionId) -> None:
        epoch = min(
            (r.kernel.deployment.epoch for (where, _), r in self.runners.items() if where == region), default=Epoch(0)
        )
        if epoch > self._acked.get(region, Epoch(0)):
            self._acked[region] = epoch
            self.inbox.append(RegionAcked(region, epoch))

    def _down(self, region: RegionId) -> None:
        if region not in self.down:
            self.down.add(region)
            self.inbox.append(RegionLost(region))

    def _up(self, region: RegionId) -> None:
        if region in self.down:
            self.down.discard(region)
            for (where, _), runner in self.runners.items():
                if where == region:
                    runner.recover()
            self.inbox.append(RegionBack(region))

    # -- the end

    def finish(self) -> None:
        """Mend everything, let everybody finish, end the streams, let everybody finish again."""
        for region in REGIONS:
            self._up(RegionId(region))
        self._rest()
        for number in [one.number for one in self.plane.keys.active.values() if one.replica]:
            self._carry_out(self.plane.cancel_keys(number))
        self._rest()
        mended = list(self._mending())
        if mended:
            self._carry_out(self.plane.change(mended))
            self._rest()
        for device in [device for device in DEVICES if device not in self.plane.topology.devices]:
            self.play(act.Enter(device, "c"))
            self._rest()
        for (stream, device), source in sorted(self._sources.items()):
            assert source.region is not None
            if source.left:
                continue
            self._close(stream, device, source)
        for stream, devices in FEEDS.items():
            for device in devices:
                if (stream, device) not in self._sources and self.deployment.devices.get(device) is not None:
                    place = self.deployment.devices[device]
                    assert place is not None
                    session = self.deployment.sessions.get(device, 1)
                    source = Source(session=session, region=self.deployment.sites[place])
                    self._sources[stream, device] = source
                    self._close(stream, device, source)
        self._rest()

    def _close(self, stream: StreamId, device: DeviceId, source: Source) -> None:
        assert source.region is not None
        source.closed = True
        end = Mark(source.session, FOREVER, turn=1)
        self.source_log(source.region, stream).append(LogEntry([], {device: end}))

    def _mending(self) -> Iterator[Change]:
        """What it takes to have all sites, links and room again, and every device attached."""
        ground = self.plane.topology
        missing = [name for name in PARENT if name not in ground.sites]
        yield from (SiteAdded(site(name)) for name in missing)
        yield from (LinkAdded(link(name)) for name in PARENT if link(name).ends not in ground.links)
        tight = [s.id for s in ground.sites.values() if s.cpu < float("inf")]
        yield from (CapacityChanged(name, float("inf")) for name in tight)
        yield from (DeviceMoved(d.id, SiteId("c")) for d in ground.devices.values() if d.site is None)

    def _rest(self) -> None:
        """Until nothing moves any more; by rows that have gathered nothing must change then that anybody sees."""
        self._come_to_rest()
        if not self.gathers:
            return
        before, self.gathers = self._seen_outside(), False
        self._come_to_rest()
        self.gathers = True
        if self._seen_outside() != before:
            self.waited_for.append(f"rows had gathered that somebody waited for: {before} -> {self._seen_outside()}")

    def _seen_outside(self) -> dict[tuple[RegionId, str], list[int]]:
        """How many results, late rows and hand-overs there were, and how far each region is with the epochs."""
        return {
            key: [*(sum(len(part) for part in parts) for parts in _columns(one)), int(one.kernel.deployment.epoch)]
            for key, one in self.runners.items()
        }

    def _come_to_rest(self, rounds: int = 300) -> None:
        for _ in range(rounds):
            moved = bool(self.inbox)
            while self.inbox:
                self._handle(self.inbox.pop(0))
            for region in REGIONS:
                moved |= self._tick(RegionId(region), Sight())
            self._drop_unplaced()
            moved |= self.plans.advance(self.deployment)
            if not moved and not self.inbox:
                assert self.plane.coordinator.phase == "idle", f"at rest while {self.plane.coordinator.phase}"
                assert not self.plane.keys.busy, f"at rest while keys migrate: {self.plane.keys.active}"
                assert not self.plane.keys.queued, f"at rest while keys wait: {self.plane.keys.queued}"
                return
        msg = f"did not come to rest in {rounds} rounds"
        raise AssertionError(msg)

    # -- the verdict

    def emitted(self, query: QueryId) -> Answer:
        versions = [version.id for version in self.shelves.versions.get(query, ())]
        return Counter(
            row
            for runner in self.runners.values()
            for record in runner.commits
            for name, row in record.results
            if name == query or name in versions
        )

    def expected(self, query: Query) -> Answer:
        """Over all rows that were in the logs after each region met the query."""
        scans: dict[int, list[act.Reading]] = {}
        for index, scan in query.shape.plan.scans:
            scans[index] = []
            for region in sorted({region for region, _ in self.runners}):
                for entry in self.source_log(region, scan.stream)[self._begun(query, region, scan) :]:
                    scans[index] += [(row["ts"], row["k"], row["v"]) for row in entry.rows]
        return answer(whole(query), scans)

    def _begun(self, query: Query, region: RegionId, scan: Scan) -> int:
        """How many entries of a region's log came before the first version of a query there."""
        for version in self.shelves.versions.get(query.id, [query]):
            runner = self.runners.get((region, version.shape.key))
            begun = None if runner is None else runner.start_of(version.id)
            if begun is not None:
                index = next(i for i, s in version.shape.plan.scans if (s.alias, s.stream) == (scan.alias, scan.stream))
                return begun.get(f"source:{index}:{scan.stream}", 0)
        return len(self.source_log(region, scan.stream))

    def faults(self) -> list[str]:
        """What is wrong in the end; nothing: the run was right."""
        found = []
        for query in self.queries.values():
            got, wanted = self.emitted(query.id), self.expected(query)
            if any(isinstance(node, SimRunning) for node in query.shape.plan.operators):
                got = totals(got, ended=query.id not in self.withdrawn)
            if any(isinstance(node, SimTop) for node in query.shape.plan.operators):
                got = in_place(got) if query.id not in self.withdrawn else Counter()
            if any(isinstance(node, SimRunning | SimOver) for node in query.shape.plan.operators):
                found += [] if query.id in self.unordered else self._out_of_order(query.id)
            if not any(node.stateful for node in query.shape.plan.operators):
                found += self._overtaken(query)
                got = Counter(row[1:] for row in got.elements())
            extra, missing = got - wanted, wanted - got
            if extra:
                found.append(f"{query.id}: emitted and not expected: {dict(extra)}")
            if missing and query.id not in self.withdrawn:
                found.append(f"{query.id}: expected and never emitted: {dict(missing)}")
        found += [fault for query in self.queries.values() for fault in self._after_their_watermark(query)]
        late = sum(len(record.late) for runner in self.runners.values() for record in runner.commits)
        if late:
            found.append(f"{late} rows were called late, and none was")
        for (region, _), runner in self.runners.items():
            moves = runner.kernel.moves
            if moves.incoming or moves.outgoing:
                found.append(f"{region}: state is still on its way: {moves.incoming or moves.outgoing}")
            if runner.shadows or runner.rooms or runner.pending or runner.held or runner.kernel.order.held:
                left = (runner.shadows, runner.rooms, runner.pending, runner.held, runner.kernel.order.held)
                found.append(f"{region}: copies, rows or state still wait: {left}")
        found += [*self.waited_for, *self.plans.unfinished(self.deployment)]
        found += [str(violation) for violation in self.plane.planner.violations()]
        if self.plane.planner.parked():
            found.append(f"still parked: {dict(self.plane.planner.parked())}")
        return found

    def _after_their_watermark(self, query: Query) -> Iterator[str]:
        """Results of which an earlier commit has said that none comes any more: who reads them as a stream would call
        them late."""
        column, lag = promise(query)
        for runner in self.runners.values() if column is not None else ():
            said = NEVER
            for record in runner.commits:
                for row in (row for name, row in record.results if name == query.id):
                    assert column is not None
                    if row[column] is not None and row[column] < bound(said, lag):
                        yield f"{query.id}: {row} came after the watermark {said}"
                said = max(said, record.promised.get(query.id, NEVER))

    def _overtaken(self, query: Query) -> Iterator[str]:
        """Of each device, rows must leave in the order in which it sent them, wherever the sink is, and whichever log
        an outside system reads first."""
        key = query.shape.key
        every = {region: runner.commits for (region, shape), runner in self.runners.items() if shape == key}
        made = sorted((commit for commits in every.values() for commit in commits), key=lambda commit: commit.turn)
        for commits in (made, *(_as_read(every, first) for first in every)):
            yield from self._behind_later_ones(query.id, commits)

    def _behind_later_ones(self, query: QueryId, commits: Iterable[SimCommit]) -> Iterator[str]:
        to_come = {device: iter(sent) for (stream, device), sent in self._sent.items() if stream == LEFT}
        for device, *reading in (row for record in commits for name, row in record.results if name == query):
            if tuple(reading) not in to_come[device]:
                yield f"{query}: {reading} of {device} came out behind a row that was sent later"
                return

    def _out_of_order(self, query: QueryId) -> list[str]:
        """Of each key, the results must leave in the order of their numbers."""
        commits = [record for (region, _), r in self.runners.items() if region == "cloud" for record in r.commits]
        last: dict[int, int] = {}
        found = []
        for key, number, *_ in (row for record in commits for name, row in record.results if name == query):
            if number <= last.get(key, 0):
                found.append(f"{query}: result {number} of key {key} came after {last[key]}")
            last[key] = number
        return found


def _as_read(every: Mapping[RegionId, Sequence[SimCommit]], first: RegionId) -> Iterator[SimCommit]:
    """Commits as somebody gets them who reads one region's log to its end, then the others'."""
    at: dict[RegionId, int] = {}
    for region in [first, *(one for one in every if one != first)]:
        for one, commit in delivery_order.read_in_order(region, at, lambda one, after: iter(every[one][after:])):
            at[one] = commit.number
            yield commit


def _columns(runner: SimRunner) -> Iterator[list[Sequence[object]]]:
    yield [commit.results for commit in runner.commits]
    yield [commit.late for commit in runner.commits]
    yield [commit.arrived for commit in runner.commits]


def _line(one: Instruction) -> str:
    match one:
        case Publish(epoch, delta):
            return f"epoch {epoch}: {delta.cause}: {dict(delta.placement)} devices {dict(delta.devices)}"
        case Revert(epoch, stable, delta):
            return f"epoch {epoch}: revert to {stable} ({one.reason}): {dict(delta.placement)}"
    return str(one)[:150]
