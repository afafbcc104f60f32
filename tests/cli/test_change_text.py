"""Topology changes as lines: every form means its change, everything else is refused with examples."""

from __future__ import annotations

import pytest

from godwit.errors import TopologyError
from godwit.ids import DeviceId, RegionId, SiteId
from godwit.model.change_text import as_changes, move_text, parse_change, parse_changes
from godwit.model.changes import (
    CapacityChanged,
    Change,
    DeviceAdded,
    DeviceMoved,
    DeviceRemoved,
    LinkAdded,
    LinkRemoved,
    SiteAdded,
    SiteFailed,
    SiteRemoved,
)
from godwit.model.topology import Device, Link, Site

FORMS: dict[str, Change] = {
    "device t1 -> east": DeviceMoved(DeviceId("t1"), SiteId("east")),
    "device t1 -> nowhere": DeviceMoved(DeviceId("t1"), None),
    "device t9 added at west": DeviceAdded(Device(DeviceId("t9"), SiteId("west"))),
    "device t9 added": DeviceAdded(Device(DeviceId("t9"))),
    "device t9 removed": DeviceRemoved(DeviceId("t9")),
    "site w3 added in edge-west cpu 4": SiteAdded(Site(SiteId("w3"), RegionId("edge-west"), 4.0)),
    "site w3 added": SiteAdded(Site(SiteId("w3"))),
    "site w3 removed": SiteRemoved(SiteId("w3")),
    "site w3 failed": SiteFailed(SiteId("w3")),
    "site w3 cpu 8.5": CapacityChanged(SiteId("w3"), 8.5),
    "link a - b added mbps 1000 ms 2": LinkAdded(Link(SiteId("a"), SiteId("b"), 1000.0, 2.0)),
    "link a - b added": LinkAdded(Link(SiteId("a"), SiteId("b"))),
    "link a - b removed": LinkRemoved(SiteId("a"), SiteId("b")),
}


@pytest.mark.parametrize("text", FORMS)
def test_forms(text: str) -> None:
    assert parse_change(text) == FORMS[text]
    assert parse_change(f"  {text.replace(' ', '   ')} ") == FORMS[text]


@pytest.mark.parametrize("text", ["device t1 east", "site", "link a b removed", "t1 -> east", "site w3 cpu many", ""])
def test_anything_else_is_refused_with_examples(text: str) -> None:
    with pytest.raises(TopologyError, match="write for example"):
        parse_change(text)


def test_lines_with_comments() -> None:
    lines = ["# the morning", "", "device t1 -> east", "site w3 failed"]
    assert parse_changes(lines) == [FORMS["device t1 -> east"], FORMS["site w3 failed"]]


def test_moves_are_written_as_they_are_read() -> None:
    for site in ("east", None):
        assert parse_change(move_text("t1", site)) == DeviceMoved(DeviceId("t1"), SiteId(site) if site else None)


def test_changes_are_given_as_people_write_them_or_as_values() -> None:
    moved = DeviceMoved(DeviceId("t1"), SiteId("east"))
    assert as_changes("device t1 -> east") == as_changes(moved) == as_changes([moved]) == (moved,)
    lines = "# two\ndevice t1 -> east\n\nsite west failed"
    assert as_changes(lines) == as_changes(["device t1 -> east", SiteFailed(SiteId("west"))])
