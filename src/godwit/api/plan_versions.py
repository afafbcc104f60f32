"""Plan versions: a running query goes on under another plan, with its state, and under its own name.

A change is made of one or two *switches*. Each is one epoch: the source logs' ends when it is published are the line
between the two versions. The old one answers everything up to the line and leaves its state; the new one reads on from
the line, and takes the state over like that of an instance that moved (`region/inherit.py`).

    moving-state        rows wait in front of the new joins until their state is there
    background          first a plan that runs both boxes, of which the old one answers; when the new one has all its
                        states, which are computed beside, the new plan
    parallel-track      first a plan that runs both boxes, then, when the old one has no old row left, the new plan
    pause-drain-resume  the same, but rows wait in front of the new box until then; only where it was asked for

What must follow a switch (the old version goes; the second switch) is asked for by a command of its own, as soon as a
commit shows that it can: so it survives a crash.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from godwit.api.core import FleetCore
from godwit.api.plan_records import PlanRecords
from godwit.control.commands import AdvancePlan
from godwit.control.events import PlanChanged, ProbesOrdered, QueryWithdrawn
from godwit.control.plan_versions import change_plan
from godwit.delivery.delivery import Subject
from godwit.errors import DeploymentError
from godwit.ids import QueryId, SiteId
from godwit.model.instances import instance_id
from godwit.model.plan import Join, Operator, Query
from godwit.model.taps import readers
from godwit.placement.rules.base import HintKey
from godwit.protocol.watermarks import NEVER
from godwit.region import legacy
from godwit.region.rehearsal import rehearse
from godwit.region.runner import Runner
from godwit.replan import auto
from godwit.replan.box import JoinBox
from godwit.replan.change_progress import ChangeProgress, NextStep
from godwit.replan.forecast import ChangeCase, Forecast, forecasts
from godwit.replan.load import BoxLoad, spans_of
from godwit.replan.matching import StateMatch, match
from godwit.replan.probing import order_of, probes
from godwit.replan.steps import AUTO, BoxChange, possible, steps
from godwit.replan.tracks import Answers, both, first, runs_both, second
from godwit.replan.wishes import PlanWish, rewritten
from godwit.storage import names
from godwit.storage.log import Record
from godwit.storage.store import Store

log = logging.getLogger(__name__)

#: strategies that run both plans side by side for a while: who answers meanwhile
ANSWERS: dict[str, Answers] = {"background": "old", "parallel-track": "by age", "pause-drain-resume": "later"}


#: beyond this, states of the old plan may have let go what the new one needs for its last stream
APART_US = 1_000_000
#: those that `auto` may choose
CHOSEN = ("moving-state", "parallel-track", "background")


@dataclass(frozen=True)
class PlannedChange:
    """What would be done."""

    old: Query
    #: the version that the query goes over to first, and the one it ends with
    first: Query
    last: Query
    strategy: str
    #: what it is expected to take, where the load is known
    forecast: Forecast | None = None


class PlanVersions:
    def __init__(self, fleet: FleetCore) -> None:
        self._fleet = fleet
        #: steps of versions that were asked for, so that a command is written once
        self._asked: set[tuple[QueryId, NextStep]] = set()
        self._newest: dict[QueryId, int] = {}
        #: a query's load, as far as it was measured
        self.load: Callable[[QueryId], BoxLoad | None] = lambda name: None
        self._records = PlanRecords(fleet.store)
        #: versions that a query has gone back to, and why
        self._reverted: dict[QueryId, str] = {}
        fleet.pool.follow(self._committed)

    # --- asked for

    def change(self, name: QueryId, wish: PlanWish, strategy: str, run_out: bool, again: bool) -> None:
        version = QueryId(f"{name}~{self._fleet.control.command}")
        if again and {version, _track(version)} & self._fleet.deployment.queries.keys():
            return
        if self._ordered(name, wish.order, strategy):
            return
        found = self.planned(name, wish, strategy, version, run_out)
        if found is not None:
            what = found.forecast
            told = None if what is None else {"length_s": what.length_s, "silence_s": what.silence_s}
            self._records.begin(name, str(wish), found.strategy, found.old.shape.key, told)
            self.switch(name, found.old, found.first, found.strategy == "moving-state")

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
            self._fleet.control.ask(ProbesOrdered(query.id, asked))
            self._records.phase(name, "switch", query.id)
            self._records.end(name)
        return True

    def planned(
        self, name: QueryId, wish: PlanWish, strategy: str, version: QueryId, run_out: bool = False
    ) -> PlannedChange | None:
        """The change, if it can be made; None: the query has that plan. DeploymentError or ConfigError: it cannot."""
        old, streams = self._fleet.execution(self._fleet.known(name)), self._fleet.deployment.streams
        self.check(name, old)
        wanted = rewritten(old, wish, streams)
        if wanted is None:
            return None
        new = replace(wanted, id=version, inherits=old.id, until=0)
        states = match(old, new, streams)
        apart_us = self._apart_us(old)
        chosen = self._best(name, old, new, states, apart_us) if strategy == AUTO else strategy
        steps(chosen, BoxChange(states, run_out=run_out))
        if states.short and chosen in ("moving-state", "background"):
            lacking = ", ".join(" ".join(one.covers) for one in states.short)
            msg = f"the state of {lacking} does not reach back far enough for this order; use 'parallel-track'"
            raise DeploymentError(msg)
        if states.recompute and apart_us > APART_US and chosen in ("moving-state", "background"):
            far = f"{apart_us / 1e6:,.0f} s apart" if apart_us < -NEVER // 2 else "apart, and one has sent nothing yet"
            msg = f"the streams of '{name}' are {far}: rows that the last of them will meet have left the states that "
            msg += "another order needs; use 'parallel-track', or wait"
            raise DeploymentError(msg)
        begins = new
        # Where there is nothing to compute, the states are the new plan's at once: nothing need run beside.
        if chosen in ANSWERS and (states.recompute or chosen != "background"):
            begins = replace(both(old, new, streams, ANSWERS[chosen]), id=_track(version))
        self.check_place(name, old, begins)
        return PlannedChange(old, begins, new, chosen, self._forecasts(name, old, new, states).get(chosen))

    def _apart_us(self, old: Query) -> int:
        """How far the joins' watermarks are ahead of the last join's, which waits for all streams; of regions that are
        other processes nothing is known here."""
        plan, runners = old.shape.plan, self._fleet.runners_of(old.shape.key)
        joins = [i for i, operator in enumerate(plan.operators) if isinstance(operator, Join)]
        stand = [max((r.kernel.released.get(i, {}).get(old.id, NEVER) for r in runners), default=NEVER) for i in joins]
        return max(stand) - stand[-1] if stand else 0

    def _best(self, name: QueryId, old: Query, new: Query, states: StateMatch, apart_us: int) -> str:
        """The strategy whose forecast hurts least; of a load that nobody has measured, the usual one."""
        can = [one for one in possible(BoxChange(states)) if one in CHOSEN]
        if states.short or apart_us > APART_US or "background" not in can:
            return "parallel-track"
        found = self._forecasts(name, old, new, states)
        return auto.best(found, can).strategy if found else "background"

    def _forecasts(self, name: QueryId, old: Query, new: Query, states: StateMatch) -> dict[str, Forecast]:
        """By strategy; nothing, where no load was measured or nothing is to be computed."""
        load, streams = self.load(name) if states.recompute else None, self._fleet.deployment.streams
        if load is None:
            return {}
        was, then = (JoinBox.of(query.shape.plan, streams).tree for query in (old, new))
        return forecasts(ChangeCase(was, then, load, spans_of(old, streams)))

    def rehearse(self, name: QueryId, wish: PlanWish, strategy: str, run_out: bool) -> None:
        """Let a running fleet compile what a change will need, on the thread of whoever asks for it, before it begins:
        the first micro-batches under another plan then take no longer than others."""
        fleet = self._fleet
        if not fleet.pool.running or probes(fleet.execution(name).shape.plan) is not None:
            return
        found = self.planned(name, wish, strategy, QueryId(f"{name}~{fleet.control.command + 1}"), run_out)
        for query in {q.id: q for q in (found.first, found.last)}.values() if found is not None else ():
            for region in sorted({runner.region for runner in fleet.runners_of(found.old.shape.key)}):  # type: ignore[union-attr]
                rehearse(fleet.spark, fleet.store, region, fleet.deployment, query)

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
        elif self._progress.before(old) is not None or runs_both(old.shape.plan):
            why = "the change before is still under way"
        if why:
            msg = f"the plan of '{name}' cannot be changed: {why}. Withdraw and submit it, or wait"
            raise DeploymentError(msg)

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
        self._records.phase(name, "switch", new.id)
        self._fleet.versions.add(name, old.id)
        self._fleet.aliases.keep(old)
        self._fleet.aliases.succeed(name, new.id)

    def _request(self, old: Query, new: Query, wait: bool) -> PlanChanged:
        """Joins go to the sites where joins are, and what stays stays where it is."""
        placement = self._fleet.deployment.placement
        sites = [placement.get(instance_id(old.id, i)) for i, _ in _holistic(old)]
        ours, theirs = _holistic(new), [site for site in sites if site is not None]
        padded = [theirs[0]] * max(len(ours) - len(theirs), 0) + theirs if theirs else []
        hints: dict[HintKey, SiteId] = {
            (new.id, i, None): SiteId(site) for (i, _), site in zip(ours, padded[-len(ours) :], strict=False)
        }
        return PlanChanged(old.id, new, self._fleet.plane.planner.sink_of(old.id), hints, wait)

    # --- what follows

    def _committed(self, runner: Runner, number: int, record: Record) -> None:
        """Called by regions' threads: what is to follow is left to the control loop."""
        for parcel in record.get("left", ()):
            self._fleet.pool.wake()  # whoever goes on with it need not look for it
            left = [segment for part in parcel["parts"].values() for segment in part]
            version = QueryId(parcel["move"][1])
            name = _name(version)
            sizes = sum(s["rows"] for s in left), sum(s["bytes"] for s in left)
            self._records.phase(name, "left", version, *sizes)
        self._records.committed(runner.shape.key, self._changing(runner.shape.key), record)
        for query in list(self._fleet.deployment.of_shape(runner.shape.key)):
            new = self._heir(query) if query.until else query
            if new is None or not (new.inherits or runs_both(new.shape.plan)):
                continue
            step = self._progress.next(new)
            if step is not None and (new.id, step) not in self._asked:
                self._asked.add((new.id, step))
                self._fleet.control.post(AdvancePlan(new.id))

    def _changing(self, shape: str) -> QueryId | None:
        """The query of a shape whose plan is being changed."""
        versions = (q for q in list(self._fleet.deployment.of_shape(shape)) if q.inherits or q.until)
        return next((_name(query.id) for query in versions), None)

    def advance(self, version: QueryId) -> None:
        """The next step of a change whose time has come; nothing, if an earlier process has taken it."""
        new = self._fleet.deployment.queries.get(version)
        step = None if new is None else self._progress.next(new)
        if new is None or step is None:
            return
        match step:
            case NextStep.RELEASE:
                legacy.release(self._fleet.store, new.id)
                self._records.phase(_name(new.id), "release", new.id)
                self._fleet.pool.wake()
            case NextStep.RETIRE:
                self._retire(new)
            case NextStep.SWITCH:
                name = self._fleet.aliases.name_of(new.id)
                reason = legacy.broken(self._fleet.store, new.id)
                last = second(new) if reason is None else first(new)
                if reason is not None:
                    log.warning("the new plan of '%s' failed, and the old one goes on: %s", name, reason)
                    self._reverted[_final(new.id)] = reason
                self._asked.discard((new.id, step))  # it is asked for again if there is no place now
                self.switch(name, new, replace(last, id=_final(new.id), inherits=new.id, until=0), False)

    def _retire(self, new: Query) -> None:
        old = self._progress.before(new)
        assert old is not None
        if runs_both(new.shape.plan):
            self._newest_us(new)  # it is kept before what says it goes
        self._fleet.control.ask(QueryWithdrawn(old.id))
        self._records.phase(_name(new.id), "retire", old.id)
        if not runs_both(new.shape.plan):
            self._records.end(_name(new.id), self._reverted.pop(new.id, ""))
        name, leaves = self._fleet.aliases.name_of(new.id), new.shape.plan.sink
        subject = Subject(name, new.id, new.shape.key, leaves.written, leaves.key)
        self._fleet.dispatcher.succeed(old.id, subject)
        legacy.forget(self._fleet.store, old.id)

    def _heir(self, old: Query) -> Query | None:
        return next((q for q in list(self._fleet.deployment.queries.values()) if q.inherits == old.id), None)

    @property
    def _progress(self) -> ChangeProgress:
        fleet = self._fleet
        return ChangeProgress(
            fleet.deployment,
            lambda shape: [runner.kernel for runner in fleet.runners_of(shape)],
            self._newest_us,
            lambda version: legacy.released(fleet.store, version.id),
        )

    def _newest_us(self, version: Query) -> int | None:
        """How new the newest of the old rows is: they count as long as the plans run side by side. Kept on disk."""
        if version.id not in self._newest:
            store, old = self._fleet.store, self._progress.before(version)
            known = store.get_document(_newest(version))
            if known is None and old is not None and (known := _newest_left(store, old)) is not None:
                store.put_document(_newest(version), known)
            if known is None:
                return None
            self._newest[version.id] = known
        return self._newest[version.id]


def _newest(query: Query) -> str:
    return f"{names.legacy(query.id)}/newest"


def _newest_left(store: Store, old: Query) -> int | None:
    """The time of the newest row that a version's joins have left; None: not all have left theirs."""
    left = legacy.left_by(store, old)
    if left is None:
        return None
    joins = [parts for i, (parts, _) in left.items() if isinstance(old.shape.plan.operators[i], Join)]
    highs = [s.high for parts in joins for part in parts.values() for s in part if s.high is not None]
    return max(highs, default=NEVER)


def _holistic(query: Query) -> list[tuple[int, Operator]]:
    return [(i, operator) for i, operator in enumerate(query.shape.plan.operators) if operator.stateful]


def _name(version: QueryId) -> QueryId:
    """Of the query that a version is of."""
    return QueryId(version.partition("~")[0])


def _track(version: QueryId) -> QueryId:
    return QueryId(f"{version}-both")


def _final(track: QueryId) -> QueryId:
    return QueryId(track.removesuffix("-both"))
