"""Reference tables, as users hold them: rows that are put in, replaced and taken out, each change at a time of its own.

A change holds from its `since` on (event time), for rows of that time or later. Without one it holds from now on: from
just after the newest row that any stream has, so that it is in no reader's past. That makes "now" a matter of the logs,
the same for every replay and for the oracle.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from godwit.api.core import FleetCore
from godwit.errors import ConfigError, SourceError
from godwit.ids import StreamId
from godwit.ingest.rows import Rows, as_rows
from godwit.ingest.schema import columns_of
from godwit.ingest.sources.table_followers import FileFollower, PostgresFollower, TableFollower, read_rows
from godwit.model.plan import GONE, SEQUENCE, Stream
from godwit.model.tables import SINCE, reference_table
from godwit.names import check, identifiers
from godwit.protocol.watermarks import NEVER

#: where time begins, for what was there before any row
BEGINNING = dt.datetime(1900, 1, 1, tzinfo=dt.UTC)
#: a table says at most this often (wall clock, seconds) how far it has come
BEAT_SECONDS = 0.02
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def declared_table(name: str, schema: str, key: str | Sequence[str], disorder_us: int) -> Stream:
    """The table that `fleet.table` was asked for; a ConfigError says what cannot be."""
    check("stream", name)
    columns = columns_of(schema)
    identifiers("column", (column.name for column in columns))
    keys = (key,) if isinstance(key, str) else tuple(key)
    known = [column.name for column in columns]
    wrong = next((k for k in keys if k not in known), None)
    if wrong is not None or not keys:
        msg = f"table '{name}': its key is {wrong!r}, which is none of its columns; it has {known}"
        raise ConfigError(msg)
    if SINCE in (column.lower() for column in known):
        msg = f"table '{name}': a column is called '{SINCE}', which says when a version begins; choose another name"
        raise ConfigError(msg)
    return reference_table(StreamId(name), columns, keys, disorder_us)


def load_table(fleet: FleetCore, name: str, file: str, whole: bool) -> int:
    """Rows of a file go into a table."""
    stream = fleet.deployment.streams.get(StreamId(name))
    if stream is None or not stream.key:
        known = sorted(str(s.id) for s in fleet.deployment.streams.values() if s.key)
        msg = f"there is no reference table '{name}'; there are: {', '.join(known) or 'none'}"
        raise SourceError(msg)
    table = TableHandle(fleet, stream)
    rows = read_rows(Path(file), table.columns)
    return table.replace(rows) if whole else table.upsert(rows)


class TableHandle:
    """A reference table. Queries join it by its key: `JOIN t ON s.k = t.id`."""

    def __init__(self, fleet: FleetCore, stream: Stream, opened: list[Any] | None = None) -> None:
        """`opened`: what the fleet watches, and stops with itself."""
        self._fleet, self._stream = fleet, stream
        self._opened = [] if opened is None else opened
        self.name = str(stream.id)

    def upsert(self, rows: Rows, since: dt.datetime | None = None) -> int:
        """Put rows in, or replace those of the same key, from a time on; returns how many."""
        return self._change(rows, since, gone=False)

    def delete(self, keys: Sequence[Any], since: dt.datetime | None = None) -> int:
        """Take rows out by their keys (a tuple where the key has several columns); returns how many there were."""
        named = [tuple(key) if isinstance(key, tuple | list) else (key,) for key in keys]
        wrong = next((key for key in named if len(key) != len(self._stream.key)), None)
        if wrong is not None:
            msg = f"table '{self.name}': {wrong!r} is no key; give {', '.join(self._stream.key)} of each row"
            raise SourceError(msg)
        rows = [dict(zip(self._stream.key, key, strict=True)) for key in dict.fromkeys(named)]
        return self._change(rows, since, gone=True)

    def replace(self, rows: Rows, since: dt.datetime | None = None) -> int:
        """Make these all the rows there are; what differs is a change. Returns how many do."""
        with self._fleet.lock:
            wanted, old = self._keyed(self._conformed(rows, since, gone=False)), self._keyed(self._current())
            new = [row for key, row in wanted.items() if old.get(key) != row]
            gone = [key for key in old if key not in wanted]
            return (self.upsert(new, since) if new else 0) + (self.delete(gone, since) if gone else 0)

    def follow_file(self, path: str | Path, *, every: float = 1.0) -> TableFollower:
        """Let the table be what a file says (.csv, .json, .jsonl, .parquet), and look every so often (seconds)."""
        return self._following(FileFollower(self, Path(path), self.columns, every))

    def follow_postgres(
        self, dsn: str, query: str, *, version: str | None = None, listen: str | None = None, every: float = 1.0
    ) -> TableFollower:
        """Let the table be what a query of a PostgreSQL database gives; `version`, `listen`: see `PostgresFollower`."""
        return self._following(PostgresFollower(self, dsn, query, self._stream.key, version, listen, every))

    def _following(self, follower: TableFollower) -> TableFollower:
        follower.poll()  # or an error, here and now
        self._opened.append(follower)
        return follower.start()

    @property
    def columns(self) -> pa.Schema:
        """What a row has, but for when it begins."""
        hidden = (SINCE, SEQUENCE, GONE)
        return pa.schema([f for f in self._fleet.gateway.schema(self._stream.id).arrow if f.name not in hidden])

    def rows(self) -> list[dict[str, Any]]:
        """The rows there are, in their newest versions."""
        hidden = (SEQUENCE, GONE)
        with self._fleet.lock:
            return [{k: v for k, v in row.items() if k not in hidden} for row in self._current().to_pylist()]

    def _current(self) -> pa.Table:
        return self._fleet.gateway.book.current(self._fleet.gateway.schema(self._stream.id))

    def _keyed(self, table: pa.Table) -> dict[tuple[Any, ...], dict[str, Any]]:
        hidden = (SINCE, SEQUENCE, GONE)
        plain = ({k: v for k, v in row.items() if k not in hidden} for row in table.to_pylist())
        return {tuple(row[k] for k in self._stream.key): row for row in plain}

    def _change(self, rows: Rows, since: dt.datetime | None, gone: bool) -> int:
        with self._fleet.lock:
            table = self._conformed(rows, since, gone)
            if gone:  # (a row that was never there need not be removed)
                there = self._keyed(self._current())
                keys = zip(*(table[name].to_pylist() for name in self._stream.key), strict=True)
                table = table.filter(pa.array([key in there for key in keys], pa.bool_()))
            if table.num_rows:
                self._fleet.gateway.tables.change(self._stream.id, table, self._fleet.deployment)
            return int(table.num_rows)

    def _conformed(self, rows: Rows, since: dt.datetime | None, gone: bool) -> pa.Table:
        """The rows as versions; what does not fit is refused as a whole: half a change would be a wrong table."""
        given = as_rows(self._stream.id, rows)
        rows = given if isinstance(given, list) else given.to_pylist()
        at = self._since(since)
        full = [{**row, SINCE: at, SEQUENCE: 0, GONE: gone} for row in rows]
        conformed = self._fleet.gateway.conform(self._stream.id, full, None)
        if conformed.unknown:
            wrong, known = next(iter(conformed.unknown)), ", ".join(self.columns.names)
            msg = f"table '{self.name}' has no column '{wrong}'; it has {known}. Leave it out, or mend its name"
            raise SourceError(msg)
        dead = [entry["reason"] for entry in conformed.dead]
        if dead:
            msg = f"table '{self.name}': {len(dead)} of {len(full)} rows do not fit, the first because {dead[0]}"
            raise SourceError(msg)
        if any(conformed.table[name].null_count for name in self._stream.key):
            msg = f"table '{self.name}': a row has no {' or '.join(self._stream.key)}, which is its key; give it one"
            raise SourceError(msg)
        return conformed.table

    def _since(self, since: dt.datetime | None) -> dt.datetime:
        newest, first = self._fleet.gateway.tables.times(self._stream.id)
        if since is None:
            return BEGINNING if newest == NEVER else _EPOCH + dt.timedelta(microseconds=newest)
        at = since if since.tzinfo is not None else since.replace(tzinfo=dt.UTC)
        if first > NEVER and (at - _EPOCH) // dt.timedelta(microseconds=1) < first:
            begins = _EPOCH + dt.timedelta(microseconds=first)
            msg = (
                f"table '{self.name}': a change from {at.isoformat()} on comes too late, rows up to "
                f"{begins.isoformat()} may have been answered; leave `since` out, or declare the table with "
                f"disorder='..', for which its readers wait"
            )
            raise SourceError(msg)
        return at


class TableClocks:
    """Tables say how far they have come whenever the streams have: nothing that follows will hold before that."""

    def __init__(self, fleet: FleetCore) -> None:
        self._fleet, self._said = fleet, 0.0

    def beat(self, now: bool = False) -> bool:
        """Whether any had something to say. `now`: though they said something a moment ago."""
        fleet = self._fleet
        if not now and time.monotonic() - self._said < BEAT_SECONDS:
            return False
        said = False
        with fleet.lock:
            for stream in self._read():
                clocks = fleet.gateway.tables.clock(stream, fleet.deployment)
                if clocks:
                    fleet.gateway.tell(stream, clocks, fleet.deployment)
                    said = True
        self._said = time.monotonic()
        return said

    def say(self) -> None:
        """What the streams' last rows have left unsaid."""
        self.beat(now=True)

    def _read(self) -> set[StreamId]:
        """The tables that queries read."""
        streams: Mapping[StreamId, Stream] = self._fleet.deployment.streams
        tables = {name for name, stream in streams.items() if stream.key}
        if not tables:
            return tables
        queries = self._fleet.deployment.queries.values()
        return tables & {scan.stream for query in queries for _, scan in query.shape.plan.scans}
