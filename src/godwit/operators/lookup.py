"""Rows of a state that may belong to the keys of new rows: what an operator reads of a large state for a few rows.

Few new rows are looked for here, column by column, also in a state that is too large to be handed to Spark as a whole:
what is found is few again, and a direct plan goes on with it. Many are found by a join of Spark's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from godwit.engine import segments
from godwit.engine.lazy_frame import Frame, LazyFrame, made, together
from godwit.model.plan import QUERY
from godwit.operators.base import OperatorContext
from godwit.region.state import State
from godwit.storage.overlays import revised, simple

#: up to so many rows of state are looked through here: reading them takes about as long as starting a job of Spark's
LOOKED_THROUGH = 1_000_000


def of_keys(context: OperatorContext, state: State, new: Frame, keys: Sequence[str]) -> Frame | None:
    """All rows of `state` with a key that is also in `new`, and perhaps others; None: there are none."""
    if not state.live:
        return None
    if isinstance(new, LazyFrame) and state.rows <= LOOKED_THROUGH and all(map(simple, state.live)):
        values = _values([leaf.table for leaf in new.leaves.values()], keys)
        found = _found(state, values)
        rows = sum(table.num_rows for table in found.values())
        if rows <= context.sizes.handed_rows:
            parts = (
                LazyFrame.of(context.spark, table.combine_chunks(), segments.struct(schema))
                for schema, table in found.items()
            )
            return together(parts) if rows else None
    old = state.read(context.spark, sizes=context.sizes)
    assert old is not None
    names = [QUERY, *keys]
    theirs = new.selectExpr(*(f"`{name}` AS `__k{n}`" for n, name in enumerate(names)))
    same = (F.col(f"`{name}`").eqNullSafe(F.col(f"__k{n}")) for n, name in enumerate(names))
    return made(old).join(made(theirs).distinct(), reduce(lambda a, b: a & b, same), "left_semi")


def _found(state: State, values: Mapping[str, pa.Array]) -> dict[str, pa.Table]:
    """Schema -> rows whose keys are among the values, each key by itself."""
    found: dict[str, list[pa.Table]] = {}
    for segment in state.live:
        for table in segments.tables_of(segment):
            for key, wanted in values.items():
                table = table.filter(pc.is_in(table[key], value_set=wanted))
            if table.num_rows:
                found.setdefault(segment.schema, []).append(revised(table, segment))
    arrow = {schema: to_arrow_schema(segments.struct(schema), timezone="UTC") for schema in found}
    return {schema: pa.concat_tables([t.cast(arrow[schema]) for t in tables]) for schema, tables in found.items()}


def _values(tables: Sequence[pa.Table], keys: Sequence[str]) -> dict[str, pa.Array]:
    """The values of each key, of types whose equality is Spark's."""
    found = {}
    for key in keys:
        columns = [table[key] for table in tables]
        if columns and not any(pa.types.is_nested(c.type) or pa.types.is_floating(c.type) for c in columns):
            found[key] = pa.chunked_array([chunk for c in columns for chunk in c.chunks], columns[0].type).unique()
    return found
