"""What users get told when they ask a fleet for something that cannot be."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from godwit.api.fleet import Fleet
from godwit.api.operations import _difference
from godwit.errors import (
    ConfigError,
    DeploymentError,
    GodwitError,
    SourceError,
    TopologyError,
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
)
from godwit.ids import DeviceId, QueryId, SiteId
from godwit.model.changes import DeviceMoved
from godwit.sql import compile_query
from tests.region.world import SCHEMA, START, three_regions
from tests.sql.streams import STREAMS


@pytest.fixture
def fleet(open_fleet: Callable[..., Fleet]) -> Fleet:
    fleet = open_fleet()
    fleet.topology.add(three_regions())
    fleet.stream("passengers", SCHEMA, device="train")
    fleet.device("t0", site="west", streams=["passengers"])
    return fleet


OTHER = "a int, ts timestamp"
UNBOUNDED = "SELECT count(*) FROM passengers GROUP BY train"
UNTYPED = "SELECT map(train, 1) + 1 AS x, ts FROM passengers"
FILTER = "SELECT train, ts FROM passengers"
STRANGER = [{"train": "t9", "ts": START}]
TO_THE_MOON = [DeviceMoved(DeviceId("t0"), SiteId("moon"))]

CASES: list[tuple[str, type[GodwitError], str, Callable[[Fleet], object]]] = [
    ("disorder", ConfigError, "disorder='soon'", lambda f: f.stream("s", OTHER, disorder="soon")),
    ("time column", SourceError, "no column 'when'", lambda f: f.stream("s", OTHER, time="when")),
    ("declared twice", SourceError, "declared already", lambda f: f.stream("passengers", OTHER, site="west")),
    ("unknown stream", UnknownNameError, "remedy", lambda f: f.submit("SELECT a FROM passenger", "q")),
    ("unbounded", UnsupportedError, "remedy", lambda f: f.submit(UNBOUNDED, "q")),
    ("types", TypeMismatchError, "remedy", lambda f: f.submit(UNTYPED, "q")),
    (
        "digits",
        TypeMismatchError,
        "38",
        lambda f: f.submit("SELECT CAST(coach AS decimal(99, 2)) AS d FROM passengers", "q"),
    ),
    ("no SQL", ConfigError, "not NoneType", lambda f: f.submit(None, "q")),  # type: ignore[arg-type]
    ("emit", ConfigError, "choose 'final' or 'changes'", lambda f: f.submit(FILTER, "q", emit="change")),  # type: ignore[arg-type]
    ("order", ConfigError, "choose 'device' or 'none'", lambda f: f.submit(FILTER, "q", order="some")),  # type: ignore[arg-type]
    ("no such query", DeploymentError, "no query 'q'; running: none", lambda f: f.withdraw(QueryId("q"))),
    ("no such site", TopologyError, "not a site", lambda f: f.change(TO_THE_MOON)),
    ("rows nobody can take", SourceError, "is not declared", lambda f: f.push("passengers", STRANGER)),
    ("which stream", SourceError, "name one of them", lambda f: f.stream_of(DeviceId("t0"), "buses")),
]


@pytest.mark.parametrize(("kind", "words", "act"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_the_message_names_the_place_and_the_remedy(
    fleet: Fleet, kind: type[GodwitError], words: str, act: Callable[[Fleet], object]
) -> None:
    before = fleet.deployment
    with pytest.raises(kind) as told:
        act(fleet)
    assert words in str(told.value)
    assert fleet.deployment.queries == before.queries


def test_a_name_can_be_taken_once(fleet: Fleet) -> None:
    fleet.submit("SELECT train, ts FROM passengers WHERE boarded > 1", "q")
    with pytest.raises(DeploymentError, match="already"):
        fleet.submit("SELECT train, ts FROM passengers WHERE boarded > 2", "q")


def test_what_an_altered_query_has_otherwise_is_named() -> None:
    texts = ("SELECT train, coach, ts FROM passengers", "SELECT train, ts FROM passengers")
    before, after = (compile_query(sql, STREAMS, QueryId("q")) for sql in texts)
    said = "Scan passengers as passengers (train, coach, ts) became Scan passengers as passengers (train, ts)"
    assert _difference(before, after) == said
