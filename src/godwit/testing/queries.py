"""Logical plans made by hand, for tests of the control plane that need no SQL and no Spark.

Each function gives a query over streams of `stream()`: column `v` to filter by, one numeric parameter `over`.
`devices` limits a scan to these devices, as `WHERE device IN (...)` would.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from godwit.ids import QueryId, StreamId
from godwit.model.plan import (
    Aggregate,
    AggregateCall,
    Column,
    Filter,
    Join,
    Operator,
    Parameter,
    Partial,
    Plan,
    Query,
    Scan,
    Shape,
    Sink,
    Stream,
    Union,
    Window,
)

SECOND = 1_000_000
COUNT = (AggregateCall("n", "count", None),)
TEN_SECONDS = Window("a__ts", 10 * SECOND, 10 * SECOND)

Devices = Sequence[str] | None


def stream(name: str, device: str = "device") -> Stream:
    """A stream with the columns device, ts and v."""
    columns = (Column(device, "string"), Column("ts", "timestamp"), Column("v", "int"))
    return Stream(StreamId(name), columns, "ts", device)


def select(name: str, source: Stream, devices: Devices = None, over: str = "2") -> Query:
    """SELECT v FROM source WHERE v > :over"""
    return query(name, [_scan(source, "a", devices), _filter(0), Sink((1,), ("v",))], over, {0: devices})


def aggregate(
    name: str, source: Stream, devices: Devices = None, over: str = "2", window: Window = TEN_SECONDS
) -> Query:
    """SELECT count(*) AS n FROM source WHERE v > :over GROUP BY window"""
    operators: list[Operator] = [_scan(source, "a", devices), _filter(0), *_count(1, window), Sink((3,), ("n",))]
    return query(name, operators, over, {0: devices})


def join(
    name: str,
    sources: tuple[Stream, Stream],
    left: Devices = None,
    right: Devices = None,
    over: str = "2",
    band_us: tuple[int, int] = (-60 * SECOND, 60 * SECOND),
) -> Query:
    """SELECT v FROM a JOIN b ON a.v = b.v AND b.ts - a.ts within the band WHERE a.v > :over"""
    operators: list[Operator] = [
        _scan(sources[0], "a", left),
        _filter(0),
        _scan(sources[1], "b", right),
        Join((1, 2), (("a__v", "b__v"),), "a__ts", "b__ts", *band_us),
        Sink((3,), ("v",)),
    ]
    return query(name, operators, over, {0: left, 2: right})


def union(name: str, sources: tuple[Stream, Stream], over: str = "2", window: Window = TEN_SECONDS) -> Query:
    """SELECT count(*) AS n FROM (a UNION ALL b) GROUP BY window"""
    scans: list[Operator] = [_scan(source, "a", None) for source in sources]
    return query(name, [*scans, Union((0, 1)), *_count(2, window), Sink((4,), ("n",))], over, {})


def query(name: str, operators: Sequence[Operator], over: str, wanted: Mapping[int, Devices]) -> Query:
    """A query from its operators; `wanted`: scan -> the devices it is limited to."""
    subscriptions = {i: tuple(f"'{d}'" for d in devices) for i, devices in wanted.items() if devices is not None}
    shape = Shape(Plan(tuple(operators)), (Parameter("__p0", "int"),))
    return Query(QueryId(name), "", shape, (over,), subscriptions)


def _scan(source: Stream, alias: str, devices: Devices) -> Scan:
    return Scan(source.id, alias, ("ts", "v"), None if devices is None else source.device)


def _filter(child: int) -> Filter:
    return Filter((child,), "a__v > __p0")


def _count(child: int, window: Window) -> tuple[Operator, Operator]:
    return Partial((child,), window, (), COUNT), Aggregate((child + 1,), window, (), COUNT)
