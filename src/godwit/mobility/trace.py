"""A trace: which device is attached to which site from when on. Values, file format, and the checks both obey.

A file is JSON lines: a header, then one event a line in the order of time.

    {"format": "godwit-trace", "version": 1, "duration_ms": 3600000, "speedup": 1.0, "source": "ring, seed 7"}
    {"t": 0, "device": "S41-1", "kind": "attach", "site": "t-004", "previous": null}
    {"t": 21000, "device": "S41-1", "kind": "handover", "site": "t-005", "previous": "t-004"}
    {"t": 60000, "device": "S41-1", "kind": "detach", "site": null, "previous": "t-005"}

`t` is milliseconds since the start, after the speed-up. `site` is where the device is after the event, `previous`
where it was before. The events of one device alternate, and no two of them share a moment.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from godwit import names
from godwit.errors import DataError

Kind = Literal["attach", "handover", "detach"]
FORMAT, VERSION = "godwit-trace", 1
_FIELDS = ("t", "device", "kind", "site", "previous")
#: kind -> (a previous site is named, a site is named)
_SHAPE: dict[str, tuple[bool, bool]] = {"attach": (False, True), "handover": (True, True), "detach": (True, False)}


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """One change of one device's attachment."""

    #: milliseconds since the trace's start
    t: int
    device: str
    kind: Kind
    #: where the device is now; None after a detach
    site: str | None
    #: where it was; None before an attach
    previous: str | None


@dataclass(frozen=True)
class Trace:
    """All attachment changes of a world between 0 and `duration_ms`, in order."""

    duration_ms: int
    events: tuple[TraceEvent, ...]
    #: how many times faster than the world it was taken from
    speedup: float = 1.0
    #: where it came from, for a reader's eyes
    source: str = ""

    @property
    def devices(self) -> tuple[str, ...]:
        """Every device that appears, sorted."""
        return tuple(sorted({event.device for event in self.events}))

    @property
    def sites(self) -> tuple[str, ...]:
        """Every site a device was attached to, sorted."""
        return tuple(sorted({event.site for event in self.events if event.site is not None}))

    def initial(self) -> dict[str, str]:
        """Who is attached where once the events of moment 0 have happened."""
        return {e.device: e.site for e in self.events if e.t == 0 and e.site is not None}


def ordered(events: Iterable[TraceEvent]) -> tuple[TraceEvent, ...]:
    """The one order of a trace: by time, then by device."""
    return tuple(sorted(events, key=lambda event: (event.t, event.device)))


def replay(
    events: Iterable[TraceEvent], *, sites: frozenset[str] | None = None, where: str = "trace"
) -> Iterator[tuple[TraceEvent, Mapping[str, str]]]:
    """Yield each event with the attachments after it; a DataError names the first event that cannot happen."""
    attached: dict[str, str] = {}
    last: dict[str, int] = {}
    now = 0
    for number, event in enumerate(events, start=1):
        problem = _problem(event, attached, last, now, sites)
        if problem:
            msg = f"{where}: event {number} ({event.kind} of {event.device} at {event.t} ms): {problem}"
            raise DataError(msg)
        now = last[event.device] = event.t
        if event.site is None:
            del attached[event.device]
        else:
            attached[event.device] = event.site
        yield event, attached


def _problem(
    event: TraceEvent, attached: Mapping[str, str], last: Mapping[str, int], now: int, sites: frozenset[str] | None
) -> str:
    """What is wrong with an event at this point of a trace, and the remedy; empty if nothing is."""
    here = attached.get(event.device)
    if event.t < now:
        return f"it lies before the event ahead of it ({now} ms); sort the events by t"
    if event.t <= last.get(event.device, -1):
        return "this device has another event at that moment; merge the two or use a finer time"
    if event.kind == "attach" and here is not None:
        return f"the device is still attached to {here}; detach it first or make this a handover"
    if event.kind != "attach" and here is None:
        return "the device is not attached; an attach must come first"
    if event.previous != here:
        return f"it names {event.previous} as the previous site, but the device is at {here}"
    if event.site == here:
        return "it leads to the site the device is at already; drop the event"
    if sites is not None and event.site is not None and event.site not in sites:
        return f"site {event.site} is not in the topology; add it there or drop the event"
    return ""


