"""What flowed between two looks, and what an operator made of it."""

from __future__ import annotations

from godwit.observe.flows import Flows
from godwit.observe.rollup import Totals
from tests.replan.queries import compiled

NEAR = "BETWEEN a.ts - INTERVAL 1 SECONDS AND a.ts + INTERVAL 1 SECONDS"
PAIRS = compiled(f"SELECT a.v FROM a JOIN b ON a.k = b.k AND b.ts {NEAR}").shape.plan
COUNTED = compiled(
    f"SELECT a.k, count(*) AS n FROM a JOIN b ON a.k = b.k AND b.ts {NEAR} GROUP BY a.k, window(a.ts, '5 seconds')"
).shape.plan


def _join(plan: object) -> int:
    return next(i for i, op in enumerate(plan.operators) if type(op).__name__ == "Join")  # type: ignore[attr-defined]


def test_regions_are_added_up_and_looks_taken_apart() -> None:
    here = Totals(rows_out=3, taken={"2/0": 10, "2/1": 4}, newest_us=9_000_000, first_us=2_000_000)
    there = Totals(rows_out=1, taken={"2/0": 5}, newest_us=8_000_000, first_us=1_000_000)
    here.stateful_batches, here.stateful_ms, there.stateful_batches, there.stateful_ms = 3, 60.0, 1, 40.0
    now = Flows.of([here, there, Totals()])
    assert now == Flows({(2, 0): 15, (2, 1): 4}, 4, 8_000_000, 4, 100)
    before = Flows({(2, 0): 12}, 1, 6_000_000, 2, 20)
    since = now.since(before)
    assert since == Flows({(2, 0): 3, (2, 1): 4}, 3, 2_000_000, 2, 80)
    assert (since.seconds, since.batch_s) == (2.0, 0.04)
    assert Flows().batch_s == 0.0
    assert Flows.of([]) == Flows()


def test_what_a_join_makes_is_known_where_its_rows_arrive_one_by_one() -> None:
    flows = Flows({(9, 0): 7}, out=5)
    assert flows.made(PAIRS, _join(PAIRS)) == 5
    assert flows.made(COUNTED, _join(COUNTED)) is None  # they are combined before anybody counts them
