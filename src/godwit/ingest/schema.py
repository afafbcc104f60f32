"""What fits a stream: the rule for values, times and senders, once for lists of dicts, pandas and Arrow.

A value is converted only where nothing is lost: 3.0 is a whole number, 1.5 is not; text is never a number or a time, a
number is never a time. A row that does not fit is a misfit: it goes to the dead-letter log with the reason, and the
others of its batch go on. A column that the stream has not is left out of the row and told: the row may come from a
device that says more than this stream wants, but a column that was meant to be another must not vanish in silence.
docs/sql.md says the rule to users.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from dataclasses import field as by_default
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from godwit.errors import SourceError
from godwit.ingest.rows import Rows, as_rows
from godwit.model.plan import Column, Stream
from godwit.names import hint

Dead: TypeAlias = list[dict[str, Any]]
#: of a table, which rows are meant
Mask: TypeAlias = Callable[[pa.Table], pa.ChunkedArray]

#: event times lie from the first of these years to the beginning of the last: Spark, Arrow and Python agree on them
YEARS = (1900, 2300)
EARLIEST_US, END_US = (int(dt.datetime(y, 1, 1, tzinfo=dt.UTC).timestamp()) * 1_000_000 for y in YEARS)
_UTC = pa.timestamp("us", tz="UTC")
_REFUSED = (pa.ArrowException, OverflowError, TypeError, ValueError, AttributeError)


@dataclass(frozen=True)
class Conformed:
    """Rows that fit, and those that do not, each with the reason."""

    table: pa.Table
    dead: Dead
    #: columns that the stream has not -> rows that had them
    unknown: Mapping[str, int] = by_default(default_factory=dict)


def columns_of(ddl: str) -> tuple[Column, ...]:
    """`name type, name type`; types may hold commas in brackets."""
    try:
        parsed = StructType.fromDDL(ddl)
    except (PySparkException, AttributeError, TypeError) as error:
        reason = str(error).strip().splitlines()[0]
        msg = f"{ddl!r} is not a schema ({reason}); write for example 'train string, ts timestamp'"
        raise SourceError(msg) from error
    assert isinstance(parsed, StructType)
    return tuple(Column(field.name, field.dataType.simpleString()) for field in parsed.fields)


class Schema:
    """A stream's schema in the three forms that are needed."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        parsed = StructType.fromDDL(", ".join(f"`{c.name}` {c.type}" for c in stream.columns))
        assert isinstance(parsed, StructType)
        self.spark = parsed
        self.json = self.spark.json()
        self.arrow = to_arrow_schema(self.spark, timezone="UTC")
        self._types = {column.name: column.type for column in stream.columns}
        #: column -> types of which Arrow loses nothing
        self._plain_by_name = {field.name: _plain_types(field.type) for field in self.arrow}

    def conform(self, rows: Rows, sender: str | None = None, now_us: int | None = None) -> Conformed:
        """Rows cast to the schema, without the misfits.

        `sender`: the device whose handle they came through; `now_us`: the wall clock, for rows from too far ahead.
        """
        given = as_rows(self.stream.id, rows)
        table, dead = self._from_dicts(given) if isinstance(given, list) else self._from_table(given, sender)
        table = self._signed(table, sender)
        for wrong, reason in () if self._all_fit(table, sender, now_us) else self._misfits(sender, now_us):
            found = wrong(table)
            if pc.any(found).as_py():
                dead += [{"row": row, "reason": reason} for row in table.filter(found).to_pylist()]
                table = table.filter(pc.invert(found))
        return Conformed(table, dead, self.unknown(given))

    def unknown(self, rows: pa.Table | list[Any]) -> dict[str, int]:
        """Columns that the stream has not, and how many rows have them; names of godwit's own are not told."""
        if not isinstance(rows, list):
            return {n: rows.num_rows for n in rows.column_names if n not in self._types and not n.startswith("__")}
        dicts = [row for row in rows if isinstance(row, Mapping)]
        found = [n for n in set().union(*dicts) - self._types.keys() if not str(n).startswith("__")]
        return {str(name): sum(name in row for row in dicts) for name in sorted(found, key=str)}

    def said_of(self, column: str) -> str:
        """What to say of a column that the stream has not."""
        alter = f"add it with fleet.alter_stream('{self.stream.id}', add='{column} ..'), or do not send it"
        remedy = hint(column, self._types, alter)
        return f"stream '{self.stream.id}' has no column '{column:.80}', it is left out; {remedy}"

    def _all_fit(self, table: pa.Table, sender: str | None, now_us: int | None) -> bool:
        """Whether no row is a misfit, by what costs little to know; nearly always there is none."""
        time, device = table.column(self.stream.time), self.stream.device
        if time.null_count or (device is not None and table.column(device).null_count):
            return False
        if not len(time):
            return True
        extremes = pc.min_max(micros(time)).as_py()
        if any(extremes["max"] >= low and extremes["min"] < end for low, end, _ in self.times(now_us)):
            return False
        if sender is None or device is None:
            return True
        names = table.column(device)
        named = names if names.type == pa.string() else names.cast(pa.string())
        return bool(pc.all(pc.equal(named, pa.scalar(str(sender), pa.string()))).as_py())

    @property
    def needed(self) -> list[tuple[str, str]]:
        """Columns that no row may lack, each with what to say of a row that does."""
        found = [(self.stream.time, f"{self.stream.time} is missing: every row needs an event time")]
        if self.stream.device is not None:
            found.append((self.stream.device, f"{self.stream.device} is missing: every row needs its sender's name"))
        return found

    def times(self, now_us: int | None) -> list[tuple[int, int, str]]:
        """(from, to, reason): a row whose time is in there does not fit. Microseconds, the end left out."""
        time, ahead = self.stream.time, self.stream.ahead_us
        years = f"{time} is not in the years {YEARS[0]} to {YEARS[1] - 1}: is its unit right?"
        found = [(-(2**63), EARLIEST_US, years), (END_US, 2**63 - 1, years)]
        if ahead is not None and now_us is not None:
            reason = (
                f"{time} is more than {ahead / 1e6:g} s ahead of the clock here; mend the device's clock, or declare"
            )
            found.append((now_us + ahead + 1, END_US, f"{reason} the stream with ahead=None"))
        return found

    def _misfits(self, sender: str | None, now_us: int | None) -> Iterator[tuple[Mask, str]]:
        """Which rows of a table do not fit, and what to say of them."""
        time, device = self.stream.time, self.stream.device
        for name, reason in self.needed:
            yield _lacks(name), reason
        for first, end, reason in self.times(now_us):
            yield _between(time, first, end), reason
        if sender is not None and device is not None:
            reason = f"{device} names another device than '{sender}', which sent it; push it through that one's handle"
            yield _of_another(device, sender), reason

    def _signed(self, table: pa.Table, sender: str | None) -> pa.Table:
        """Rows that a device sent without saying whose they are, are its own."""
        column = self.stream.device
        if sender is None or column is None or not table.column(column).null_count:
            return table
        place = table.column_names.index(column)
        try:
            name = pa.scalar(str(sender)).cast(self.arrow.field(column).type)
        except pa.ArrowException:
            return table  # (a column of numbers, a device whose name is none)
        return table.set_column(place, self.arrow.field(column), pc.fill_null(table.column(column), name))

    def _from_dicts(self, rows: list[Any]) -> tuple[pa.Table, Dead]:
        dead: Dead = []
        if not self._plain(rows):
            reasons = [self._inexact(row) for row in rows]
            dead = [{"row": row, "reason": why} for row, why in zip(rows, reasons, strict=True) if why]
            rows = [row for row, why in zip(rows, reasons, strict=True) if not why]
        try:
            return pa.Table.from_pylist(rows, schema=self.arrow), dead
        except _REFUSED:
            pass
        made = [(row, self._made(row)) for row in rows]
        dead += [{"row": row, "reason": why} for row, why in made if isinstance(why, str)]
        return pa.concat_tables([self.arrow.empty_table(), *(t for _, t in made if not isinstance(t, str))]), dead

    def _plain(self, rows: list[Any]) -> bool:
        """Whether every value has the type that its column expects, so that Arrow can lose nothing."""
        if not all(isinstance(row, dict) for row in rows):
            return False
        return all({type(row.get(name)) for row in rows} <= fine for name, fine in self._plain_by_name.items())

    def _inexact(self, row: Any) -> str:
        """What a row would lose; empty if nothing."""
        if not isinstance(row, Mapping):
            return f"it is no row but {type(row).__name__}; give a dict of column names and values"
        told = (
            (field.name, value, inexact(value, field.type))
            for field in self.arrow
            if (value := row.get(field.name)) is not None
        )
        return next((f"{name}: {value!r} {wrong}" for name, value, wrong in told if wrong), "")

    def _made(self, row: Any) -> pa.Table | str:
        """A table of the row, or why there is none."""
        try:
            return pa.Table.from_pylist([row], schema=self.arrow)
        except _REFUSED as error:
            return self._wrong(row) or str(error)

    def _wrong(self, row: Any) -> str:
        """Which value of a row Arrow does not take."""
        for field in self.arrow:
            value = row.get(field.name)
            try:
                pa.array([value], field.type)
            except _REFUSED:
                return f"{field.name}: {value!r:.200} is no {self._types[field.name]}"
        return ""

    def _from_table(self, table: pa.Table, sender: str | None) -> tuple[pa.Table, Dead]:
        column = self.stream.device
        if sender is not None and column is not None and column not in table.column_names:
            table = table.append_column(column, pa.array([sender] * table.num_rows, pa.string()))
        for name in self.stream.added:
            if name not in table.column_names:
                field = self.arrow.field(name)
                table = table.append_column(field, pa.nulls(table.num_rows, field.type))
        missing = [name for name in self.arrow.names if name not in table.column_names]
        if missing:
            msg = (
                f"rows for stream '{self.stream.id}' lack column {', '.join(missing)}; they have {table.column_names}; "
            )
            msg += "add it, with nulls where there is no value, or push dicts, which may leave it out"
            raise SourceError(msg)
        table = table.select(self.arrow.names)
        try:
            if all(_may_cast(table.schema.field(f.name).type, f.type) for f in self.arrow):
                return table.cast(self.arrow), []
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            pass
        return self._from_dicts(table.to_pylist())


