"""The global plan: the operators of all admitted queries as one DAG of instances.

What a query taps of another (`model/taps.py`) is executed once: the two have one set of instances for it, which is
placed and moves as one. Operators that run once for each device have one instance a device. Sinks are never shared.

Each query keeps its own names (`query/operator@device`); `uses` says which instance stands behind each.
Adding or removing a query or a device touches only its own part of the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from godwit.ids import DeviceId, NodeId, QueryId, SiteId, StreamId
from godwit.model.instances import InstanceId, instance_id
from godwit.model.journal import Journal
from godwit.model.plan import Operator, Plan, Query, Scan, Sink

Edge = tuple[InstanceId, InstanceId]
Cost = Callable[[Operator], float]


def unit_cost(operator: Operator) -> float:
    """One unit of cpu an operator; where rows enter and leave costs nothing."""
    return 0.0 if isinstance(operator, Scan | Sink) else 1.0


@dataclass(frozen=True, slots=True)
class Instance:
    """One operator at one place: a node of the global plan."""

    id: InstanceId
    operator: Operator
    #: the device it runs for; None: it runs once for all
    device: DeviceId | None
    #: longest chain of operators below it; producers always lie deeper than their consumers
    depth: int
    cost: float
    #: where it must be: a scan at its device, a sink at the site its user named
    pinned: NodeId | None

    @property
    def kind(self) -> str:
        return type(self.operator).__name__

    @property
    def stateful(self) -> bool:
        return self.operator.stateful


@dataclass(frozen=True)
class PlanEdit:
    """What adding or removing something did to the global plan."""

    added: tuple[InstanceId, ...] = ()
    #: with what each cost
    removed: tuple[tuple[InstanceId, float], ...] = ()
    #: edges that are no more; those that came are found at the instances
    cut: tuple[Edge, ...] = ()
    #: edges that came between instances, old or new
    joined: tuple[Edge, ...] = ()

    def __add__(self, other: PlanEdit) -> PlanEdit:
        return PlanEdit(
            self.added + other.added, self.removed + other.removed, self.cut + other.cut, self.joined + other.joined
        )


@dataclass(frozen=True)
class _Own:
    """What the plan remembers about a query."""

    query: Query
    depths: tuple[int, ...]
    sink: SiteId | None
    #: operator -> the devices it has an instance for; absent: it runs once for all
    devices: Mapping[int, tuple[DeviceId, ...]]


class GlobalPlan:
    """All instances, with the indexes that keep one change cheap."""

    def __init__(self, journal: Journal | None = None, cost: Cost = unit_cost) -> None:
        self._journal = journal or Journal()
        self._cost = cost
        self.instances: dict[InstanceId, Instance] = {}
        self.producers: dict[InstanceId, dict[InstanceId, None]] = {}
        self.consumers: dict[InstanceId, dict[InstanceId, None]] = {}
        #: instance -> the names queries have for it -> the query
        self.names: dict[InstanceId, dict[InstanceId, QueryId]] = {}
        #: query -> its own name of an instance -> the instance
        self._uses: dict[QueryId, dict[InstanceId, InstanceId]] = {}
        self._queries: dict[QueryId, _Own] = {}
        self._at_device: dict[DeviceId, dict[InstanceId, None]] = {}
        self._readers: dict[StreamId, dict[QueryId, None]] = {}

    # -- reading

    @property
    def queries(self) -> Iterable[QueryId]:
        return self._queries.keys()

    def query(self, query: QueryId) -> Query:
        return self._queries[query].query

    def uses(self, query: QueryId) -> Mapping[InstanceId, InstanceId]:
        """The query's own name of each of its instances -> the instance (another query's, where it taps that)."""
        return self._uses[query]

    def users(self, instance: InstanceId) -> set[QueryId]:
        return set(self.names[instance].values())

    def readers_of(self, query: QueryId) -> set[QueryId]:
        """Those who tap a query."""
        own = (instance for instance in self._uses[query].values() if instance.query == query)
        return {user for instance in own for user in self.users(instance)} - {query}

    def at_device(self, device: DeviceId) -> Iterable[InstanceId]:
        return self._at_device.get(device, {}).keys()

    def readers(self, stream: StreamId) -> Iterable[QueryId]:
        return self._readers.get(stream, {}).keys()

    def neighbours(self, instance: InstanceId) -> Iterator[InstanceId]:
        yield from self.producers.get(instance, ())
        yield from self.consumers.get(instance, ())

    def edges_at(self, instance: InstanceId) -> Iterator[Edge]:
        for producer in self.producers.get(instance, ()):
            yield producer, instance
        for consumer in self.consumers.get(instance, ()):
            yield instance, consumer

    # -- changing

    def add_query(self, query: Query, covered: Mapping[int, Iterable[DeviceId]], sink: SiteId | None) -> PlanEdit:
        """Add a query after those it taps; `covered` names for each of its scans the devices whose rows it reads."""
        assert query.id not in self._queries, f"query '{query.id}' is in the plan already"
        own = _Own(query, _depths(query.shape.plan), sink, _local_devices(query, covered))
        self._journal.put(self._queries, query.id, own)
        self._journal.put(self._uses, query.id, {})
        for _, scan in query.shape.plan.scans:
            self._journal.into(self._readers, scan.stream, query.id, None)
        edit = _Recorder()
        for i in sorted(query.executed):
            for device in own.devices.get(i, (None,)):
                self._name(own, i, query.shape.plan.operators[i], device, edit)
        for i in sorted(query.executed):
            for device in own.devices.get(i, (None,)):
                self._wire(own, i, device, edit)
        return edit.result()

    def remove_query(self, query: QueryId) -> PlanEdit:
        own = self._queries[query]
        edit = _Recorder()
        for name in list(self._uses[query]):
            self._unname(query, name, edit)
        for _, scan in own.query.shape.plan.scans:
            self._journal.out_of(self._readers, scan.stream, query)
        self._journal.drop(self._uses, query)
        self._journal.drop(self._queries, query)
        return edit.result()

    def add_device(self, query: QueryId, scans: Iterable[int], device: DeviceId) -> PlanEdit:
        """The device's branch below a query's holistic operators, for those of its scans that read the device."""
        own = self._queries[query]
        plan = own.query.shape.plan
        grown = {
            i: (*own.devices[i], device)
            for i in own.devices
            if device not in own.devices[i] and any(scan in scans for scan in plan.scans_below(i))
        }
        self._journal.put(self._queries, query, replace(own, devices={**own.devices, **grown}))
        own = self._queries[query]
        edit = _Recorder()
        for i in grown:
            self._name(own, i, plan.operators[i], device, edit)
        for i in grown:
            self._wire(own, i, device, edit)
            consumer = None if i == len(plan.operators) - 1 else plan.consumer(i)[0]
            if consumer is not None and consumer not in own.devices:
                self._wire(own, consumer, None, edit, only=device)
        return edit.result()

    def remove_device(self, device: DeviceId) -> PlanEdit:
        """The device's branches of all queries."""
        edit = _Recorder()
        names = [(q, name) for i in self.at_device(device) for name, q in self.names[i].items()]
        for query, name in names:
            self._unname(query, name, edit)
        for query in {q for q, _ in names}:
            own = self._queries[query]
            fewer = {i: tuple(d for d in devices if d != device) for i, devices in own.devices.items()}
            self._journal.put(self._queries, query, replace(own, devices=fewer))
        return edit.result()

    # -- the inside

    def _name(self, own: _Own, i: int, operator: Operator, device: DeviceId | None, edit: _Recorder) -> None:
        """Give the query its own name for an instance; make the instance, unless that of a query it taps is used."""
        name = shared = instance_id(own.query.id, i, device)
        if (leader := own.query.taps.get(i)) is not None:
            shared = self._uses[leader][instance_id(leader, i, device)]
        else:
            self._make(shared, own, i, operator, device)
            edit.added.append(shared)
        self._journal.into(self.names, shared, name, own.query.id)
        self._journal.put(self._uses[own.query.id], name, shared)

    def _make(self, name: InstanceId, own: _Own, i: int, operator: Operator, device: DeviceId | None) -> None:
        pinned = NodeId(device) if device is not None and isinstance(operator, Scan) else None
        if isinstance(operator, Sink) and own.sink is not None:
            pinned = NodeId(own.sink)
        made = Instance(name, operator, device, own.depths[i], self._cost(operator), pinned)
        self._journal.put(self.instances, name, made)
        if device is not None:
            self._journal.into(self._at_device, device, name, None)

    def _wire(self, own: _Own, i: int, device: DeviceId | None, edit: _Recorder, only: DeviceId | None = None) -> None:
        """Connect an instance with its producers (all devices' branches, or only one)."""
        uses = self._uses[own.query.id]
        consumer = uses[instance_id(own.query.id, i, device)]
        for j in own.query.inputs(i):
            branches: Iterable[DeviceId | None] = own.devices.get(j, (None,))
            one = device if device is not None else only
            if one is not None:  # (its name says whether it has a branch here: a query may have very many devices)
                branches = (one,) if j in own.devices and instance_id(own.query.id, j, one) in uses else ()
            for branch in branches:
                producer = uses[instance_id(own.query.id, j, branch)]
                if consumer not in self.consumers.get(producer, ()):
                    self._journal.into(self.consumers, producer, consumer, None)
                    self._journal.into(self.producers, consumer, producer, None)
                    edit.joined.append((producer, consumer))

    def _unname(self, query: QueryId, name: InstanceId, edit: _Recorder) -> None:
        shared = self._uses[query][name]
        self._journal.drop(self._uses[query], name)
        self._journal.out_of(self.names, shared, name)
        if shared not in self.names:
            self._unmake(shared, edit)

    def _unmake(self, name: InstanceId, edit: _Recorder) -> None:
        gone = self.instances[name]
        for producer, consumer in list(self.edges_at(name)):
            self._journal.out_of(self.consumers, producer, consumer)
            self._journal.out_of(self.producers, consumer, producer)
            edit.cut.append((producer, consumer))
        self._journal.drop(self.instances, name)
        if gone.device is not None:
            self._journal.out_of(self._at_device, gone.device, name)
        edit.removed.append((name, gone.cost))


class _Recorder:
    """Collects a PlanEdit."""

    def __init__(self) -> None:
        self.added: list[InstanceId] = []
        self.removed: list[tuple[InstanceId, float]] = []
        self.cut: list[Edge] = []
        self.joined: list[Edge] = []

    def result(self) -> PlanEdit:
        return PlanEdit(tuple(self.added), tuple(self.removed), tuple(self.cut), tuple(self.joined))


def _local_devices(query: Query, covered: Mapping[int, Iterable[DeviceId]]) -> dict[int, tuple[DeviceId, ...]]:
    """The devices of each operator that runs once a device; a union of two streams has those of both."""
    plan = query.shape.plan
    local = [i for i in sorted(query.executed) if plan.is_local(i)]
    return {i: tuple(sorted({d for scan in plan.scans_below(i) for d in covered.get(scan, ())})) for i in local}


def _depths(plan: Plan) -> tuple[int, ...]:
    depths: list[int] = []
    for operator in plan.operators:
        depths.append(1 + max((depths[i] for i in operator.inputs), default=-1))
    return tuple(depths)
