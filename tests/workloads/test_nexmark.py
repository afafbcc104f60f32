"""Nexmark q0 to q22: every query gives what DuckDB gives for the published question, over the same events.

What DuckDB is asked is written for itself: joins without bands, windows by arithmetic, sessions by gaps.
"""

from __future__ import annotations

import json
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from godwit.api.fleet import Fleet
from godwit.api.oracle import compare
from godwit.cli.main import app
from godwit.errors import ConfigError
from godwit.ids import QueryId, StreamId
from godwit.model.plan import Column
from godwit.model.tables import reference_table
from godwit.sql import compile_query
from godwit.workloads.base import Settings, StreamWorkload
from godwit.workloads.nexmark_suite import (
    AS_PUBLISHED,
    AUCTION,
    BID,
    FUNCTIONS,
    PERSON,
    QUERIES,
    REFERENCES,
    events,
    side_rows,
    suite,
)
from tests.region.world import three_regions

SETTINGS = Settings(seed=5, rate=200, seconds=24, sources=2, disorder=1)
ALL = StreamWorkload("nexmark", (PERSON, AUCTION, BID), "", events, REFERENCES, FUNCTIONS)
_WON = """SELECT a.*, b.auction, b.bidder, b.price, b.dateTime AS bid_dateTime, b.extra AS bid_extra
          FROM auction a JOIN bid b ON a.id = b.auction WHERE b.dateTime BETWEEN a.dateTime AND a.expires"""
_HOPS = """SELECT auction, epoch_us(dateTime) // 2000000 * 2000000 - i * 2000000 AS start
           FROM bid, (SELECT unnest(range(5)) AS i)"""
_RANKS = "price < 10000", "price >= 10000 AND price < 1000000", "price >= 1000000"


def _told(*calls: str) -> str:
    return ", ".join(f"{call}, " + ", ".join(f"{call} FILTER (WHERE {rank})" for rank in _RANKS) for call in calls)


