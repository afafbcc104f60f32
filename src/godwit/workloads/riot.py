"""RIoTBench: observations as SenML messages, in the shapes of its three data sets (dream-lab/riot-bench).

A message has five measured values of one moment, as `{"e": [{"n": name, "u": unit, "v": value}, ..]}`. In one of
twenty a value lies outside of its range, and one sender of ten is not known. Rows follow from the seed, not from the
published recordings; ranges and units are theirs.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from godwit.ids import StreamId
from godwit.model.plan import Column, Stream
from godwit.workloads.base import Function, Made, Reference, Settings, below, of_events


@dataclass(frozen=True)
class MeasuredField:
    """A measured value: its name, its unit, and the range that is plausible."""

    name: str
    unit: str
    low: float
    high: float


#: the data sets: sensors of a city, trips of taxis, people at exercise. The last field is the one that is predicted
SHAPES = {
    "sys": (
        MeasuredField("temperature", "far", -12.5, 43.1),
        MeasuredField("humidity", "per", 10.7, 95.2),
        MeasuredField("light", "per", 1345.0, 26282.0),
        MeasuredField("dust", "per", 186.61, 5188.21),
        MeasuredField("airquality_raw", "per", 12.0, 49.0),
    ),
    "taxi": (
        MeasuredField("trip_time_in_secs", "s", 140.0, 3155.0),
        MeasuredField("trip_distance", "m", 1.37, 29.86),
        MeasuredField("fare_amount", "dollar", 6.0, 201.0),
        MeasuredField("tip_amount", "dollar", 0.65, 38.55),
        MeasuredField("tolls_amount", "dollar", 2.5, 18.0),
    ),
    "fit": (
        MeasuredField("acc_chest_x", "m/s2", -12.8, 4.2),
        MeasuredField("acc_chest_y", "m/s2", -5.5, 6.1),
        MeasuredField("ecg_lead_1", "mV", -8.6, 8.6),
        MeasuredField("acc_ankle_x", "m/s2", -22.1, 19.9),
        MeasuredField("gyro_ankle_z", "deg/s", -2.3, 2.3),
    ),
}
STATIONS, UNKNOWN, WILD = 40, 10, 20
_COLUMNS = "source string, station string, id bigint, senml string, ts timestamp"
OBSERVATIONS = Stream(
    StreamId("observations"), tuple(Column(*part.split()) for part in _COLUMNS.split(", ")), "ts", "source"
)


def observations(shape: str) -> Any:
    """The generator of a data set."""

    def make(numbers: np.ndarray, at: np.ndarray, settings: Settings) -> Made:
        station = below(settings, 1, numbers, settings.keys or STATIONS)
        values: list[tuple[np.ndarray, np.ndarray]] = []
        for place, field in enumerate(SHAPES[shape]):
            share = of_events(settings, 10 + place, numbers)
            if place == len(SHAPES[shape]) - 1:  # what is predicted depends on what is measured
                share = 0.6 * values[0][1] + 0.3 * (1 - values[1][1]) + 0.1 * share
            wild = of_events(settings, 20 + place, numbers) < 1 / WILD
            value = field.low + share * (field.high - field.low)
            values.append((np.round(np.where(wild, field.high * 3 + 1, value), 3), share))
        rows = zip(*(value for value, _ in values), strict=True)
        texts = [_message(int(number), SHAPES[shape], row) for number, row in zip(numbers, rows, strict=True)]
        return {"observations": {"station": [f"st{n}" for n in station], "id": numbers, "senml": texts}}

    return make


def _message(number: int, fields: tuple[MeasuredField, ...], values: tuple[float, ...]) -> str:
    entries = ({"n": f.name, "u": f.unit, "v": float(v)} for f, v in zip(fields, values, strict=True))
    return json.dumps({"bt": number, "e": list(entries)}, separators=(",", ":"))


def references(shape: str) -> tuple[Reference, ...]:
    """Plausible ranges; the stations that are known, and where they are; the model that predicts."""
    fields = SHAPES[shape]
    ranges = [{"n": f.name, "low": f.low, "high": f.high} for f in fields]
    known = [{"id": f"st{n}", "place": f"district {n % 7}"} for n in range(STATIONS) if n % UNKNOWN != UNKNOWN - 1]
    return (
        Reference("ranges", "n string, low double, high double", "n", lambda: ranges),
        Reference("stations", "id string, place string", "id", lambda: known),
        Reference("models", "name string, intercept double, a double, b double", "name", lambda: [first_model(shape)]),
    )


def first_model(shape: str) -> dict[str, Any]:
    """A linear model to begin with, from two measured values to the last: what TRAIN replaces."""
    x, y, *_, z = SHAPES[shape]
    a, b = (0.6 / (x.high - x.low) * (z.high - z.low), -0.3 / (y.high - y.low) * (z.high - z.low))
    return {"name": "linear", "intercept": z.low + 0.35 * (z.high - z.low) - a * x.low - b * y.low, "a": a, "b": b}


def grade(shape: str) -> Function:
    """A decision tree of depth two over two measured values."""
    x, y, *_ = SHAPES[shape]
    middle, low, high = (x.low + x.high) / 2, y.low + (y.high - y.low) / 3, y.low + (y.high - y.low) * 2 / 3

    def tree(first: pa.Array, second: pa.Array) -> pa.Array:
        warm = pc.if_else(pc.less(second, high), "GOOD", "VERY GOOD")
        return pc.if_else(pc.less(first, middle), pc.if_else(pc.less(second, low), "BAD", "AVERAGE"), warm)

    return Function(f"riot_grade_{shape}", tree, "string")


def text(sql: str, shape: str) -> str:
    """A query of the suite for a data set (`{shape}`): {0} to {4} are its fields, {high0} .. the ends of ranges."""
    sql = sql.replace("{shape}", shape)
    for place, field in enumerate(SHAPES[shape]):
        sql = sql.replace(f"{{{place}}}", field.name).replace(f"{{high{place}}}", str(field.high))
    return sql
