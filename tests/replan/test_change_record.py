"""What is kept of a change of plan: phases, silence, and that it ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from godwit.api.plan_records import PlanRecords
from godwit.ids import QueryId
from godwit.replan.change_record import PLAN_CHANGES, PlanChangeRecord
from godwit.storage.store import Store

Q, NEW = QueryId("q"), QueryId("q~3")


def _commit(rows_out: int, rows_in: int = 2) -> dict[str, Any]:
    return {"rows_out": rows_out, "rows_in": rows_in}


def test_phases_and_the_longest_silence_are_kept(tmp_path: Path) -> None:
    now = 100.0
    store = Store.local(tmp_path)
    records = PlanRecords(store, lambda: now)
    for now in (100.0, 100.5, 101.0):  # noqa: B007 - read by the clock
        records.committed("s", None, _commit(1))
    now = 101.2
    records.begin(Q, "b JOIN a", "background", "s")
    records.phase(Q, "switch", NEW)
    records.phase(Q, "left", Q, 10, 1000)
    now = 101.9
    records.committed("t", Q, _commit(0))
    now = 102.25
    records.committed("t", Q, _commit(3))
    records.phase(Q, "retire", Q)
    records.end(Q)
    (told,) = map(PlanChangeRecord.from_json, store.get_document(PLAN_CHANGES) or ())
    assert told.versions == (NEW, Q)
    assert [p.phase for p in told.phases] == ["switch", "left", "retire"]
    assert (told.silence_s, told.calm_s, told.rows) == (1.25, 0.5, 4)
    assert told.length_s is not None
    assert "+0 ms: left q, 10 rows, 1,000 bytes" in told.text()
    assert "longest silence 1250 ms (before it 500 ms)" in told.text()


def test_a_change_that_another_process_has_begun_is_gone_on_with(tmp_path: Path) -> None:
    store = Store.local(tmp_path)
    first = PlanRecords(store)
    first.begin(Q, "b JOIN a", "background", "s")
    first.phase(Q, "switch", NEW)
    PlanRecords(store).end(Q, "division by zero")
    (told,) = map(PlanChangeRecord.from_json, store.get_document(PLAN_CHANGES) or ())
    assert told.reverted == "division by zero"
    assert "went back to the old plan: division by zero" in told.text()


def test_the_length_counts_from_when_it_was_asked_for(tmp_path: Path) -> None:
    """A rehearsal comes before the first epoch, and in the forecast."""
    store = Store.local(tmp_path)
    records = PlanRecords(store, lambda: 103.0)
    records.begin(Q, "b JOIN a", "background", "s", {"length_s": 2.5}, asked_at=100.5)
    records.phase(Q, "switch", NEW)
    records.end(Q)
    (told,) = map(PlanChangeRecord.from_json, store.get_document(PLAN_CHANGES) or ())
    assert told.length_s == 2.5
    assert "+2500 ms: switch" in told.text()
    assert "length_s: forecast 2.5, was 2.5" in told.text()
