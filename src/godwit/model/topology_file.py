"""Topologies as YAML files.

    regions: [edge-west, cloud]                     # optional; sites may then name no others
    sites:
      - {id: cloud-1, region: cloud, cpu: 64, kind: cloud, lat: 52.5, lon: 13.4, nic_in_mbps: 1000, nic_out_mbps: 1000}
      - {id: west-1, region: edge-west, cpu: 4, platforms: [spark]}
    links:
      - {from: west-1, to: cloud-1, mbps: 1000, ms: 2}
    devices:
      - {id: train-1, site: west-1, cpu: 0, mbps: 50, ms: 5}

Whatever is left out has the default of `topology.py`. A file's faults are reported all together.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from godwit.errors import TopologyError
from godwit.ids import DEFAULT_REGION, DeviceId, RegionId, SiteId
from godwit.model.topology import Device, Link, Site, Topology
from godwit.names import reserved
from godwit.validation import worded
from godwit.yaml_files import parse_yaml, read_yaml, to_yaml


def _as_name(value: object) -> object:
    """`id: 7` means the name '7'; pydantic alone would refuse it."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Name = Annotated[str, BeforeValidator(_as_name), Field(min_length=1)]
Amount = Annotated[float, Field(ge=0)]
Rate = Annotated[float, Field(gt=0)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Site(_Strict):
    id: Name
    region: Name = str(DEFAULT_REGION)
    cpu: Amount = inf
    kind: str = "edge"
    lat: Annotated[float | None, Field(ge=-90, le=90)] = None
    lon: Annotated[float | None, Field(ge=-180, le=180)] = None
    nic_in_mbps: Rate = inf
    nic_out_mbps: Rate = inf
    platforms: list[Name] = ["spark"]

    def value(self) -> Site:
        return Site(
            id=SiteId(self.id),
            region=RegionId(self.region),
            cpu=self.cpu,
            nic_in_mbps=self.nic_in_mbps,
            nic_out_mbps=self.nic_out_mbps,
            kind=self.kind,
            platforms=frozenset(self.platforms),
            lat=self.lat,
            lon=self.lon,
        )


class _Link(_Strict):
    a: Name = Field(alias="from")
    b: Name = Field(alias="to")
    mbps: Rate = inf
    ms: Amount = 0.0

    def value(self) -> Link:
        return Link(SiteId(self.a), SiteId(self.b), self.mbps, self.ms)


class _Device(_Strict):
    id: Name
    site: Name | None = None
    cpu: Amount = 0.0
    mbps: Rate = inf
    ms: Amount = 0.0

    def value(self) -> Device:
        return Device(DeviceId(self.id), SiteId(self.site) if self.site else None, self.cpu, self.mbps, self.ms)


class _File(_Strict):
    regions: list[Name] | None = None
    sites: list[_Site]
    links: list[_Link] = []
    devices: list[_Device] = []


def load_topology(source: Path | str) -> Topology:
    """The topology in a file, or in a YAML text (a string with a line break or a colon and a space in it)."""
    name, text = _read(source)
    file = _parse(name, text)
    faults = [*_unknown_regions(file), *_reserved(file)]
    try:
        topology = Topology.of(
            [s.value() for s in file.sites], [link.value() for link in file.links], [d.value() for d in file.devices]
        )
    except TopologyError as error:
        faults += [line.strip() for line in str(error).splitlines()[1:]]
    if faults:
        raise _fail(name, faults)
    return topology


def dump_topology(topology: Topology) -> str:
    """The YAML that `load_topology` reads back as the same topology."""
    content = {
        "regions": [str(r) for r in topology.regions],
        "sites": [_plain(_site_of(s)) for s in topology.sites.values()],
        "links": [
            _plain(_Link.model_validate({"from": x.a, "to": x.b, "mbps": x.mbps, "ms": x.ms}))
            for x in topology.links.values()
        ],
        "devices": [
            _plain(_Device(id=d.id, site=d.site, cpu=d.cpu, mbps=d.mbps, ms=d.ms)) for d in topology.devices.values()
        ],
    }
    present = {key: value for key, value in content.items() if value or key == "sites"}
    return to_yaml(present)


def _site_of(site: Site) -> _Site:
    return _Site(
        id=site.id,
        region=site.region,
        cpu=site.cpu,
        kind=site.kind,
        lat=site.lat,
        lon=site.lon,
        nic_in_mbps=site.nic_in_mbps,
        nic_out_mbps=site.nic_out_mbps,
        platforms=sorted(site.platforms),
    )


def _plain(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(by_alias=True, exclude_defaults=True)


def _read(source: Path | str) -> tuple[str, Any]:
    """(how messages call it, its content)"""
    if isinstance(source, str) and ("\n" in source or ": " in source):
        return "topology", parse_yaml(source, "topology", TopologyError)
    return str(source), read_yaml(Path(source), TopologyError, "the topology file ")


def _parse(name: str, content: Any) -> _File:
    if not isinstance(content, dict):
        raise _fail(name, ["the file must be a mapping with the keys sites, links, devices and regions"])
    try:
        return _File.model_validate(content)
    except ValidationError as error:
        raise _fail(name, worded(error.errors(), _File)) from None


def _unknown_regions(file: _File) -> Iterator[str]:
    if file.regions is None:
        return
    for i, site in enumerate(file.sites):
        if site.region not in file.regions:
            known = ", ".join(file.regions) or "none"
            yield f"sites[{i}].region: '{site.region}' is not one of the regions ({known}); add it there or correct it"


def _reserved(file: _File) -> Iterator[str]:
    problems = [reserved("site", s.id) for s in file.sites] + [reserved("device", d.id) for d in file.devices]
    return (problem for problem in problems if problem is not None)


def _fail(name: str, faults: list[str]) -> TopologyError:
    lines = "\n  ".join(faults)
    return TopologyError(f"{name} does not hold together:\n  {lines}")