_COUNTS = _told("count(*)", "count(DISTINCT bidder)", "count(DISTINCT auction)")
ANSWERS = {
    "q0": "SELECT auction, bidder, price, dateTime, extra FROM bid",
    "q1": "SELECT auction, bidder, 0.908::decimal(3, 3) * price, dateTime, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE auction % 123 = 0",
    "q3": """SELECT name, city, state, a.id FROM auction a JOIN person p ON seller = p.id
             WHERE category = 10 AND state IN ('OR', 'ID', 'CA')""",
    "q4": f"""SELECT category, avg(final) FROM (
              SELECT category, id, max(price) AS final FROM ({_WON}) GROUP BY ALL) GROUP BY 1""",
    "q5": f"""SELECT auction, n FROM (SELECT *, max(n) OVER (PARTITION BY start) AS most FROM (
              SELECT auction, start, count(*) AS n FROM ({_HOPS}) GROUP BY ALL)) WHERE n = most""",
    "q6": f"""SELECT seller, avg(final) OVER (PARTITION BY seller ORDER BY dateTime ROWS 10 PRECEDING) FROM (
              SELECT seller, id, dateTime, max(price) AS final FROM ({_WON}) GROUP BY ALL)""",
    "q7": """SELECT b.auction, b.price, b.bidder, b.dateTime, b.extra FROM bid b JOIN (
               SELECT max(price) AS most, epoch_us(dateTime) // 10000000 * 10000000 AS start FROM bid GROUP BY 2) w
             ON b.price = most AND epoch_us(b.dateTime) BETWEEN start AND start + 10000000""",
    "q8": """SELECT DISTINCT p.id, name, time_bucket(INTERVAL 10 SECONDS, p.dateTime) FROM person p JOIN auction a
             ON p.id = seller AND epoch_us(p.dateTime) // 10000000 = epoch_us(a.dateTime) // 10000000""",
    "q9": f"""SELECT id, itemName, description, initialBid, reserve, dateTime, expires, seller, category, extra,
                     auction, bidder, price, bid_dateTime, bid_extra
              FROM ({_WON}) QUALIFY row_number() OVER (PARTITION BY id ORDER BY price DESC, bid_dateTime) = 1""",
    "q10": """SELECT auction, bidder, price, dateTime, extra, strftime(dateTime, '%Y-%m-%d'),
                     strftime(dateTime, '%H:%M') FROM bid""",
    "q11": """SELECT bidder, count(*), min(dateTime), max(dateTime) + INTERVAL 10 SECONDS FROM (
                SELECT *, sum(begins) OVER (PARTITION BY bidder ORDER BY dateTime) AS session FROM (
                  SELECT *, CASE WHEN epoch_us(dateTime) - lag(epoch_us(dateTime), 1, -1000000000000)
                    OVER (PARTITION BY bidder ORDER BY dateTime) > 10000000 THEN 1 ELSE 0 END AS begins FROM bid))
              GROUP BY bidder, session""",
    "q12": """SELECT bidder, count(*), time_bucket(INTERVAL 10 SECONDS, arrived) AS s, s + INTERVAL 10 SECONDS
              FROM bid JOIN arrivals USING (source, dateTime) GROUP BY bidder, s""",
    "q13": """SELECT auction, bidder, price, dateTime, value FROM bid JOIN side_input ON auction % 10000 = key""",
    "q14": """SELECT auction, bidder, 0.908::decimal(3, 3) * price, 'nightTime', dateTime, extra,
                     len(list_filter(string_split(extra, ''), lambda c: c = 'c'))
              FROM bid WHERE price * 908 > 1000000000 AND price * 908 < 50000000000""",
    "q15": f"SELECT strftime(dateTime, '%Y-%m-%d'), {_COUNTS} FROM bid GROUP BY 1",
    "q16": f"""SELECT channel, strftime(dateTime, '%Y-%m-%d'), max(strftime(dateTime, '%H:%M')), {_COUNTS}
               FROM bid GROUP BY 1, 2""",
    "q17": f"""SELECT auction, strftime(dateTime, '%Y-%m-%d'), {_told("count(*)")}, min(price), max(price), avg(price),
                      sum(price)::bigint FROM bid GROUP BY 1, 2""",
    "q18": """SELECT auction, bidder, price, channel, url, dateTime, extra FROM bid b WHERE NOT EXISTS (
                FROM bid c WHERE c.bidder = b.bidder AND c.auction = b.auction AND c.dateTime > b.dateTime)""",
    "q19": """SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC, bidder, dateTime)::int AS p
              FROM bid QUALIFY p <= 10""",
    "q20": """SELECT auction, bidder, price, channel, url, b.dateTime, b.extra, itemName, description, initialBid,
                     reserve, a.dateTime, expires, seller, category, a.extra
              FROM bid b JOIN auction a ON auction = id WHERE category = 10""",
    "q21": """SELECT auction, bidder, price, channel, CASE WHEN i > 0 THEN (i - 1)::varchar ELSE told END FROM (
                SELECT *, coalesce(list_position(['apple', 'google', 'facebook', 'baidu'], lower(channel)), 0) AS i,
                       regexp_extract(url, '&channel_id=([0-9]+)', 1) AS told FROM bid) WHERE i > 0 OR told <> ''""",
    "q22": """SELECT auction, bidder, price, channel, split_part(url, '/', 4), split_part(url, '/', 5),
                     split_part(url, '/', 6) FROM bid""",
}


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    """With times as UTC has them: DuckDB's zones are an extension."""
    naive = pa.timestamp("us")
    made = {}
    for name, rows in ALL.tables(SETTINGS).items():
        kinds = [(f.name, naive if pa.types.is_timestamp(f.type) else f.type) for f in rows.schema]
        made[name] = rows.cast(pa.schema(kinds))
    return made


