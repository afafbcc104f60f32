"""What each key of an operator holds, and how many of the newest rows are its: from the logs, without Spark.

Keys are read where they are plain columns of text or whole numbers; of others nothing is said (None).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from godwit.errors import MissingFileError
from godwit.ids import QueryId
from godwit.model.keys import NULL_KEY, Key
from godwit.model.plan import QUERY, Partial, Plan, Scan
from godwit.storage import names
from godwit.storage.log import Segment
from godwit.storage.overlays import revised, simple
from godwit.storage.store import Store

#: region -> key -> (rows, bytes) of its state
Held = Mapping[str, Mapping[Key, tuple[int, float]]]
#: number of newest entries of each source log that are sampled
NEWEST = 16


def held(plan: Plan, operator: int, query: QueryId, segments: Iterable[Segment]) -> dict[Key, tuple[int, float]] | None:
    """key -> (rows, bytes) of its state; bytes as the share of the rows in their files."""
    columns = [sql.strip("`") for sql in plan.operators[operator].state[0].keys]
    found: dict[Key, tuple[int, float]] = {}
    for segment in segments:
        counts = _counted(segment, columns, query)
        if counts is None:
            return None
        for key, rows in counts.items():
            before = found.get(key, (0, 0.0))
            found[key] = (before[0] + rows, before[1] + segment.bytes * rows / max(segment.rows, 1))
    return found


def _counted(segment: Segment, columns: Sequence[str], query: QueryId) -> Counter[Key] | None:
    if not simple(segment):
        return None
    try:
        tables = [revised(table, segment) for table in segment.tables()]
    except MissingFileError:
        return Counter()  # a newer commit has done with it
    found: Counter[Key] = Counter()
    for table in tables:
        keys = texts(table.filter(pc.equal(table[QUERY], str(query))), columns)
        if keys is None:
            return None
        found.update(keys)
    return found


def texts(table: pa.Table, columns: Sequence[str]) -> list[Key] | None:
    """The key of each row, as routes have it."""
    if any(name not in table.column_names or not _plain(table.schema.field(name).type) for name in columns):
        return None
    parts = [[NULL_KEY if v is None else str(v) for v in table[name].to_pylist()] for name in columns]
    return list(zip(*parts, strict=True))


def _plain(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind))


def newest(store: Store, plan: Plan, operator: int, regions: Iterable[str]) -> Counter[Key]:
    """How many of the newest rows of its streams each key has; empty where that cannot be seen."""
    found: Counter[Key] = Counter()
    scans = list(columns_of(plan, operator))
    for region in regions:
        for stream, columns in scans:
            log = store.log(names.source_log(region, stream))
            for _, record in log.after(max(log.last - NEWEST, log.first - 1)):
                found.update(_keys_in(record["segment"], columns, store))
    return found


def _keys_in(segment: Any, columns: Sequence[str], store: Store) -> Iterator[Key]:
    if segment is None:
        return
    try:
        for table in Segment.from_json(segment, store).tables(list(columns)):
            yield from texts(table, columns) or ()
    except MissingFileError:
        return


def columns_of(plan: Plan, operator: int) -> Iterator[tuple[str, list[str]]]:
    """The streams below an operator, with the columns that its keys are in each."""
    node = plan.operators[operator]
    for side, child in enumerate(node.inputs):
        spec = node.state[side if side < len(node.state) else 0]
        yield from _below(plan, child, [sql.strip("`") for sql in spec.keys])


def _below(plan: Plan, index: int, keys: list[str]) -> Iterator[tuple[str, list[str]]]:
    node = plan.operators[index]
    if isinstance(node, Partial):
        known = {key.name: key.sql.strip("`") for key in node.keys}
        keys = [known.get(key, key) for key in keys]
    if isinstance(node, Scan):
        prefix = f"{node.alias}__"
        if all(key.startswith(prefix) for key in keys):
            yield str(node.stream), [key.removeprefix(prefix) for key in keys]
        return
    for child in node.inputs:
        yield from _below(plan, child, keys)
