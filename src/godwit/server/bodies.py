"""What requests say, checked field by field: anything else is refused with the place."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


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


class NewQuery(RequestBody):
    name: str = Field(max_length=200)
    sql: str = Field(max_length=100_000)
    #: the site where results leave
    sink: str | None = None


class NewText(RequestBody):
    """The same SQL with other literals."""

    sql: str = Field(max_length=100_000)


class NewPlan(RequestBody):
    """Another plan for a query; what is left out stays as it is."""

    #: "(b JOIN c) JOIN a"
    order: str = Field(default="", max_length=10_000)
    partial: bool | None = None
    filters_up: list[str] = Field(default_factory=list, max_length=100)
    filters_down: list[str] = Field(default_factory=list, max_length=100)
    strategy: str = Field(default="auto", max_length=100)


class Connection(RequestBody):
    """Where a device is, and what it feeds; what is left out stays as it is."""

    site: str | None = None
    streams: list[str] = Field(default_factory=list, max_length=1000)


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


#: a key of one column, or of several
MovedKey = str | int | list[str | int]


class KeysToMove(RequestBody):
    """Keys of a query, one by one or as a pattern ("S41-*"; "*": the rest), and where they go."""

    keys: list[MovedKey] = Field(min_length=1, max_length=100_000)
    to: str = Field(max_length=200)
    strategy: str = Field(default="auto", max_length=100)
    operator: int | None = Field(default=None, ge=0)
