"""The ground a trace plays on, as a file: topology.yaml beside trace.jsonl.

    regions: ["cloud", "edge-east", "edge-west"]
    sites:
      - {"id": "t-004", "region": "edge-west", "cpu": 4.0, "kind": "edge", "lat": 52.47, "lon": 13.36}
    links:
      - {"from": "t-004", "to": "fog-01", "mbps": 1000.0, "ms": 1.2}
    devices:
      - {"id": "S41-1", "site": "t-004"}

One flow mapping a line: quick to write and read for a whole country, and good to look at in a diff. A device's site
is the one it is at when the trace starts, null if it comes later.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TextIO

import yaml

from godwit.errors import DataError, TopologyError
from godwit.ids import DeviceId, RegionId, SiteId
from godwit.model.topology import Device, Link, Site, Topology

_SECTIONS = ("regions", "sites", "links", "devices")
_KINDS = ("edge", "fog", "cloud")


def write_topology(topology: Topology, path: Path) -> None:
    """Write sites, links (child to parent as they were made) and devices."""
    with path.open("w", encoding="utf-8") as out:
        out.write(f"regions: {json.dumps(list(topology.regions))}\n")
        _section(out, "sites", (_site_fields(site) for site in topology.sites.values()))
        links = ({"from": k.a, "to": k.b, "mbps": k.mbps, "ms": k.ms} for k in topology.links.values())
        _section(out, "links", links)
        _section(out, "devices", ({"id": d.id, "site": d.site} for d in topology.devices.values()))


def _site_fields(site: Site) -> dict[str, Any]:
    return {"id": site.id, "region": site.region, "cpu": site.cpu, "kind": site.kind, "lat": site.lat, "lon": site.lon}


def _section(out: TextIO, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
    lines = [f"  - {json.dumps(row, ensure_ascii=False)}\n" for row in rows]
    out.write(f"{name}:\n" if lines else f"{name}: []\n")
    out.writelines(lines)


def read_topology(path: Path) -> Topology:
    """Read and check topology.yaml; an error names the section, the entry and the remedy."""
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except OSError as error:
        msg = f"{path}: cannot be read ({error.strerror}); it should lie beside trace.jsonl"
        raise DataError(msg) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        msg = f"{path}: not YAML: {' '.join(str(error).split())}"
        raise DataError(msg) from error
    if not isinstance(content, dict) or any(not isinstance(content.get(name, []), list) for name in _SECTIONS):
        msg = f"{path}: must hold the lists {', '.join(_SECTIONS)}"
        raise DataError(msg)
    try:
        return _parse(path, content)
    except TopologyError as error:
        msg = f"{path}: {error}"
        raise DataError(msg) from error


def _parse(path: Path, content: Mapping[str, Any]) -> Topology:
    def rows(name: str) -> list[_Row]:
        return [_Row(path, name, place, row) for place, row in enumerate(content.get(name) or [], start=1)]

    regions = {str(name) for name in content.get("regions") or []}
    sites = [_site(row, regions) for row in rows("sites")]
    links = [
        Link(SiteId(row.text("from")), SiteId(row.text("to")), row.number("mbps"), row.number("ms"))
        for row in rows("links")
    ]
    devices = [Device(DeviceId(row.text("id")), _site_or_none(row)) for row in rows("devices")]
    return Topology.of(sites, links, devices)


def _site(row: _Row, regions: set[str]) -> Site:
    region, kind = row.text("region"), row.text("kind")
    if region not in regions:
        row.fail("region", f"{region!r} is not listed under regions; add it there")
    if kind not in _KINDS:
        row.fail("kind", f"must be one of {', '.join(_KINDS)}, not {kind!r}")
    site, cpu = SiteId(row.text("id")), row.number("cpu")
    return Site(site, RegionId(region), cpu, kind=kind, lat=row.number("lat"), lon=row.number("lon"))


def _site_or_none(row: _Row) -> SiteId | None:
    return None if row.get("site") is None else SiteId(row.text("site"))


@dataclass(frozen=True)
class _Row:
    """One entry of a section, which knows its place for the error message."""

    path: Path
    section: str
    place: int
    fields: Any

    def fail(self, field: str, problem: str) -> NoReturn:
        msg = f"{self.path}: {self.section} entry {self.place}, field {field!r}: {problem}"
        raise DataError(msg)

    def get(self, field: str) -> Any:
        if not isinstance(self.fields, dict) or field not in self.fields:
            self.fail(field, "is missing; add it")
        return self.fields[field]

    def text(self, field: str) -> str:
        value = self.get(field)
        if value is None or isinstance(value, bool | list | dict) or str(value) == "":
            self.fail(field, f"must be a name, not {value!r}")
        return str(value)

    def number(self, field: str) -> float:
        value = self.get(field)
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
            self.fail(field, f"must be a number, not {value!r}")
        return float(value)
