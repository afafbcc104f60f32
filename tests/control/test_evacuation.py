"""A region that is silent is left by what others feed and has room elsewhere; the rest stays."""

from __future__ import annotations

import pytest

from godwit.control.control_plane import ControlPlane
from godwit.control.events import PlacedByHand, Publish, RegionEvacuated, RegionLost
from godwit.ids import DeviceId, QueryId, RegionId, SiteId, StreamId
from godwit.model.instances import InstanceId
from godwit.model.plan import Column, Stream
from godwit.model.topology import Device, Link, Site, Topology
from godwit.sql import compile_query

TRAINS = Stream(StreamId("trains"), (Column("line", "string"), Column("ts", "timestamp")), "ts")
SQL = "SELECT line, count(*) AS n, window.end AS until FROM trains GROUP BY line, window(ts, '10 seconds')"


@pytest.fixture
def plane() -> ControlPlane:
    """west and east below cloud, a device at each; the windows were put on west by hand."""
    sites = [Site(SiteId("west"), RegionId("w")), Site(SiteId("east"), RegionId("e"))]
    sites.append(Site(SiteId("cloud"), RegionId("cloud"), cpu=1000.0, kind="cloud"))
    links = [Link(SiteId(edge), SiteId("cloud"), ms=5) for edge in ("west", "east")]
    devices = [Device(DeviceId("a"), SiteId("west")), Device(DeviceId("b"), SiteId("east"))]
    feeds = {TRAINS.id: [DeviceId("a"), DeviceId("b")]}
    made = ControlPlane(Topology.of(sites, links, devices), streams={TRAINS.id: TRAINS}, feeds=feeds)
    made.submit(compile_query(SQL, {TRAINS.id: TRAINS}, QueryId("q")))
    made.settle()
    made.handle(PlacedByHand({_windows(made): SiteId("west")}, "by hand"))
    made.settle()
    return made


def _windows(plane: ControlPlane) -> InstanceId:
    operators = plane.planner.rows.queries[QueryId("q")].shape.plan.operators
    (index,) = [i for i, operator in enumerate(operators) if type(operator).__name__ == "Aggregate"]
    return InstanceId(QueryId("q"), index)


def test_what_others_feed_leaves_and_hands_over(plane: ControlPlane) -> None:
    windows = _windows(plane)
    assert plane.deployment.placement[windows] == "west"
    plane.handle(RegionLost(RegionId("w")))
    (told,) = [one for one in plane.handle(RegionEvacuated(RegionId("w"))) if isinstance(one, Publish)]
    assert plane.deployment.placement[windows] == "cloud"
    assert [(move.source, move.target) for move in told.moves] == [("w", "cloud")]
    assert plane.coordinator.unpublished is False


def test_what_only_its_own_devices_feed_stays_and_nothing_is_parked(plane: ControlPlane) -> None:
    before = dict(plane.deployment.placement)
    plane.handle(RegionLost(RegionId("e")))
    plane.handle(RegionEvacuated(RegionId("e")))
    assert dict(plane.deployment.placement) == before
    assert not plane.planner.parked()


def test_what_has_no_room_elsewhere_stays(plane: ControlPlane) -> None:
    for region in ("cloud", "w"):
        plane.handle(RegionLost(RegionId(region)))
    plane.handle(RegionEvacuated(RegionId("w")))
    assert plane.deployment.placement[_windows(plane)] == "west"
    assert not plane.planner.parked()
