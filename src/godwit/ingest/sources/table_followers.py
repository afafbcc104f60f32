"""Reference tables that follow something else: a file that is written again, or a query of a PostgreSQL database.

A follower looks every so often; what differs from the table is a change of it, from then on. After a restart it looks
at everything once and goes on from there, so nothing need be written down of where it stood.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from godwit.errors import ConfigError, SourceError

READERS = (".csv", ".json", ".jsonl", ".parquet")


class ChangingTable(Protocol):
    """What a follower needs of a table."""

    name: str

    def upsert(self, rows: Any) -> int: ...
    def delete(self, keys: Any) -> int: ...
    def replace(self, rows: Any) -> int: ...


class TableFollower(ABC):
    """Looks again and again, in a thread of its own; `poll` looks once."""

    def __init__(self, table: ChangingTable, every: float) -> None:
        self._table, self._every = table, every
        self._stop = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"table {table.name}", daemon=True)

    @abstractmethod
    def poll(self) -> int:
        """Take over what has changed; returns how many rows."""

    def start(self) -> TableFollower:
        self._thread.start()
        return self

    def check(self) -> None:
        """Raise if it has failed: the table would be out of date without notice."""
        if self._failure is not None:
            msg = f"table '{self._table.name}' follows nothing any more: {self._failure}; mend it, and open it again"
            raise SourceError(msg) from self._failure

    def stop(self) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=10)

    def _wait(self) -> None:
        self._stop.wait(self._every)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self.poll()
                self._wait()
        except Exception as error:  # whatever it is, `check` raises it
            self._failure = error


class FileFollower(TableFollower):
    """All rows of a table in one file; a writer replaces the old one by the new one (rename)."""

    def __init__(self, table: ChangingTable, path: Path, schema: pa.Schema, every: float = 1.0) -> None:
        super().__init__(table, every)
        self._path, self._schema = Path(path), schema
        self._seen: tuple[int, int] | None = None
        if self._path.suffix not in READERS:
            msg = f"table '{table.name}' cannot follow '{path}': its name must end with {', '.join(READERS)}"
            raise ConfigError(msg)

    def poll(self) -> int:
        if not self._path.exists():
            return 0  # not written yet, or just being replaced
        told = self._path.stat()
        if self._seen == (told.st_mtime_ns, told.st_size):
            return 0
        changed = self._table.replace(read_rows(self._path, self._schema))
        self._seen = (told.st_mtime_ns, told.st_size)
        return changed


class PostgresFollower(TableFollower):
    """The rows of a query. `version`: a column that grows with every change of a row, so that only newer rows are read;
    where the query also has a boolean column `deleted`, such rows are taken out. `listen`: a channel on which the
    database says that there is something new (NOTIFY)."""

    def __init__(
        self,
        table: ChangingTable,
        dsn: str,
        query: str,
        key: tuple[str, ...],
        version: str | None = None,
        listen: str | None = None,
        every: float = 1.0,
    ) -> None:
        super().__init__(table, every)
        self._dsn, self._query, self._key = dsn, query.strip().rstrip(";"), key
        self._version, self._listen = version, listen
        self._newest: Any = None
        self._connection: Any = None

    def poll(self) -> int:
        rows = self._read()
        if self._version is not None and rows:
            self._newest = max(row[self._version] for row in rows)
        plain = [{k: v for k, v in row.items() if k not in (self._version, "deleted")} for row in rows]
        there = [row for row, told in zip(plain, rows, strict=True) if not told.get("deleted")]
        if not self._begun:
            self._begun = True
            return self._table.replace(there)
        if self._version is None:
            return self._table.replace(there)
        gone = [tuple(row[name] for name in self._key) for row in rows if row.get("deleted")]
        return (self._table.upsert(there) if there else 0) + (self._table.delete(gone) if gone else 0)

    #: whether all has been read once
    _begun = False

    def _read(self) -> list[Mapping[str, Any]]:
        connection = self._connected()
        with connection.cursor() as cursor:
            if self._version is None or self._newest is None:
                cursor.execute(f"SELECT * FROM ({self._query}) AS t")
            else:
                cursor.execute(f'SELECT * FROM ({self._query}) AS t WHERE "{self._version}" > %s', (self._newest,))
            return list(cursor.fetchall())

    def _connected(self) -> Any:
        if self._connection is None:
            try:
                import psycopg
                from psycopg.rows import dict_row
            except ImportError as error:
                msg = "following PostgreSQL needs psycopg; install godwit[connectors]"
                raise ConfigError(msg) from error
            self._connection = psycopg.connect(self._dsn, autocommit=True, row_factory=dict_row)
            if self._listen is not None:
                self._connection.execute(f'LISTEN "{self._listen}"')
        return self._connection

    def _wait(self) -> None:
        if self._listen is None or self._connection is None:
            super()._wait()
            return
        for _ in self._connection.notifies(timeout=self._every, stop_after=1):
            return

    def stop(self) -> None:
        super().stop()
        if self._connection is not None:
            self._connection.close()


def read_rows(path: Path, schema: pa.Schema) -> pa.Table:
    """A file's rows, in the types of these columns; others are passed over."""
    try:
        match path.suffix:
            case ".csv":
                types = {field.name: field.type for field in schema}
                options = pa.csv.ConvertOptions(column_types=types, include_columns=schema.names)
                return pa.csv.read_csv(path, convert_options=options)
            case ".parquet":
                return pa.parquet.read_table(path, columns=schema.names)
        options = pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
        return pa.json.read_json(path, parse_options=options)
    except (pa.ArrowInvalid, pa.ArrowKeyError, OSError) as error:
        msg = f"'{path}' is not a file of rows with {', '.join(schema.names)}: {error}"
        raise SourceError(msg) from error
