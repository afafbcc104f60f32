"""Results are read once, also if commits are merged into one record while somebody reads them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from godwit.api.fleet import Fleet
from godwit.delivery import archive
from godwit.delivery.archive import ArchiveEntry, Fold, Gathered, entries, gathered
from godwit.ids import QueryId, RegionId
from godwit.model.topology import Site, Topology
from godwit.storage import names

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
HERE = RegionId("here")


def fleet_of(opened: Callable[..., Fleet]) -> Fleet:
    fleet = opened()
    fleet.topology.add(Topology.of([Site("site", HERE)]))  # type: ignore[arg-type]
    fleet.stream("readings", "v int, ts timestamp", site="site", ahead=None)
    fleet.submit("SELECT v, ts FROM readings", "q")
    for v in range(6):
        push(fleet, v)
    return fleet


def push(fleet: Fleet, v: int) -> None:
    fleet.push("readings", [{"v": v, "ts": START + dt.timedelta(seconds=v)}])
    fleet.process_available()


def merge(fleet: Fleet, shape: str, through: int) -> None:
    """As housekeeping does with the commits up to a number."""
    fold, commits = Fold(fleet.store, HERE, shape), fleet.store.log(names.commit_log(HERE, shape))
    for number, record in list(commits.after(fold.through)):
        if number <= through:
            fold.add(number, record)
    assert fold.write(lambda source: True, lambda query: True)
    list(commits.drop(through + 1))


def values(found: Gathered) -> list[int]:
    tables = [table for entry in found.entries for segment in entry.results for table in segment.tables(keep=False)]
    return sorted(value for table in tables for value in table.column("v").to_pylist())


def test_commits_that_are_merged_while_they_are_read(
    open_fleet: Callable[..., Fleet], monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = fleet_of(open_fleet)
    shape = fleet.execution(QueryId("q")).shape.key
    last, reads = fleet.store.log(names.commit_log(HERE, shape)).last, 0

    def interrupted(*asked: Any) -> Iterator[ArchiveEntry]:
        nonlocal reads
        reads += 1
        for read, entry in enumerate(entries(*asked)):
            yield entry
            if reads == 1 and read == 2:
                merge(fleet, shape, last - 1)

    monkeypatch.setattr(archive, "entries", interrupted)
    found = gathered(fleet.store, HERE, shape)
    assert reads > 1
    assert values(found) == [0, 1, 2, 3, 4, 5]


def test_what_was_read_before_commits_were_merged_is_not_read_again(open_fleet: Callable[..., Fleet]) -> None:
    fleet = fleet_of(open_fleet)
    shape = fleet.execution(QueryId("q")).shape.key
    known = gathered(fleet.store, HERE, shape)
    push(fleet, 6)
    assert values(gathered(fleet.store, HERE, shape, known)) == [0, 1, 2, 3, 4, 5, 6]
    merge(fleet, shape, fleet.store.log(names.commit_log(HERE, shape)).last)
    push(fleet, 7)
    assert values(gathered(fleet.store, HERE, shape, known)) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert sorted(row["v"] for row in fleet.query("q").results().collect()) == [0, 1, 2, 3, 4, 5, 6, 7]
