"""Every sink, and every reader of results, reads the rows of its own query only, however many share the files."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from godwit.api.fleet import Fleet
from godwit.delivery.sinks.base import ResultBatch
from godwit.ids import QueryId, RegionId
from godwit.model.plan import QUERY
from godwit.model.topology import Site, Topology
from godwit.storage.by_query import ROWS, by_query, may_hold
from godwit.storage.log import Segment
from godwit.storage.store import Store

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def test_a_querys_rows_are_one_row_group_in_their_order(tmp_path: Path) -> None:
    table = pa.table({QUERY: ["b", "a", "b", "c", "a"], "n": [1, 2, 3, 4, 5]})
    sorted_table, rows = by_query(table)
    assert rows == {"a": 2, "b": 2, "c": 1}
    store = Store.local(tmp_path)
    size, checksum = store.put_table("results.parquet", sorted_table, list(rows.values()))
    assert pq.read_metadata(tmp_path / "results.parquet").num_row_groups == 3
    segment = Segment(("results.parquet",), 5, size, "", tags={ROWS: rows}, sums=(checksum,), store=store)
    assert may_hold(segment, "a")
    assert not may_hold(segment, "d")
    assert may_hold(
        Segment(("results.parquet",), 5, 1, "", store=store), "d"
    )  # it does not say, so it must be looked into
    batch = ResultBatch(RegionId("r"), 1, QueryId("b"), ["n"], [segment])
    assert [t.to_pydict() for t in batch.tables()] == [{"n": [1, 3]}]


def test_a_reader_gets_no_segment_of_another_query(open_fleet: Callable[..., Fleet]) -> None:
    fleet = open_fleet()
    fleet.topology.add(Topology.of([Site("west")]))
    fleet.stream("s", "n int, ts timestamp", site="west")
    queries = [fleet.submit(f"SELECT n, ts FROM s WHERE n = {k}", f"q{k}") for k in range(4)]
    for k in (0, 1, 2, 3, 0):
        fleet.push("s", [{"n": k, "ts": START}])
        fleet.process_available()
    shape = fleet.execution(QueryId("q0")).shape.key
    assert [len(fleet.pool.results(shape, query.id)) for query in queries] == [2, 1, 1, 1]
    assert [query.results().count() for query in queries] == [2, 1, 1, 1]
    assert all(query.verdict().equal for query in queries)
