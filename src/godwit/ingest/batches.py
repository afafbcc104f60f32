"""Numbered batches of one device, in order, as one table: what is pushed together, and what is new of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa

from godwit.errors import SourceError
from godwit.ingest.rows import Rows, as_rows


class MeanwhileError(SourceError):
    """Some of what was pushed together has come through meanwhile: what is new of it must be found out again."""


@dataclass(frozen=True)
class Batches:
    table: pa.Table
    #: (sequence number, how many rows) of each batch; the numbers rise
    parts: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        numbers = [number for number, _ in self.parts]
        if any(later <= earlier for earlier, later in pairwise(numbers)):
            msg = f"sequence numbers of a device's batches must rise, and these do not: {numbers}"
            raise SourceError(msg)
        if (rows := sum(rows for _, rows in self.parts)) != self.table.num_rows:
            msg = f"the batches say that they have {rows} rows, and there are {self.table.num_rows}: send them again"
            raise SourceError(msg)

    @property
    def last(self) -> int:
        return self.parts[-1][0]

    def after(self, known: int) -> Batches:
        """Without those that have come through before: the first ones, as numbers rise."""
        skipped = sum(number <= known for number, _ in self.parts)
        rows = sum(rows for _, rows in self.parts[:skipped])
        return self if not skipped else Batches(self.table.slice(rows), self.parts[skipped:])


def as_table(stream: str, rows: Rows) -> pa.Table:
    """Rows on their way to another thread or process: values of a column must be of one type there."""
    found = as_rows(stream, rows)
    if isinstance(found, pa.Table):
        return found
    try:
        columns = dict.fromkeys(name for row in found for name in row.keys())  # noqa: SIM118 - (a string has none)
        return pa.table({name: pa.array([row.get(name) for row in found]) for name in columns})
    except (pa.ArrowException, AttributeError, TypeError) as fault:
        msg = f"rows for '{stream}' cannot become a table ({fault}); give a table, or dicts with one type a column"
        raise SourceError(msg) from fault


def together(stream: str, numbered: Sequence[tuple[int, Rows]]) -> list[Batches]:
    """(number, rows) of a device in as few groups as can be: neighbours whose columns are the same."""
    groups: list[tuple[list[pa.Table], list[tuple[int, int]]]] = []
    for number, rows in numbered:
        table = as_table(stream, rows)
        if not groups or not groups[-1][0][0].schema.equals(table.schema):
            groups.append(([], []))
        groups[-1][0].append(table)
        groups[-1][1].append((number, table.num_rows))
    return [Batches(pa.concat_tables(tables), tuple(parts)) for tables, parts in groups]