@pytest.fixture(scope="module")
def answered(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """All queries in one fleet, over the same events; a source hops and two queries move on the way."""
    fleet = Fleet(tmp_path_factory.mktemp("nexmark") / "fleet", spark)
    fleet.topology.add(three_regions())
    ALL.declare(fleet, SETTINGS, ["west", "east"])
    for name in QUERIES:
        fleet.submit(suite(name).sql, name)
    fleet.submit("SELECT source, `dateTime`, _arrived AS arrived FROM bid", "arrivals")
    for number, batch in enumerate(ALL.batches(SETTINGS, every=SETTINGS.seconds / 3)):
        for stream, rows in batch.items():
            fleet.push(stream, rows)
        fleet.process_available()
        if number == 0:
            fleet.device("s0").attach("east")
            for name in ("q5", "q19"):
                plan = fleet.deployment.queries[QueryId(name)].shape.plan
                fleet.move({f"{name}/{i}": "east" for i, o in enumerate(plan.operators) if o.stateful})
    fleet.close_sources()
    fleet.process_available()
    found = {name: fleet.query(name).results().toPandas() for name in QUERIES}
    # When each bid arrived, as a query of its own says it that only passes it on.
    found["arrivals"] = fleet.query("arrivals").results().toPandas()
    yield found
    fleet.stop()


@pytest.mark.parametrize("name", QUERIES)
def test_the_answer_is_duckdbs(answered: dict[str, pd.DataFrame], tables: dict[str, pa.Table], name: str) -> None:
    got = answered[name]
    with duckdb.connect() as database:
        for stream, rows in tables.items():
            database.register(stream, rows)
        database.register("side_input", pa.Table.from_pylist(side_rows()))
        database.register("arrivals", _plain(answered["arrivals"]))
        want = database.sql(ANSWERS[name]).to_arrow_table().to_pandas()
    want.columns = list(got.columns)
    told = compare(QueryId(name), _plain(want), _plain(got))
    assert told.equal, str(told)
    assert len(got), "there is something to compare"


def _plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Decimals as numbers, times as whole microseconds, counts as one type."""
    made = {}
    for name, column in frame.items():
        if pd.api.types.is_datetime64_any_dtype(column):
            naive = column.dt.tz_convert("UTC").dt.tz_localize(None) if column.dt.tz is not None else column
            made[name] = naive.astype("datetime64[us]")
        elif column.map(lambda v: type(v).__name__).isin(["Decimal"]).any():
            made[name] = column.astype(float)
        else:
            made[name] = column
    return pd.DataFrame(made)


def test_every_query_compiles_and_most_as_published() -> None:
    side = reference_table(StreamId("side_input"), (Column("key", "bigint"), Column("value", "string")), ("key",))
    streams = {s.id: s for s in (PERSON, AUCTION, BID, side)}
    for name in QUERIES:
        assert compile_query(suite(name).sql, streams, QueryId(name), declared=("count_char",)).output
    assert len(AS_PUBLISHED) >= 15
    with pytest.raises(ConfigError, match="there are q0 to q22"):
        suite("q23")


@pytest.mark.usefixtures("spark")
def test_the_command_runs_a_query() -> None:
    given = ["nexmark", "q2", "--rate", "200", "--seconds", "4", "--batch", "2", "--output", "json"]
    told = CliRunner().invoke(app, given)
    assert told.exit_code == 0, told.output
    document = json.loads(told.stdout[told.stdout.index("{") :])
    assert (document["query"], document["events"], document["oracle"]) == ("q2", 800, "equal")


def test_rows_have_their_published_sizes(tables: dict[str, pa.Table]) -> None:
    sizes = {
        name: sum(len(str(v)) for row in t.to_pylist() for v in row.values()) / t.num_rows for name, t in tables.items()
    }
    assert 150 < sizes["person"] < 260
    assert 450 < sizes["auction"] < 600
    assert 90 < sizes["bid"] < 220
