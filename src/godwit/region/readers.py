"""Who reads what of whom in one shape: rows get a class as they are taken in, and are told apart by it at a tap.

The rules are in `model/taps.py`. All is written as SQL over literals, so that few rows run as direct plans.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from godwit.engine.lazy_frame import Frame, made, together
from godwit.engine.size_policy import SizePolicy
from godwit.ids import QueryId
from godwit.model.plan import CLASS, QUERY
from godwit.model.taps import TapTable
from godwit.region.sql_text import text


class Readers(TapTable):
    """The taps of one shape's queries under one deployment, as Spark needs them."""

    def with_class(self, frame: Frame) -> Frame:
        """Rows that were taken in, with their class; where nobody taps anything they need none."""
        if not self.classes:
            return frame
        alike: dict[int, list[str]] = {}
        for query, begins in self.classes.items():
            alike.setdefault(begins, []).append(text(query))
        cases = " ".join(f"WHEN {QUERY} IN ({', '.join(names)}) THEN {begins}L" for begins, names in alike.items())
        return frame.selectExpr("*", f"CASE {cases} ELSE 0L END AS {CLASS}")

    def tell_apart(self, frame: Frame, index: int, spark: SparkSession, sizes: SizePolicy) -> Frame:
        """An operator's rows, once for everybody who reads them and had begun when they were taken in."""
        readers = self.at[index]
        ending = (QUERY, CLASS) if index in self.last else (QUERY,)
        others = [f"`{name}`" for name in frame.columns if name not in ending]
        since = f"coalesce({CLASS}, 0L)" if CLASS in frame.columns else "0L"
        if len(readers) > sizes.case_queries:
            rows = [(leader, name, begins) for leader, mine in readers.items() for name, begins in mine.items()]
            return together([self._unread(frame, readers, others), _joined(frame, rows, since, others, spark)])
        cases = " ".join(f"WHEN {QUERY} = {text(leader)} THEN {_array(mine)}" for leader, mine in readers.items())
        itself = f"array(named_struct('name', {QUERY}, 'begins', 0L))"
        those = f"filter(CASE {cases} ELSE {itself} END, reader -> reader.begins <= {since})"
        told = frame.selectExpr(*others, f"explode({those}) AS __reader")
        return told.selectExpr(f"__reader.name AS {QUERY}", *others)

    def _unread(self, frame: Frame, readers: Mapping[QueryId, object], others: list[str]) -> Frame:
        names = ", ".join(map(text, readers))
        return frame.where(f"{QUERY} NOT IN ({names})").selectExpr(QUERY, *others)

    def of_users(self, frame: Frame) -> Frame:
        """Results of those who still have any."""
        names = ", ".join(map(text, self.unseen))
        return frame.where(f"{QUERY} NOT IN ({names})") if names else frame


def _joined(
    frame: Frame, readers: list[tuple[QueryId, QueryId, int]], since: str, others: list[str], spark: SparkSession
) -> Frame:
    types = {"__read": pa.string(), "__reader": pa.string(), "__begins": pa.int64()}
    columns = zip(types.items(), zip(*readers, strict=True), strict=True)
    table = pa.table({name: pa.array(values, kind) for (name, kind), values in columns})
    joined = made(frame).join(F.broadcast(spark.createDataFrame(table)), F.expr(f"{QUERY} = __read"))
    return joined.where(f"__begins <= {since}").selectExpr(f"__reader AS {QUERY}", *others)


def _array(begins: Mapping[QueryId, int]) -> str:
    """Names and beginnings, as SQL."""
    rows = (f"named_struct('name', {text(name)}, 'begins', {since}L)" for name, since in begins.items())
    return f"array({', '.join(rows)})"
