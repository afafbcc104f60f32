"""A small world for runtime tests: three regions, a few trains, and scripts of what happens to them.

A script is a list of actions, so that a failing run can be read: Push, Move (an instance), Attach, Detach, Step, Crash.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import SparkSession

from godwit.api.fleet import Fleet
from godwit.api.oracle import Verdict
from godwit.engine.plan_cache import java_of
from godwit.engine.size_policy import Execution, SizePolicy
from godwit.model.topology import Link, Site, Topology
from godwit.region.runner import Limits
from godwit.testing import DETACH, KILL, MOVE, SEND, Player, readings
from godwit.testing.rows import START as START


def sized(open_fleet: Callable[..., Fleet], sizes: SizePolicy) -> Callable[..., Fleet]:
    """Opens a fleet that takes so many rows for few."""
    return lambda **options: open_fleet(**{**options, "limits": Limits(sizes=sizes)})


#: every way in which a step may be executed; with many queries, tables are joined instead of written into the plan
MODES = {
    **{mode.value: SizePolicy.forced(mode) for mode in Execution},
    **{f"{mode.value}, many queries": replace(SizePolicy.forced(mode), case_queries=0) for mode in Execution},
    "cached plans as jobs": SizePolicy.forced(Execution.DIRECT),
}


@contextmanager
def executed(spark: SparkSession, mode: str) -> Iterator[SizePolicy]:
    """The policy of a mode, while direct plans are on or off as it wants them."""
    java = java_of(spark)
    engine = java.direct
    java.direct = None if mode == "cached plans as jobs" else engine
    try:
        yield MODES[mode]
    finally:
        java.direct = engine


SITES = ("west", "east", "cloud")
SCHEMA = "train string, line string, coach int, boarded int, alighted int, load double, ts timestamp"
DISORDER = 3.0

QUERIES = {
    "filter": "SELECT train, boarded + 1 AS more, ts FROM passengers WHERE boarded > 6",
    "tumbling": """SELECT train, sum(boarded) - sum(alighted) AS delta, count(*) AS n, avg(load) AS mean,
                          stddev(load) AS sd, count(DISTINCT coach) AS coaches, median(boarded) AS mid,
                          window.end AS until
                   FROM passengers WHERE boarded + alighted > 2 GROUP BY train, window(ts, '10 seconds')""",
    "hopping": """SELECT line, max(boarded) AS most, min(load) AS least, window.start AS since
                  FROM passengers GROUP BY line, window(ts, '10 seconds', '5 seconds') HAVING count(*) > 1""",
    "session": """SELECT train, count(*) AS n, session_window.start AS since, session_window.end AS until
                  FROM passengers WHERE coach = 1 GROUP BY train, session_window(ts, '2 seconds')""",
    "join": """SELECT a.train, b.train AS other, a.ts, b.ts AS met FROM passengers a JOIN passengers b
               ON a.coach = b.coach AND a.ts BETWEEN b.ts - INTERVAL 1 SECOND AND b.ts + INTERVAL 2 SECONDS
               WHERE a.line = 'S41' AND b.line = 'S42' AND a.boarded + b.boarded > 8""",
    "nested": """SELECT line, sum(n) AS total, window.end AS until
                 FROM (SELECT line, train, count(*) AS n, window.end AS closed
                       FROM passengers GROUP BY line, train, window(ts, '5 seconds'))
                 GROUP BY line, window(closed, '20 seconds')""",
    "union": """SELECT who, sum(people) AS people, window.end AS until
                FROM (SELECT line AS who, boarded AS people, ts FROM passengers WHERE coach = 0
                      UNION ALL SELECT train AS who, alighted AS people, ts FROM passengers WHERE coach = 2)
                GROUP BY who, window(ts, '10 seconds')""",
}


@dataclass(frozen=True)
class Push:
    train: int
    second: float
    rows: int


@dataclass(frozen=True)
class Attach:
    train: int
    site: str


@dataclass(frozen=True)
class Detach:
    train: int


@dataclass(frozen=True)
class Move:
    """Move a query's holistic operators (all of them, or those from an operator on) to a site."""

    query: str
    site: str
    only: int | None = None


@dataclass(frozen=True)
class Step:
    """Some micro-batches: the runners with these numbers (modulo how many there are), in this order."""

    runners: tuple[int, ...]


@dataclass(frozen=True)
class Crash:
    """The process dies at a moment of the next micro-batch that has work, and the fleet is opened again."""

    moment: str


@dataclass(frozen=True)
class Submit:
    query: str
    sql: str


