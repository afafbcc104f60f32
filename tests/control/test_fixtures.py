"""Cases as data: where each rule puts the running example, and what the paper's example (Figures 2 and 6) becomes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from godwit.control.control_plane import ControlPlane
from godwit.control.events import Publish
from godwit.errors import GodwitError
from godwit.ids import DeviceId, SiteId
from godwit.model.change_text import parse_changes
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


@pytest.mark.parametrize("case", cases("placements/good"))
def test_rules_place_as_drawn(case: dict[str, Any]) -> None:
    made = plane(case)
    assert {str(name): node for name, node in made.deployment.placement.items()} == case["placement"]
    assert dict(made.deployment.parked) == case.get("parked", {})
    assert made.planner.violations() == []


@pytest.mark.parametrize("case", cases("placements/bad"))
def test_what_cannot_be_placed_says_why(case: dict[str, Any]) -> None:
    """`error`: refused with these words; `parked`: submitted, not running, for this reason, and nothing is invalid."""
    if "error" in case:
        with pytest.raises(GodwitError, match=re.escape(case["error"])):
            plane(case)
        return
    parked = plane(case).deployment.parked
    assert set(parked) == set(case["parked"])
    for query, reason in case["parked"].items():
        assert reason in parked[query]


@pytest.mark.parametrize("case", cases("diffs/bad"))
def test_changes_that_do_not_fit_are_refused_and_change_nothing(case: dict[str, Any]) -> None:
    made = plane(case)
    before = made.deployment
    with pytest.raises(GodwitError, match=re.escape(case["error"])):
        made.change(parse_changes(case["changes"]))
    assert made.deployment == before


@pytest.mark.parametrize("case", cases("diffs/good"))
def test_changes_become_contexts_as_written(case: dict[str, Any]) -> None:
    made = plane(case)
    changes = parse_changes(case["changes"])
    assert made.explain_change(changes).splitlines() == case["explained"].splitlines()
    affected = "affects" in case["explained"]
    assert any(isinstance(one, Publish) and bool(one.contexts) for one in made.change(changes)) == affected
    assert made.planner.violations() == []
