"""What the sources send and what is asked of it: ten queries, a map (stateless) or a window join (stateful).

The published queries are `map(value = value * 2)` and a join of two inputs on `join_id` in tumbling windows of 10 ms;
`join_match_interval` 7 lets one row in seven find partners. The sources of a join are its two inputs in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

Kind = Literal["stateless", "stateful"]
STREAM = "readings"
SCHEMA = "device string, join_id bigint, value bigint, ts timestamp"
ARROW = pa.schema(
    [("device", pa.string()), ("join_id", pa.int64()), ("value", pa.int64()), ("ts", pa.timestamp("us", tz="UTC"))]
)
WINDOW_MS, MATCH_EVERY = 10, 7
#: rows a second and source, as published (their interval is 10 ms)
RATE = 100

_MAP = "SELECT device, value * 2 AS value, ts AS at FROM readings WHERE device IN ({devices})"
_JOIN = """SELECT a.device AS one, b.device AS other, a.value + b.value AS value, greatest(a.ts, b.ts) AS at
FROM readings a JOIN readings b ON a.join_id = b.join_id
 AND unix_micros(a.ts) DIV {window} = unix_micros(b.ts) DIV {window}
 AND a.ts BETWEEN b.ts - INTERVAL {ms} MILLISECONDS AND b.ts + INTERVAL {ms} MILLISECONDS
WHERE a.device IN ({left}) AND b.device IN ({right})"""


@dataclass(frozen=True)
class Asked:
    """One of the ten queries."""

    name: str
    sql: str
    devices: tuple[str, ...]


def asked(kind: Kind, groups: Sequence[Sequence[str]]) -> list[Asked]:
    make = _map if kind == "stateless" else _join
    return [Asked(f"q{i:02d}", make(devices), tuple(devices)) for i, devices in enumerate(groups)]


def _map(devices: Sequence[str]) -> str:
    return _MAP.format(devices=_listed(devices))


def _join(devices: Sequence[str]) -> str:
    left, right = _listed(devices[::2]), _listed(devices[1::2])
    return _JOIN.format(left=left, right=right, ms=WINDOW_MS, window=WINDOW_MS * 1000)


def _listed(devices: Sequence[str]) -> str:
    return ", ".join(f"'{device}'" for device in devices)


@dataclass(frozen=True)
class Readings:
    """Rows of all devices at a fixed rate; every one is made at its event time and sent with the next tick."""

    start_ms: int
    rate: int = RATE

    def batch(self, device: str, t0_ms: int, t1_ms: int) -> pa.Table:
        period = 1000 / self.rate
        offset = int(device) % max(int(period), 1)
        first, last = (int(np.ceil((t - offset) / period)) for t in (t0_ms, t1_ms))
        k = np.arange(max(first, 0), last)
        ts = ((self.start_ms + offset) * 1000 + k * int(period * 1000)).astype(np.int64)
        window = ts // (WINDOW_MS * 1000)
        # One window in seven matches across sources; in the others each source has a number of its own.
        join_id = np.where(window % MATCH_EVERY == 0, window, -int(device))
        one = pa.array(np.zeros(len(k), np.int8))
        names = pa.DictionaryArray.from_arrays(one, pa.array([device])).cast(pa.string())
        times = pa.array(ts).cast(ARROW.field("ts").type)
        return pa.Table.from_arrays([names, pa.array(join_id), pa.array(k), times], schema=ARROW)
