"""Results as rows of a PostgreSQL table. Exactly-once: a commit's rows and its number are one transaction.

Results that replace each other (running totals) are upserts: the table `NAME_rows` has the newest row per key, with its
version and whether it was deleted, and the view `NAME` shows the rows that count. A deleted key leaves its version
behind, because after a hand-over another region's older row of the same key may come later.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, ClassVar, Literal

import pyarrow as pa

from godwit.delivery.json_rows import plain
from godwit.delivery.sinks.base import ResultBatch
from godwit.delivery.sinks.named_run import NamedRunSink
from godwit.drivers import driver
from godwit.errors import ConfigError
from godwit.model.plan import DELETED, VERSION

POSITIONS = "godwit_positions"
#: how the parts of a version are called in the table
AT, NUMBER = "__version_at", "__version_n"

_IS = pa.types
#: the first that fits; everything else becomes jsonb
_TYPES = (
    (_IS.is_boolean, "boolean"),
    (lambda kind: _IS.is_int8(kind) or _IS.is_int16(kind), "smallint"),
    (_IS.is_int32, "integer"),
    (_IS.is_integer, "bigint"),
    (_IS.is_float32, "real"),
    (_IS.is_floating, "double precision"),
    (_IS.is_timestamp, "timestamptz"),
    (_IS.is_date, "date"),
    (lambda kind: _IS.is_string(kind) or _IS.is_large_string(kind), "text"),
    (lambda kind: _IS.is_binary(kind) or _IS.is_large_binary(kind), "bytea"),
)


class PostgresqlSink(NamedRunSink):
    """Into `table` ("trains" or "schema.trains") of the database `dsn` says; made if it is not there.

    Needs PostgreSQL 15 for upserts (a key may be NULL). Text there cannot hold the character NUL: it becomes U+FFFD.
    """

    exactly_once: ClassVar[bool] = True
    changes: ClassVar[Literal["newest", "every", "none"]] = "newest"

    def __init__(self, dsn: str, table: str) -> None:
        self._dsn, self._table = dsn, table
        self._psycopg = driver("psycopg")
        self._sql = driver("psycopg.sql")
        try:
            told = self._psycopg.conninfo.conninfo_to_dict(dsn)
        except self._psycopg.Error as fault:
            msg = f'postgresql dsn: {str(fault).strip()}; write "host=db port=5432 dbname=fleet user=godwit"'
            raise ConfigError(msg) from fault
        place = "/".join(str(told.get(part, "")) for part in ("host", "port", "dbname"))
        self.name = f"postgresql:{place}/{table}"
        self._connection: Any = None
        self._ready = False

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection, self._ready = None, False

    def write(self, batch: ResultBatch) -> None:
        connection = self._connected()
        with connection.transaction(), connection.cursor() as cursor:
            if not self._take_turn(cursor, batch):
                return  # it came through before
            for table in batch.tables():
                rows = table if batch.key is None else _with_version(table)
                if not self._ready:
                    self._make(cursor, rows.schema, batch.key)
                if batch.key is None:
                    self._append(cursor, rows)
                else:
                    self._upsert(cursor, rows, batch.key)
        self._ready = True

    def _connected(self) -> Any:
        if self._connection is None or self._connection.closed:
            self._connection = self._psycopg.connect(self._dsn, autocommit=True, application_name="godwit")
            self._connection.execute("SET TIME ZONE 'UTC'")
            self._connection.execute(
                f"CREATE TABLE IF NOT EXISTS {POSITIONS} (run text, scope text, number bigint NOT NULL, "
                "PRIMARY KEY (run, scope))"
            )
        return self._connection

    def _take_turn(self, cursor: Any, batch: ResultBatch) -> bool:
        """Note the commit's number in the transaction that writes its rows; False: it is noted already."""
        cursor.execute(
            f"INSERT INTO {POSITIONS} VALUES (%s, %s, %s) ON CONFLICT (run, scope) "
            f"DO UPDATE SET number = excluded.number WHERE {POSITIONS}.number < excluded.number",
            (self._run, batch.scope, batch.number),
        )
        return bool(cursor.rowcount)

    def _make(self, cursor: Any, schema: pa.Schema, key: tuple[str, ...] | None) -> None:
        sql = self._sql
        columns = sql.SQL(", ").join(
            sql.SQL("{} {}").format(sql.Identifier(field.name), sql.SQL(_type(field.type))) for field in schema
        )
        cursor.execute(sql.SQL("CREATE TABLE IF NOT EXISTS {} ({})").format(self._named(key), columns))
        if key is None:
            return
        index = self._table.rpartition(".")[2] + "_key"
        cursor.execute(
            sql.SQL("CREATE UNIQUE INDEX IF NOT EXISTS {} ON {} ({}) NULLS NOT DISTINCT").format(
                sql.Identifier(index), self._named(key), self._listed(key)
            )
        )
        shown = [name for name in schema.names if name not in (AT, NUMBER, DELETED)]
        cursor.execute(
            sql.SQL("CREATE OR REPLACE VIEW {} AS SELECT {} FROM {} WHERE NOT {}").format(
                self._named(None), self._listed(shown), self._named(key), sql.Identifier(DELETED)
            )
        )

    def _append(self, cursor: Any, rows: pa.Table) -> None:
        copy = self._sql.SQL("COPY {} ({}) FROM STDIN").format(self._named(None), self._listed(rows.column_names))
        with cursor.copy(copy) as out:
            for row in rows.to_pylist():
                out.write_row([_value(value) for value in row.values()])

    def _upsert(self, cursor: Any, rows: pa.Table, key: tuple[str, ...]) -> None:
        """Of a key, the greater version counts, whichever comes first."""
        sql, names = self._sql, rows.column_names
        sets = sql.SQL(", ").join(
            sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in names if name not in key
        )
        newer = sql.SQL("(t.{0}, t.{1}) < (excluded.{0}, excluded.{1})")
        insert = sql.SQL("INSERT INTO {} AS t ({}) VALUES ({}) ON CONFLICT ({}) DO UPDATE SET {} WHERE {}").format(
            self._named(key),
            self._listed(names),
            sql.SQL(", ").join([sql.Placeholder()] * len(names)),
            self._listed(key),
            sets,
            newer.format(sql.Identifier(AT), sql.Identifier(NUMBER)),
        )
        cursor.executemany(insert, [[_value(value) for value in row.values()] for row in rows.to_pylist()])

    def _named(self, key: tuple[str, ...] | None) -> Any:
        parts = self._table.split(".")
        return self._sql.Identifier(*parts[:-1], parts[-1] + ("" if key is None else "_rows"))

    def _listed(self, names: Iterable[str]) -> Any:
        return self._sql.SQL(", ").join(map(self._sql.Identifier, names))


def _type(kind: pa.DataType) -> str:
    if _IS.is_decimal(kind):
        return f"numeric({kind.precision}, {kind.scale})"
    return next((name for fits, name in _TYPES if fits(kind)), "jsonb")


def _value(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\x00", "\ufffd")
    if isinstance(value, dict | list | tuple):
        return json.dumps(plain(value)).replace("\\u0000", "\\ufffd")
    return value


def _with_version(table: pa.Table) -> pa.Table:
    """The version's two parts as columns, which a database can compare."""
    at, number = (table.column(VERSION).combine_chunks().field(part) for part in ("at", "n"))
    return table.drop_columns([VERSION]).append_column(AT, at).append_column(NUMBER, number)
