"""Cases as data: where each rule puts the running example, and what the paper's example (Figures 2 and 6) becomes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from godwit.control.control_plane import ControlPlane
from godwit.control.events import Publish
from godwit.control.markers import FlushAndClose, Start, process
from godwit.ids import DeviceId, DqpId, SiteId
from godwit.model.changes import DeviceMoved
from godwit.model.topology import Device, Link, Site, Topology
from tests.control.worlds import STREAMS, Settled, aggregate, join, select

FIXTURES = Path(__file__).parents[1] / "fixtures"
QUERIES = {"aggregate": aggregate, "join": join, "select": select}


def cases(folder: str) -> list[Any]:
    return [pytest.param(yaml.safe_load(p.read_text()), id=p.stem) for p in sorted((FIXTURES / folder).glob("*.yaml"))]


def plane(case: dict[str, Any]) -> ControlPlane:
    sites = [Site(SiteId(name), cpu=float(cpu)) for name, cpu in case["sites"].items()]
    links = [Link(*map(SiteId, pair.split(" - "))) for pair in case["links"]]
    devices = [Device(DeviceId(name), SiteId(site)) for name, site in case["devices"].items()]
    feeds = {stream: tuple(map(DeviceId, names)) for stream, names in case["feeds"].items()}
    made = Settled(
        Topology.of(sites, links, devices),
        rule=case["rule"],
        streams=STREAMS,
        feeds=feeds,  # type: ignore[arg-type]
    )
    for name, kind in case["queries"].items():
        made.submit(QUERIES[kind](name), SiteId(case["sink"]))
    return made


@pytest.mark.parametrize("case", cases("placements"))
def test_rules_place_as_drawn(case: dict[str, Any]) -> None:
    made = plane(case)
    assert dict(made.deployment.placement) == case["placement"]
    assert dict(made.deployment.parked) == case.get("parked", {})
    assert made.planner.violations() == []


@pytest.mark.parametrize("case", cases("diffs"))
def test_changes_become_contexts_as_written(case: dict[str, Any]) -> None:
    made = plane(case)
    change = [DeviceMoved(DeviceId(device), SiteId(site)) for device, site in case["moves"].items()]
    assert made.explain_change(change).splitlines() == case["explained"].splitlines()
    assert any(isinstance(one, Publish) for one in made.change(change))
    assert made.planner.violations() == []


def test_what_the_sub_plans_of_the_papers_example_do_when_the_marker_comes() -> None:
    """Figure 6: N5 updates to hand its state over and then drains, N8 and N3 update, N7 passes the marker on."""
    made = plane(yaml.safe_load((FIXTURES / "diffs" / "train_moves.yaml").read_text()))
    told = made.change([DeviceMoved(DeviceId("d2"), SiteId("n6"))])
    marker = next(one.marker for one in told if isinstance(one, Publish))
    assert process(marker, DqpId("n5#1"), 1)[:-1] == (FlushAndClose(DqpId("n5#1"), 1),)
    assert process(marker, DqpId("d2#1"), 1)[:-1] == (FlushAndClose(DqpId("d2#1"), 1), Start(DqpId("d2#1"), 2))
    assert len(process(marker, DqpId("d1#1"), 1)) == 1
    assert len(process(marker, DqpId("d2#1"), 2)) == 1  # it has been there already
