"""The workloads of the paper as they are run here: SQL, which operator's keys migrate, and what a result answers.

Changed against `godwit.workloads`, so that latency can be seen in a run of seconds:
    tm      every total is told, with the number of its rows (the alert's limit would hide half of them)
    nq7     the maximum per auction, then of all, as in the paper's plan; windows of 1 s instead of 10
    nq8     10 s instead of an hour: with ten keys, pairs of an hour would be all there is to do
    nq5, lr-tn   windows of 10 s, every second, instead of a minute: a row is in 10 of them, not in 60
    lr-an   the paper's ACC DET alone, with every report answered: the accidents of a seed are all in its first minutes
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from godwit.api.fleet import Fleet
from godwit.ids import QueryId
from godwit.model.plan import Aggregate, Join, Operator, Query, Sink, Stream
from godwit.model.running import Over, RunningAggregate
from godwit.workloads import StreamWorkload, named

#: the name under which it is asked
QUERY = "q"
#: a row: `at` is the time of the row that is answered; a window: its end; a total: `n` rows of `key` are in it
Answers = Literal["row", "window", "total"]

_TM = "SELECT /*+ keep('forever') */ vehicle AS key, avg(speed) AS average, count(*) AS n FROM speeds GROUP BY vehicle"
_NQ6 = """SELECT seller, avg(initial) AS price, count_window.end AS at
FROM auction GROUP BY seller, count_window(ts, {size})"""
_NQ7 = """WITH best AS (
  SELECT auction, max(price) AS price, window.end AS until FROM bid GROUP BY auction, window(ts, '1 second')),
most AS (SELECT max(price) AS price, window.start AS until FROM best GROUP BY window(until, '1 microsecond'))
SELECT b.auction, b.price, b.until AS at FROM best b JOIN most m ON b.price = m.price AND b.until = m.until"""
_NQ8 = """SELECT p.id, p.name, a.id AS auction, a.ts AS at FROM person p JOIN auction a
  ON p.id = a.seller AND a.ts BETWEEN p.ts AND p.ts + INTERVAL 10 SECONDS"""
_LR_AN = """SELECT car, seg, ts AS at, min(pos) OVER w = max(pos) OVER w AND count(*) OVER w = 10 AS stopped
FROM positions WINDOW w AS (PARTITION BY car ORDER BY ts ROWS BETWEEN 9 PRECEDING AND CURRENT ROW)"""


@dataclass(frozen=True)
class Question:
    """A workload and how it is asked."""

    workload: StreamWorkload
    sql: str
    answers: Answers
    #: operators of this kind that keep state by key are the ones whose keys migrate
    kind: type[Operator]
    #: the keys there are
    first: int = 0
    count: int = 10
    prefix: str = ""
    #: of totals: so many rows of each key are there before the run
    preloaded: int = 0

    @property
    def streams(self) -> tuple[Stream, ...]:
        return self.workload.streams

    @property
    def keys(self) -> list[str]:
        return [f"{self.prefix}{self.first + k}" for k in range(self.count)]

    def running(self, fleet: Fleet) -> list[Query]:
        """The query as it runs, and the parts of it that run once for several readers."""
        query = fleet.execution(QueryId(QUERY))
        return [query, *map(fleet.execution, query.parts)]

    def operators(self, fleet: Fleet) -> list[tuple[str, int]]:
        """(query or part, operator) whose keys migrate."""
        return [
            (one.id, i)
            for one in self.running(fleet)
            for i, op in enumerate(one.shape.plan.operators)
            if i in one.executed and isinstance(op, self.kind) and op.stateful and op.state[0].keys
        ]

    def placed(self, fleet: Fleet) -> list[str]:
        """What is placed at the cloud in the beginning: all that does not run where its rows come in, but the sinks of
        parts, which stay where they are."""
        return [
            f"{one.id}/{i}"
            for one in self.running(fleet)
            for i in one.executed
            if not one.shape.plan.is_local(i) and not (one.target and isinstance(one.shape.plan.operators[i], Sink))
        ]

    @property
    def made_keys(self) -> int:
        """As `Settings.keys` wants them; the segments of Linear Road are there by themselves."""
        return 300 if self.workload.name == "lr-tn" else self.count


_NQ5 = named("nq5").sql.replace("'1 minute'", "'10 seconds'").replace("c.bids, c.until\n", "c.bids, c.until AS at\n")
_LR_TN = named("lr-tn").sql.replace("'1 minute'", "'10 seconds'").replace("AS until", "AS at")

QUESTIONS: dict[str, Question] = {
    "tm": Question(named("tm"), _TM, "total", RunningAggregate, prefix="v"),
    "nq5": Question(named("nq5"), _NQ5, "window", Aggregate, first=1000),
    "nq6": Question(named("nq6"), _NQ6.format(size=10), "row", Over, first=1000),
    "nq7": Question(named("nq7"), _NQ7, "window", Aggregate, first=1000),
    "nq8": Question(named("nq8"), _NQ8, "row", Join, first=1000),
    "lr-tn": Question(named("lr-tn"), _LR_TN, "window", Aggregate, count=101),
    "lr-an": Question(named("lr-an"), _LR_AN, "row", Over, count=100),
}


def of_window(size: int) -> Question:
    """NQ6 with windows of so many rows."""
    return replace(QUESTIONS["nq6"], sql=_NQ6.format(size=size))
