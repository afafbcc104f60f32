"""Seeded rows: the same seed gives the same rows, and `columns` says what each column is drawn from."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

#: where the event time of generated rows begins
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)

Row = dict[str, Any]
Draw = Callable[[Random], Any]


def readings(
    device: str,
    count: int,
    *,
    rng: Random,
    since: float = 0.0,
    within: float = 3.0,
    device_column: str = "device",
    time_column: str = "ts",
    columns: Mapping[str, Draw] | None = None,
) -> list[Row]:
    """`count` rows of one device whose event times lie in [since, since + within) seconds after START, in any order.

    Without `columns` each row has one column `v`, a small integer.
    """
    columns = {"v": lambda r: r.randrange(10)} if columns is None else columns
    return [
        {
            device_column: device,
            **{name: draw(rng) for name, draw in columns.items()},
            time_column: at(since + rng.random() * within),
        }
        for _ in range(count)
    ]


def at(second: float) -> dt.datetime:
    """So many seconds after START."""
    return START + dt.timedelta(seconds=second)