def micros(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times as microseconds since 1970."""
    return (times if times.type == _UTC else times.cast(_UTC)).cast(pa.int64())


def inexact(value: Any, kind: pa.DataType) -> str:
    """What would be lost if Arrow made `kind` of a value; empty if nothing would."""
    number = isinstance(value, int | float | Decimal) or type(value).__module__ == "numpy"
    if value is None:
        return ""
    if pa.types.is_integer(kind) and isinstance(value, float) and not value.is_integer():
        return "is not a whole number"
    if pa.types.is_floating(kind) and isinstance(value, bool):
        return "is not a number"
    if pa.types.is_timestamp(kind) and number:
        return "is a number, not a time; give a datetime"
    if pa.types.is_timestamp(kind) and getattr(value, "nanosecond", 0):
        return "has nanoseconds; times here have microseconds"
    if pa.types.is_date(kind) and isinstance(value, dt.datetime):
        return "is a time, not a date"
    if pa.types.is_string(kind) and isinstance(value, bytes):
        return "is bytes, not text"
    return _inexact_within(value, kind)


def _inexact_within(value: Any, kind: pa.DataType) -> str:
    parts: Iterable[tuple[Any, pa.DataType]] = ()
    if pa.types.is_struct(kind) and isinstance(value, Mapping):
        parts = ((value.get(field.name), field.type) for field in kind)
    elif pa.types.is_list(kind) and isinstance(value, list | tuple):
        parts = ((item, kind.value_type) for item in value)
    elif pa.types.is_map(kind):
        items = value.items() if isinstance(value, Mapping) else value
        parts = ((item, kind.item_type) for _, item in items)
    return next((wrong for item, of in parts if (wrong := inexact(item, of))), "")


def _plain_types(kind: pa.DataType) -> set[type]:
    if pa.types.is_integer(kind):
        return {int, type(None)}
    if pa.types.is_floating(kind):
        return {int, float, type(None)}
    if pa.types.is_string(kind):
        return {str, type(None)}
    if pa.types.is_boolean(kind):
        return {bool, type(None)}
    return {dt.datetime, type(None)} if pa.types.is_timestamp(kind) else {type(None)}


_IS = pa.types
_INTO = tuple[Callable[[pa.DataType], bool], ...]
#: what a column is -> what a value may be, for Arrow's safe cast
_CASTS: tuple[tuple[Callable[[pa.DataType], bool], _INTO], ...] = (
    (_IS.is_integer, (_IS.is_integer, _IS.is_floating, _IS.is_decimal)),
    (_IS.is_floating, (_IS.is_integer, _IS.is_floating)),
    (_IS.is_decimal, (_IS.is_integer, _IS.is_decimal)),
    (_IS.is_string, (_IS.is_string, _IS.is_large_string, _IS.is_string_view)),
    (_IS.is_timestamp, (_IS.is_timestamp,)),
)


def _may_cast(have: pa.DataType, want: pa.DataType) -> bool:
    """Whether Arrow's safe cast, which refuses to lose anything, is all that is needed."""
    if pa.types.is_dictionary(have):
        have = have.value_type
    if have == want or pa.types.is_null(have) or pa.types.is_nested(want):
        return not pa.types.is_nested(want) or have == want
    return any(is_want(want) and any(is_have(have) for is_have in fits) for is_want, fits in _CASTS)


def _lacks(column: str) -> Mask:
    return lambda table: pc.is_null(table.column(column))


def _between(time: str, first: int, end: int) -> Mask:
    def mask(table: pa.Table) -> pa.ChunkedArray:
        at = micros(table.column(time))
        return pc.fill_null(pc.and_(pc.greater_equal(at, first), pc.less(at, end)), False)

    return mask


def _of_another(column: str, sender: str) -> Mask:
    return lambda table: pc.not_equal(table.column(column).cast(pa.string()), sender)
