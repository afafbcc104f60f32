"""What a workload is: streams, one query over them, and rows that are made from a seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from godwit.model.plan import Stream

SECOND = 1_000_000


@dataclass(frozen=True)
class Settings:
    """How many rows of which times, and who sends them."""

    seed: int = 0
    #: events per second of event time, all sources together
    rate: float = 1500.0
    seconds: float = 60.0
    #: devices named s0, s1, ..: events are theirs in turn
    sources: int = 1
    #: how many different keys there are, at most; None: as many as the workload makes by itself
    keys: int | None = None
    #: seconds by which rows may arrive later than others of their time
    disorder: float = 0.0
    start: datetime = datetime(2026, 1, 1, tzinfo=UTC)

    @property
    def events(self) -> int:
        return round(self.rate * self.seconds)


#: event numbers -> stream -> columns by name, with the numbers of the events that the rows are (`NUMBER`)
Made = dict[str, dict[str, Any]]
NUMBER = "__number"


class Fleetlike(Protocol):
    """What `StreamWorkload.declare` needs of a fleet."""

    def stream(self, name: str, schema: str, *, time: str, device: str, disorder: str, ahead: None) -> Any: ...

    def device(self, name: str, *, site: str, streams: Sequence[str]) -> Any: ...

    def table(self, name: str, schema: str, *, key: str) -> Any: ...

    def function(self, name: str, call: Callable[..., Any], type_: str, *, arrow: bool) -> None: ...


@dataclass(frozen=True)
class Reference:
    """A reference table and its rows."""

    name: str
    schema: str
    key: str
    rows: Callable[[], list[dict[str, Any]]]


@dataclass(frozen=True)
class Function:
    """A function that the query calls, over Arrow arrays."""

    name: str
    call: Callable[..., Any]
    type: str


@dataclass(frozen=True)
class StreamWorkload:
    """Streams, a query and how rows are made: `make(numbers, times, settings)`."""

    name: str
    streams: tuple[Stream, ...]
    sql: str
    make: Callable[[np.ndarray, np.ndarray, Settings], Made]
    #: what the query needs beside the streams
    references: tuple[Reference, ...] = ()
    functions: tuple[Function, ...] = ()

    def batches(self, settings: Settings, every: float = 1.0) -> Iterator[dict[str, pa.Table]]:
        """The rows as they arrive, a table per stream per `every` seconds. Late rows come with later ones."""
        waiting: dict[str, list[pa.Table]] = {}
        steps = max(1, round(settings.seconds / every))
        for step in range(steps):
            first, last = (round(settings.events * part / steps) for part in (step, step + 1))
            for name, table in self._made(np.arange(first, last), settings).items():
                waiting.setdefault(name, []).append(table)
            until = int((step + 1) * every * SECOND) if step < steps - 1 else None
            arrived = {name: _take(tables, until) for name, tables in waiting.items()}
            yield {name: table for name, table in arrived.items() if table.num_rows}

    def tables(self, settings: Settings) -> dict[str, pa.Table]:
        """All rows, in the order of their events."""
        return {n: t.drop_columns([ARRIVES]) for n, t in self._made(np.arange(settings.events), settings).items()}

    def declare(self, fleet: Fleetlike, settings: Settings, sites: Sequence[str]) -> None:
        """Declare the streams in a fleet, and the sources at these sites in turn."""
        for stream in self.streams:
            columns = ", ".join(f"{c.name} {c.type}" for c in stream.columns)
            disorder = f"{round(settings.disorder * SECOND)} microseconds"
            fleet.stream(str(stream.id), columns, time=stream.time, device="source", disorder=disorder, ahead=None)
        for number in range(settings.sources):
            site = sites[number % len(sites)]
            fleet.device(f"s{number}", site=site, streams=[str(stream.id) for stream in self.streams])
        for reference in self.references:
            fleet.table(reference.name, reference.schema, key=reference.key).upsert(reference.rows())
        for function in self.functions:
            fleet.function(function.name, function.call, function.type, arrow=True)

    def _made(self, numbers: np.ndarray, settings: Settings) -> dict[str, pa.Table]:
        at = (numbers * (SECOND / settings.rate)).astype(np.int64)
        made = self.make(numbers, at, settings)
        return {str(s.id): _table(s, made[str(s.id)], at, numbers, settings) for s in self.streams}


#: in tables on their way: when the row arrives, in microseconds since the start
ARRIVES = "__arrives"


def of_events(settings: Settings, what: int, numbers: np.ndarray, low: float = 0.0, high: float = 1.0) -> np.ndarray:
    """A random number for each event, whatever batch it is made in: a hash of seed, purpose and event."""
    mixed = numbers.astype(np.uint64) + np.uint64(
        (settings.seed * 0x9E3779B97F4A7C15 + what * 0xD1B54A32D192ED03) % 2**64
    )
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed = mixed ^ (mixed >> np.uint64(31))
    return np.asarray(low + (high - low) * (mixed >> np.uint64(11)) / float(2**53))


def below(settings: Settings, what: int, numbers: np.ndarray, limit: Any) -> np.ndarray:
    """A random whole number from 0 up to, not including, a limit (one, or one per event)."""
    return np.asarray(np.floor(of_events(settings, what, numbers) * limit), dtype=np.int64)


def _table(
    stream: Stream, columns: dict[str, Any], at: np.ndarray, numbers: np.ndarray, settings: Settings
) -> pa.Table:
    mine = np.asarray(columns.get(NUMBER, numbers))
    when = at[mine - numbers[0]] if len(numbers) else at
    start = int(settings.start.timestamp() * SECOND)
    known = {**columns, "source": [f"s{n}" for n in mine % settings.sources], stream.time: when + start}
    arrays = [pa.array(known[c.name]).cast(_ARROW[c.type]) for c in stream.columns]
    arrives = when + (of_events(settings, 99, mine) * settings.disorder * SECOND).astype(np.int64)
    return pa.table([*arrays, pa.array(arrives)], names=[*(c.name for c in stream.columns), ARRIVES])


_ARROW = {
    "bigint": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}


def _take(tables: list[pa.Table], until: int | None) -> pa.Table:
    """What has arrived by then leaves the list, in the order of arrival."""
    whole = pa.concat_tables(tables).sort_by(ARRIVES)
    here = whole.num_rows if until is None else int(np.searchsorted(whole[ARRIVES].to_numpy(), until))
    tables[:] = [whole.slice(here)]
    return whole.slice(0, here).drop_columns([ARRIVES])