@dataclass(frozen=True)
class Withdraw:
    query: str


Action = Push | Attach | Detach | Move | Step | Crash | Submit | Withdraw


class World:
    """The player of these scripts: trains by number, and what only a test may do (Step, Move)."""

    def __init__(
        self,
        open_fleet: Callable[..., Fleet],
        queries: dict[str, str],
        trains: int = 4,
        seed: int = 0,
        sinks_at: str | None = "cloud",
    ) -> None:
        """`sinks_at`: of every other sink; results of the others, if they keep no rows, leave wherever those are."""
        self.queries, self.trains, self.rng, self._sinks_at = queries, trains, random.Random(seed), sinks_at
        self._player = Player(open_fleet, self._prepare)

    def _prepare(self, fleet: Fleet) -> None:
        fleet.topology.add(three_regions())
        fleet.stream("passengers", SCHEMA, device="train", disorder=f"{DISORDER:g} seconds")
        for number in range(self.trains):
            fleet.device(f"t{number}", site=SITES[number % 2], streams=["passengers"])
        self.declare(fleet)
        for number, (name, sql) in enumerate(self.queries.items()):
            fleet.submit(sql, name, sink=self._sinks_at if number % 2 == 0 else None)

    def declare(self, fleet: Fleet) -> None:
        """What else the queries read."""

    @property
    def fleet(self) -> Fleet:
        return self._player.fleet

    @property
    def handles(self) -> dict[int, Any]:
        """Train -> its handle, those of the fleet as it is open now."""
        return {number: self._player.device(f"t{number}") for number in range(self.trains)}

    def play(self, script: Sequence[Action]) -> None:
        for action in script:
            self._do(action)

    def finish(self) -> list[Verdict]:
        """Everybody comes back, sends what is left and says goodbye; then the oracle is asked."""
        for number, handle in self.handles.items():
            if not handle.attached:
                handle.attach(SITES[number % 2])
        self.fleet.close_sources()
        self.fleet.process_available()
        return [self.fleet.query(name).verdict() for name in self.fleet.queries]

    def _do(self, action: Action) -> None:
        match action:
            case Push(train, second, rows):
                self._player.do(SEND(f"t{train}", self._rows(train, second, rows)))
            case Attach(train, site):
                self._player.do(MOVE(f"t{train}", site))
            case Detach(train):
                self._player.do(DETACH(f"t{train}"))
            case Move(query, site, only):
                self._move(query, site, only)
            case Step(runners):
                pool = list(self.fleet.pool.runners.values())
                for number in runners:
                    pool[number % len(pool)].step()
            case Crash(moment):
                self._player.do(KILL(moment))
            case Submit(query, sql):
                self.fleet.submit(sql, query)
            case Withdraw(query):
                self.fleet.withdraw(query)  # type: ignore[arg-type]

    def _move(self, query: str, site: str, only: int | None) -> None:
        if query not in self.fleet.deployment.queries:
            return
        known = self.fleet.deployment.queries[query]  # type: ignore[index]
        plan = known.shape.plan
        wanted = [i for i in range(len(plan.operators)) if not plan.is_local(i)]
        if known.scattered:
            return  # its sink, which is the only one, has no place
        if only is not None:
            wanted = [wanted[only % len(wanted)]]
        self.fleet.move({f"{query}/{i}": site for i in wanted})

    def _rows(self, train: int, second: float, rows: int) -> list[dict[str, Any]]:
        columns = {
            "line": lambda _: f"S4{1 + train % 2}",
            "coach": lambda rng: rng.randrange(3),
            "boarded": lambda rng: rng.randrange(10),
            "alighted": lambda rng: rng.randrange(10),
            "load": lambda rng: rng.random() * 100,
        }
        return readings(
            f"t{train}", rows, rng=self.rng, since=second, within=DISORDER, device_column="train", columns=columns
        )


def rooms_of(record: dict[str, Any]) -> list[Any]:
    """Of a commit record: the rooms in which rows wait, as far as it names them."""
    memory = record["memory"]
    rooms = memory["whole"]["rooms"] if "whole" in memory else memory["delta"]["rooms"]["changed"]
    return [json.loads(room) for room in rooms]


def three_regions() -> Topology:
    """west (edge-west) - cloud (cloud) - east (edge-east)"""
    sites = [Site("west", "edge-west"), Site("east", "edge-east"), Site("cloud", "cloud", cpu=1000.0, kind="cloud")]
    return Topology.of(sites, [Link("west", "cloud", ms=5), Link("east", "cloud", ms=5)])  # type: ignore[arg-type]
