"""The doorkeeper: a query is let in if it fits, and what it shares with others is executed once.

On when every site of the topology says what CPU and bandwidth it has (or by `Fleet(admission=True)`). A query is split
at its joins (`planner/share.py`); admission plans what is new beside what runs (`planner/admission.py`); where it wants
operators goes to the deployment as wishes. A part lives as long as anybody reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from godwit.deployment.clocks import NEVER
from godwit.errors import AdmissionError
from godwit.ids import QueryId, SiteId
from godwit.model.changes import DeviceRemoved
from godwit.model.deployment import Deployment, instance_id
from godwit.model.plan import Query, Stream
from godwit.placement.rules.base import Ways, Wish
from godwit.planner.admission import Admission
from godwit.planner.answers import Plan, Refused
from godwit.planner.fleet_spec import GroundSpec, Specs, gives_capacities, ways, wishes
from godwit.planner.share import split
from godwit.runtime.derive import producer

if TYPE_CHECKING:
    from godwit.runtime.fleet import Fleet


@dataclass(frozen=True)
class Let:
    """What to deploy for a query that was let in."""

    reader: Query
    #: shared parts that do not run yet, inputs before outputs
    starting: tuple[tuple[Query, Stream], ...] = ()
    #: parts that run already
    reused: tuple[Query, ...] = ()
    #: where the results of the starting parts come out
    sinks: Mapping[QueryId, SiteId] = field(default_factory=dict)
    #: places for operators: of what is new, and of what moves for it
    wishes: Mapping[Wish, SiteId] = field(default_factory=dict)
    #: over which sites their rows go
    ways: Mapping[Wish, Ways] = field(default_factory=dict)


class Doorkeeper:
    """Holds admission's view of the fleet. What it needs to know is in the deployment, so a restart loses nothing."""

    def __init__(self, fleet: Fleet, wanted: bool | None) -> None:
        self._fleet, self._wanted = fleet, wanted
        self._ground: GroundSpec | None = None
        self._admission: Admission | None = None
        self._wished: dict[Wish, SiteId] = {}

    @property
    def on(self) -> bool:
        return gives_capacities(self._fleet.plane.topology) if self._wanted is None else self._wanted

    def admit(self, query: Query) -> Let:
        """Let a query in, or raise an AdmissionError that says what is short, where, and what would help."""
        if not self.on:
            return Let(query)
        deployment = self._fleet.deployment
        running = {q.identity: q for q in deployment.queries.values() if q.internal}
        made = split(query, deployment.streams, running, int(deployment.epoch) + 1)
        starting = tuple(p for p in made.parts if p[0].id not in deployment.queries)
        plan = self._plan(made.reader, [part for part, _ in made.parts])
        places = wishes((p.output, p.host) for p in plan.operators)
        sinks = {part.id: self._outlet(part, places) for part, _ in starting}
        reused = tuple(part for part, _ in made.parts if part.id in deployment.queries)
        assert self._admission is not None
        return Let(made.reader, starting, reused, sinks, places, ways(self._admission.tree(query.id)))

    def settle(self, let: Let) -> None:
        """The query runs: move what admission has moved for it, and tell it how far the parts it joined have come."""
        if self._admission is None:
            return
        plans = (self._admission.plan(query) for query in self._admission.admitted)
        now = wishes((p.output, p.host) for plan in plans for p in plan.operators)
        moved = {wish: site for wish, site in now.items() if self._wished.get(wish, site) != site}
        self._wished = now
        if moved:
            self._fleet.wish(moved, f"room for query '{let.reader.id}'")
        for part in let.reused:
            assert part.target is not None
            device = producer(part.id)
            clock = self._fleet.gateway.source(part.target, device).clock
            if clock > NEVER:
                self._fleet.gateway.tell(part.target, {device: clock}, self._fleet.deployment)

    def leave(self, query: Query) -> None:
        """A query has ended: its resources are free, and parts that nobody reads any more end too."""
        if self._admission is not None and query.id in self._admission.admitted:
            self._admission.withdraw(query.id)
        for part in reversed(query.parts):
            readers = [q for q in self._fleet.deployment.queries.values() if part in q.parts]
            if not readers and part in self._fleet.deployment.queries:
                self._fleet.undeploy(part)
                self._fleet.change([DeviceRemoved(producer(part))])

    @staticmethod
    def places(query: Query, deployment: Deployment) -> tuple[SiteId | None, Mapping[Wish, SiteId]]:
        """Where a query was in an earlier process: a derived stream's sink stays, and so does what admission placed."""
        sink = len(query.shape.plan.operators) - 1
        known = {i: deployment.placement.get(instance_id(query.id, i)) for i in range(sink + 1)}
        pinned = known[sink] if query.target else None
        admitted = query.internal or query.parts
        here: dict[Wish, SiteId] = {}
        for i, node in known.items():
            if node is not None and admitted:
                here[query.id, i, None] = SiteId(node)
        return SiteId(pinned) if pinned else None, here

    def plan_of(self, query: QueryId) -> Plan | None:
        """Admission's plan, as far as it is known in this process."""
        known = self._admission is not None and query in self._admission.admitted
        return self._admission.plan(query) if known and self._admission is not None else None

    def _plan(self, reader: Query, parts: list[Query]) -> Plan:
        admission, specs = self._current(parts)
        answer = admission.submit(specs.of(reader))
        if isinstance(answer, Refused):
            remedy = "Give the sites that much more, or stop a query; the others go on as they are"
            msg = f"query '{reader.id}' does not fit: {answer.reason}. {remedy}"
            raise AdmissionError(msg)
        return answer.plan

    def _current(self, parts: list[Query]) -> tuple[Admission, Specs]:
        """Admission over the ground as it is; made anew when the ground has changed since it was last asked."""
        fleet = self._fleet
        deployment, topology = fleet.deployment, fleet.plane.topology
        ground = GroundSpec.of(topology, deployment)
        specs = Specs(topology, deployment, [*deployment.queries.values(), *parts])
        if self._admission is None or ground != self._ground:
            admission = Admission(ground.hosts, ground.links, streams=ground.bases)
            for query in deployment.queries.values():
                if not query.internal:
                    admission.submit(specs.of(query))  # what runs, runs; if it no longer fits, newcomers do not either
            self._ground, self._admission = ground, admission
        return self._admission, specs

    def _outlet(self, part: Query, places: Mapping[Wish, SiteId]) -> SiteId:
        """A part's results come out where its join is."""
        top = len(part.shape.plan.operators) - 1
        for operator in range(top, -1, -1):
            if (part.id, operator, None) in places:
                return places[part.id, operator, None]
        return SiteId(self._fleet.plane.planner.default_root())
