"""1,000 rows per second of 40 devices, sent every 100 ms: row n happens n milliseconds after the beginning.

Rows depend on their number alone and the beginning is a whole two seconds, so every contender gets the same rows but
for a shift in time, and its results can be compared with a batch over them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pyarrow as pa
from pyspark.sql import SparkSession

from bench.peers.questions import Question

EVERY_MS = 100
DEVICES = 40
KEYS = 10
GRAIN_MS = 2_000
#: for plans to be made (seconds)
SETTLE_S = 6.0
SCHEMA = "device string, key bigint, value int, ts timestamp"


@dataclass(frozen=True)
class Row:
    device: str
    key: int
    value: int
    ms: int

    def text(self) -> str:
        return f"{self.device},{self.key},{self.value},{self.ms}\n"


def rows(first: int, count: int, begin_ms: int) -> list[Row]:
    return [
        Row(f"d{n * 7 % DEVICES}", n * 13 // 7 % KEYS, n * 7919 % 1000, begin_ms + n)
        for n in range(first, first + count)
    ]


def table(sent: list[Row]) -> pa.Table:
    columns = [[r.device for r in sent], [r.key for r in sent], [r.value for r in sent], [r.ms * 1000 for r in sent]]
    kinds = (pa.string(), pa.int64(), pa.int32(), pa.timestamp("us", tz="UTC"))
    arrays = [pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)]
    return pa.table(arrays, names=["device", "key", "value", "ts"])


@dataclass
class Heard:
    """One result as it arrived: wall milliseconds, the question's name, its columns but `at` as text, its `at`."""

    wall: float
    name: str
    what: str
    at: int


@dataclass
class Ears:
    """All results, from any thread."""

    heard: list[Heard] = field(default_factory=list)

    def line(self, text: str) -> None:
        """As Flink sends it: name,columns...,at"""
        name, _, rest = text.strip().partition(",")
        what, _, at = rest.rpartition(",")
        self.heard.append(Heard(time.time() * 1000, name, what, int(at)))

    def row(self, name: str, values: dict[str, object], wall: float) -> None:
        *rest, at = values.values()
        self.heard.append(Heard(wall, name, ",".join(map(str, rest)), _ms(at)))


def _ms(at: object) -> int:
    assert isinstance(at, datetime)
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def send(seconds: float, push: Callable[[list[Row], int], None], settle_s: float = SETTLE_S) -> tuple[int, int]:
    """Push in pace: (rows, the time that has been reached). Returns the beginning and how many rows there were.

    First some rows of a minute earlier, and a pause: nobody's plans are cold when the clock begins.
    """
    early = int(time.time() * 1000) - 60_000
    for first in (0, 3_000, 6_000) if settle_s else ():  # windows close, too
        push(rows(first, EVERY_MS, early), early + first + EVERY_MS)
        time.sleep(settle_s / 3)
    begin = (int(time.time() * 1000) // GRAIN_MS + 1) * GRAIN_MS
    ticks = int(seconds * 1000 / EVERY_MS)
    for tick, due in _ticks(begin, ticks):
        push(rows(tick * EVERY_MS, EVERY_MS, begin), due)
    return begin, ticks * EVERY_MS


def _ticks(begin: int, ticks: int) -> Iterator[tuple[int, int]]:
    for tick in range(ticks):
        due = begin + (tick + 1) * EVERY_MS
        wait = due / 1000 - time.time()
        if wait > 0:
            time.sleep(wait)
        yield tick, due


def expected(
    spark: SparkSession, questions: list[Question], count: int, since: int, until: int
) -> Counter[tuple[str, str, int]]:
    """The same SQL as a batch over the rows, from the beginning 0: results with since <= at < until."""
    session = spark.newSession()
    session.createDataFrame(table(rows(0, count, 0)).to_pandas(), SCHEMA).createOrReplaceTempView("readings")
    ears = Ears()
    for question in questions:
        for row in session.sql(question.spark).collect():
            ears.row(question.name, row.asDict(), 0.0)
    return counted(ears, 0, since, until)


def counted(ears: Ears, begin: int, since: int, until: int) -> Counter[tuple[str, str, int]]:
    found = ((h.name, h.what, h.at - begin) for h in ears.heard)
    return Counter(one for one in found if since <= one[2] < until)
