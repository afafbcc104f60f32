"""A site fails in mid-window, with rows on their way to it: nothing is lost, and the story says what moved."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from godwit.api.fleet import Fleet
from godwit.cli.history import read
from godwit.control.reconfigurations import ReconfigurationRecord
from godwit.ids import RegionId, SiteId
from godwit.model.changes import LinkAdded, SiteAdded, SiteFailed
from godwit.model.topology import Link, Site
from tests.region.world import QUERIES, Action, Crash, Push, Step, World

ROWS: list[Action] = [Push(train, second, 6) for second in range(0, 30, 6) for train in range(4)]
QUERY_NAMES = ("tumbling", "session", "join")


def second_cloud(world: World) -> None:
    second = Site(SiteId("second"), RegionId("second"), cpu=500.0, kind="cloud")
    links = [LinkAdded(Link(second.id, SiteId(edge), ms=9)) for edge in ("west", "east")]
    world.fleet.change([SiteAdded(second), *links])


@pytest.mark.parametrize("strategy", ["delta", "recreate-best"])
def test_a_site_that_fails_in_mid_window(open_fleet: Callable[..., Fleet], strategy: str) -> None:
    """The stateful instances are at the cloud when it fails, and go to a second one, in another region."""
    queries = {name: QUERIES[name] for name in QUERY_NAMES}
    world = World(partial(open_fleet, state=strategy), queries, sinks_at=None)
    second_cloud(world)
    world.play([*ROWS[:8], Step((0, 1, 2, 3, 4, 5)), *ROWS[8:10]])  # rows have left the edge, and not been read yet
    world.fleet.change([SiteFailed(SiteId("cloud"))])
    world.play([Step((0, 3)), *ROWS[10:14], Crash("staged"), *ROWS[14:]])
    assert [str(v) for v in world.finish() if not v.equal] == []
    assert {str(world.fleet.deployment.region_of(n)) for n in world.fleet.deployment.placement.values()} >= {"second"}


def test_the_story_tells_bytes_and_times(open_fleet: Callable[..., Fleet]) -> None:
    world = World(open_fleet, {"tumbling": QUERIES["tumbling"]}, sinks_at=None)
    second_cloud(world)
    world.play(ROWS[:8])
    world.fleet.process_available()
    world.fleet.change([SiteFailed(SiteId("cloud"))])
    world.fleet.process_available()
    records = [r for r in read(world.fleet.root) if r["cause"] == "site cloud failed"]
    assert len(records) == 1
    story = ReconfigurationRecord.from_json({key: value for key, value in records[0].items() if key != "at"})

    (moved,) = story.migrations
    assert (moved.bytes or 0) > 0
    assert (moved.seconds or 0) > 0
    assert set(story.phases) >= {"plan", "publish", "acknowledge", "state"}
    assert story.phases["state"] >= story.phases["acknowledge"] > 0
    text = story.text()
    assert f"{moved.bytes:,} bytes in" in text
    assert "acknowledge" in text
