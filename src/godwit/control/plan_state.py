"""The planner: everything the control plane knows, with the indexes that make one change cost what it touches.

Its operations (take changes, add or remove a query, re-place, park, resume) write only through the journal.
`finish` turns what was written since a mark into a stage; `journal.undo` takes it back, exactly.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise

from godwit.control.impact import Touched, touched
from godwit.control.pending import Pending
from godwit.control.rows import Rows
from godwit.control.state_locations import Custody
from godwit.errors import DeploymentError
from godwit.ids import DeviceId, NodeId, QueryId, RegionId, SiteId, StreamId
from godwit.migration.base import known
from godwit.model.changes import Change
from godwit.model.deployment import Deployment
from godwit.model.global_plan import Cost, Edge, GlobalPlan, PlanEdit, unit_cost
from godwit.model.instances import InstanceId
from godwit.model.journal import Journal
from godwit.model.plan import Query, Scan, Stream
from godwit.model.routes import SitePaths
from godwit.model.subplan import Subplans
from godwit.model.taps import leaders_first
from godwit.model.topology import Site, Topology
from godwit.model.validity import Violation, violations
from godwit.placement.rules.amend import must_move
from godwit.placement.rules.base import HintKey, Infeasible, PlacementContext, Ways, rule
from godwit.protocol.handover import Migration
from godwit.protocol.watermarks import epoch_of, session_of

CLOUD = RegionId("cloud")


class Planner:
    """Topology, global plan, placement, sub-plans and the rows that regions see, kept in step."""

    def __init__(
        self,
        topology: Topology,
        rule_name: str = "bottom-up",
        state: str = "delta",
        streams: Mapping[StreamId, Stream] | None = None,
        feeds: Mapping[StreamId, Iterable[DeviceId]] | None = None,
        cost: Cost = unit_cost,
    ) -> None:
        self.journal = Journal()
        self.rule, self.state = rule(rule_name), known(state)
        self.plan = GlobalPlan(self.journal, cost)
        self.ground = PlacementContext(self.plan, SitePaths(topology, self.journal), self.journal)
        self.subplans = Subplans(self.plan, self.ground.placement, self.journal)
        self.rows = Rows.of(topology)
        self.custody = Custody()
        #: connection between two nodes -> the nodes its rows pass
        self.route: dict[Edge, tuple[NodeId, ...]] = {}
        self.over: dict[frozenset[NodeId], dict[Edge, None]] = {}
        #: an instance that has no place now -> where it was last, and its state is
        self.left: dict[InstanceId, NodeId] = {}
        self.left_at: dict[NodeId, dict[InstanceId, None]] = {}
        self._root: dict[QueryId, NodeId] = {}
        self._rooted: dict[NodeId, dict[QueryId, None]] = {}
        self._sink: dict[QueryId, SiteId | None] = {}
        self._feeding: dict[StreamId, dict[DeviceId, None]] = {}
        #: sites that left while something without a place still has its state there
        self.departed_sites: dict[SiteId, None] = {}
        self._default: dict[str, NodeId | None] = {}
        self._region_sites: dict[RegionId, int] = {}
        for site in topology.sites.values():
            self._region_sites[site.region] = self._region_sites.get(site.region, 0) + 1
        self._pending = Pending()
        #: queries that are suspended by a command, not because they have no place
        self.suspended: dict[QueryId, None] = {}
        self._before: Topology | None = None
        #: devices that left, and have not been attached since
        self._departed: dict[DeviceId, None] = {}
        #: the number of the sessions that begin with what is planned now
        self.session = session_of(1)
        #: streams that no stage has published yet
        self.undeclared: dict[StreamId, Stream] = {}
        for stream in (streams or {}).values():
            self.declare(stream, (feeds or {}).get(stream.id, ()))
        self.undeclared.clear()  # the deployment begins with these

    # -- reading

    @property
    def topology(self) -> Topology:
        return self.ground.topology

    @property
    def regions(self) -> frozenset[RegionId]:
        return frozenset(self._region_sites)

    def parked(self) -> Mapping[QueryId, str]:
        return self.rows.parked

    def has_no_place(self, query: QueryId) -> bool:
        """Whether a query is parked for want of a place; one that is suspended has one, and keeps it or moves. A
        version that has ended has none either, and gets none."""
        parked = query in self.rows.parked and query not in self.suspended
        return parked or self.rows.queries[query].until > 0

    def violations(self) -> list[Violation]:
        """The three conditions of a valid deployment, checked from scratch."""
        state, due = {}, {}
        for instance in self.ground.placement:
            names = self.plan.names.get(instance, {})
            state[instance] = {node for name in names for node in self.custody.holders(name)}
            due[instance] = [move for name in names for move in self.custody.on_the_way(name)]
        dqps = self.subplans.all()
        return violations(self.plan, self.topology, self.ground.placement, dqps, state, due)

    def sink_of(self, query: QueryId) -> SiteId | None:
        """Where the results of a query must leave, if that was requested."""
        return self._sink[query]

    # -- streams and their devices

    def declare(self, stream: Stream, devices: Iterable[DeviceId] = ()) -> None:
        """Make a stream known, with the devices that feed it. No revert takes it back; the next stage carries it."""
        self.rows.streams[stream.id] = stream
        feeding = self._feeding.setdefault(stream.id, {})
        feeding.update(dict.fromkeys(devices))
        self.rows.feeds[stream.id] = tuple(feeding)
        self.undeclared[stream.id] = stream

    def feed(self, device: DeviceId, streams: Iterable[StreamId]) -> None:
        """From now on the device feeds these streams too; queries that read them take it in."""
        for stream in streams:
            if stream not in self.rows.streams:
                msg = f"device '{device}' cannot feed stream '{stream}', which was not declared; declare it first"
                raise DeploymentError(msg)
            self._feed(stream, device)
            if device in self.topology.devices:
                self._extend(stream, device)

    def _feed(self, stream: StreamId, device: DeviceId) -> None:
        if device not in self._feeding.get(stream, ()):
            self.journal.into(self._feeding, stream, device, None)
            self.journal.put(self.rows.feeds, stream, (*self.rows.feeds.get(stream, ()), device))

    def forget(self, devices: Iterable[DeviceId]) -> None:
        """Nothing is known any more of devices that have left, unless they are back. No revert takes it back."""
        gone = frozenset(device for device in devices if device not in self.topology.devices)
        for device in gone:
            self.rows.sessions.pop(device, None)
            self.journal.drop(self.rows.stays, device)
            self.journal.drop(self._departed, device)
        for stream in [s for s, feeding in self._feeding.items() if not gone.isdisjoint(feeding)]:
            for device in sorted(gone & self._feeding[stream].keys()):
                self.journal.out_of(self._feeding, stream, device)
            self.journal.put(self.rows.feeds, stream, tuple(d for d in self.rows.feeds[stream] if d not in gone))
        self._pending.forgotten |= gone

    def covered(self, query: Query, scan: int) -> list[DeviceId]:
        """The devices in the topology whose rows a query's scan reads."""
        operator = query.shape.plan.operators[scan]
        assert isinstance(operator, Scan)
        feeding: Collection[DeviceId] = self._feeding.get(operator.stream, {}).keys()
        names = self._subscribed(query, scan)
        wanted = feeding if names is None else [d for d in names if d in feeding]
        return [device for device in wanted if device in self.topology.devices]

    def _subscribed(self, query: Query, scan: int) -> set[DeviceId] | None:
        """The devices a scan subscribes to by name, or None: all."""
        operator = query.shape.plan.operators[scan]
        assert isinstance(operator, Scan)
        stream = self.rows.streams.get(operator.stream)
        literals = query.subscriptions.get(scan)
        if literals is None or stream is None or operator.subscribe != stream.device:
            return None
        return {DeviceId(literal.strip("'").replace("''", "'")) for literal in literals}

    def _extend(self, stream: StreamId, device: DeviceId) -> None:
        for query in leaders_first(map(self.plan.query, self.plan.readers(stream))):
            query_id = query.id
            if self.rows.queries[query_id].until:
                continue  # it takes in no row any more
            scans = [i for i, s in query.shape.plan.scans if s.stream == stream and self._wants(query, i, device)]
            if scans:
                self._take(self.plan.add_device(query_id, scans, device))
                self._give_root(query_id, self.plan.uses(query_id).values())

    def _wants(self, query: Query, scan: int, device: DeviceId) -> bool:
        names = self._subscribed(query, scan)
        return names is None or device in names

    def recall(self, before: Deployment) -> None:
        """Devices are in the sessions in which an earlier process left them."""
        self.rows.recall(before)
        self._departed.update(dict.fromkeys(before.stays.keys() - self.topology.devices.keys()))

    # -- queries

    def add_query(
        self, query: Query, sink: SiteId | None, hints: Mapping[HintKey, SiteId], ways: Mapping[HintKey, Ways]
    ) -> Infeasible | None:
        """Take a query in and place it; without a place it is parked."""
        if query.id in self.rows.queries:
            msg = f"there is a query '{query.id}' already; withdraw it first or choose another name"
            raise DeploymentError(msg)
        leaders = [self.rows.queries.get(name) for name in {*query.taps.values()}]
        if any(leader is None or leader.until for leader in leaders):
            query = replace(query, taps={})  # whom it was to tap has left since
        self.ground.take_hints(hints, ways)
        query = replace(query, begins=epoch_of(self.session))
        self.take_in(query, sink, NodeId(sink) if sink is not None else self.default_root())
        return self.try_place(query.id)

    def take_in(self, query: Query, sink: SiteId | None, root: NodeId) -> None:
        """Make a query part of the plan, without a place; its rows travel to the root."""
        covered = {i: self.covered(query, i) for i, _ in query.shape.plan.scans}
        self.journal.put(self.rows.queries, query.id, query)
        self.journal.put(self._sink, query.id, sink)
        self._take(self.plan.add_query(query, covered, sink))
        self._set_root(query.id, root)
        self._pending.names.update(self.plan.uses(query.id))

    def hint(self, hints: Mapping[HintKey, SiteId]) -> None:
        """Preferred sites of operators of running queries; those that are not there are placed again."""
        self.ground.take_hints(hints, {})
        wanted = {(query, operator) for query, operator, _ in hints}
        for query in sorted({query for query, _ in wanted if query in self.rows.queries}):
            for name, instance in self.plan.uses(query).items():
                if name[:2] in wanted and self.ground.hint(instance) not in (
                    None,
                    self.ground.placement.get(instance),
                ):
                    self._pending.asked.append(instance)

    def pin(self, placement: Mapping[InstanceId, SiteId]) -> None:
        """Sites of instances, given by hand; those that are not there are placed again."""
        for name, site in placement.items():
            if name.query not in self.rows.queries:  # it was withdrawn in the same batch
                continue
            instance = self.plan.uses(name.query).get(name)
            for other in self.plan.names.get(instance, ()) if instance is not None else ():
                self.journal.drop(self.ground.by_hand, other)  # who shares it moves with it; the last word counts
            self.journal.put(self.ground.by_hand, name, NodeId(site))
            if instance is not None and self.ground.placement.get(instance) not in (None, NodeId(site)):
                self._pending.asked.append(instance)

    def ask_again(self, instances: Iterable[InstanceId]) -> None:
        """These are to be placed again."""
        self._pending.asked += instances

    def remove_query(self, query: QueryId) -> None:
        """A query that others tap goes on for them, unseen, and leaves with the last of them."""
        if self.plan.readers_of(query):
            self.journal.put(self.rows.queries, query, replace(self.rows.queries[query], internal=True, finishes=False))
            return
        tapped = set(self.rows.queries[query].taps.values())
        self.ground.forget(query)
        self._pending.names.update(self.plan.uses(query))
        self._take(self.plan.remove_query(query))
        self.journal.out_of(self._rooted, self._root[query], query)
        self.journal.drop(self._root, query)
        self.journal.drop(self._sink, query)
        self.journal.drop(self.rows.queries, query)
        for operator in [operator for operator in self.rows.key_routes if operator[0] == query]:
            self.journal.drop(self.rows.key_routes, operator)
        self.journal.drop(self.rows.parked, query)
        self.journal.drop(self.suspended, query)
        for leader in sorted(tapped):
            left = self.rows.queries.get(leader)
            if left is not None and left.unseen and not self.plan.readers_of(leader):
                self.remove_query(leader)

    def pending_moves(self, moves: Iterable[Migration]) -> None:
        """Keys change region with the stage being made."""
        self._pending.key_moves += moves

    def default_root(self) -> NodeId:
        """The site with the most capacity in the cloud, or of all where there is no cloud."""
        if "site" not in self._default:
            sites = list(self.topology.sites.values())
            cloud = [s for s in sites if s.region == CLOUD or s.kind == "cloud"] or sites
            best = max(cloud, key=self._rank, default=None)
            self.journal.put(self._default, "site", None if best is None else NodeId(best.id))
        root = self._default["site"]
        return NodeId("") if root is None else root

    def _rank(self, site: Site) -> tuple[float, int, str]:
        return site.cpu, len(self.topology.adjacency[NodeId(site.id)]), site.id

    def _set_root(self, query: QueryId, root: NodeId) -> None:
        if query in self._root:
            self.journal.out_of(self._rooted, self._root[query], query)
        self.journal.put(self._root, query, root)
        self.journal.into(self._rooted, root, query, None)
        self._give_root(query, self.plan.uses(query).values(), again=True)

    def _give_root(self, query: QueryId, instances: Iterable[InstanceId], again: bool = False) -> None:
        """Instances go to the sink of the query that brought them; a site that is gone is no sink."""
        for instance in instances:
            old = self.ground.root.get(instance)
            if old is None or (again and not self.topology.has(old)):
                self.journal.put(self.ground.root, instance, self._root[query])

    # -- changes

    def take_changes(self, new: Topology, changes: Iterable[Change]) -> tuple[list[InstanceId], set[Edge]]:
        """Move on to the new topology; returns what must be re-placed and which connections are broken."""
        old = self._before = self.topology
        found = touched(old, new, changes)
        self.ground.routes.move_to(new, found.links)
        broken = {edge for link in found.cut for edge in self.over.get(link, ())}
        # Of a device that comes back from nowhere no link was cut, but its rows take a way again.
        here = [i for device in found.devices for i in self.ground.hosted.get(NodeId(device), ())]
        broken |= {edge for instance in here for edge in self.plan.edges_at(instance) if edge[0] == instance}
        self._lose(found)
        for device in sorted(found.devices):
            self._device(old, device)
        homeless = [i for site in sorted(found.sites) for i in self._homeless(old, site)]
        self._resite(old, found.sites)
        broken = {edge for edge in broken if edge[1] in self.plan.consumers.get(edge[0], ())}
        self._pending.broken |= broken
        homeless += [i for i in (*self._pending.added, *self._pending.asked) if i in self.plan.instances]
        homeless += self._reroot()
        live = [i for i in homeless if i in self.plan.instances and i not in self.left]
        return must_move(self.ground, broken, live), broken

    def _lose(self, found: Touched) -> None:
        """State on a failed site is gone, also that of an instance that has moved on and waits for it."""
        for site in found.failed:
            self._pending.lost.update(self.custody.at(NodeId(site)))

    def _device(self, old: Topology, device: DeviceId) -> None:
        now = self.topology.devices.get(device)
        if now is None:
            self.journal.drop(self.rows.devices, device)
            self.journal.put(self._departed, device, None)
            for instance in self.plan.at_device(device):
                self._pending.names.update(self.plan.names[instance])
            self._take(self.plan.remove_device(device))
            return
        self.journal.put(self.rows.devices, device, now.site)
        self._session(device)
        if device not in old.devices:
            for stream, devices in self._feeding.items():
                if device in devices:
                    self._extend(stream, device)

    def _session(self, device: DeviceId) -> None:
        """A device that turns up in another region, or comes back after it had left, begins a new session there."""
        region = self.topology.region_of(NodeId(device))
        before = self.rows.stays.get(device)
        if region is None or (region == before and device not in self._departed):
            return
        self.rows.sessions[device] = self._pending.sessions[device] = self.session
        self.journal.put(self.rows.stays, device, region)
        self.journal.drop(self._departed, device)

    def _homeless(self, old: Topology, site: SiteId) -> list[InstanceId]:
        """The instances that can no longer be on a site: all, if it is gone; as many as are too much for it."""
        here = self.ground.hosted.get(NodeId(site), {})
        now = self.topology.sites.get(site)
        if now is None:
            return list(here)
        excess = self.ground.load.get(NodeId(site), 0.0) - now.cpu
        # What holds no state goes first, then what came last.
        order = sorted(here, key=lambda i: (not self.plan.instances[i].stateful, i), reverse=True)
        leaving = []
        for instance in order:
            cost = self.plan.instances[instance].cost
            if excess > 0 and cost > 0:
                leaving.append(instance)
                excess -= cost
        return leaving

    def _resite(self, old: Topology, sites: Iterable[SiteId]) -> None:
        for site in sites:
            was, now = old.sites.get(site), self.topology.sites.get(site)
            self.journal.drop(self._default, "site")
            if was is not None:
                self._count(was.region, -1)
            if now is not None:
                self._count(now.region, 1)
                self.journal.put(self.rows.sites, site, now.region)
                self.journal.drop(self.departed_sites, site)
            elif site in self.rows.sites:
                self.journal.put(self.departed_sites, site, None)

    def _count(self, region: RegionId, by: int) -> None:
        left = self._region_sites.get(region, 0) + by
        if left:
            self.journal.put(self._region_sites, region, left)
        else:
            self.journal.drop(self._region_sites, region)

    def _reroot(self) -> list[InstanceId]:
        """Queries whose sink may be anywhere go to another root when theirs is gone; returns what must move for it."""
        moving: list[InstanceId] = []
        for root in [root for root in self._rooted if not self.topology.has(root)]:
            for query in sorted(self._rooted[root]):
                if self._sink[query] is None and self.topology.sites:
                    self._set_root(query, self.default_root())
                moving += [i for i in self.plan.uses(query).values() if self.plan.instances[i].kind == "Sink"]
        return moving

    # -- placing

    def settle(self, todo: Iterable[InstanceId], broken: Iterable[Edge]) -> dict[QueryId, str]:
        """Place what must move, query by query; returns the queries that had to be parked, with the reason."""
        waiting = set(todo)
        parts: dict[QueryId, list[InstanceId]] = {}
        edges: dict[QueryId, list[Edge]] = {}
        for instance in sorted(waiting, key=lambda i: (self.plan.instances[i].depth, i)):
            for query in self.plan.users(instance):
                parts.setdefault(query, []).append(instance)
        for edge in sorted(broken):
            for query in self.plan.users(edge[1]):
                edges.setdefault(query, []).append(edge)
        parked: dict[QueryId, str] = {}
        for query in sorted({*parts, *edges}):
            if self.has_no_place(query):
                continue
            part = [i for i in parts.get(query, ()) if i in waiting]
            fault = self.place(part, edges.get(query, ()))
            if fault is None:
                waiting.difference_update(part)
            else:
                self.park(query, fault.reason)
                parked[query] = fault.reason
        return parked

    def try_place(self, query: QueryId) -> Infeasible | None:
        """Place all of a query that has no place; parks it with the reason or lets it go on."""
        order = self.plan.instances
        part = [i for i in self.plan.uses(query).values() if i not in self.ground.placement]
        fault = self.place(sorted(set(part), key=lambda i: (order[i].depth, i)), ())
        if fault is not None:
            self.park(query, fault.reason)
        else:
            self.journal.drop(self.rows.parked, query)
        return fault

    def place(self, part: list[InstanceId], edges: Iterable[Edge]) -> Infeasible | None:
        """Place these instances by the rule, and find routes for them and for `edges`; all or nothing."""
        mark, now = self.journal.mark(), self.ground.placement
        self.ground.before = {i: now[i] for i in part if i in now}
        for instance in part:
            self.ground.clear(instance)
            self.leave(instance, None)
        fault = self.rule(self.ground, part)
        for edge in sorted({*edges, *(e for i in part for e in self.plan.edges_at(i))}):
            fault = fault or self.reroute(edge)
        if fault is not None:
            self.journal.undo(mark)
        return fault

    def reroute(self, edge: Edge) -> Infeasible | None:
        self.unroute(edge)
        start, end = self.ground.placement.get(edge[0]), self.ground.placement.get(edge[1])
        if start is None or end is None or start == end or self.ground.away(start):
            return None
        way = self.ground.wished_way(edge[0], start, end) or self.ground.way(edge[1], start)
        path = way[: way.index(end) + 1] if way is not None and end in way else self.topology.path(start, end)
        if path is None:
            return self.ground.no_path(edge[1], start)
        self.journal.put(self.route, edge, path)
        for a, b in pairwise(path):
            self.journal.into(self.over, frozenset((a, b)), edge, None)
        return None

    def unroute(self, edge: Edge) -> None:
        path = self.route.get(edge)
        if path is not None:
            self.journal.drop(self.route, edge)
            for a, b in pairwise(path):
                self.journal.out_of(self.over, frozenset((a, b)), edge)

    def park(self, query: QueryId, reason: str) -> None:
        """Take a query off its nodes; its state stays where it is, its sources buffer."""
        self.journal.put(self.rows.parked, query, reason)
        self.journal.drop(self.suspended, query)  # it waits for a place now, and goes on when there is one
        self.vacate(query)

    def vacate(self, query: QueryId) -> None:
        """A query's instances leave their nodes, unless one of another query that has a place is among their users.
        Their rows in the deployment stay: what is under way goes there."""
        for instance in self.plan.uses(query).values():
            if all(map(self.has_no_place, self.plan.users(instance))):
                node = self.ground.placement.get(instance) or self._waiting_room(instance)
                for edge in self.plan.edges_at(instance):
                    self.unroute(edge)
                self.ground.clear(instance)
                if node is not None:
                    self.leave(instance, node)

    def _waiting_room(self, instance: InstanceId) -> NodeId | None:
        """Where an instance that never had a place is said to be: rows that reach a region before it is placed must
        all come to one home, from where its state can follow it."""
        root = self.ground.root[instance]
        known = instance in self.left or not self.topology.has(root)
        return None if known else self.plan.instances[instance].pinned or root

    def leave(self, instance: InstanceId, node: NodeId | None) -> None:
        """Note where an instance without a place was; None: forget it."""
        before = self.left.get(instance)
        if before != node:
            self._pending.names.update(self.plan.names.get(instance, ()))
        if before is not None:
            self.journal.out_of(self.left_at, before, instance)
            self.journal.drop(self.left, instance)
        if node is not None:
            self.journal.put(self.left, instance, node)
            self.journal.into(self.left_at, node, instance, None)

    def resume_parked(self) -> None:
        """Try every parked query again."""
        for query in sorted(self.rows.parked.keys() - self.suspended.keys()):
            self.try_place(query)

    def path_of_state(self, source: NodeId, target: NodeId) -> tuple[NodeId, ...]:
        """Over which nodes state gets from one to the other; a site that is leaving still has the links it had."""
        path = self.topology.path(source, target)
        if path is None and self._before is not None:
            path = self._before.path(source, target)
        return path or ()

    # -- the result

    def _take(self, edit: PlanEdit) -> None:
        """Note an edit of the plan; instances that left it lose their place."""
        self._pending.note(edit)
        for edge in edit.cut:
            self.unroute(edge)
        for instance, cost in edit.removed:
            self.ground.clear(instance, cost)
            self.leave(instance, None)
            self.journal.drop(self.ground.root, instance)

    def take_pending(self) -> Pending:
        """What was noted for the stage being made; the next one begins with nothing."""
        pending, self._pending = self._pending, Pending()
        return pending

    @contextmanager
    def dry_run(self) -> Iterator[None]:
        """Whatever is planned inside is taken back at the end, numbers handed out included."""
        mark, numbers = self.journal.mark(), self.subplans.numbers()
        sessions, before = dict(self.rows.sessions), self._before
        try:
            yield
        finally:
            self.abandon(mark)
            self.subplans.renumber(numbers)
            self.rows.sessions, self._before = sessions, before

    def settled(self) -> None:
        """What was planned so far is in force, and will not be taken back."""
        self.journal.forget()
        self.subplans.tidy(self.topology.has)

    def abandon(self, mark: int) -> None:
        """Take back everything written since the mark."""
        self.journal.undo(mark)
        self._pending = Pending()