def check(trace: Trace, sites: Iterable[str] | None = None, where: str = "trace") -> Trace:
    """The trace itself, if it holds together (and names only these sites)."""
    known = None if sites is None else frozenset(sites)
    for _event, _attached in replay(trace.events, sites=known, where=where):
        pass
    if trace.events and trace.events[-1].t > trace.duration_ms:
        msg = f"{where}: the last event is at {trace.events[-1].t} ms, after duration_ms {trace.duration_ms}; raise it"
        raise DataError(msg)
    return trace


def header(trace: Trace) -> str:
    """The first line of a trace file."""
    fields = {"format": FORMAT, "version": VERSION, "duration_ms": trace.duration_ms, "speedup": trace.speedup}
    return json.dumps(fields | {"source": trace.source})


def write_trace(trace: Trace, path: Path) -> None:
    """Write a trace that holds together; one that does not is refused."""
    check(trace, where=str(path))
    with path.open("w", encoding="utf-8") as out:
        out.write(header(trace) + "\n")
        out.writelines(json.dumps(asdict(event)) + "\n" for event in trace.events)


def read_trace(path: Path, sites: Iterable[str] | None = None) -> Trace:
    """Read and check a trace file; an error names the line and what to do about it."""
    try:
        with path.open(encoding="utf-8") as lines:
            head = _header(path, lines.readline())
            events = tuple(_event(path, number, line) for number, line in enumerate(lines, start=2) if line.strip())
    except OSError as error:
        msg = f"{path}: cannot be read ({error.strerror}); give the trace.jsonl that `godwit mobility build` wrote"
        raise DataError(msg) from error
    except UnicodeDecodeError as error:
        msg = f"{path}: is not UTF-8 text ({error.reason}); a compressed trace must be unpacked first"
        raise DataError(msg) from error
    trace = Trace(head["duration_ms"], events, float(head.get("speedup", 1.0)), str(head.get("source", "")))
    return check(trace, sites, str(path))


def _header(path: Path, line: str) -> dict[str, Any]:
    head = _object(path, 1, line)
    if head.get("format") != FORMAT:
        msg = f'{path}: line 1 is not the header of a trace; it must say "format": "{FORMAT}"'
        raise DataError(msg)
    if head.get("version") != VERSION:
        msg = f"{path}: line 1: version {head.get('version')!r} is not known; this program reads version {VERSION}"
        raise DataError(msg)
    if not _is_time(head.get("duration_ms")):
        msg = f"{path}: line 1: duration_ms must be a whole number of milliseconds, not {head.get('duration_ms')!r}"
        raise DataError(msg)
    return head


def _event(path: Path, number: int, line: str) -> TraceEvent:
    fields = _object(path, number, line)
    problem = _field_problem(fields)
    if problem:
        msg = f"{path}: line {number}: {problem}"
        raise DataError(msg)
    return TraceEvent(*(fields[name] for name in _FIELDS))


def _field_problem(fields: Mapping[str, Any]) -> str:
    if set(fields) != set(_FIELDS):
        odd = sorted(set(fields) ^ set(_FIELDS))
        return f"field {odd[0]!r} is missing or unknown; an event has exactly {', '.join(_FIELDS)}"
    if not _is_time(fields["t"]):
        return f"field 't' must be a whole number of milliseconds from 0 on, not {fields['t']!r}"
    problem = names.fault("device", fields["device"]) or names.reserved("device", fields["device"])
    if problem:
        return f"field 'device': {problem}"
    if fields["kind"] not in get_args(Kind):
        return f"field 'kind' must be one of {', '.join(get_args(Kind))}, not {fields['kind']!r}"
    for name, wanted in zip(("previous", "site"), _SHAPE[fields["kind"]], strict=True):
        value = fields[name]
        if not (isinstance(value, str) and value if wanted else value is None):
            return f"field {name!r} of a {fields['kind']} must be {'a site' if wanted else 'null'}, not {value!r}"
    return ""


def _object(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        fields = json.loads(line)
    except json.JSONDecodeError as error:
        msg = f"{path}: line {number}, column {error.colno}: not JSON ({error.msg}); the file may be cut off there"
        raise DataError(msg) from error
    if not isinstance(fields, dict):
        msg = f"{path}: line {number}: must be a JSON object, not {type(fields).__name__}"
        raise DataError(msg)
    return fields


def _is_time(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
