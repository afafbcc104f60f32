"""Workloads make the same rows for the same seed; their queries give what a batch gives that is written otherwise."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from godwit.api.fleet import Fleet
from godwit.api.oracle import compare
from godwit.delivery.sinks.callback import CallbackSink
from godwit.errors import ConfigError
from godwit.ids import QueryId, StreamId
from godwit.model.plan import Column
from godwit.model.tables import reference_table
from godwit.sql import compile_query
from godwit.workloads import WORKLOADS, Settings, named
from godwit.workloads.riot import SHAPES
from godwit.workloads.riot_train import Trainer
from tests.region.world import three_regions
from tests.sampled import sampled

SMALL = {
    "tm": Settings(seed=3, rate=20, seconds=30, sources=2, disorder=2),
    "nq5": Settings(seed=3, rate=12, seconds=40, sources=2, disorder=2),
    "nq6": Settings(seed=3, rate=100, seconds=30, sources=2, disorder=2),
    "nq7": Settings(seed=3, rate=20, seconds=40, sources=2, disorder=2),
    "nq8": Settings(seed=3, rate=100, seconds=30, sources=2, disorder=2),
    "lr-tn": Settings(seed=3, rate=4, seconds=60, sources=2, disorder=2),
    "lr-an": Settings(seed=3, rate=4, seconds=500, sources=2, disorder=2),
    "ysb": Settings(seed=3, rate=40, seconds=40, sources=2, disorder=2),
    **{
        name: Settings(seed=3, rate=10, seconds=40, sources=2, disorder=2, keys=12)
        for name in WORKLOADS
        if name.startswith("riot")
    },
}
_PARSED = """(SELECT station, id, ts, from_json(senml, 'e array<struct<n:string,u:string,v:double>>').e AS e
              FROM observations)"""
_LONG = f"(SELECT station, id, ts, entry.n, entry.v FROM {_PARSED} LATERAL VIEW explode(e) t AS entry)"


def _etl(shape: str) -> str:
    """By self-joins instead of windows and grouping: the last five values of a gap, and one join per field."""
    names = [field.name for field in SHAPES[shape]]
    checked = f"""SELECT station, id, ts, o.n, CASE WHEN v >= low AND v <= high THEN v END AS v
                  FROM {_LONG} o JOIN ranges r ON o.n = r.n"""
    before = """SELECT g.id, g.n, aggregate(slice(reverse(array_sort(collect_list(struct(c.ts, c.v)))), 1, 5),
                       named_struct('s', 0D, 'n', 0), (a, x) -> named_struct('s', a.s + coalesce(x.v, 0D),
                       'n', a.n + if(x.v IS NULL, 0, 1)), a -> if(a.n = 0, NULL, a.s / a.n)) AS mean
                FROM checked g JOIN checked c ON c.station = g.station AND c.n = g.n AND c.ts < g.ts
                WHERE g.v IS NULL GROUP BY g.id, g.n"""
    one = "JOIN (SELECT id, v FROM filled WHERE n = '{n}') f{i} ON f{i}.id = m.id"
    parts = " ".join(one.format(n=n, i=i) for i, n in enumerate(names))
    columns = ", ".join(f"f{i}.v AS {n}" for i, n in enumerate(names))
    return f"""WITH checked AS ({checked}), before AS ({before}),
               filled AS (SELECT c.id, c.n, coalesce(c.v, mean) AS v
                          FROM checked c LEFT JOIN before b ON b.id = c.id AND b.n = c.n)
               SELECT m.station, m.id, place, {columns},
                      concat('{{"n":"', m.station, '","bt":', m.id, ',"place":"', place, '"}}') AS senml, m.ts
               FROM observations m {parts} JOIN stations s ON s.id = m.station"""


_STATS = f"""SELECT station, n, sum(v) / count(v) AS mean, sum(v * v) / count(v) AS moment,
                    size(collect_set(v)) AS different,
                    (count(v) * sum(x * v) - sum(x) * sum(v)) / (count(v) * sum(x * x) - sum(x) * sum(x)) AS slope,
                    (sum(v) - (count(v) * sum(x * v) - sum(x) * sum(v)) / (count(v) * sum(x * x) - sum(x) * sum(x))
                     * sum(x)) / count(v) AS intercept, timestamp_micros((bucket + 1) * 10000000) AS until
             FROM (SELECT *, floor(unix_micros(ts) / 10000000) AS bucket, unix_micros(ts) % 60000000 / 1e6 AS x
                   FROM {_LONG}) GROUP BY station, n, bucket"""


def _pred(shape: str) -> str:
    x, y, *_ = SHAPES[shape]
    bad = f"e[0].v < {(x.low + x.high) / 2} AND e[1].v < {y.low + (y.high - y.low) / 3}"
    return f"""SELECT station, avg(p) AS predicted, avg(abs(p - v)) AS error, sum(if(bad, 1, 0)) AS bad, count(*) AS n,
                      timestamp_micros((bucket + 1) * 10000000) AS until
               FROM (SELECT station, floor(unix_micros(ts) / 10000000) AS bucket, e[4].v AS v, {bad} AS bad,
                            intercept + a * e[0].v + b * e[1].v AS p FROM {_PARSED}, models)
               GROUP BY station, bucket"""


#: the same questions, asked in another way; ties of rank are no ties of ours: no two events have one time
OTHERWISE = {
    "tm": "SELECT vehicle, sum(speed) / count(speed) AS average FROM speeds GROUP BY vehicle "
    "HAVING sum(speed) > 50 * count(speed)",
    "nq5": """SELECT auction, bids, until FROM (
                SELECT auction, bids, until, rank() OVER (PARTITION BY until ORDER BY bids DESC) AS place FROM (
                  SELECT auction, count(*) AS bids, until FROM (
                    SELECT auction, explode(sequence(date_trunc('second', ts) + INTERVAL 1 SECOND,
                                                     date_trunc('second', ts) + INTERVAL 60 SECONDS,
                                                     INTERVAL 1 SECOND)) AS until FROM bid)
                  GROUP BY auction, until)) WHERE place = 1""",
    "nq6": """SELECT seller, avg(initial) AS price, max(ts) AS until FROM (
                SELECT *, floor((rank() OVER (PARTITION BY seller ORDER BY ts) - 1) / 10) AS lot FROM auction)
              GROUP BY seller, lot HAVING count(*) = 10""",
    "nq7": """SELECT auction, bidder, price, ts FROM (
                SELECT *, rank() OVER (PARTITION BY floor(unix_micros(ts) / 10000000) ORDER BY price DESC) AS place
                FROM bid) WHERE place = 1""",
    "nq8": """SELECT id, name, auction, came, sold FROM (
                SELECT person.id, name, auction.id AS auction, person.ts AS came, auction.ts AS sold
                FROM person, auction WHERE person.id = seller)
              WHERE unix_micros(sold) - unix_micros(came) BETWEEN 0 AND 3600000000""",
    "ysb": """SELECT campaign_id, count(*) AS views, max(event_time) AS latest,
                     timestamp_micros((bucket + 1) * 10000000) AS until
              FROM (SELECT *, floor(unix_micros(event_time) / 10000000) AS bucket FROM ad_events
                    WHERE event_type NOT IN ('click', 'purchase')) e, campaigns c
              WHERE e.ad_id = c.ad_id GROUP BY campaign_id, bucket""",
    **{
        f"{name}{'' if shape == 'sys' else f'-{shape}'}": made
        for shape in SHAPES
        for name, made in (("riot-etl", _etl(shape)), ("riot-stats", _STATS), ("riot-pred", _pred(shape)))
    },
}
#: `make test` runs one data set, `make test-full` all
RUN = [name for name in WORKLOADS if not name.startswith(("riot-train", "riot-features"))]


@pytest.mark.parametrize("name", sampled(RUN, "tm", "nq8", "lr-an", "ysb", "riot-etl"))
def test_the_query_answers_while_a_source_hops(open_fleet: Callable[..., Fleet], name: str) -> None:
    workload, settings = WORKLOADS[name], SMALL[name]
    fleet = open_fleet()
    fleet.topology.add(three_regions())
    workload.declare(fleet, settings, ["west", "east"])
    query = fleet.submit(workload.sql, name)
    for number, batch in enumerate(workload.batches(settings, every=settings.seconds / 4)):
        for stream, rows in batch.items():
            fleet.push(stream, rows)
        fleet.process_available()
        if number == 1:
            fleet.device("s0").attach("east")
            plan = fleet.deployment.queries[QueryId(name)].shape.plan
            fleet.move({f"{name}/{i}": "east" for i, o in enumerate(plan.operators) if o.stateful})
    fleet.close_sources()
    fleet.process_available()
    verdict = query.verdict()
    assert verdict.equal, str(verdict)
    assert verdict.got > 0
    if name in OTHERWISE:
        references = {one.name: pa.Table.from_pylist(one.rows()) for one in workload.references}
        other = _batch(fleet, {**workload.tables(settings), **references}, OTHERWISE[name])
        told = compare(QueryId(name), other.toPandas(), query.results().toPandas())
        assert told.equal, str(told)


def _batch(fleet: Fleet, tables: dict[str, pa.Table], sql: str) -> Any:
    session = fleet.spark.newSession()
    for name, rows in tables.items():
        session.createDataFrame(rows).createOrReplaceTempView(name)
    return session.sql(sql)


@pytest.mark.parametrize("name", list(WORKLOADS))
def test_rows_follow_from_the_seed_alone(name: str) -> None:
    """However they are cut into batches, and in whatever order they arrive, they are the same."""
    workload, settings = WORKLOADS[name], SMALL[name]
    whole = workload.tables(settings)
    for every in (1.0, 7.0):
        batches = list(workload.batches(settings, every))
        for stream, rows in whole.items():
            again = pa.concat_tables([batch[stream] for batch in batches if stream in batch])
            assert sorted(map(repr, again.to_pylist())) == sorted(map(repr, rows.to_pylist()))
    assert workload.tables(SMALL[name]) == whole
    assert workload.tables(Settings(seed=4, rate=20, seconds=10)) != workload.tables(Settings(rate=20, seconds=10))


@pytest.mark.parametrize("name", list(WORKLOADS))
def test_the_query_compiles(name: str) -> None:
    workload = WORKLOADS[name]
    tables = [
        reference_table(StreamId(r.name), tuple(Column(*c.split()) for c in r.schema.split(", ")), (r.key,))
        for r in workload.references
    ]
    known, calls = {s.id: s for s in (*workload.streams, *tables)}, [f.name for f in workload.functions]
    assert compile_query(workload.sql, known, QueryId(name), declared=calls).shape.plan.operators


def test_a_window_trains_a_model_that_predicts_from_then_on(open_fleet: Callable[..., Fleet]) -> None:
    pred, settings = named("riot-pred"), Settings(seed=5, rate=20, seconds=30, keys=12)
    fleet = open_fleet()
    fleet.topology.add(three_regions())
    pred.declare(fleet, settings, ["west"])
    models = fleet.table("models", pred.references[2].schema, key="name")
    query, trainer = fleet.submit(pred.sql, "riot-pred"), Trainer(fleet, models)
    trainer.follow(CallbackSink)
    for batch in pred.batches(settings, every=10):
        fleet.push("observations", batch["observations"])
        fleet.process_available()
        fleet.process_available()  # (training changes a table)
    fleet.close_sources()
    fleet.process_available()
    trainer.tick([])
    assert len(trainer.trained) >= 2
    assert query.verdict().equal, str(query.verdict())
    rows = [json.loads(row["senml"]) for row in pred.tables(settings)["observations"].to_pylist()[:200]]
    values = np.array([[entry["v"] for entry in row["e"]] for row in rows])
    fields = SHAPES["sys"]
    fine = values[(values[:, [0, 1, 4]] <= [fields[i].high for i in (0, 1, 4)]).all(axis=1)]
    want, *_ = np.linalg.lstsq(np.c_[np.ones(len(fine)), fine[:, :2]], fine[:, 4], rcond=None)
    first = trainer.trained[min(trainer.trained)]
    assert np.allclose([first["intercept"], first["a"], first["b"]], want, rtol=1e-6)
    assert [row["name"] for row in models.rows()] == ["linear"]
    assert models.rows()[0]["a"] == trainer.trained[max(trainer.trained)]["a"]


def test_nexmark_is_as_published() -> None:
    settings = Settings(rate=10_000, seconds=20)
    bid, auction, person = (
        named(w).tables(settings)[s] for w, s in (("nq5", "bid"), ("nq6", "auction"), ("nq8", "person"))
    )
    assert [t.num_rows / 200_000 for t in (person, auction, bid)] == [1 / 50, 3 / 50, 46 / 50]
    prices = bid["price"].to_numpy()
    assert prices.min() >= 100
    assert prices.max() <= 100_000_000
    assert abs(np.log10(prices).mean() - 5) < 0.02
    hot = (bid["auction"].to_numpy() % 100 == 0).mean()
    assert 0.49 < hot < 0.53
    assert 0.74 < (auction["seller"].to_numpy() % 100 == 0).mean() < 0.78
    assert len(set(named("nq5").tables(Settings(rate=1000, keys=10))["bid"]["auction"].to_pylist())) == 10


def test_an_unknown_workload_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match="there is no workload 'nq9'; there are lr-an, lr-tn, nq5"):
        named("nq9")
