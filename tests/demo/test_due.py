"""When an answer can be known at the earliest, and what was moved: without running anything."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from godwit.demo.answers import Answers, pair
from godwit.demo.due import Handed, Noting
from godwit.demo.moves import state_moves
from godwit.demo.queries import Asked
from godwit.mobility.driver import Cue
from godwit.mobility.payloads import PASSENGERS
from godwit.model.topology import Link, Site, Topology
from tests.demo.test_driver import Recorder

FILTER = Asked("wheels", "filter", "", ("a", "b"))
JOIN = Asked("crowded", "join", "", ("a", "b"))
WINDOW = Asked("occupancy", "window sum", "", ("a", "b"))


def _rows(*known: tuple[str, str, int, float]) -> pa.Table:
    counts = {"line": "S41", "boarded": 1, "alighted": 0, "bikes": 0, "strollers": 0}
    made = [
        {"train": t, "station": s, "coach": c, "ts": datetime.fromtimestamp(ts, UTC), **counts} for t, s, c, ts in known
    ]
    return pa.Table.from_pylist(made, schema=PASSENGERS)


def test_a_row_is_due_when_it_was_sent() -> None:
    handed = Handed()
    handed.sent(_rows(("a", "Ostkreuz", 1, 100.0), ("a", "Ostkreuz", 1, 220.0)), 221.0)
    handed.sent(_rows(("a", "Ostkreuz", 2, 100.2)), 100.9)
    row = {"train": "a", "station": "Ostkreuz", "coach": 2}
    assert handed.due(FILTER, row, 100.2) == 100.9
    assert handed.due(FILTER, {**row, "coach": 1}, 220.0) == 221.0
    assert handed.due(FILTER, {**row, "coach": 3}, 100.0) is None


def test_a_pair_is_due_when_its_later_row_was_sent_which_may_be_the_older_one() -> None:
    handed = Handed()
    handed.sent(_rows(("b", "Ostkreuz", 1, 105.0)), 105.1)
    handed.sent(_rows(("a", "Ostkreuz", 1, 100.0)), 107.0)
    pair_row = {"station": "Ostkreuz", "one": "a", "other": "b", "coach": 1}
    assert handed.due(JOIN, pair_row, 105.0) == 107.0


def test_a_window_is_due_when_the_last_clock_has_passed_its_end() -> None:
    handed = Handed()
    for wall in (101.0, 102.0, 103.0):
        handed.told({"a": wall - 0.5}, wall)
    assert handed.due(WINDOW, {}, 102.0) is None  # nothing is known of b
    handed.told({"b": 101.9}, 102.4)
    assert handed.due(WINDOW, {}, 102.0) is None  # b is between two towers
    handed.told({"b": 103.1}, 103.6)
    assert handed.due(WINDOW, {}, 102.0) == 103.6
    assert handed.due(WINDOW, {}, 101.5) == 102.4
    assert handed.due(Asked("one", "median", "", ("a",)), {}, 102.0) == 103.0


def test_a_train_that_has_left_for_good_is_waited_for_no_longer() -> None:
    clock = iter([1.0, 2.0, 3.0, 4.0, 5.0])
    handed = Handed()
    noting = Noting(Recorder(), handed, lambda: next(clock), ["a"])
    noting.move([Cue(0, "a", "x"), Cue(0, "b", "x")])
    noting.tell("readings", {"a": 10_000_000, "b": 500_000})
    noting.move([Cue(1, "b", None)])
    noting.leave("b")
    assert noting.handovers == [1.0]  # b was nowhere before
    assert handed.due(WINDOW, {}, 10.0) == 4.0


def test_answers_split_their_latency_and_leave_out_what_is_none_of_theirs() -> None:
    handed = Handed()
    handed.sent(_rows(("a", "Ostkreuz", 1, 100.0)), 100.4)
    answers = Answers(handed, since=90.0)
    row: dict[str, Any] = {"train": "a", "station": "Ostkreuz", "coach": 1}
    answers.take(FILTER, [{**row, "at": datetime.fromtimestamp(100.0, UTC)}], 101.0)
    answers.take(FILTER, [{**row, "at": datetime.fromtimestamp(80.0, UTC)}], 101.0)  # the warm-up's
    answers.take(FILTER, [{**row, "at": datetime.fromtimestamp(86_500.0, UTC)}], 101.0)  # sent once more, a day later
    answers.take(WINDOW, [{"at": datetime.fromtimestamp(100.0, UTC)}], 101.0)  # closed by the end
    (one,) = answers.given
    assert [round(x) for x in (one.latency, one.waits, one.added)] == [1000, 400, 600]
    assert pair([]) == (None, None)
    assert pair([1.0, 3.0])[0] == 2.0


def _story(at: float, *migrations: tuple[str | None, str, int | None, float | None], **more: Any) -> dict[str, Any]:
    names = ("source", "target", "bytes", "seconds")
    moved = [dict(zip(names, one, strict=True)) for one in migrations]
    return {"at": at, "migrations": moved, "phases": {"acknowledge": 0.02}, "outcome": "committed", **more}


def test_only_moves_to_another_region_count() -> None:
    ground = Topology.of(
        [Site("w1", "west"), Site("w2", "west"), Site("e1", "east")],  # type: ignore[arg-type]
        [Link("w1", "w2"), Link("w2", "e1")],  # type: ignore[arg-type]
    )
    history = [
        _story(1.0, ("w1", "e1", 70, 0.1)),  # before
        _story(10.0, ("w1", "w2", 0, 0.0)),  # within a region
        _story(11.0, ("w1", "e1", 70, 0.1), ("e1", "w2", 30, 0.4), ("w1", "w2", 0, 0.0)),
        _story(12.0, ("w2", "e1", None, None)),  # its state is still on its way
        _story(13.0, ("w2", "e1", 70, 0.1), outcome="reverted"),
        _story(14.0),
    ]
    found = state_moves(history, ground, since=5.0)
    assert [(m.at, m.bytes, m.in_force_ms, m.state_ms) for m in found] == [
        (11.0, 100, 20.0, 400.0),
        (12.0, 0, 20.0, None),
    ]
