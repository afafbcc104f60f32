"""What a change of plan that is under way can do next, as those say that run it. Pure; runtime and simulator ask.

one switch      the joins let no row go any more ── when their states reach back far enough, SWITCH: the new version
                takes rows and state over ── RETIRE the old one
                (background: and when all that run the joins have made the missing states, as far as they can; if one of
                these cannot be made, GIVE_UP: the old version goes on)
side by side    a version that runs both plans takes over ── RETIRE the old one ── when no old row is left, SWITCH to
                the new plan alone ── RETIRE the one with both
                DELIVER comes before each RETIRE: the old version's results are all there, and sinks follow the new one
windows run out as side by side, but rows wait in front of the new box: when no old row is left, RELEASE them first

A join lets rows go by the watermark of its own streams. In another order they may meet rows of a stream that lies
further behind. What joins had let go of, up to their *line*, is never missed once that last stream has passed the line.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from godwit.ids import Epoch, QueryId, RegionId
from godwit.model.deployment import Deployment
from godwit.model.instances import instance_id
from godwit.model.plan import Join, Plan, Query
from godwit.model.taps import family
from godwit.protocol.kernel import RegionKernel
from godwit.protocol.watermarks import NEVER
from godwit.replan.tracks import answers, old_root, reach_us, runs_both


class NextStep(Enum):
    DELIVER = "deliver"
    RELEASE = "release"
    RETIRE = "retire"
    GIVE_UP = "give up"
    SWITCH = "switch"


@dataclass(frozen=True)
class RunnerView:
    """How far one that runs a shape is, as its last commit says. It never goes back, so an old one is only late."""

    epoch: Epoch
    #: versions that it knows to come: the joins of those before them let no row go
    kept: frozenset[QueryId]
    #: versions whose state from the one before is still to come
    waiting: frozenset[QueryId]
    #: operator -> the epoch up to which it has passed markers on
    published: Mapping[int, Epoch]
    #: operator -> version -> the watermark that it has released
    released: Mapping[int, Mapping[QueryId, int]]
    #: where it runs
    region: RegionId
    #: versions to come whose missing states are made there, as far as they can be -> why they cannot be made, or ""
    made: Mapping[QueryId, str] = field(default_factory=dict)

    @staticmethod
    def of(kernel: RegionKernel) -> RunnerView:
        return RunnerView(
            kernel.deployment.epoch,
            frozenset(query.id for query in kernel.coming()),
            frozenset(move.query for move in list(kernel.moves.incoming) if move.inherits),
            dict(kernel.published),
            {operator: dict(clocks) for operator, clocks in list(kernel.released.items())},
            kernel.region,
            dict(kernel.made_ahead),
        )

    def to_json(self) -> list[Any]:
        tables = map(_listed, (self.published, self.released))
        return [self.epoch, sorted(self.kept), sorted(self.waiting), *tables, self.region, dict(self.made)]

    @staticmethod
    def from_json(told: list[Any]) -> RunnerView:
        epoch, kept, waiting, published, released, region, made = told
        return RunnerView(epoch, frozenset(kept), frozenset(waiting), dict(published), dict(released), region, made)


@dataclass(frozen=True)
class ChangeProgress:
    deployment: Deployment
    #: of a shape, by its key: all that run it; none, if one of them is not known
    runners: Callable[[str], Collection[RunnerView]]
    #: of a version that runs both plans: its line, the time of the newest row that the old plan's joins had when it
    #: began; None: unknown
    line_us: Callable[[Query], int | None]
    #: of a version that lets windows run out: whether rows go into the new box by now
    released: Callable[[Query], bool]
    #: whether sinks follow a version by now
    delivered: Callable[[Query], bool]
    #: lines of versions that are to go over to another one, as they were found; lost with a process, they lie later;
    #: and how far apart rows of their results can lie
    found: dict[tuple[object, ...], int]
    #: whether keys of a version migrate: it does not go over meanwhile
    migrates: Callable[[QueryId], bool] = lambda version: False

    def next(self, version: Query) -> NextStep | None:
        """What can be done for a version; None: nothing now. Those that share operators go over, and end, together."""
        step, old = self._own(version), self.before(version)
        if step is NextStep.RETIRE and old is not None:
            ending = {one.id for one in family(old, self.deployment.queries)}
            others = [one for one in list(self.deployment.queries.values()) if one.inherits in ending]
        elif step is NextStep.SWITCH:
            connected = [one for one in family(version, self.deployment.queries) if one.cut is None and not one.unseen]
            others = [one for one in connected if under_way(one, self.deployment)]
        else:
            return step
        return step if all(self._own(one) is step for one in others) else None

    def _own(self, version: Query) -> NextStep | None:
        """As far as it alone is concerned."""
        old = self.before(version)
        both = runs_both(version.shape.plan)
        if old is not None:
            if not self.delivered(version) and self._answered(old, version):
                return NextStep.DELIVER
            if both and answers(version.shape.plan) == "later" and not self.released(version):
                return NextStep.RELEASE if self._only_new_rows(version) else None
            if not old.until or not self._taken_over(old, version):
                return None
            return NextStep.RETIRE
        if not version.until and self.failure(version) is not None:
            return NextStep.GIVE_UP
        return self._switch(version) if under_way(version, self.deployment) else None

    def _switch(self, version: Query) -> NextStep | None:
        if version.until or self.deployment.suspended(version.id):
            return None
        if version.cut is not None or self.migrates(version.id):
            return None  # it goes with the query that it is cut out of
        ready = self._only_new_rows if runs_both(version.shape.plan) else self._reaches_back
        return NextStep.SWITCH if self._made_ahead(version) and ready(version) else None

    def _made_ahead(self, version: Query) -> bool:
        """Whether missing states of the next version need not be waited for."""
        if version.successor is None or not version.successor.ahead:
            return True
        runners = self.runners(version.shape.key)
        return bool(runners) and all(version.successor.id in one.made for one in runners)

    def failure(self, version: Query) -> str | None:
        """Why missing states of the next version cannot be made; None: nothing is known against it."""
        if version.successor is None:
            return None
        told = (one.made.get(version.successor.id) for one in self.runners(version.shape.key))
        return next((why for why in told if why), None)

    def before(self, version: Query) -> Query | None:
        """The version that another one goes on with, as long as it is there."""
        return None if version.inherits is None else self.deployment.queries.get(version.inherits)

    def _taken_over(self, old: Query, new: Query) -> bool:
        """Whether the new version has all state, and the old one's last results are committed."""
        taken = not any(new.id in one.waiting for one in self.runners(new.shape.key))
        return taken and self._answered(old, new)

    def _answered(self, old: Query, new: Query) -> bool:
        """Whether the old version's last results are committed, and the new one runs."""
        since = Epoch(old.until)
        ours, theirs = self.runners(new.shape.key), self.runners(old.shape.key)
        if not since or not ours or not theirs or any(one.epoch < since for one in (*ours, *theirs)):
            return False
        sink = len(old.shape.plan.operators) - 1
        return all(one.published.get(sink, Epoch(0)) >= since for one in theirs)

    def _only_new_rows(self, version: Query) -> bool:
        """Whether no result to come can have a row from before the two plans ran side by side: rows to come are past
        the newest of those by more than any result spans."""
        newest, root, key = self.line_us(version), old_root(version.shape.plan), (version.id, "reach")
        if newest is None:
            return False
        if key not in self.found:
            self.found[key] = reach_us(version, self.deployment.streams)
        return self._least(version, root) > newest + 2 * self.found[key]

    def _reaches_back(self, version: Query) -> bool:
        """Whether states have all that rows to come may meet in the new order: these are past the line."""
        line = self._line(version)
        return line is not None and self._least(version, max(_joins(version.shape.plan))) >= line

    def _line(self, version: Query) -> int | None:
        """How far the furthest join stood when all of them had ceased to let rows go, where they are now."""
        runners, joins, new = self.runners(version.shape.key), _joins(version.shape.plan), version.successor
        if not runners or new is None or not all(new.id in one.kept for one in runners):
            return None
        key = (version.id, new.id, *(self.deployment.placement.get(instance_id(version.id, i)) for i in joins))
        if key not in self.found:
            self.found[key] = max(self._clock(version, join) for join in joins)
        return self.found[key]

    def _clock(self, version: Query, operator: int) -> int:
        """How far an operator is, where it is now: an earlier place stands behind."""
        clocks = (r.released.get(operator, {}).get(version.id, NEVER) for r in self.runners(version.shape.key))
        return max(clocks, default=NEVER)

    def _least(self, version: Query, operator: int) -> int:
        """The same where keys may be divided: of the region that is furthest behind."""
        owners = self.deployment.owners(version, operator)
        if len(owners) < 2:
            return self._clock(version, operator)
        known = {one.region: one.released.get(operator, {}) for one in self.runners(version.shape.key)}
        return min(known.get(region, {}).get(version.id, NEVER) for region in owners)


def under_way(version: Query, deployment: Deployment) -> bool:
    """Whether a change of plan that a version is part of has not come to its end."""
    before = version.inherits is not None and version.inherits in deployment.queries
    return before or version.until > 0 or version.successor is not None or runs_both(version.shape.plan)


def _joins(plan: Plan) -> list[int]:
    return [i for i, operator in enumerate(plan.operators) if isinstance(operator, Join)]


def _listed(table: Mapping[int, Any]) -> list[Any]:
    """As JSON has it, which knows only strings as keys."""
    return [[key, value] for key, value in table.items()]
