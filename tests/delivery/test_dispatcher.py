"""Results reach sinks on commit: in order, once, past slow and failing sinks, with few positions written."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from godwit.delivery import delivery as deliveries
from godwit.delivery.delivery import Delivery, Subject
from godwit.delivery.dispatcher import Dispatcher
from godwit.delivery.sinks import CallbackSink, JsonLinesSink
from godwit.delivery.sinks.base import ResultBatch, ResultSink
from godwit.ids import QueryId, RegionId
from godwit.maintenance import duties
from godwit.model.plan import QUERY
from godwit.storage import names
from godwit.storage.by_query import ROWS, by_query
from godwit.storage.log import Segment
from godwit.storage.store import Store

SHAPE, WEST, EAST = "ab12", RegionId("west"), RegionId("east")


class Region:
    """Commits results, as a runner does, and tells a dispatcher."""

    def __init__(self, store: Store, dispatcher: Dispatcher, name: RegionId = WEST) -> None:
        self.store, self.dispatcher, self.name = store, dispatcher, name
        self.log = store.log(names.commit_log(name, SHAPE), create=True)

    def commit(self, *rows: tuple[str, int], tell: bool = True, after: int = 0) -> int:
        """`after`: the other region's commit that it has heard of."""
        number = self.log.last + 1
        results = [self._segment(number, rows).to_json()] if rows else []
        record: dict[str, Any] = {"results": results, "late": []}
        if after:
            record["after"] = {EAST if self.name == WEST else WEST: after}
        self.log.append(record)
        if tell:
            self.dispatcher.committed(self.name, SHAPE, number, record)
        return number

    def _segment(self, number: int, rows: tuple[tuple[str, int], ...]) -> Segment:
        table = pa.table({QUERY: [query for query, _ in rows], "n": [n for _, n in rows]})
        table, counts = by_query(table)
        reference = f"{names.commit_data(self.name, SHAPE)}/{number}/results.parquet"
        size, checksum = self.store.put_table(reference, table, list(counts.values()))
        made = Segment((reference,), table.num_rows, size, "", sums=(checksum,), store=self.store)
        return replace(made, tags={ROWS: counts})


class Seen(ResultSink):
    """Remembers what it was given."""

    exactly_once = False

    def __init__(self, name: str = "seen", work: Callable[[ResultBatch], object] = lambda batch: None) -> None:
        self.name, self._work = name, work
        self.batches: list[tuple[str, int]] = []
        self.rows: list[int] = []
        self._news = threading.Condition()

    def write(self, batch: ResultBatch) -> None:
        self._work(batch)
        with self._news:
            self.batches.append((batch.region, batch.number))
            self.rows += [row["n"] for table in batch.tables() for row in table.to_pylist()]
            self._news.notify_all()

    def wait_for(self, rows: int) -> list[int]:
        with self._news:
            assert self._news.wait_for(lambda: len(self.rows) >= rows, 20), f"{len(self.rows)} of {rows} rows came"
        return self.rows


def subject(query: str = "q") -> Subject:
    return Subject(QueryId(query), QueryId(query), SHAPE, ("n",))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.local(tmp_path / "fleet")


@pytest.fixture
def dispatcher(store: Store) -> Iterator[Dispatcher]:
    made = Dispatcher(store)
    made.start()
    yield made
    made.stop()


