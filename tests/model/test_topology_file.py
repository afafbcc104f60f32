"""Topology files: good ones come back as they were written, bad ones name file, place and remedy, all at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from godwit.errors import TopologyError
from godwit.ids import DeviceId, RegionId, SiteId
from godwit.model.topology import Device, Link, Site, Topology
from godwit.model.topology_file import dump_topology, load_topology
from godwit.names import fault

FIXTURES = Path(__file__).parent.parent / "fixtures" / "topologies"


@pytest.mark.parametrize("path", sorted((FIXTURES / "good").glob("*.yaml")), ids=lambda p: p.stem)
def test_good_files_survive_a_round_trip(path: Path) -> None:
    topology = load_topology(path)
    assert topology.sites
    assert load_topology(dump_topology(topology)) == topology
    assert load_topology(str(path)) == topology


def test_what_a_file_says() -> None:
    topology = load_topology(FIXTURES / "good" / "ring.yaml")
    assert topology.sites[SiteId("west-2")].nic_in_mbps == 100
    assert topology.sites[SiteId("east-1")].platforms == {"spark", "flink"}
    assert topology.regions == ("cloud", "edge-east", "edge-west")
    assert topology.devices[DeviceId("train-1")] == Device(DeviceId("train-1"), SiteId("west-1"), 1, 50, 5)
    assert topology.devices[DeviceId("train-2")].site is None
    assert topology.links[frozenset((SiteId("west-2"), SiteId("cloud-1")))].ms == 20


@pytest.mark.parametrize("path", sorted((FIXTURES / "bad").glob("*.yaml")), ids=lambda p: p.stem)
def test_bad_files_say_everything_that_is_wrong(path: Path) -> None:
    expected = [
        line.removeprefix("# expect: ") for line in path.read_text().splitlines() if line.startswith("# expect")
    ]
    with pytest.raises(TopologyError) as caught:
        load_topology(path)
    assert expected
    for part in expected:
        assert part in str(caught.value)
    assert path.name in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match=r"cannot read the topology file .*nowhere\.yaml"):
        load_topology(tmp_path / "nowhere.yaml")


def test_a_binary_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "bin.yaml").write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises(TopologyError, match="UTF-8"):
        load_topology(tmp_path / "bin.yaml")


amounts = st.one_of(st.just(float("inf")), st.floats(0.5, 1e6, allow_nan=False))


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    usable = st.text("ab-_ :#'é0", min_size=1).filter(lambda name: fault("site", name) is None)
    names = draw(st.lists(usable.filter(lambda name: not name.startswith("__")), unique=True, min_size=1, max_size=5))
    sites = [
        Site(
            SiteId(name),
            RegionId(draw(st.sampled_from(["main", "no", "1"]))),
            cpu=draw(amounts),
            kind=draw(st.sampled_from(["edge", "cloud"])),
            lat=draw(st.none() | st.floats(-90, 90)),
            platforms=frozenset(draw(st.sets(st.sampled_from(["spark", "flink"]), min_size=1))),
        )
        for name in names
    ]
    pairs = [(a, b) for i, a in enumerate(names) for b in names[:i]]
    links = [Link(SiteId(a), SiteId(b), draw(amounts), draw(st.floats(0, 99))) for a, b in pairs if draw(st.booleans())]
    homes = st.none() | st.sampled_from(names)
    devices = [
        Device(DeviceId(f"device {i}"), SiteId(home) if home is not None else None, mbps=draw(amounts))
        for i, home in enumerate(draw(st.lists(homes, max_size=4)))
    ]
    return Topology.of(sites, links, devices)


@given(topologies())
@settings(deadline=None)
def test_any_topology_survives_a_round_trip(topology: Topology) -> None:
    assert load_topology(dump_topology(topology)) == topology
