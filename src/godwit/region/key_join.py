"""Key sets over many rows, in Spark's plan: few keys are a text of it, many are a table that it joins by broadcast."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import functions as F

from godwit.engine.lazy_frame import Frame, made
from godwit.model.keys import KEY_SEPARATOR, HashRange, Key, KeySet, Listed, Rest
from godwit.region.key_sql import KEY, LISTED, key_text, within

#: in which of the long lists a row's key is
_IN = "__in"


def numbered(
    frame: Frame, cases: Sequence[tuple[str, KeySet, int]], sql: Sequence[str], name: str, otherwise: str
) -> Frame:
    """Add a number to each row: that of the first case whose condition holds and whose keys its key is among."""
    frame, texts = _looked_up(frame, [keys for _, keys, _ in cases], sql)
    whens = [f"WHEN {holds} AND {mine} THEN {n}" for (holds, _, n), mine in zip(cases, texts, strict=True)]
    told = f"CAST(CASE {' '.join(whens)} ELSE {otherwise} END AS bigint)" if whens else otherwise
    return frame.selectExpr("*", f"{told} AS {name}").drop(*_added(texts))


def parted(frame: Frame, holds: str, keys: KeySet, sql: Sequence[str]) -> tuple[Frame, Frame]:
    """(rows for which the condition holds and whose key is in the set, all others)"""
    frame, (mine,) = _looked_up(frame, [keys], sql)
    those, added = f"({holds} AND {mine})", _added([mine])
    return frame.where(those).drop(*added), frame.where(f"NOT {those}").drop(*added)


def _looked_up(frame: Frame, sets: Sequence[KeySet], sql: Sequence[str]) -> tuple[Frame, list[str]]:
    """Rows with what tells for each set whether their key is in it, and the texts that say so."""
    texts = []
    for number, keys in enumerate(sets):
        if len(long := _long(keys)) <= LISTED:
            texts.append(within(keys, sql))
            continue
        column = f"{_IN}{number}"
        rows = pa.table({KEY: pa.array((KEY_SEPARATOR.join(key) for key in long), pa.string())})
        table = made(frame).sparkSession.createDataFrame(rows).withColumn(column, F.lit(True))
        keyed = made(frame).selectExpr("*", f"{key_text(sql)} AS {KEY}")
        frame = keyed.join(F.broadcast(table), KEY, "left").drop(KEY)
        texts.append(_text(keys, f"coalesce({column}, false)", sql))
    return frame, texts


def _long(keys: KeySet) -> frozenset[Key]:
    """The keys that a set names one by one."""
    match keys:
        case Listed(some):
            return some
        case HashRange(but=but):
            return but
        case Rest(named):
            return frozenset[Key]().union(*(_long(one) for one in named))


def _text(keys: KeySet, listed: str, sql: Sequence[str]) -> str:
    """Whether a row is in a set, where its keys are looked up."""
    match keys:
        case Listed():
            return listed
        case HashRange(low, high):
            return f"({within(HashRange(low, high), sql)} AND NOT {listed})"
        case Rest(named):
            coarse = [f"({within(HashRange(k.low, k.high), sql)})" for k in named if isinstance(k, HashRange)]
            return f"NOT ({' OR '.join([listed, *coarse])})"


def _added(texts: Sequence[str]) -> list[str]:
    return [f"{_IN}{number}" for number, text in enumerate(texts) if f"{_IN}{number}" in text]
