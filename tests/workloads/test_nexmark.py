"""Nexmark q0 to q22: every query gives what DuckDB gives for the published question, over the same events."""

from __future__ import annotations

import json
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest
from bench.sql.answers import ANSWERS
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
