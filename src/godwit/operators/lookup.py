"""Rows of a state that may belong to the keys of new rows: what an operator reads of a large state for a few rows.

Few new rows are looked for here, also in a state that is too large to be handed to Spark as a whole: what is found is
few again, and a direct plan goes on with it. Small segments are looked through, column by column; in large ones an
index finds the rows (`key_index.py`). Many new rows are found by a join of Spark's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from godwit.engine import segments
from godwit.engine.lazy_frame import Frame, LazyFrame, made, together
from godwit.model.plan import QUERY
from godwit.operators.base import OperatorContext
from godwit.operators.key_index import INDEXED, KeyIndexes, hashes_of
from godwit.region.state import State
from godwit.storage.overlays import revised, simple

#: state of up to this number of rows is searched here: reading it takes about as long as starting a Spark job
LOOKED_THROUGH = 1_000_000
#: state of up to this number of rows gets an index: building a larger one takes too long for a micro-batch
MOST_INDEXED = 50_000_000


def of_keys(
    context: OperatorContext, state: State, new: Frame, keys: Sequence[str], indexes: KeyIndexes | None = None
) -> Frame | None:
    """All rows of `state` with a key that is also in `new`, and perhaps others; None: there are none. `indexes`: of an
    operator that appends to its state and seldom writes all of it again."""
    if not state.live:
        return None
    fresh = [leaf.table for leaf in new.leaves.values()] if isinstance(new, LazyFrame) else []
    values = _values(fresh, keys)
    most = MOST_INDEXED if values and indexes is not None else LOOKED_THROUGH
    if isinstance(new, LazyFrame) and state.rows <= most and all(map(simple, state.live)):
        found = _found(state, values, indexes, fresh)
        rows = sum(table.num_rows for table in found.values())
        if rows <= context.sizes.handed_rows:
            parts = (
                LazyFrame.of(context.spark, table.combine_chunks(), segments.struct(schema))
                for schema, table in found.items()
            )
            return together(parts) if rows else None
    return _joined(context, state, new, keys)


def _joined(context: OperatorContext, state: State, new: Frame, keys: Sequence[str]) -> Frame:
    old = state.read(context.spark, sizes=context.sizes)
    assert old is not None
    names = [QUERY, *keys]
    theirs = new.selectExpr(*(f"`{name}` AS `__k{n}`" for n, name in enumerate(names)))
    same = (F.col(f"`{name}`").eqNullSafe(F.col(f"__k{n}")) for n, name in enumerate(names))
    return made(old).join(made(theirs).distinct(), reduce(lambda a, b: a & b, same), "left_semi")


def _found(
    state: State, values: Mapping[str, pa.Array], indexes: KeyIndexes | None, fresh: Sequence[pa.Table]
) -> dict[str, pa.Table]:
    """Schema -> rows whose keys are among the values, each key by itself."""
    found: dict[str, list[pa.Table]] = {}
    names = list(values)
    hashes = [hashes_of(table, names) for table in fresh] if indexes is not None and names else []
    wanted = np.unique(np.concatenate(hashes)) if hashes else None
    for segment in state.live:
        if indexes is not None and wanted is not None and segment.files and segment.rows >= INDEXED:
            tables = [indexes.rows(segment, names, wanted)]
        else:
            tables = segments.tables_of(segment)
        for table in tables:
            for key, among in values.items():
                table = table.filter(pc.is_in(table[key], value_set=among))
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
