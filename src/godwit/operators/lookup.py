"""Rows of a state that may belong to the keys of new rows: what an operator reads of a large state for a few rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from godwit.engine.lazy_frame import Frame, LazyFrame, made
from godwit.model.plan import QUERY
from godwit.operators.base import OperatorContext
from godwit.region.state import State
from godwit.storage.log import Segment
from godwit.storage.overlays import revised


def of_keys(context: OperatorContext, state: State, new: Frame, keys: Sequence[str]) -> Frame | None:
    """All rows of `state` with a key that is also in `new`, and perhaps others; None: there are none."""
    if not state.live:
        return None
    if isinstance(new, LazyFrame):
        values = _values([leaf.table for leaf in new.leaves.values()], keys)

        def pick(table: pa.Table, segment: Segment) -> pa.Table:
            table = revised(table, segment)
            for key, found in values.items():
                table = table.filter(pc.is_in(table[key], value_set=found))
            return table

        if (few := state.handed(context.spark, pick)) is not None:
            return few if few.rows else None
    old = state.read(context.spark)
    assert old is not None
    names = [QUERY, *keys]
    theirs = new.selectExpr(*(f"`{name}` AS `__k{n}`" for n, name in enumerate(names)))
    same = (F.col(f"`{name}`").eqNullSafe(F.col(f"__k{n}")) for n, name in enumerate(names))
    return made(old).join(made(theirs).distinct(), reduce(lambda a, b: a & b, same), "left_semi")


def _values(tables: Sequence[pa.Table], keys: Sequence[str]) -> dict[str, pa.Array]:
    """The values of each key, of types whose equality is Spark's."""
    found = {}
    for key in keys:
        columns = [table[key] for table in tables]
        if columns and not any(pa.types.is_nested(c.type) or pa.types.is_floating(c.type) for c in columns):
            found[key] = pa.chunked_array([chunk for c in columns for chunk in c.chunks], columns[0].type).unique()
    return found
