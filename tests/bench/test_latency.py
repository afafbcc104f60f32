"""What the latency benches measure from: the push of a row, the push that lets a window close, files that come."""

from __future__ import annotations

import os
from pathlib import Path

from bench.latency.load import DISORDER_S, Sent, _latencies
from bench.latency.shapes import shapes
from bench.latency.usage import FilesCreated


def sent() -> Sent:
    """Two devices send in turn, a push a second: d0 at 10, 12, 14 ..., d1 at 11, 13, ..."""
    made = Sent()
    for number in range(8):
        due = 10.0 + number
        made.since.append(due - 1.0)
        made.called.append(due + 0.25)
        made.returned.append(due + 0.5)
        made.newest.setdefault(f"d{number % 2}", []).append((due, number))
    return made


def test_a_row_belongs_to_the_push_whose_stretch_it_lies_in() -> None:
    assert [sent().push_of(at) for at in (9.5, 10.0, 10.001, 11.5)] == [0, 1, 1, 2]


def test_a_window_closes_with_the_push_after_which_no_device_is_behind() -> None:
    assert sent().closed_by(12.0) == 4  # d0 is past 12.0 and the disorder bound at 14, d1 at 13
    assert sent().closed_by(13.0 - DISORDER_S) == 4  # d1 at 13 exactly, d0 at 14
    assert sent().closed_by(16.5) is None  # d0 never came so far


def test_latencies_start_at_the_push_and_leave_the_warm_up_out() -> None:
    rows = [(11.5, [10.1]), (13.25, [12.0])]
    assert _latencies("SELECT ts AS at FROM s", rows, sent(), 2, 8) == ([0.0], [1250.0])
    windows = [(15.0, [12.0]), (99.0, [16.5])]  # the last one was closed by the end of the program
    since_push, since_event = _latencies("... window(ts, '2 seconds')", windows, sent(), 0, 8)
    assert since_push == [750.0]
    assert [round(ms) for ms in since_event] == [2900]


def test_files_are_counted_also_if_they_are_gone_by_the_end(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("")
    counter = FilesCreated(tmp_path)
    (tmp_path / "old").write_text("again")
    (tmp_path / "draft").write_text("x")
    os.rename(tmp_path / "draft", tmp_path / "kept")
    (tmp_path / "draft").write_text("y")
    os.unlink(tmp_path / "draft")
    counter._began -= 60.0
    assert round(counter.per_minute()) == 2


def test_shapes_are_different_queries() -> None:
    assert len(set(shapes(32).values())) == 32
