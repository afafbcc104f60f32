"""What requests say, checked field by field: anything else is refused with the place."""

from __future__ import annotations

import datetime as dt
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

#: a key of one column, or of several
MovedKey = str | int | list[str | int]


class RequestBody(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NewStream(RequestBody):
    name: str = Field(max_length=200)
    #: "train string, boarded int, ts timestamp"
    columns: str = Field(max_length=20_000)
    time: str = "ts"
    device: str | None = None
    disorder: str | None = None
    idle: str | None = None
    ahead: str | None = "1 day"
    site: str | None = None
    mbps: float | None = Field(default=None, gt=0)


class NewColumns(RequestBody):
    """Columns that a stream has more from now on: "color string, weight double"."""

    add: str = Field(max_length=20_000)


class NewQuery(RequestBody):
    name: str = Field(max_length=200)
    sql: str = Field(max_length=100_000)
    #: the site where results leave
    sink: str | None = None
    #: "changes": what windows are so far, as rows that replace each other
    emit: Literal["final", "changes"] = "final"
    #: "stateless" joins keep no intermediate rows, so that their order is changed in one epoch
    joins: Literal["materialised", "stateless"] = "materialised"
    #: "none": results of a device that has moved on do not wait for those of the region that it has left
    order: Literal["device", "none"] = "device"


class NewText(RequestBody):
    """The same SQL with other literals."""

    sql: str = Field(max_length=100_000)


class Connection(RequestBody):
    """Where a device is, and what it feeds; what is left out stays as it is."""

    site: str | None = None
    streams: list[str] = Field(default_factory=list, max_length=1000)


class Position(RequestBody):
    """Where a device is, in degrees; it is attached to the nearest site, left for one nearer by the hysteresis only."""

    lat: float = Field(ge=-90, le=90)
    lon: float = Field(ge=-180, le=180)
    hysteresis_m: float | None = Field(default=None, ge=0)


class SiteOfDevice(RequestBody):
    site: str = Field(max_length=200)


class RowsTaken(BaseModel):
    """What has become of rows: durable now; `taken` is false if this sequence number had come before."""

    taken: bool
    #: that were taken now
    rows: int
    #: that did not fit the stream, and the first of them, each with the reason; left out if all fit
    dead: int = 0
    dead_letters: list[dict[str, Any]] = []
    #: columns of the rows that the stream has not, each with what to say of it; left out if there are none
    unknown_columns: dict[str, str] = {}


class Clocks(RequestBody):
    """Device -> how far it has come: ISO 8601 text, or microseconds since 1970."""

    clocks: dict[str, dt.datetime | int] = Field(min_length=1, max_length=10_000)


class NewTable(RequestBody):
    name: str = Field(max_length=200)
    columns: str = Field(max_length=20_000)
    key: list[str] = Field(min_length=1, max_length=100)
    #: how far into the past a change may reach
    disorder: str | None = None
    site: str | None = None


class TableKeys(RequestBody):
    """Keys of rows to take out: a value each, or a list where the key has several columns."""

    keys: list[MovedKey] = Field(min_length=1, max_length=100_000)


class PlanOrder(RequestBody):
    """The plan that a query has from now on; what is left out stays as it is."""

    #: in which order its streams are joined: "(b JOIN c) JOIN a"
    order: str = Field(default="", max_length=10_000)
    partial: bool | None = None
    filters_up: list[str] = Field(default_factory=list, max_length=100)
    filters_down: list[str] = Field(default_factory=list, max_length=100)
    strategy: str = Field(default="auto", max_length=100)
    #: of pause-drain-resume: let windows run out
    run_out: bool = False
    #: queries that share its joins keep their plan
    alone: bool = False


class TopologyText(RequestBody):
    """A topology file's content (YAML): what is not there yet is added."""

    yaml: str = Field(max_length=5_000_000)


class TopologyChanges(RequestBody):
    """Changes as people write them: "device t1 -> east", "site west-3 failed"."""

    changes: list[str] = Field(min_length=1, max_length=10_000)


class PlacementHints(RequestBody):
    """`query/operator` -> site."""

    placement: dict[str, str] = Field(min_length=1, max_length=10_000)
    cause: str = Field(default="moved by hand", max_length=500)


class Question(RequestBody):
    """What would become of a query, and of a change."""

    sql: str | None = Field(default=None, max_length=100_000)
    changes: list[str] = Field(default_factory=list, max_length=10_000)


class KeysToMove(RequestBody):
    """Keys of a query, one by one or as a pattern ("S41-*"; "*": the rest), and where they go."""

    keys: list[MovedKey] = Field(min_length=1, max_length=100_000)
    to: str = Field(max_length=200)
    strategy: str = Field(default="auto", max_length=100)
    operator: int | None = Field(default=None, ge=0)
