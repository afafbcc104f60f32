"""One device's rows out of an entry of a source log that has several's."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from godwit.storage.inline import InlineRows
from godwit.storage.segment import Segment


def parted(rows: Segment, column: str | None, device: str) -> tuple[Segment | None, Segment | None]:
    """(other devices' rows, the device's). `column`: says whose a row is; None: they are all one's."""
    if column is None:
        return None, rows
    table = pa.concat_tables(rows.tables())
    mine = pc.fill_null(pc.equal(table[column].cast(pa.string()), device), False)
    return _some(rows, table.filter(pc.invert(mine))), _some(rows, table.filter(mine))


def _some(rows: Segment, table: pa.Table) -> Segment | None:
    if not table.num_rows:
        return None
    inline = InlineRows(table.replace_schema_metadata(None))
    return replace(rows, files=(), sums=(), rows=table.num_rows, bytes=table.nbytes, inline=inline)
