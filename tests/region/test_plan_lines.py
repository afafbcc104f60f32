"""Where regions are processes, each draws the line between two versions of a query in its own source logs, once."""

from __future__ import annotations

from pathlib import Path

from godwit.ids import QueryId, RegionId, StreamId
from godwit.model.plan import Column, Stream
from godwit.region.plan_lines import draw_line, line_drawn
from godwit.region.poll import Reader
from godwit.sql import compile_query
from godwit.storage.names import CONTROL
from godwit.storage.store import Store

WEST, EAST, A = RegionId("west"), RegionId("east"), StreamId("a")


def test_an_epoch_that_is_followed_again_keeps_its_line(tmp_path: Path) -> None:
    store = Store.local(tmp_path)
    draw_line(store, WEST, 7, {A: 10}, oldest=1)
    draw_line(store, WEST, 7, {A: 12}, oldest=1)  # after a crash, when more rows have come
    assert line_drawn(store, WEST, A, 7) == 10
    assert line_drawn(store, EAST, A, 7) is None
    assert line_drawn(store, WEST, A, 8) is None


def test_lines_of_epochs_that_are_gone_go_too(tmp_path: Path) -> None:
    store = Store.local(tmp_path)
    draw_line(store, WEST, 7, {A: 10}, oldest=1)
    draw_line(store, WEST, 30, {A: 50}, oldest=20)
    assert line_drawn(store, WEST, A, 7) is None
    assert line_drawn(store, WEST, A, 30) == 50


def test_a_line_of_its_own_goes_before_what_the_epochs_record_says(tmp_path: Path) -> None:
    """Rows come in between the coordinator's look at a log and the moment when the region hears of the epoch."""
    store = Store.local(tmp_path)
    streams = {A: Stream(A, (Column("v", "int"), Column("ts", "timestamp")), "ts")}
    query = compile_query("SELECT v, ts FROM a WHERE v > 1", streams, QueryId("q"))
    log = store.log(CONTROL, create=True)
    for _ in range(2):
        log.append({"starts": {"west/a": 4}})
    reader = Reader(store, WEST, query.shape)
    assert reader.start(2, "west/a") == 4
    draw_line(store, WEST, 2, {A: 6}, oldest=1)
    assert reader.start(2, "west/a") == 6
