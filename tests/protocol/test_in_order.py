"""When keys that migrate by falcon are answered at their destination without the source saying that it is through."""

from __future__ import annotations

from dataclasses import replace

import pytest

from godwit.ids import Epoch, QueryId, RegionId
from godwit.model.keys import listed
from godwit.protocol.handover import Migration
from godwit.protocol.ledger import MigrationLedger
from godwit.sim.worlds import running

EDGE, OTHER, CLOUD = RegionId("edge"), RegionId("other"), RegionId("cloud")
PLAN = running("q", 0).shape.plan
TOTALS = next(i for i, operator in enumerate(PLAN.operators) if operator.stateful)
COPY = Migration(
    Epoch(2), QueryId("q"), TOTALS, CLOUD, EDGE, keys=listed("k"), number=1, copy=True, dual=True, wait=False
)
SWITCH = replace(COPY, epoch=Epoch(3), copy=False, shadow=True, wait=True)


def ledger(*regions: RegionId) -> MigrationLedger:
    """At the edge, under the epoch that ends the dual route; every region has said that it routes by it."""
    known = MigrationLedger(EDGE, PLAN, Epoch(1))
    known.adopt(Epoch(2), [COPY])
    known.arrived(COPY)
    known.adopt(Epoch(3), [SWITCH])
    for region in regions:
        known.hear(region, {i: Epoch(3) for i in range(TOTALS)})
    return known


def complete(known: MigrationLedger, *regions: RegionId, reader: RegionId = CLOUD) -> list[Migration]:
    return known.unacknowledged(known.markers([EDGE, *regions]), lambda move: [reader])


def test_answers_come_behind_the_sources_where_only_the_two_send_it_rows() -> None:
    assert complete(ledger(CLOUD), CLOUD) == [SWITCH]


@pytest.mark.parametrize("reader", [EDGE, OTHER])
def test_others_who_read_must_hear_it(reader: RegionId) -> None:
    assert complete(ledger(CLOUD), CLOUD, reader=reader) == []


def test_rows_of_a_third_region_may_still_be_on_their_way_to_the_source() -> None:
    assert complete(ledger(CLOUD, OTHER), CLOUD, OTHER) == []


def test_nothing_is_complete_before_everybody_routes_by_the_new_epoch() -> None:
    known = ledger()
    known.hear(CLOUD, {i: Epoch(2) for i in range(TOTALS)})
    assert complete(known, CLOUD) == []
