"""The admission controller: a query is let in if it fits, and what it shares with others is executed once.

On when every site of the topology says what CPU and bandwidth it has (or by `Fleet(admission=True)`). A query is tried
in the join orders that add least to what runs (`sql/orders.py`); admission plans what is new beside what runs
(`admission/admission.py`); where it wants operators becomes placement hints. While the fleet runs, what devices are
seen to send replaces what was declared; past a threshold everything is planned again, and what is better elsewhere
moves. With admission or without, what a query has in common with others it taps, or reads from a cut of theirs
(`sql/sharing.py`), which ends with it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from godwit.admission.admission import Admission, weights_named
from godwit.admission.answers import Admitted, AdmittedPlan, Replanned
from godwit.admission.fleet_spec import (
    GroundSpec,
    Measured,
    Specs,
    drifted,
    gives_capacities,
    has_drifted,
    hints,
    ways,
)
from godwit.api.core import FleetCore
from godwit.api.relays import WaysFile
from godwit.control.reconfigurations import ReconfigurationRecord
from godwit.errors import AdmissionError
from godwit.ids import DeviceId, QueryId, SiteId
from godwit.model.changes import DeviceRemoved
from godwit.model.deployment import Deployment
from godwit.model.instances import instance_id
from godwit.model.plan import Query, Stream
from godwit.model.taps import find, producer
from godwit.placement.rules.base import HintKey, Ways
from godwit.sql import orders
from godwit.sql.sharing import Split, split, widened

#: join orders that are tried before a query is refused, the cheapest first
TRIES = 4
#: seconds between two looks at what devices send
LOOK_S = 5.0
#: by so much, relative to what was planned with, a stream must have changed to be planned for again
DRIFT = 0.3


@dataclass(frozen=True)
class Let:
    """What to deploy for a query that was let in."""

    reader: Query
    #: what it reads of other queries
    parts: tuple[tuple[Query, Stream], ...] = ()
    #: where the rows of the parts come out
    outlet: SiteId | None = None
    #: places for operators: of what is new, and of what moves for it
    hints: Mapping[HintKey, SiteId] = field(default_factory=dict)
    #: over which sites their rows go
    ways: Mapping[HintKey, Ways] = field(default_factory=dict)


class AdmissionController:
    """Holds admission's view of the fleet.

    Where things run is in the deployment, and the ways of their rows are in a file, so a restart loses nothing.
    """

    def __init__(self, fleet: FleetCore, wanted: bool | str | None) -> None:
        """`wanted`: weights by name (`pack`, `balance`, `paper`), or just whether; None: where capacities are given."""
        self._fleet, self._wanted = fleet, wanted
        self._weights = weights_named(wanted if isinstance(wanted, str) else "paper")
        self._ground: GroundSpec | None = None
        self._admission: Admission | None = None
        self._hinted: dict[HintKey, SiteId] = {}
        #: what devices were seen to send when it was last planned for
        self._measured: Measured = {}
        self._looked = 0.0
        self._ways = WaysFile(fleet.store)

    @property
    def on(self) -> bool:
        return gives_capacities(self._fleet.plane.topology) if self._wanted is None else bool(self._wanted)

    # -- queries come and go

    def orders(self, query: Query) -> list[Query]:
        """The join orders in which the query may be let in, the written one first."""
        known = self._fleet.deployment.streams, self._fleet.functions.names
        return list(orders(query, *known)) if self.on else [query]

    def admit(self, candidates: Sequence[Query], number: int) -> Let:
        """Let a query in, in one of its orders, or raise an AdmissionError: what is short, where, what would help.
        `number`: that of the command."""
        if not self.on:
            return self._let(self._sharing(candidates[0], number))
        refused = None
        for made in self._cheapest(candidates, number):
            parts = [part for part, _ in made.parts]
            answer = self._current().submit(self._specs(parts).of(made.reader))
            if isinstance(answer, Admitted):
                return self._let(made, answer.plan)
            refused = refused or answer
        assert refused is not None
        remedy = "Give the sites that much more, or stop a query; the others go on as they are"
        msg = f"query '{candidates[0].id}' does not fit: {refused.reason}. {remedy}"
        raise AdmissionError(msg)

    def settle(self, let: Let) -> None:
        """The query runs: move what admission has moved for it."""
        if self._admission is None:
            return
        self._ways.keep(let.ways)
        self._move(f"room for query '{let.reader.id}'")

    def leave(self, query: Query) -> None:
        """A query has ended: its resources are free, and what it read of others ends with it."""
        if self._admission is not None and self._admission.knows(query.id):
            self._admission.withdraw(query.id)
        queries = self._fleet.deployment.queries
        read = {part for one in queries.values() for part in one.parts}
        ended = [one.id for one in queries.values() if one.cut is not None and not one.until and one.id not in read]
        for part in ended:
            self._fleet.undeploy(part)
            self._fleet.change([DeviceRemoved(producer(part))])
        self._ways.drop(self._fleet.deployment.queries)

    def places(self, query: Query, deployment: Deployment) -> tuple[Mapping[HintKey, SiteId], Mapping[HintKey, Ways]]:
        """What admission wanted for a query in an earlier process."""
        plan, relayed = query.shape.plan, self._ways.of(query.id)
        here: dict[HintKey, SiteId] = {}
        if query.internal or query.parts or relayed:
            for operator in range(len(plan.operators)):
                scans = plan.scans_below(operator) if plan.is_local(operator) else ()
                devices: list[DeviceId | None] = [d for scan in scans for d in deployment.devices_of(query, scan)]
                for device in devices or [None]:
                    node = deployment.placement.get(instance_id(query.id, operator, device))
                    if node is not None and SiteId(node) in deployment.sites:
                        here[query.id, operator, deployment.devices.get(device) if device else None] = SiteId(node)
        return here, relayed

    def plan_of(self, query: QueryId) -> AdmittedPlan | None:
        """Admission's plan, as far as it is known in this process."""
        known = self._admission is not None and query in self._admission.admitted
        return self._admission.plan(query) if known and self._admission is not None else None

    # -- rates change

    def look_if_due(self) -> None:
        now = time.monotonic()
        if now - self._looked >= LOOK_S:
            self._looked = now
            if self.on:  # without it, no need to wait for a decision
                self.look()

    def look(self) -> Replanned | None:
        """Plan again if devices, or cuts, send other than was planned with; None: they do not."""
        fleet = self._fleet
        with fleet.control.driving():
            if not self.on or not fleet.deployment.queries:
                return None
            admission, seen = self._current(), {**self._measured, **fleet.gateway.meter.mbps()}
            streams = drifted(fleet.deployment, self._measured, seen, DRIFT)
            parts = [q for q in fleet.deployment.queries.values() if q.cut is not None]
            observed = self._specs((), seen).observed({part.id: producer(part.id) for part in parts})
            planned = {signature: admission.rate(signature) for signature in observed}
            joins = [s for s, was in planned.items() if was is not None and has_drifted(was, observed[s], DRIFT)]
            if not streams and not joins:
                return None
            self._measured = seen
            admission.costs.observe(observed)
            replanned = self._refresh(admission)
            what = ", ".join([f"stream '{s}'" for s in streams] or ["a shared join"])
            self._tell(f"admission: {what} brings other than planned", replanned)
            return replanned

    def _tell(self, cause: str, replanned: Replanned) -> None:
        moved = self._move(cause)
        trouble = [refused.reason for refused in (*replanned.short, *replanned.stranded)]
        if not moved or trouble:
            last = self._fleet.plane.coordinator.record.number
            queries = tuple(map(QueryId, replanned.replanned))
            reason = "; ".join(trouble) or "everything is well where it is"
            self._fleet.history.add(ReconfigurationRecord(last, cause, queries, outcome="declined", reason=reason))

    # -- inside

    def _cheapest(self, candidates: Sequence[Query], number: int) -> list[Split]:
        """The query in its orders, with what it shares; first those that add least to what runs."""
        made = [self._sharing(one, number) for one in candidates]
        admission = self._current()

        def weight(one: Split) -> tuple[float, ...]:
            root = self._specs([part for part, _ in one.parts]).of(one.reader).root
            return tuple(round(x, 6) for x in admission.weigh(root))

        return sorted(made, key=weight)[:TRIES] if len(made) > 1 else made

    def tapping(self, query: Query) -> Query:
        """The query as one that taps what it has in common with those that run."""
        return replace(query, taps=find(query, self._fleet.deployment.queries.values()))

    def _sharing(self, query: Query, number: int) -> Split:
        """The query as one that taps others of its shape or, where it has nothing in common with those, reads what it
        has in common with others. Where admission decides, joins keep all columns, so that more can be shared."""
        if self.on:
            query = widened(query, self._fleet.deployment.streams)
        tapping = self.tapping(query)
        if tapping.taps:
            return Split(tapping)
        return split(query, self._fleet.deployment.queries.values(), self._fleet.rows_of, number)

    def _let(self, made: Split, plan: AdmittedPlan | None = None) -> Let:
        outlet = SiteId(self._fleet.plane.planner.default_root()) if made.parts else None
        if plan is None:
            return Let(made.reader, made.parts, outlet)
        places = hints((p.output, p.host) for p in plan.operators)
        return Let(made.reader, made.parts, outlet, places, ways(self._current().tree(made.reader.id)))

    def _move(self, cause: str) -> bool:
        """Give hints for what admission has moved since last time; whether there was anything."""
        assert self._admission is not None
        plans = (self._admission.plan(query) for query in self._admission.admitted)
        now = hints((p.output, p.host) for plan in plans for p in plan.operators)
        moved = {hint: site for hint, site in now.items() if self._hinted.get(hint, site) != site}
        self._hinted = now
        if moved:
            self._fleet.hint(moved, cause)
        return bool(moved)

    def _specs(self, parts: Iterable[Query], measured: Measured | None = None) -> Specs:
        fleet = self._fleet
        queries = [*fleet.deployment.queries.values(), *parts]
        return Specs(fleet.plane.topology, fleet.deployment, queries, self._measured if measured is None else measured)

    def _current(self) -> Admission:
        """Admission over the ground as it is now."""
        if self._admission is None:
            self._admission = Admission((), weights=self._weights)
            self._refresh(self._admission)
        elif self._spec() != self._ground:
            self._refresh(self._admission)
        return self._admission

    def _spec(self) -> GroundSpec:
        return GroundSpec.of(self._fleet.plane.topology, self._fleet.deployment, self._measured)

    def _refresh(self, admission: Admission) -> Replanned:
        """Update the admission planner. Running queries stay; if they no longer fit, new ones do not either."""
        ground, specs = self._spec(), self._specs(())
        self._ground = ground
        users = [specs.of(query) for query in self._fleet.deployment.queries.values() if not query.internal]
        return admission.refresh(ground.hosts, ground.links, ground.bases, users)
