"""Plan versions: a running query goes on under another plan, with its state, and under its own name.

A change is made of one or two *switches*. Each is one epoch: the source logs' ends when it is published are the line
between the two versions. The old one answers everything up to the line and leaves its state; the new one reads on from
the line, and takes the state over like that of an instance that moved (`region/inherit.py`).

    moving-state      rows wait in front of the new joins until their state is there
    background        new rows are taken in at once; they meet the old ones when the state is there
    parallel-track    first a plan that runs both boxes, then, when the old one has no old row left, the new plan

What must follow a switch (the old version goes; the second switch) is asked for by a command of its own, as soon as a
commit shows that it can: so it survives a crash.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from godwit.api.core import FleetCore
from godwit.control.commands import AdvancePlan
from godwit.control.events import PlanChanged, QueryWithdrawn
from godwit.control.plan_versions import change_plan
from godwit.delivery.delivery import Subject
from godwit.errors import DeploymentError
from godwit.ids import Epoch, QueryId, SiteId
from godwit.model.instances import instance_id
from godwit.model.plan import Join, Operator, Query
from godwit.model.taps import readers
from godwit.placement.rules.base import Wish
from godwit.protocol.watermarks import NEVER
from godwit.region import legacy
from godwit.region.runner import Runner
from godwit.replan import auto
from godwit.replan.box import JoinBox
from godwit.replan.forecast import ChangeCase, forecasts
from godwit.replan.load import BoxLoad, spans_of
from godwit.replan.matching import StateMatch, match
from godwit.replan.steps import AUTO, BoxChange, possible, steps
from godwit.replan.tracks import both, old_root, reach_us, runs_both, second
from godwit.replan.wishes import PlanWish, rewritten
from godwit.storage import names
from godwit.storage.log import Record

#: how each strategy begins: whether rows wait for the state
WAITS = {"moving-state": True, "background": False, "parallel-track": False}


@dataclass(frozen=True)
class PlannedChange:
    """What would be done."""

    old: Query
    #: the version that the query goes over to first, and the one it ends with
    first: Query
    last: Query
    strategy: str


class PlanVersions:
    def __init__(self, fleet: FleetCore) -> None:
        self._fleet = fleet
        #: versions of queries that were to be advanced, so that a command is written once
        self._asked: set[tuple[QueryId, int]] = set()
        #: a query's load, as far as it was measured
        self.load: Callable[[QueryId], BoxLoad | None] = lambda name: None
        fleet.pool.follow(self._committed)

    # --- asked for

    def change(self, name: QueryId, wish: PlanWish, strategy: str, again: bool) -> None:
        version = QueryId(f"{name}~{self._fleet.control.command}")
        if again and {version, _track(version)} & self._fleet.deployment.queries.keys():
            return
        found = self.planned(name, wish, strategy, version)
        if found is not None:
            self.switch(name, found.old, found.first, WAITS[found.strategy])

    def planned(self, name: QueryId, wish: PlanWish, strategy: str, version: QueryId) -> PlannedChange | None:
        """The change, if it can be made; None: the query has that plan. DeploymentError or ConfigError: it cannot."""
        old, streams = self._fleet.execution(self._fleet.known(name)), self._fleet.deployment.streams
        self.check(name, old)
        wanted = rewritten(old, wish, streams)
        if wanted is None:
            return None
        new = replace(wanted, id=version, inherits=old.id, until=0)
        states = match(old, new, streams)
        chosen = self._best(name, old, new, states) if strategy == AUTO else strategy
        steps(chosen, BoxChange(states))
        if chosen not in WAITS:
            msg = f"'{chosen}' is not to be had for running queries; choose one of {', '.join(WAITS)}"
            raise DeploymentError(msg)
        if states.short and chosen != "parallel-track":
            lacking = ", ".join(" ".join(one.covers) for one in states.short)
            msg = f"the state of {lacking} does not reach back far enough for this order; use 'parallel-track'"
            raise DeploymentError(msg)
        first = replace(both(old, new, streams), id=_track(version)) if chosen == "parallel-track" else new
        self.check_place(name, old, first)
        return PlannedChange(old, first, new, chosen)

    def _best(self, name: QueryId, old: Query, new: Query, states: StateMatch) -> str:
        """The strategy whose forecast hurts least; of a load that nobody has measured, the usual one."""
        can = [one for one in possible(BoxChange(states)) if one in WAITS]
        if states.short or "background" not in can:
            return "parallel-track"
        load, streams = self.load(name), self._fleet.deployment.streams
        if load is None:
            return "background"
        was, then = (JoinBox.of(query.shape.plan, streams).tree for query in (old, new))
        return auto.best(forecasts(ChangeCase(was, then, load, spans_of(old, streams))), can).strategy

    def check(self, name: QueryId, old: Query) -> None:
        deployment = self._fleet.deployment
        why = ""
        if old.parts or old.taps or readers(old.id, deployment.queries.values()):
            why = "it shares operators with other queries, which would have to change with it"
        elif old.target is not None:
            why = f"its results are stream '{old.target}', which is fed by this version"
        elif name in self._fleet.parked or old.id in self._fleet.parked:
            why = "it has no place now"
        elif any(operator[0] == old.id for operator in deployment.key_routes):
            why = "its keys are divided over several regions"
        elif self._before(old) is not None or runs_both(old.shape.plan):
            why = "the change before is still under way"
        if why:
            msg = f"the plan of '{name}' cannot be changed: {why}. Withdraw and submit it, or wait"
            raise DeploymentError(msg)

    def _before(self, query: Query) -> Query | None:
        """The version that a query goes on with, as long as it is there."""
        return None if query.inherits is None else self._fleet.deployment.queries.get(query.inherits)

    def check_place(self, name: QueryId, old: Query, new: Query) -> None:
        planner = self._fleet.plane.planner
        with planner.dry_run():
            fault = change_plan(planner, self._request(old, new, False))
        if fault is not None:
            msg = f"the new plan of '{name}' has no place: {fault.reason}. The old one goes on"
            raise DeploymentError(msg)

    # --- one epoch

    def switch(self, name: QueryId, old: Query, new: Query, wait: bool) -> None:
        self._fleet.control.ask(self._request(old, new, wait))
        if new.id not in self._fleet.deployment.queries:
            msg = f"the new plan of '{name}' has no place any more: the old one goes on"
            raise DeploymentError(msg)
        self._fleet.versions.add(name, old.id)
        self._fleet.aliases.keep(old)
        self._fleet.aliases.succeed(name, new.id)

    def _request(self, old: Query, new: Query, wait: bool) -> PlanChanged:
        """Joins go to the sites where joins are, and what stays stays where it is."""
        placement = self._fleet.deployment.placement
        sites = [placement.get(instance_id(old.id, i)) for i, _ in _holistic(old)]
        ours, theirs = _holistic(new), [site for site in sites if site is not None]
        padded = [theirs[0]] * max(len(ours) - len(theirs), 0) + theirs if theirs else []
        wishes: dict[Wish, SiteId] = {
            (new.id, i, None): SiteId(site) for (i, _), site in zip(ours, padded[-len(ours) :], strict=False)
        }
        return PlanChanged(old.id, new, self._fleet.plane.planner.sink_of(old.id), wishes, wait)

    # --- what follows

    def _committed(self, runner: Runner, number: int, record: Record) -> None:
        """Called by regions' threads: what is to follow is left to the control loop."""
        for query in list(self._fleet.deployment.of_shape(runner.shape.key)):
            new = self._heir(query) if query.until else query
            if new is None or not (new.inherits or runs_both(new.shape.plan)) or not self._can_advance(new):
                continue
            key = (new.id, int(self._before(new) is None))
            if key not in self._asked:
                self._asked.add(key)
                self._fleet.control.post(AdvancePlan(new.id))

    def advance(self, version: QueryId) -> None:
        """The next step of a change whose time has come; nothing, if an earlier process has taken it."""
        new = self._fleet.deployment.queries.get(version)
        if new is None or not self._can_advance(new):
            return
        old = self._before(new)
        if old is not None:
            if runs_both(new.shape.plan):
                self._keep_newest(old, new)
            self._fleet.control.ask(QueryWithdrawn(old.id))
            name, leaves = self._fleet.aliases.name_of(new.id), new.shape.plan.sink
            subject = Subject(name, new.id, new.shape.key, leaves.written, leaves.key)
            self._fleet.dispatcher.succeed(old.id, subject)
            legacy.forget(self._fleet.store, old.id)
            return
        name = self._fleet.aliases.name_of(new.id)
        last = replace(second(new), id=_final(new.id), inherits=new.id, until=0)
        self.switch(name, new, last, False)

    def _heir(self, old: Query) -> Query | None:
        return next((q for q in list(self._fleet.deployment.queries.values()) if q.inherits == old.id), None)

    def _can_advance(self, new: Query) -> bool:
        old = self._before(new)
        if old is not None:
            return bool(old.until) and self._taken_over(old, new)
        return runs_both(new.shape.plan) and not new.until and self._only_new_rows(new)

    def _taken_over(self, old: Query, new: Query) -> bool:
        """Whether the new version has all state, and the old one's last results are committed."""
        since = Epoch(old.until)
        ours, theirs = self._fleet.runners_of(new.shape.key), self._fleet.runners_of(old.shape.key)
        if not ours or any(r.deployment.epoch < since for r in (*ours, *theirs)):
            return False
        if any(move.query == new.id and move.inherits for r in ours for move in list(r.kernel.moves.incoming)):
            return False
        sink = len(old.shape.plan.operators) - 1
        return all(r.kernel.published.get(sink, Epoch(0)) >= since for r in theirs)

    def _only_new_rows(self, query: Query) -> bool:
        """Whether no result to come can have a row from before the two plans ran side by side: rows to come are past
        the newest of those by more than any result spans."""
        newest = self._fleet.store.get_document(_newest(query))
        root, runners = old_root(query.shape.plan), self._fleet.runners_of(query.shape.key)
        clocks = [r.kernel.released.get(root, {}).get(query.id, NEVER) for r in runners]
        return newest is not None and max(clocks, default=NEVER) > newest + 2 * reach_us(query.shape.plan)

    def _keep_newest(self, old: Query, new: Query) -> None:
        """How old the newest of the old rows is: they count as long as the plans run side by side."""
        left = legacy.left_by(self._fleet.store, old) or {}
        joins = [parts for i, (parts, _) in left.items() if isinstance(old.shape.plan.operators[i], Join)]
        highs = [s.high for parts in joins for part in parts.values() for s in part if s.high is not None]
        self._fleet.store.put_document(_newest(new), max(highs, default=NEVER))


def _newest(query: Query) -> str:
    return f"{names.legacy(query.id)}/newest"


def _holistic(query: Query) -> list[tuple[int, Operator]]:
    return [(i, operator) for i, operator in enumerate(query.shape.plan.operators) if operator.stateful]


def _track(version: QueryId) -> QueryId:
    return QueryId(f"{version}-both")


def _final(track: QueryId) -> QueryId:
    return QueryId(track.removesuffix("-both"))
