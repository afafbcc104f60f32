"""Plan versions: a running query goes on under another plan, with its state, and under its own name.

A change is made of one or two *switches*. Each is one epoch: the source logs' ends when it is published are the line
between the two versions. The old one answers everything up to the line and leaves its state; the new one reads on from
the line, and takes the state over like that of an instance that moved (`region/inherit.py`).

    moving-state        the joins let no row go until their states reach back far enough (`replan/change_progress.py`);
                        then rows wait in front of the new joins until their state is there
    background          the same, but regions make the new plan's missing states before the switch (`region/ahead.py`)
    parallel-track      first a plan that runs both boxes, then, when the old one has no old row left, the new plan
    pause-drain-resume  the same, but rows wait in front of the new box until then; only where it was asked for

What must follow a switch (the old version goes; the second switch) is asked for by a command of its own, as soon as a
commit shows that it can: so it survives a crash.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from godwit.api.core import FleetCore
from godwit.api.plan_obstacles import elsewhere, obstacle
from godwit.api.plan_records import PlanRecords
from godwit.control.commands import AdvancePlan
from godwit.control.events import PlanChanged, QueryAdjusted, QueryWithdrawn
from godwit.control.plan_versions import change_plan
from godwit.delivery.delivery import Subject
from godwit.errors import DeploymentError
from godwit.ids import QueryId, RegionId, SiteId
from godwit.model.instances import instance_id
from godwit.model.plan import Join, Query
from godwit.model.taps import executor, family
from godwit.placement.rules.base import HintKey
from godwit.protocol.watermarks import NEVER
from godwit.region import legacy
from godwit.region.rehearsal import rehearse
from godwit.region.runner import Runner
from godwit.replan import auto
from godwit.replan.box import JoinBox
from godwit.replan.change_progress import ChangeProgress, NextStep, RunnerView
from godwit.replan.family import Rewrite, for_shared, next_versions, planned
from godwit.replan.forecast import ChangeCase, Forecast, forecasts
from godwit.replan.load import BoxLoad, spans_of
from godwit.replan.matching import StateMatch, match
from godwit.replan.probing import order_of, probes
from godwit.replan.steps import AUTO, BoxChange, possible, steps
from godwit.replan.tracks import Answers, both, runs_both, second
from godwit.replan.wishes import PlanWish, rewritten
from godwit.storage import names
from godwit.storage.log import Record

log = logging.getLogger(__name__)

#: strategies that run both plans side by side for a while: who answers meanwhile
ANSWERS: dict[str, Answers] = {"parallel-track": "by age", "pause-drain-resume": "later"}


#: those that `auto` may choose
CHOSEN = ("moving-state", "parallel-track", "background")


@dataclass(frozen=True)
class PlannedChange:
    """What would be done."""

    old: Query
    #: the versions that it and all that share operators with it go over to first, its own among them
    first: tuple[Query, ...]
    #: the version that it ends with
    last: Query
    strategy: str
    #: whether the new plan has states that the old one has not
    computes: bool
    #: what it is expected to take, where the load is known
    forecast: Forecast | None = None


class PlanVersions:
    def __init__(self, fleet: FleetCore) -> None:
        self._fleet = fleet
        #: steps of versions that were asked for, so that a command is written once
        self._asked: set[tuple[QueryId, NextStep]] = set()
        #: lines of versions (`ChangeProgress`)
        self._lines: dict[QueryId, int] = {}
        self._found: dict[tuple[object, ...], int] = {}
        #: versions that sinks follow, while the one before is there
        self._delivered: set[QueryId] = set()
        #: (region, shape) -> how far who runs it is, as its last commit in a change of plan says
        self._views: dict[tuple[RegionId, str], RunnerView] = {}
        #: a query's load, as far as it was measured
        self.load: Callable[[QueryId], BoxLoad | None] = lambda name: None
        #: keys of shapes that have run in this process, so that Spark has compiled them
        self.ran: set[str] = set()
        self._records = PlanRecords(fleet.store)
        #: when a change was asked for that is rehearsed before it begins
        self._asked_at: dict[QueryId, float] = {}
        fleet.pool.follow(self._committed)

    # --- asked for

    def change(
        self, name: QueryId, wish: PlanWish, strategy: str, run_out: bool, again: bool, alone: bool = False
    ) -> None:
        version = QueryId(f"{name}~{self._fleet.control.command}")
        asked_at = self._asked_at.pop(name, None)
        if again and self._begun(version):
            return
        if self._ordered(name, wish.order, strategy):
            return
        found = self.planned(name, wish, strategy, version, run_out, alone)
        if found is not None:
            what = found.forecast
            told = None if what is None else {"length_s": what.length_s, "silence_s": what.silence_s}
            self._records.begin(name, str(wish), found.strategy, found.old.shape.key, told, asked_at)
            if found.strategy not in ANSWERS and found.computes:
                ahead = found.strategy == "background"
                self.prepare(name, *(replace(new, ahead=ahead) for new in found.first))
            else:
                self.switch(name, found.first, found.strategy == "moving-state")

    def _begun(self, version: QueryId) -> bool:
        """Whether a change was begun by a process that is no more."""
        queries = self._fleet.deployment.queries
        to_come = {query.successor.id for query in queries.values() if query.successor is not None}
        return bool({version, _track(version)} & (queries.keys() | to_come))

    def prepare(self, name: QueryId, *coming: Query) -> None:
        """The joins let no row go from now on; when their states reach back far enough, the new versions take over."""
        first, *others = [QueryAdjusted(_before(new), new.probes, new) for new in coming]
        self._fleet.control.ask(first, *others)
        self._records.phase(name, "keep", first.query)

    def _ordered(self, name: QueryId, order: str, strategy: str) -> bool:
        """Whether the query has a probing join, whose order is changed at once; ConfigError if that is wrong."""
        query = self._fleet.execution(self._fleet.known(name))
        node = probes(query.shape.plan)
        if node is None:
            return False
        chosen = "stateless-order" if strategy == AUTO else strategy
        steps(chosen, BoxChange(StateMatch((), (), ()), probing=True))
        asked = order_of(node, order)
        if asked != query.probes:
            self._records.begin(name, order, chosen, query.shape.key)
            self._fleet.control.ask(QueryAdjusted(query.id, asked, query.successor))
            self._records.phase(name, "switch", query.id)
            self._records.end(name)
        return True

    def planned(
        self,
        name: QueryId,
        wish: PlanWish,
        strategy: str,
        version: QueryId,
        run_out: bool = False,
        alone: bool = False,
    ) -> PlannedChange | None:
        """The change, if it can be made; None: the query has that plan. DeploymentError or ConfigError: it cannot.
        `alone`: those that share operators with it keep their plan."""
        old, streams = self._fleet.execution(self._fleet.known(name)), self._fleet.deployment.streams
        self.check(name, old)
        wanted = rewritten(old, wish, streams)
        if wanted is None:
            return None
        members = self._members(old)
        new = replace(wanted, id=version, inherits=old.id, until=0)
        states = match(old, new, streams)
        chosen = self._best(name, old, new, states) if strategy == AUTO else strategy
        if len(members) > 1:
            chosen = for_shared(chosen, strategy == AUTO, states)
        steps(chosen, BoxChange(states, run_out=run_out))
        if states.short and chosen in ("moving-state", "background"):
            lacking = ", ".join(" ".join(one.covers) for one in states.short)
            msg = f"the state of {lacking} does not reach back far enough for this order; use 'parallel-track'"
            raise DeploymentError(msg)
        beside = ANSWERS.get(chosen)

        def rewrite(query: Query) -> Query | None:
            plan = None if alone and query.id != old.id else rewritten(query, wish, streams)
            return plan if plan is None or beside is None else both(query, plan, streams, beside)

        def named(query: Query) -> QueryId:
            own = _version(query, version)
            return own if beside is None or (alone and query.id != old.id) else _track(own)

        first = self._next_versions(members, rewrite, named)
        self.check_place(name, first)
        told = self._forecasts(name, old, new, states).get(chosen)
        return PlannedChange(old, first, new, chosen, bool(states.recompute), told)

    def for_all(self, old: Query, new: Query) -> tuple[Query, ...]:
        """The next versions of a query, which alone has another plan, and of all that share operators with it."""
        return self._next_versions(
            self._members(old), lambda one: new if one.id == old.id else None, lambda one: _version(one, new.id)
        )

    def _members(self, query: Query) -> list[Query]:
        return family(query, self._fleet.deployment.queries)

    def _next_versions(
        self, members: Sequence[Query], rewrite: Rewrite, named: Callable[[Query], QueryId]
    ) -> tuple[Query, ...]:
        deployment = self._fleet.deployment
        return tuple(next_versions(members, rewrite, named, deployment.queries, deployment.streams))

    def _best(self, name: QueryId, old: Query, new: Query, states: StateMatch) -> str:
        """The strategy whose forecast hurts least; of a load that nobody has measured, the usual one."""
        can = [one for one in possible(BoxChange(states)) if one in CHOSEN]
        if states.short or "background" not in can:
            return "parallel-track"
        found = self._forecasts(name, old, new, states)
        return auto.best(found, can).strategy if found else "background"

    def _forecasts(self, name: QueryId, old: Query, new: Query, states: StateMatch) -> dict[str, Forecast]:
        """By strategy; nothing, where no load was measured or nothing is to be computed."""
        load, streams = self.load(name) if states.recompute else None, self._fleet.deployment.streams
        if load is None:
            return {}
        was, then = (JoinBox.of(query.shape.plan, streams) for query in (old, new))
        span_s, fresh = was.span_us / 1e6, new.shape.key not in self.ran
        return forecasts(ChangeCase(was.tree, then.tree, load, spans_of(old, streams), span_s=span_s, fresh=fresh))

    def rehearse(self, name: QueryId, wish: PlanWish, strategy: str, run_out: bool, alone: bool = False) -> None:
        """Let a running fleet compile what a change will need, on the thread of whoever asks for it, before it begins:
        the first micro-batches under another plan then take no longer than others."""
        fleet, asked_at = self._fleet, time.time()
        self._asked_at.pop(name, None)
        if not fleet.pool.running or probes(fleet.execution(name).shape.plan) is not None:
            return
        found = self.planned(name, wish, strategy, QueryId(f"{name}~{fleet.control.command + 1}"), run_out, alone)
        if found is None:
            return
        self._asked_at[name] = asked_at
        mine = (replace(one, taps={}) for one in (*found.first, found.last) if one.inherits == found.old.id)
        for query in {one.id: one for one in mine}.values():
            for region in sorted({runner.region for runner in fleet.runners_of(found.old.shape.key)}):
                rehearse(fleet.spark, fleet.store, region, fleet.deployment, query)

    def check(self, name: QueryId, old: Query, text: bool = False) -> None:
        """DeploymentError: its plan cannot be changed now, why not, and what to do. `text`: its text is to change."""
        found = (elsewhere(self._fleet, old) if text else None) or obstacle(self._fleet, name, old)
        if found is not None:
            msg = f"the plan of '{name}' cannot be changed: {found[0]}. {found[1]}"
            raise DeploymentError(msg)

    def check_place(self, name: QueryId, versions: Sequence[Query]) -> None:
        planner = self._fleet.plane.planner
        with planner.dry_run():
            fault = change_plan(planner, self._request(versions, False))
        if fault is not None:
            msg = f"the new plan of '{name}' has no place: {fault.reason}. The old one goes on"
            raise DeploymentError(msg)

    # --- one epoch

    def switch(self, name: QueryId, versions: Sequence[Query], wait: bool = False) -> None:
        """All that share operators go over to their next versions at one line, or none does."""
        fleet = self._fleet
        before = {_before(new): fleet.deployment.queries[_before(new)] for new in versions}
        known = {new.id: fleet.aliases.name_of(_before(new)) for new in versions if new.cut is None}
        for new in (one for one in versions if one.id in known):
            # Before the epoch: a reader finds the results of both versions from the moment when the new one is there.
            fleet.versions.add(known[new.id], _before(new))
            fleet.aliases.expect(known[new.id], new.id)
        fleet.control.ask(self._request(versions, wait))
        if any(new.id not in fleet.deployment.queries for new in versions):
            for query in known.values():
                fleet.aliases.expect(query, None)
            msg = f"the new plan of '{name}' has no place any more: the old one goes on"
            raise DeploymentError(msg)
        for new in versions:
            old = before[_before(new)]
            self._records.phase(_name(new.id), "switch", new.id)
            fleet.aliases.keep(old)
            if new.id in known:
                fleet.aliases.succeed(known[new.id], new.id)

    def _request(self, versions: Sequence[Query], wait: bool) -> PlanChanged:
        """Joins go to the sites where joins are, and what stays stays where it is."""
        queries, planner = self._fleet.deployment.queries, self._fleet.plane.planner
        changes = []
        for new in versions:
            old = queries[_before(new)]
            changes.append(PlanChanged(old.id, new, planner.sink_of(old.id), self._hints(old, new), wait))
        ends = tuple(one.id for one in self._members(queries[_before(versions[0])]) if one.unseen)
        return replace(changes[0], others=tuple(changes[1:]), ends=ends)

    def _hints(self, old: Query, new: Query) -> dict[HintKey, SiteId]:
        deployment = self._fleet.deployment
        places = (instance_id(executor(old, i, deployment.queries).id, i) for i in _holistic(old))
        sites = [deployment.placement.get(place) for place in places]
        ours, theirs = _holistic(new), [site for site in sites if site is not None]
        padded = [theirs[0]] * max(len(ours) - len(theirs), 0) + theirs if theirs else []
        return {(new.id, i, None): SiteId(site) for i, site in zip(ours, padded[-len(ours) :], strict=False)}

    # --- what follows

    def _committed(self, runner: Runner, number: int, record: Record) -> None:
        """Called by regions' threads: what is to follow is left to the control loop."""
        self.ran.add(runner.shape.key)
        report = legacy.reported(runner.shape.key, runner.kernel, record)
        if report is None:
            self._records.committed(runner.shape.key, None, record["metrics"])
        else:
            self._fleet.pool.wake()  # whoever goes on with what was left need not look for it
            self.hear(runner.region, report)

    def hear(self, region: RegionId, report: legacy.PlanReport) -> None:
        """Of a commit of a shape whose queries change their plans."""
        shape = report.shape
        self._views[region, shape] = report.view
        for version, rows, size in report.left:
            self._records.phase(_name(version), "left", version, rows, size)
        self._records.committed(shape, self._changing(shape), report.metrics)
        for query in list(self._fleet.deployment.of_shape(shape)):
            new = self._heir(query) if query.until else query
            if new is None or not (new.inherits or new.successor or runs_both(new.shape.plan)):
                continue
            step = self._progress.next(new)
            if step is not None and (new.id, step) not in self._asked:
                self._asked.add((new.id, step))
                self._fleet.control.post(AdvancePlan(new.id))

    def _changing(self, shape: str) -> QueryId | None:
        """The query of a shape whose plan is being changed."""
        versions = (q for q in list(self._fleet.deployment.of_shape(shape)) if q.inherits or q.until or q.successor)
        return next((_name(query.id) for query in versions), None)

    def advance(self, version: QueryId) -> None:
        """The next step of a change whose time has come; nothing, if an earlier process has taken it."""
        new = self._fleet.deployment.queries.get(version)
        step = None if new is None else self._progress.next(new)
        try:
            if new is not None and step is not None:
                self._take(new, step)
        finally:  # (it is asked for again if it was in vain)
            self._asked -= {asked for asked in self._asked if asked[0] == version}
        if step is NextStep.DELIVER:
            self.advance(version)  # no commit follows from it that would say what is next

    def _take(self, new: Query, step: NextStep) -> None:
        match step:
            case NextStep.DELIVER:
                self._deliver(new)
            case NextStep.RELEASE:
                legacy.release(self._fleet.store, new.id)
                self._records.phase(_name(new.id), "release", new.id)
                self._fleet.pool.wake()
            case NextStep.RETIRE:
                self._retire(new)
            case NextStep.SWITCH if new.successor is not None:
                self._succeed(new, new.successor)
            case NextStep.SWITCH:
                members, name = self._members(new), self._fleet.aliases.name_of(new.id)
                self.switch(name, self._next_versions(members, second, lambda one: _final(one.id)))
            case NextStep.GIVE_UP:
                self._give_up(new, self._progress.failure(new) or "")

    def _succeed(self, old: Query, new: Query) -> None:
        """What was prepared comes; without a place for it, the old versions go on as before."""
        name, members = self._fleet.aliases.name_of(old.id), self._members(old)
        coming = {one.id: one.successor for one in members if one.successor is not None}
        try:
            found = self._next_versions(members, planned(coming), lambda one: _version(one, new.id))
            self.switch(name, found, True)
        except DeploymentError as fault:
            self._give_up(old, str(fault))

    def _give_up(self, old: Query, reason: str) -> None:
        """The old versions go on as before."""
        members = [one for one in self._members(old) if one.successor is not None]
        log.warning("the new plan of '%s' failed, and the old one goes on: %s", _name(old.id), reason)
        first, *others = [QueryAdjusted(one.id, one.probes, None) for one in members]
        self._fleet.control.ask(first, *others)
        for one in members:
            self._forget(one.id)
            self._records.end(_name(one.id), reason)

    def _retire(self, new: Query) -> None:
        """All that went over with it have what they need: what is left of the old versions goes."""
        old = self._progress.before(new)
        assert old is not None
        ending = self._members(old)
        heirs = {one.inherits: one for one in self._fleet.deployment.queries.values() if one.inherits is not None}
        for one in (heirs[old.id] for old in ending if old.id in heirs):
            if runs_both(one.shape.plan):
                self._line_us(one)  # it is kept before what says it goes
        # Readers first; who was withdrawn before goes with the last of them.
        first, *others = [QueryWithdrawn(one.id) for one in reversed(ending) if not one.unseen]
        self._fleet.control.ask(first, *others)
        for one in ending:
            self._gone(one, heirs.get(one.id))

    def _gone(self, old: Query, new: Query | None) -> None:
        legacy.forget(self._fleet.store, old.id)
        self._forget(old.id)
        if new is None:
            return
        self._records.phase(_name(new.id), "retire", old.id)
        if not runs_both(new.shape.plan):
            self._records.end(_name(new.id))
        self._delivered.discard(new.id)

    def _deliver(self, new: Query) -> None:
        """All that the old version answers is there: what follows is the new one's, while its states are still made."""
        if new.cut is None:
            name, leaves = self._fleet.aliases.name_of(new.id), new.shape.plan.sink
            subject = Subject(name, new.id, new.shape.key, leaves.written, leaves.key)
            self._fleet.dispatcher.succeed(_before(new), subject)
        self._delivered.add(new.id)

    def _forget(self, version: QueryId) -> None:
        """It is gone: nothing follows from it any more."""
        self._lines.pop(version, None)
        shapes = self._fleet.deployment.shapes()
        for seen in [seen for seen in list(self._views) if seen[1] not in shapes]:
            self._views.pop(seen, None)
        for key in [key for key in list(self._found) if key[0] == version]:
            self._found.pop(key, None)

    def _heir(self, old: Query) -> Query | None:
        return next((q for q in list(self._fleet.deployment.queries.values()) if q.inherits == old.id), None)

    def _runners(self, shape: str) -> list[RunnerView]:
        """All that run a shape; none, if one of them is not known."""
        views = [self._views.get((region, shape)) for region in self._fleet.pool.wanted(shape)]
        return [view for view in views if view is not None] if None not in views else []

    @property
    def _progress(self) -> ChangeProgress:
        fleet = self._fleet
        return ChangeProgress(
            fleet.deployment,
            self._runners,
            self._line_us,
            lambda version: legacy.released(fleet.store, version.id),
            lambda version: version.id in self._delivered,
            self._found,
            fleet.plane.keys.migrates,
        )

    def _line_us(self, version: Query) -> int | None:
        """Of a version that runs both plans (`ChangeProgress.line_us`). Kept on disk, for the old version goes."""
        if version.id not in self._lines:
            store, old = self._fleet.store, self._progress.before(version)
            known = store.get_document(_line(version))
            if known is None and old is not None and (known := self._line_left(old)) is not None:
                store.put_document(_line(version), known)
            if known is None:
                return None
            self._lines[version.id] = known
        return self._lines[version.id]

    def _line_left(self, old: Query) -> int | None:
        """As the old version's joins have left it; None: not all have left their state."""
        left = legacy.left_by(self._fleet.store, old, self._fleet.deployment.queries)
        if left is None:
            return None
        joins = [found for i, found in left.items() if isinstance(old.shape.plan.operators[i], Join)]
        highs = [s.high for one in joins for part in one.parts.values() for s in part if s.high is not None]
        return max(highs, default=NEVER)


def _line(query: Query) -> str:
    return f"{names.legacy(query.id)}/newest"


def _holistic(query: Query) -> list[int]:
    return [i for i, operator in enumerate(query.shape.plan.operators) if operator.stateful and i in query.executed]


def _before(version: Query) -> QueryId:
    assert version.inherits is not None
    return version.inherits


def _name(version: QueryId) -> QueryId:
    """Of the query that a version is of."""
    return QueryId(version.partition("~")[0])


def _version(query: Query, like: QueryId) -> QueryId:
    """The name of a query's next version, with the number that another one's has."""
    return QueryId(f"{_name(query.id)}~{like.partition('~')[2]}")


def _track(version: QueryId) -> QueryId:
    return QueryId(f"{version}-both")


def _final(track: QueryId) -> QueryId:
    return QueryId(track.removesuffix("-both"))
