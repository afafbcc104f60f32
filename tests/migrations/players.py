"""Two players of one script, the simulator and a Spark fleet, with the same expectations of the deployment rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from typing import Any

from godwit.api.fleet import Fleet
from godwit.errors import DeploymentError
from godwit.ids import DeviceId, QueryId
from godwit.model.changes import (
    CapacityChanged,
    Change,
    DeviceMoved,
    LinkAdded,
    LinkRemoved,
    SiteAdded,
    SiteFailed,
    SiteRemoved,
)
from godwit.model.deployment import Deployment
from godwit.model.instances import instance_id
from godwit.sim import schedule as act
from godwit.sim.schedule import Sight
from godwit.sim.world import World
from godwit.sim.worlds import BAND, DISORDER, FEEDS, GAP, REGIONS, WINDOW, topology
from godwit.testing import CHANGE, KILL, PAUSE, SEND, WITHDRAW, Player, assert_equal_to_oracle
from godwit.testing.rows import START, at
from tests.migrations.case import QUERY, Case, Parked, Readings, Row, StateAt, Step

_WINDOWED = "SELECT k, {end} AS until, count(*) AS n, sum(v) AS s FROM lefts WHERE v > {over} GROUP BY k, {window}"
#: kinds of godwit.sim.worlds as SQL; a unit of the simulator's time is a second here
SQL = {
    "tumbling": _WINDOWED.format(end="window.end", over="{over}", window=f"window(ts, '{WINDOW} seconds')"),
    "session": _WINDOWED.format(end="session_window.end", over="{over}", window=f"session_window(ts, '{GAP} seconds')"),
    "joined": f"""SELECT a.ts, a.v, b.ts AS other_ts, b.v AS other_v FROM lefts a JOIN rights b
                  ON a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL {BAND} SECONDS AND a.ts + INTERVAL {BAND} SECONDS
                  WHERE a.v > {{over}}""",
}
STREAM = {"left": "lefts", "right": "rights"}
SCHEMA = "device string, ts timestamp, k int, v int"


def play(case: Case, do: Callable[[Step], None], deployment: Callable[[], Deployment]) -> None:
    """One step after the other; expectations are asked of the deployment as it is then."""
    for step in case.script:
        match step:
            case StateAt(site):
                found = state_at(deployment())
                assert found == {site}, f"{case.name}: state at {found}, not at {site}"
            case Parked(query, parked):
                assert (query in deployment().parked) == parked, dict(deployment().parked)
            case _:
                do(step)


def state_at(deployment: Deployment) -> set[str]:
    """Where the operators with state are."""
    plan = deployment.queries[QueryId(QUERY)].shape.plan
    stateful = [i for i, operator in enumerate(plan.operators) if operator.stateful]
    return {str(deployment.placement[instance_id(QueryId(QUERY), i)]) for i in stateful}


class SimPlayer:
    """Plays a case in the simulator."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.world = World(act.Schedule(0, case.rule, "incremental", ()))
        self.world.play(act.SubmitQuery(QUERY, case.kind, case.over))
        self._work()

    def run(self) -> list[Row]:
        play(self.case, self._do, lambda: self.world.deployment)
        self._work()
        self.world.finish()
        found = self.world.emitted(QueryId(QUERY))
        return sorted(found.elements())

    def _do(self, step: Step) -> None:
        match step:
            case Readings(device, stream, readings):
                self.world.play(act.Send(device, stream, readings))
            case PAUSE():
                self._work()
            case KILL(moment):
                for region in REGIONS:
                    self.world.play(act.Tick(region, Sight(), moment))
            case WITHDRAW(name):
                if name not in self.world.queries:
                    self.world.plane.withdraw(QueryId(name))  # (a schedule passes over what it does not know)
                self.world.play(act.WithdrawQuery(name))
            case CHANGE(changes):
                self.world.plane.explain_change(changes)  # (a schedule passes over what is refused)
                for change in changes:
                    self.world.play(_action(change))

    def _work(self, rounds: int = 12) -> None:
        """Messages are delivered and all regions work, until nothing should be left to do."""
        for _ in range(rounds):
            self.world.play(act.Deliver(100))
            for region in REGIONS:
                self.world.play(act.Tick(region, Sight()))


def _action(change: Change) -> act.Action:
    """The simulator's word for a change of its topology, in which every link goes from a site to its parent."""
    match change:
        case DeviceMoved(device, site):
            return act.Move(device, site)
        case SiteFailed(site):
            return act.Lose(site, True)
        case SiteRemoved(site):
            return act.Lose(site, False)
        case SiteAdded(site):
            return act.Return(site.id)
        case LinkAdded(link):
            return act.Return(link.a)
        case LinkRemoved(a, _):
            return act.Cut(a)
        case CapacityChanged(site, cpu):
            return act.Squeeze(site, int(cpu))
    msg = f"the simulator has no action for {change}"
    raise DeploymentError(msg)


class SparkPlayer:
    """Plays a case in a fleet that is stepped by hand."""

    def __init__(self, case: Case, open_fleet: Callable[..., Fleet]) -> None:
        self.case = case
        self.player = Player(lambda **options: open_fleet(rule=case.rule, **options), self._prepare)

    def run(self) -> list[Row]:
        query = self.player.fleet.query(QUERY)
        play(self.case, self._do, lambda: self.player.fleet.deployment)
        fleet = self.player.fleet
        fleet.process_available()
        fleet.change(_mending(fleet))
        fleet.close_sources()
        fleet.process_available()
        if QUERY in fleet.queries:
            query = fleet.query(QUERY)
            assert_equal_to_oracle(query)
        return sorted(_row(row.asDict()) for row in query.results().collect())

    def _prepare(self, fleet: Fleet) -> None:
        fleet.topology.add(topology())
        for stream in STREAM.values():
            fleet.stream(stream, SCHEMA, device="device", disorder=f"{DISORDER} seconds")
        for stream, devices in FEEDS.items():
            for device in devices:
                fleet.device(device, streams=[STREAM[stream]])
        fleet.submit(SQL[self.case.kind].format(over=self.case.over), QUERY)
        fleet.process_available()

    def _do(self, step: Step) -> None:
        match step:
            case Readings(device, stream, readings):
                rows = [{"device": device, "ts": at(t), "k": k, "v": v} for t, k, v in readings]
                self.player.do(SEND(device, rows, STREAM[stream]))
            case StateAt() | Parked():
                pass
            case _:
                self.player.do(step)
                self._attached(step)

    def _attached(self, step: Step) -> None:
        """A device that a change brought back sends what it has buffered, as its handle would."""
        if isinstance(step, CHANGE):
            for change in step.changes:
                if isinstance(change, DeviceMoved) and change.site is not None:
                    self.player.device(change.device).attach(change.site)


def _mending(fleet: Fleet) -> Iterable[Change]:
    """Devices that are away come back to the cloud."""
    away = [device for device, site in fleet.deployment.devices.items() if site is None]
    return [DeviceMoved(DeviceId(device), "c") for device in away]  # type: ignore[arg-type]


def _row(row: dict[str, Any]) -> Row:
    return tuple(_number(value) for value in row.values())


def _number(value: Any) -> int:
    if isinstance(value, dt.datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
        return round((moment - START).total_seconds())
    return int(value)
