"""Few rows stay cheap: totals and window functions over few rows run as direct plans, with and without state."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from godwit.api.fleet import Fleet
from godwit.engine.plan_cache import java_of
from tests.region.test_running import OVERS, TOTALS
from tests.region.world import Push, World


@pytest.mark.parametrize("name", ["totals", "having", "kept", "last_rows", "last_seconds", "mixed", "count"])
def test_no_plan_over_few_rows_needs_the_scheduler(
    spark: SparkSession, open_fleet: Callable[..., Fleet], name: str
) -> None:
    plans = java_of(spark)._plans
    plans.clear()  # other tests may have made the same ones
    world = World(open_fleet, {name: {**TOTALS, **OVERS}[name]}, trains=2)
    for second in range(0, 12, 3):
        world.play([Push(train, second, 3) for train in range(2)])
        world.fleet.process_available()
    kind = "RunningAggregate(" if name in TOTALS else "Over("
    mine = [plan for key, plan in plans.items() if kind in repr(key)]
    assert mine
    assert all(plan._direct is not None for plan in mine)
    assert [str(v) for v in world.finish() if not v.equal] == []
