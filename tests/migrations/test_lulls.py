"""When keys of windows begin to migrate: between two closes, if there is time for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from godwit.migration.lulls import closes_regularly, left_us, lull, needed_us
from godwit.model.plan import Aggregate, Query, Window
from godwit.sim.worlds import running, session, tumbling

SECOND = 1_000_000
EACH_SECOND = Window("ts", 10 * SECOND, SECOND)


def aggregate(query: Query) -> Aggregate:
    return next(op for op in query.shape.plan.operators if isinstance(op, Aggregate))


@pytest.mark.parametrize(
    ("window", "clock", "left"),
    [
        (EACH_SECOND, 5_000_000, SECOND),  # what ends here is closed
        (EACH_SECOND, 5_000_001, SECOND - 1),
        (EACH_SECOND, 5_999_999, 1),
        (Window("ts", 10 * SECOND, 10 * SECOND, offset_us=3 * SECOND), 12_000_000, SECOND),
        (Window("ts", 3 * SECOND, 2 * SECOND), 4_000_000, SECOND),  # they end at 3, 5, 7, ..
    ],
)
def test_the_next_close_is_known(window: Window, clock: int, left: int) -> None:
    assert left_us(window, clock) == left


def test_a_hand_over_begins_when_all_have_closed_the_last_window_and_none_is_near_the_next() -> None:
    need = needed_us(40.0)
    assert need == 370_000
    assert lull(EACH_SECOND, [5_100_000, 5_050_000], need)
    assert not lull(EACH_SECOND, [5_100_000, 4_950_000], need)  # one region has still to answer the last
    assert not lull(EACH_SECOND, [5_700_000], need)
    assert lull(EACH_SECOND, [5_100_000, 1_000_000], need)  # whoever is that far behind waits for something else
    assert lull(EACH_SECOND, [], need)


def test_only_windows_that_close_seldom_enough_are_waited_for() -> None:
    need = needed_us(40.0)
    slide = replace(aggregate(tumbling("q", 1)), window=EACH_SECOND)
    assert closes_regularly(slide, need)
    assert not closes_regularly(slide, SECOND)
    assert not closes_regularly(aggregate(session("q", 1)), need)
    assert not closes_regularly(running("q", 1).shape.plan.operators[-2], need)
