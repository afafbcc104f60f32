"""Shapes that nobody runs leave nothing behind, in all regions or in none, also if the process dies over it."""

from __future__ import annotations

from typing import Any

import pytest

from godwit.ids import RegionId
from godwit.maintenance.housekeeping import Housekeeper, Retention, Swept
from godwit.observe.rollup import Totals
from godwit.region.pool import RunnerPool
from godwit.region.runner import Limits
from godwit.storage import names
from godwit.storage.store import Store

EAST, WEST = RegionId("east"), RegionId("west")
DAY = 86_400.0


def store_with(**last: float) -> Store:
    """Shapes with one commit in the east and one in the west, the last one at that time."""
    store = Store.memory()
    for shape, wall in last.items():
        for region, at in ((EAST, wall - 5.0), (WEST, wall)):
            store.log(names.commit_log(region, shape), create=True).append(_commit(at))
    return store


def _commit(wall: float) -> dict[str, Any]:
    return {"metrics": {"wall": wall}, "positions": {}, "protocol": {"snapshot": 1}}


def pool_of(store: Store) -> RunnerPool:
    return RunnerPool(None, store, Limits(), lambda moment: None, ())  # type: ignore[arg-type]


@pytest.mark.parametrize(("keep", "gone"), [(False, {"old"}), (True, set())])
def test_shapes_go_when_their_results_may(keep: bool, gone: set[str]) -> None:
    store = store_with(old=1_000.0, fresh=1_000.0 + DAY)
    house = Housekeeper(store, Retention(keep=keep, result_seconds=DAY), lambda: 1_010.0 + DAY)
    swept = Swept()
    for _ in house.bits([], set(), 0, swept):
        pass
    assert swept.shapes == gone
    for shape in ("old", "fresh"):
        store.put_document(names.sink_position(shape, 12 * "a"), {"shape": shape, "query": "gone", "positions": {}})
    pool = pool_of(store)
    pool.remove(swept.shapes)
    assert len(list(names.sink_positions(store.disk))) == 2 - len(gone)
    assert {shape for _, shape in names.shapes(store.disk)} == {"old", "fresh"} - gone
    assert store.get_document(names.REMOVING) is None


def test_a_removal_that_was_broken_off_is_finished_before_anything_else() -> None:
    store = store_with(old=1_000.0)
    store.put_document(names.REMOVING, ["old"])
    store.disk.delete_folder(names.shape_folder(EAST, "old"))
    pool = pool_of(store)
    assert pool.regions_of("old") == set()
    assert store.get_document(names.REMOVING) is None


def test_totals_keep_no_part_of_what_is_gone() -> None:
    parts = {"s/d1": 3, "s/d2": 4}
    totals = Totals(
        rows_in=7, rows_by_source=dict(parts), bytes_by_source=dict.fromkeys(parts, 1.0), out={"q": 2, "x": 1}
    )
    totals.forget(lambda source: source == "s/d1", lambda query: query == "q")
    assert (totals.rows_in, totals.rows_by_source, totals.out) == (7, {"s/d1": 3}, {"q": 2})
    assert totals.bytes_by_source == {"s/d1": 1.0}
