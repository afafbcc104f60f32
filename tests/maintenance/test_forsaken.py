"""Shapes that nobody runs leave nothing behind, in all regions or in none, also if the process dies over it."""

from __future__ import annotations

from typing import Any

import pytest

from godwit.ids import RegionId
from godwit.maintenance.housekeeping import Housekeeper, Retention, Swept
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
