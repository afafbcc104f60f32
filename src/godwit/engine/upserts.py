"""Results that replace each other: of the rows of a key the newest counts."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from godwit.model.plan import CHANGE, DELETED, VERSION, Column, Sink


def latest(changes: DataFrame, sink: Sink) -> DataFrame:
    """The newest row per key; of results that do not replace each other, all."""
    if sink.key is None:
        return changes
    keys = [F.col(f"`{name}`") for name in sink.key]
    whole = F.struct(*(F.col(f"`{name}`") for name in (*sink.columns, DELETED)))
    newest = changes.groupBy(*keys).agg(F.max_by(whole, F.col(VERSION)).alias("__row"))
    return newest.where(f"NOT __row.{DELETED}").select(*(F.col(f"__row.`{name}`") for name in sink.columns))


def with_kind(changes: DataFrame, sink: Sink) -> DataFrame:
    """Changes, each with what it is to its key: insert, update or delete."""
    if sink.key is None:
        return changes
    keys = ", ".join(f"`{name}`" for name in sink.key)
    before = f"lag({DELETED}) OVER ({f'PARTITION BY {keys} ' if keys else ''}ORDER BY {VERSION})"
    kind = f"CASE WHEN {DELETED} THEN 'delete' WHEN coalesce({before}, true) THEN 'insert' ELSE 'update' END"
    return changes.selectExpr("*", f"{kind} AS {CHANGE}")


def hidden(sink: Sink) -> list[Column]:
    """The columns that changes have beside the results', with their types."""
    types = {VERSION: "struct<at: timestamp, n: bigint>", DELETED: "boolean"}
    return [Column(name, types[name]) for name in sink.written if name not in sink.columns]
