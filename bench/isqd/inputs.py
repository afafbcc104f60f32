"""The published inputs: a folder becomes a trace to play and the ground it is played on.

NebulaStream's coordinator (node 1) is the root; nodes without a parent hang at it or, where every node has one (full
graph, ring), the first does. What is missing upstream is made by the pattern of what is there: with every batch the
next sources of each query move one site on. `tests/bench` checks the pattern against every published file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from godwit.ids import DeviceId, RegionId, SiteId
from godwit.mobility.nebula import FIXED, GROUPS, UPDATES, read_nebula
from godwit.mobility.trace import Trace
from godwit.model.topology import Device, Link, Site, Topology

ROOT = SiteId("1")
CLOUD = RegionId("cloud")
#: the edge's sites are shared out among so many regions
EDGE_REGIONS = ("west", "east")
#: published updates lie so far apart
STEP_MS = 1000
GENERATED = "generated"


@dataclass(frozen=True)
class Cut:
    """How much of an experiment is played, in seconds: calm, changes, calm; and how far changes lie apart."""

    calm: float = 20.0
    changes: float = 120.0
    tail: float = 10.0
    every: float = 1.0

    @property
    def total(self) -> float:
        return self.calm + self.changes + self.tail


@dataclass(frozen=True)
class Stage:
    """What is played."""

    name: str
    trace: Trace
    topology: Topology
    #: the devices of each query, in the order of their numbers
    groups: tuple[tuple[str, ...], ...]
    #: how many batches of changes there are, and whether they come from the published file
    batches: int
    published: bool


def data() -> Path:
    """Where the published folders are; the environment variable GODWIT_DATA may name another place."""
    beside = Path(__file__).parents[2].parent / "shared" / "data"
    return Path(os.environ.get("GODWIT_DATA", beside)) / "isqd"


def stage(folder: Path, cut: Cut, work: Path, ring: bool = False) -> Stage:
    """Read a published folder; where it lacks updates, or has too few for the cut, they are made first.

    `ring`: its sites are joined in a ring, the first at the root (the paper's circular topology is not published).
    """
    needed = round(cut.changes / cut.every)
    whole = _complete(folder, needed, work)
    files = read_nebula(whole, lead_ms=round(cut.calm * 1000), pace=cut.every * 1000 / STEP_MS)
    end = (cut.calm + cut.changes) * 1000
    events = tuple(e for e in files.trace.events if e.t < end)
    trace = Trace(round(cut.total * 1000), events, source=str(folder))
    groups: dict[str, list[str]] = {}
    for device in sorted(files.groups, key=int):
        groups.setdefault(files.groups[device][0], []).append(device)
    ground = grounded(ringed(files.topology) if ring else files.topology, trace.initial())
    batches = len({e.t for e in events if e.t > 0})
    return Stage(folder.name, trace, ground, tuple(map(tuple, groups.values())), batches, whole == folder)


def _complete(folder: Path, needed: int, work: Path) -> Path:
    """The folder itself, or a copy of it with as many updates as are needed, made by the pattern."""
    there = (folder / f"{UPDATES}.gz").exists()
    if there and needed <= _published_batches(folder):
        return folder
    made = work / GENERATED / folder.parent.name / folder.name
    made.mkdir(parents=True, exist_ok=True)
    groups = json.loads((folder / GROUPS).read_text())
    for name in (FIXED, GROUPS):
        (made / name).write_text((folder / name).read_text())
    (made / UPDATES).write_text(json.dumps(updates(groups, movers(folder.name), max(needed, 120))))
    return made


def _published_batches(folder: Path) -> int:
    return len({e.t for e in read_nebula(folder, lead_ms=1).trace.events if e.t > 0})


def movers(name: str) -> int:
    """How many sources of each query move at a time: 8_src_4_change_per_query, 4src_2change_tree."""
    change = name.split("change")[0].rstrip("_")
    return int(change.rsplit("src", 1)[1].strip("_"))


def updates(groups: dict[str, list[int]], moving: int, batches: int) -> dict[str, Any]:
    """The published pattern: the next `moving` sources of each query move one site down, round and round.

    Sources are numbered on from the sites; the first query's sources begin at the first site, and so on.
    """
    sources = sorted(map(int, groups))
    count = len({str(group) for group in groups.values()})
    size = len(sources) // count
    first_site = sources[0] - count
    at = {source: first_site + i // size for i, source in enumerate(sources)}
    made = {"initial_parents": [[site, source] for source, site in at.items()]}
    return {**made, "topology_updates": list(_batches(sources, at, size, moving, batches, (first_site, count)))}


def _batches(
    sources: list[int], at: dict[int, int], size: int, moving: int, batches: int, sites: tuple[int, int]
) -> Iterator[dict[str, Any]]:
    first, count = sites
    for batch in range(batches):
        events = []
        who = [(batch * moving + i) % size for i in range(moving)]
        moved = [source for g in range(len(sources) // size) for source in (sources[g * size + i] for i in who)]
        # As published: by the site they leave, the last first.
        for source in sorted(moved, key=lambda s: (-at[s], s)):
            old, new = at[source], first + (at[source] - first - 1) % count
            events.append({"parentId": old, "childId": source, "action": "remove"})
            events.append({"parentId": new, "childId": source, "action": "add"})
            at[source] = new
        yield {"timestamp": batch * STEP_MS, "events": events}


def ringed(topology: Topology) -> Topology:
    order = sorted(topology.sites, key=int)
    links = [Link(b, a, 1000.0, 1.0) for a, b in zip(order, [*order[1:], order[0]], strict=True)]
    return Topology.of(list(topology.sites.values()), links)


def grounded(topology: Topology, initial: dict[str, str]) -> Topology:
    """With the coordinator as root, in a region of its own; the sites are shared out among the edge's regions."""
    below = {link.a for link in topology.links.values()}
    order = sorted(topology.sites, key=int)
    tops = [site for site in order if site not in below] or order[:1]
    regions = _regions(topology, order, tops)
    sites = [replace(s, region=regions[s.id]) for s in topology.sites.values()]
    root = Site(ROOT, CLOUD, 65_535.0, kind="cloud")
    links = [*topology.links.values(), *(Link(site, ROOT, 1000.0, 1.0) for site in tops)]
    devices = [Device(DeviceId(name), SiteId(site)) for name, site in sorted(initial.items(), key=lambda p: int(p[0]))]
    return Topology.of([root, *sites], links, devices)


def _regions(topology: Topology, order: list[SiteId], tops: list[SiteId]) -> dict[SiteId, RegionId]:
    """Branches of the tree stay whole; where there is no tree, sites go by their number."""
    branches = tops if len(tops) > 1 else order
    share = {top: RegionId(EDGE_REGIONS[i * len(EDGE_REGIONS) // len(branches)]) for i, top in enumerate(branches)}
    found = dict(share)
    children: dict[SiteId, list[SiteId]] = {}
    for link in topology.links.values():
        children.setdefault(link.b, []).append(link.a)
    todo = list(branches)
    while todo:
        site = todo.pop()
        for child in children.get(site, ()):
            if child not in found:
                found[child] = found[site]
                todo.append(child)
    return found
