"""Serving towers become a tree of sites in regions, and topology.yaml reads back as it was."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from godwit.errors import ConfigError, DataError
from godwit.mobility.hierarchy import Hierarchy, build_topology, write_topology
from godwit.model.topology_file import load_topology


@pytest.mark.parametrize(("towers", "regions"), [(1, 2), (3, 1), (40, 2), (200, 3), (200, 5)])
def test_a_hierarchy_is_a_tree_with_the_cloud_on_top(tmp_path: Path, towers: int, regions: int) -> None:
    rng = np.random.default_rng(towers)
    lat, lon = rng.uniform(52, 53, towers), rng.uniform(13, 14, towers)
    ids = [f"t{i}" for i in range(towers)]
    topology = build_topology(ids, lat, lon, {"d": "t0", "e": None}, Hierarchy(regions=regions))
    kinds = {site.id: site.kind for site in topology.sites.values()}
    assert sum(kind == "edge" for kind in kinds.values()) == towers
    assert {"cloud"} == {site for site, kind in kinds.items() if kind == "cloud"}
    assert len(topology.links) == len(topology.sites) - 1  # with a path from everywhere: a tree
    assert all(topology.path(site, "cloud") for site in topology.sites)
    for link in topology.links.values():
        assert (kinds[link.a], kinds[link.b]) in {("edge", "fog"), ("fog", "cloud")}
        if kinds[link.b] == "fog":
            assert topology.sites[link.a].region == topology.sites[link.b].region
    assert len(topology.regions) == min(regions, towers) + 1
    write_topology(topology, tmp_path / "t.yaml")
    assert load_topology(tmp_path / "t.yaml") == topology


def test_regions_have_about_as_many_towers_each() -> None:
    rng = np.random.default_rng(1)
    lat, lon = rng.uniform(52, 53, 600), rng.uniform(13, 14, 600)
    topology = build_topology([f"t{i}" for i in range(600)], lat, lon, {}, Hierarchy(regions=3))
    sizes = [sum(s.kind == "edge" and s.region == r for s in topology.sites.values()) for r in topology.regions]
    assert max(sizes) < 300
    assert sorted(topology.regions) == ["cloud", "edge-east", "edge-mid", "edge-west"]


def test_nobody_served_is_an_error() -> None:
    with pytest.raises(DataError, match="no tower serves"):
        build_topology([], np.array([]), np.array([]), {})
    with pytest.raises(ConfigError, match="needs a region"):
        build_topology(["a"], np.array([1.0]), np.array([1.0]), {}, Hierarchy(regions=0))