def test_results_reach_the_sink_without_a_look_at_the_log(
    store: Store, dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    region, sink = Region(store, dispatcher), Seen()
    dispatcher.add(subject(), sink)
    region.commit(("q", 0))
    sink.wait_for(1)  # the first one is read from the log; from here on it is in step
    _in_step(dispatcher)
    monkeypatch.setattr(store, "read_record", lambda *a: pytest.fail("a log was read"))
    monkeypatch.setattr(store.disk, "read", lambda *a: pytest.fail("a file was read"))
    for n in range(1, 50):
        region.commit(("q", n), ("other", -n))
    assert sink.wait_for(50) == list(range(50))


def test_the_sink_is_never_called_by_the_thread_that_commits(store: Store, dispatcher: Dispatcher) -> None:
    threads = set[int]()
    region, sink = Region(store, dispatcher), Seen(work=lambda batch: threads.add(threading.get_ident()))
    dispatcher.add(subject(), sink)
    for n in range(10):
        region.commit(("q", n))
    sink.wait_for(10)
    assert threading.get_ident() not in threads


def test_every_result_comes_once_and_in_order_whenever_the_sink_begins(store: Store, dispatcher: Dispatcher) -> None:
    regions = [Region(store, dispatcher, RegionId(name)) for name in ("west", "east")]

    def commit(region: Region) -> None:
        for n in range(300):
            region.commit(*((("q", n),) if n % 3 else (("other", n),)))

    threads = [threading.Thread(target=commit, args=(region,)) for region in regions]
    for thread in threads:
        thread.start()
    sinks = []
    for k in range(20):  # sinks come while commits flow: each catches up with the log and falls in step
        sinks.append(Seen(f"s{k}"))
        dispatcher.add(subject(), sinks[-1])
    for thread in threads:
        thread.join()
    for sink in sinks:
        sink.wait_for(400)
        for region in regions:
            mine = [number for where, number in sink.batches if where == region.name]
            assert mine == [n + 1 for n in range(300) if n % 3]


def test_a_slow_sink_holds_up_neither_region_nor_others_and_reads_the_log_once_it_lags(
    store: Store, dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "MOST_WAITING", 5)
    free = threading.Event()
    region, slow, quick = Region(store, dispatcher), Seen("slow", lambda batch: free.wait(20)), Seen("quick")
    behind = dispatcher.add(subject(), slow)
    dispatcher.add(subject(), quick)
    for n in range(100):
        region.commit(("q", n))
    assert quick.wait_for(100) == list(range(100))
    assert not slow.rows
    assert len(behind._queue) <= 5
    free.set()
    assert slow.wait_for(100) == list(range(100))
    assert [number for _, number in slow.batches] == list(range(1, 101))


def test_a_sink_that_raises_is_tried_again_and_misses_nothing(
    store: Store, dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(duties, "FIRST_PAUSE", 0.01)
    faults = iter([OSError("full,\nalas")] * 2)

    def refuse(batch: ResultBatch) -> None:
        if batch.number >= 3 and (fault := next(faults, None)) is not None:
            raise fault

    region, poor, good = Region(store, dispatcher), Seen("poor", refuse), Seen("good")
    dispatcher.add(subject(), poor)
    dispatcher.add(subject(), good)
    for n in range(20):
        region.commit(("q", n))
    assert good.wait_for(20) == list(range(20))
    poor.wait_for(20)
    _until(lambda: not dispatcher.failures())
    # At least once: what came after the last position that was kept comes again.
    assert sorted(set(poor.rows)) == list(range(20))
    assert poor.rows[-18:] == list(range(2, 20))
    said = [record for record in caplog.records if "sink poor of query" in record.message]
    assert len(said) == 2
    assert all("has failed: OSError: full, alas; it is tried again" in record.message for record in said)
    assert not any(record.exc_info for record in said), "a line each; the stack with `godwit -v`"


def test_only_sinks_of_queries_with_rows_are_called_and_all_positions_follow(
    store: Store, dispatcher: Dispatcher
) -> None:
    region, sinks = Region(store, dispatcher), {f"q{k}": Seen() for k in range(50)}
    for query, sink in sinks.items():
        dispatcher.add(subject(query), sink)
    for n in range(10):
        region.commit(("q7", n))
    assert sinks["q7"].wait_for(10) == list(range(10))
    assert not any(sink.rows for query, sink in sinks.items() if query != "q7")
    _in_step(dispatcher)
    dispatcher.stop()
    # Housekeeping may take everything: nobody is still to read it.
    assert {p["positions"]["west"] for p in deliveries.positions(store)} == {10}


def test_many_commits_cost_few_positions(store: Store, dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = list[str]()
    put = store.put_document
    monkeypatch.setattr(store, "put_document", lambda name, value: (saved.append(name), put(name, value)))
    region, sink = Region(store, dispatcher), Seen()
    dispatcher.add(subject(), sink)
    for n in range(200):
        region.commit(("q", n))
    sink.wait_for(200)
    assert len(saved) <= 3  # at the beginning, and perhaps once in between
    dispatcher.stop()
    (position,) = deliveries.positions(store)
    assert position["positions"] == {"west": 200}


def test_a_crash_before_the_position_is_kept_repeats_nothing_that_shows(store: Store, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"

    def run(first: int, count: int) -> None:
        """A process that dies without a word."""
        dispatcher = Dispatcher(store)
        seen = CallbackSink(lambda rows: calls.extend(row["n"] for row in rows))
        dispatcher.add(subject(), JsonLinesSink(out))
        dispatcher.add(subject(), seen)
        region = Region(store, dispatcher)
        dispatcher.start()
        for n in range(first, first + count):
            region.commit(("q", n))
        _until(lambda: calls[-1:] == [first + count - 1] and len(_lines(out)) >= first + count)

    calls = list[int]()
    run(0, 5)
    run(5, 5)
    assert _lines(out) == list(range(10))
    assert set(calls) == set(range(10))
    assert calls.count(0) == 2  # at least once


def _moves_back_and_forth(west: Region, east: Region, tell: bool) -> None:
    """The sink of a query moves twice; each time its new region has heard of the old one's last commit, which need not
    have results."""
    west.commit(("q", 0), tell=tell)
    west.commit(("q", 1), tell=tell)
    east.commit(tell=tell, after=west.commit(tell=tell))
    east.commit(("q", 2), tell=tell)
    west.commit(("q", 3), tell=tell, after=east.commit(tell=tell))
    west.commit(("q", 4), tell=tell)


@pytest.mark.parametrize("tell", [True, False])
def test_results_come_in_the_order_of_commits_where_a_sink_has_moved(store: Store, tell: bool) -> None:
    """However far a sink lags behind: regions that are processes do not tell of their commits at all."""
    dispatcher, sink = Dispatcher(store), Seen()
    west, east = (Region(store, dispatcher, name) for name in (WEST, EAST))
    delivery = dispatcher.add(subject(), sink)
    for late in (WEST, EAST):
        sink.rows.clear()
        _moves_back_and_forth(west, east, tell)
        if not tell:
            delivery.lose_step(late)
            delivery.work()
        dispatcher.flush()
        assert sink.rows == [0, 1, 2, 3, 4]
    dispatcher.stop()


def test_a_sink_in_step_waits_for_another_region_that_tells_later(store: Store) -> None:
    dispatcher, sink = Dispatcher(store), Seen()
    west, east = (Region(store, dispatcher, name) for name in (WEST, EAST))
    delivery = dispatcher.add(subject(), sink)
    west.commit(("q", 0))
    east.commit(("q", 1))
    dispatcher.flush()
    number = west.commit(("q", 2), tell=False)
    east.commit(("q", 3), after=number)
    delivery.work()
    assert sink.rows[2:] == [2, 3]
    dispatcher.stop()


@pytest.mark.parametrize("tell", [True, False])
def test_what_comes_behind_a_commit_that_is_not_here_yet_waits_for_it(store: Store, tell: bool) -> None:
    """A log behind a link that is cut ends with what has arrived."""
    dispatcher, sink = Dispatcher(store), Seen()
    west, east = (Region(store, dispatcher, name) for name in (WEST, EAST))
    delivery = dispatcher.add(subject(), sink)
    west.commit(("q", 0), tell=tell)
    east.commit(("q", 2), tell=tell, after=2)
    delivery.flush()
    assert sink.rows == [0]
    west.commit(("q", 1), tell=tell)
    delivery.flush()
    assert sink.rows == [0, 1, 2]


def test_a_region_that_was_forgotten_is_not_waited_for(store: Store) -> None:
    dispatcher, sink = Dispatcher(store), Seen()
    east = Region(store, dispatcher, EAST)
    east.commit(("q", 0), tell=False, after=7)
    dispatcher.add(subject(), sink).flush()
    assert sink.rows == [0]


def test_a_stopped_dispatcher_leaves_everything_for_the_next(store: Store) -> None:
    dispatcher, sink = Dispatcher(store), Seen()
    region = Region(store, dispatcher)
    dispatcher.add(subject(), sink)
    for n in range(3):
        region.commit(("q", n))
    assert not sink.rows  # nobody runs it
    dispatcher.flush()
    assert sink.rows == [0, 1, 2]
    region.commit(("q", 3), tell=False)  # by a process that did not live to tell
    dispatcher.start()
    assert sink.wait_for(4) == [0, 1, 2, 3]
    region.commit(("q", 4))
    assert sink.wait_for(5) == [0, 1, 2, 3, 4]
    dispatcher.stop()


def test_a_sink_that_takes_the_place_of_another_goes_on_where_that_one_was(
    store: Store, dispatcher: Dispatcher
) -> None:
    region, first, second = Region(store, dispatcher), Seen(), Seen()
    dispatcher.add(subject(), first)
    for n in range(10):
        region.commit(("q", n))
    first.wait_for(10)
    dispatcher.add(subject(), second)
    for n in range(10, 20):
        region.commit(("q", n))
    second.wait_for(10)
    assert first.rows + second.rows == list(range(20))


def _lines(path: Path) -> list[int]:
    return [json.loads(line)["n"] for line in path.read_text().splitlines()]


def _in_step(dispatcher: Dispatcher) -> None:
    _until(lambda: all(WEST in d._in_step and not d._scheduled for d in dispatcher.deliveries.values()))


def _until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.002)


def test_a_query_of_another_shape_begins_anew_under_the_same_name(store: Store, dispatcher: Dispatcher) -> None:
    region = Region(store, dispatcher)
    for n in range(5):
        region.commit(("q", n), tell=False)
    Delivery(store, Subject(QueryId("q"), QueryId("q"), SHAPE, ("n",)), Seen()).flush()
    other = replace(subject(), shape="cd34")
    log, kept = store.log(names.commit_log(WEST, "cd34"), create=True), region._segment(99, (("q", 7),))
    log.append({"results": [kept.to_json()], "late": []})
    sink = Seen()
    Delivery(store, other, sink).flush()
    assert sink.rows == [7]
