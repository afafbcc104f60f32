"""Whether grouping makes few of many rows is guessed before they are grouped for the first time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from godwit.api.fleet import Fleet
from godwit.engine.file_frame import FileFrame
from godwit.engine.size_policy import SizePolicy
from godwit.model.plan import AggregateCall, Named, Partial, Window
from godwit.model.topology import Site, Topology
from godwit.operators.reduction import SAMPLE, expected, hardly_reduces
from godwit.region.runner import Limits
from godwit.storage.log import Segment
from godwit.storage.store import Store


@pytest.mark.parametrize("keys", [1_000, 50_000, 300_000])
def test_distinct_keys_are_guessed_from_a_sample(keys: int) -> None:
    rows = np.random.default_rng(7).integers(0, keys, 400_000)
    guess = expected(len(np.unique(rows[:SAMPLE])), SAMPLE, len(rows))
    assert guess == pytest.approx(len(np.unique(rows)), rel=0.05)


def test_where_all_keys_of_a_sample_differ_all_do() -> None:
    assert expected(100, 100, 5_000) == 5_000


@pytest.mark.parametrize(("keys", "many"), [(10, False), (30_000, True)])
def test_rows_of_files_are_sampled(tmp_path: Path, keys: int, many: bool) -> None:
    operator = Partial(
        (0,), Window("a__at", 10_000_000, 10_000_000), (Named("k", "`a__key`"),), (AggregateCall("n", "count", None),)
    )
    rows = np.random.default_rng(7).integers(0, keys, 50_000)
    at = pa.array(np.arange(50_000) * 100, pa.timestamp("us", tz="UTC"))
    pq.write_table(pa.table({"key": rows, "at": at}), tmp_path / "rows.parquet")
    segment = Segment(("rows.parquet",), 50_000, 1, "", store=Store.local(tmp_path))
    selects = (("`at` AS a__at", "`key` AS a__key"), ("*", "0L AS g"))
    assert hardly_reduces(FileFrame(None, (segment,), selects), operator) is many  # type: ignore[arg-type]
    computed = (("`at` AS a__at", "`key` + 1 AS a__key"),)
    assert not hardly_reduces(FileFrame(None, (segment,), computed), operator)  # type: ignore[arg-type]


def test_the_first_large_micro_batch_is_not_grouped_in_vain(open_fleet: Callable[..., Fleet], tmp_path: Path) -> None:
    """Rows of files that lie where they are: what is kept of them are links, also of those that came first."""
    fleet = open_fleet(limits=Limits(sizes=SizePolicy(small_rows=3, handed_rows=2)))
    fleet.topology.add(Topology.of([Site("west", "w")], []))
    fleet.stream("passengers", "train string, load int, ts timestamp", device="train", disorder="1 second")
    fleet.device("t0", site="west", streams=["passengers"])
    sql = "SELECT load, count(*) AS n, window.end AS until FROM passengers GROUP BY load, window(ts, '10 seconds')"
    query = fleet.submit(sql, "spread")
    for turn in range(2):
        table = pa.table(
            {
                "train": ["t0"] * 100,
                "load": pa.array([k * 7 % 83 for k in range(100)], pa.int32()),
                "ts": pa.array([(turn * 100 + k) * 100_000 for k in range(100)], pa.timestamp("us", tz="UTC")),
            }
        )
        pq.write_table(table, tmp_path / f"{turn}.parquet")
        fleet.replay("passengers", tmp_path / f"{turn}.parquet", name=f"file-{turn}").run()
        fleet.process_available()
        kept = str([runner.memory.states for runner in fleet.pool.runners.values()])
        assert "linked-" in kept
    fleet.close_sources()
    fleet.process_available()
    assert query.verdict().equal
    assert query.results().count() > 100
