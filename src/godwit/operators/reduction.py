"""How many groups there will be, guessed from a sample, before rows are grouped for the first time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from godwit.engine.file_frame import FileFrame
from godwit.engine.segments import bounds_of, rows_of
from godwit.model.plan import Partial

#: rows that are looked at
SAMPLE = 1 << 16


def hardly_reduces(frame: FileFrame, operator: Partial) -> bool:
    """Whether grouping makes more than a quarter as many partials as there are rows; False where it is not known.

    Rows in files are kept by links, which cost next to nothing: to group them once, when their window closes, is then
    cheaper even if grouping them now would make them somewhat fewer.
    """
    names = [frame.plain(key.sql) for key in operator.keys]
    bounds = bounds_of(frame, operator.window.time)
    if bounds is None or None in names:
        return False
    sample = _sample(frame, [name for name in names if name is not None])
    distinct = sample.group_by(sample.column_names).aggregate([]).num_rows if names else 1
    windows = max((bounds[1] - bounds[0]) / operator.window.size_us, 1.0)
    rows = rows_of(frame.segments)
    return windows * expected(distinct, sample.num_rows, rows / windows) > rows / 4


def expected(distinct: int, sampled: int, rows: float) -> float:
    """Distinct keys among `rows`, if there are so many among those sampled and all keys are as frequent."""
    if distinct >= sampled:
        return rows

    def among(keys: float, count: float) -> float:
        return -keys * math.expm1(-count / keys)

    low, high = float(distinct), 1e12
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if among(middle, sampled) < distinct else (low, middle)
    return among(low, rows)


def _sample(frame: FileFrame, names: Sequence[str]) -> pa.Table:
    with pq.ParquetFile(frame.segments[0].paths[0]) as file:
        batch = next(file.iter_batches(SAMPLE, columns=list(dict.fromkeys(names))))
        return pa.table(batch)
