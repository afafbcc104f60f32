"""Trace files: what is written reads back, and what cannot have happened is refused by line, field and remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from godwit.errors import DataError
from godwit.mobility.trace import Trace, TraceEvent, check, ordered, read_trace, replay, write_trace

HEAD = '{"format": "godwit-trace", "version": 1, "duration_ms": 9000, "speedup": 1.0, "source": "by hand"}'
ATTACH = '{"t": 0, "device": "d", "kind": "attach", "site": "a", "previous": null}'
HANDOVER = '{"t": 1000, "device": "d", "kind": "handover", "site": "b", "previous": "a"}'
DETACH = '{"t": 2000, "device": "d", "kind": "detach", "site": null, "previous": "b"}'


def _file(folder: Path, *lines: str) -> Path:
    path = folder / "trace.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_what_is_written_reads_back(tmp_path: Path) -> None:
    events = ordered(
        [
            TraceEvent(2000, "d", "detach", None, "b"),
            TraceEvent(0, "d", "attach", "a", None),
            TraceEvent(1000, "d", "handover", "b", "a"),
            TraceEvent(1000, "c", "attach", "ü", None),
        ]
    )
    trace = Trace(9000, events, 10.0, "by hand")
    write_trace(trace, tmp_path / "t.jsonl")
    assert read_trace(tmp_path / "t.jsonl") == trace
    assert [event.device for event in events] == ["d", "c", "d", "d"]
    assert trace.initial() == {"d": "a"}
    assert trace.sites == ("a", "b", "ü")


def test_replay_says_who_is_where() -> None:
    events = [TraceEvent(0, "d", "attach", "a", None), TraceEvent(5, "d", "detach", None, "a")]
    assert [dict(attached) for _event, attached in replay(events)] == [{"d": "a"}, {}]


BAD_FILES = {
    "no header": ((ATTACH,), "line 1 is not the header"),
    "other version": ((HEAD.replace('"version": 1', '"version": 2'),), "version 2 is not known"),
    "no duration": ((HEAD.replace("9000", '"long"'),), "duration_ms must be a whole number"),
    "not json": ((HEAD, ATTACH[:-5]), "line 2, column"),
    "not an object": ((HEAD, "[]"), "line 2: must be a JSON object"),
    "field missing": ((HEAD, '{"t": 0}'), "line 2: field 'device' is missing or unknown"),
    "field unknown": ((HEAD, ATTACH[:-1] + ', "x": 1}'), "field 'x' is missing or unknown"),
    "time is text": ((HEAD, ATTACH.replace("0,", '"0",')), "field 't' must be a whole number"),
    "time below zero": ((HEAD, ATTACH.replace("0,", "-1,")), "field 't'"),
    "no device": ((HEAD, ATTACH.replace('"d"', "null")), "field 'device': a device needs a name"),
    "unknown kind": ((HEAD, ATTACH.replace("attach", "leap")), "field 'kind' must be one of attach, handover, detach"),
    "attach to nowhere": ((HEAD, ATTACH.replace('"a"', "null")), "field 'site' of a attach must be a site"),
    "attach from somewhere": ((HEAD, ATTACH.replace("null", '"b"')), "field 'previous' of a attach must be null"),
    "two attaches": ((HEAD, ATTACH, ATTACH.replace("0,", "9,")), "event 2 (attach of d at 9 ms): the device is still"),
    "handover of nobody": ((HEAD, HANDOVER), "an attach must come first"),
    "wrong previous": (
        (HEAD, ATTACH, HANDOVER.replace('"previous": "a"', '"previous": "c"')),
        "but the device is at a",
    ),
    "to where it is": ((HEAD, ATTACH, HANDOVER.replace('"b"', '"a"')), "is at already"),
    "back in time": ((HEAD, ATTACH, HANDOVER, DETACH.replace("2000", "500")), "sort the events by t"),
    "one moment twice": ((HEAD, ATTACH, HANDOVER.replace("1000", "0")), "another event at that moment"),
    "after the end": ((HEAD.replace("9000", "100"), ATTACH, HANDOVER), "after duration_ms 100"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_is_refused(tmp_path: Path, case: str) -> None:
    lines, says = BAD_FILES[case]
    path = _file(tmp_path, *lines)
    with pytest.raises(DataError) as caught:
        read_trace(path)
    assert says in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_site_must_exist(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="site b is not in the topology"):
        read_trace(_file(tmp_path, HEAD, ATTACH, HANDOVER), sites=["a"])


def test_no_file_and_no_text(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot be read .*godwit mobility build"):
        read_trace(tmp_path / "none.jsonl")
    (tmp_path / "t.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="is not UTF-8"):
        read_trace(tmp_path / "t.jsonl")


def test_a_trace_that_cannot_be_is_not_written(tmp_path: Path) -> None:
    broken = Trace(10, (TraceEvent(0, "d", "detach", None, "a"),))
    with pytest.raises(DataError):
        write_trace(broken, tmp_path / "t.jsonl")
    assert not (tmp_path / "t.jsonl").exists()
    with pytest.raises(DataError):
        check(broken)
