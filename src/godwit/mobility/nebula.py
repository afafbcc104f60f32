"""NebulaStream's topology-change files: the same trace for another engine, and their published traces for ours.

    fixed_topology.json           nodes {id: [lat, lon]}, slots {id: n}, children {id: [ids]}
    topology_updates.json[.gz]    initial_parents [[parent, child]], topology_updates [{timestamp, events}]
    source_groups.json            {source: [logical source]}

Their ids are numbers. We add `names.json` (number -> our name), so that our own export reads back to the same events;
without it a site or device is called by its number. Their coordinator registers as node 1: where a fixed topology
counts from 1 (the published ISQD inputs do), its node n is the updates' node n + 1. What is in `initial_parents` is
attached at moment 0; a remove and an add of one child at one moment are a hand-over.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from godwit.errors import DataError
from godwit.ids import DeviceId, RegionId, SiteId
from godwit.mobility.trace import Trace, TraceEvent, check, ordered
from godwit.model.topology import Device, Link, Site, Topology

FIXED, UPDATES, GROUPS, NAMES = "fixed_topology.json", "topology_updates.json", "source_groups.json", "names.json"
#: their coordinator is node 1, so sites start at 2
FIRST_ID = 2
_SLOTS = 65_535
_REGION = RegionId("main")


@dataclass(frozen=True)
class NebulaFiles:
    """What a folder in NebulaStream's formats holds, in our words."""

    trace: Trace
    topology: Topology
    #: device -> the logical sources it feeds
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def numbers(topology: Topology, devices: Sequence[str]) -> dict[str, int]:
    """Our names to their numbers: sites first, root of the tree first, then devices."""
    rank = {"cloud": 0, "fog": 1}
    sites = sorted(topology.sites.values(), key=lambda site: rank.get(site.kind, 2))
    return {name: FIRST_ID + i for i, name in enumerate([*(site.id for site in sites), *devices])}


def fixed_topology(topology: Topology, number: Mapping[str, int]) -> dict[str, Any]:
    """The content of fixed_topology.json."""
    sites = sorted(topology.sites.values(), key=lambda site: number[site.id])
    children: dict[str, list[int]] = {str(number[site.id]): [] for site in sites}
    for link in topology.links.values():
        children[str(number[link.b])].append(number[link.a])
    nodes = {str(number[site.id]): [site.lat or 0.0, site.lon or 0.0] for site in sites}
    return {"nodes": nodes, "slots": dict.fromkeys(nodes, _SLOTS), "children": children}


def updates(trace: Trace, number: Mapping[str, int]) -> dict[str, Any]:
    """The content of topology_updates.json."""
    start = [[number[site], number[device]] for device, site in sorted(trace.initial().items())]
    batches: dict[int, list[dict[str, Any]]] = {}
    for event in trace.events:
        if event.t > 0:
            batches.setdefault(event.t, []).extend(_edits(event, number))
    return {
        "initial_parents": start,
        "topology_updates": [{"timestamp": t, "events": events} for t, events in batches.items()],
    }


def _edits(event: TraceEvent, number: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    for site, action in ((event.previous, "remove"), (event.site, "add")):
        if site is not None:
            yield {"parentId": number[site], "childId": number[event.device], "action": action}


def write_fixed(topology: Topology, number: Mapping[str, int], devices: Sequence[str], folder: Path) -> None:
    """Everything but the updates: the fixed nodes, the source groups and our names."""
    folder.mkdir(parents=True, exist_ok=True)
    root = min(number.values())
    groups = {str(number[device]): [root] for device in devices}
    for name, content in (
        (FIXED, fixed_topology(topology, number)),
        (GROUPS, groups),
        (NAMES, {str(i): name for name, i in number.items()}),
    ):
        (folder / name).write_text(json.dumps(content), encoding="utf-8")


def write_nebula(trace: Trace, topology: Topology, folder: Path) -> None:
    """Write a trace and its topology in NebulaStream's formats."""
    number = numbers(topology, trace.devices)
    write_fixed(topology, number, trace.devices, folder)
    (folder / UPDATES).write_text(json.dumps(updates(trace, number)), encoding="utf-8")


def read_nebula(folder: Path, *, lead_ms: int = 0, pace: float = 1.0) -> NebulaFiles:
    """Read a folder in NebulaStream's formats, the updates plain or gzipped; errors name file, field and remedy.

    `lead_ms` of calm come before the first update, and updates lie `pace` times as far apart as the file says.
    """
    names = {k: str(v) for k, v in _load(folder, NAMES).items()} if _find(folder, NAMES) else {}
    sites = _sites(folder, names)
    events, duration = _events(folder, names, lead_ms, pace)
    trace = check(Trace(duration, ordered(events), source=str(folder)), sites.sites, str(_path(folder, UPDATES)))
    start = trace.initial()
    devices = [Device(DeviceId(name), _site_id(start.get(name))) for name in trace.devices]
    topology = Topology.of(list(sites.sites.values()), list(sites.links.values()), devices)
    groups = _load(folder, GROUPS) if _find(folder, GROUPS) else {}
    named = {names.get(k, k): tuple(names.get(str(v), str(v)) for v in values) for k, values in groups.items()}
    return NebulaFiles(trace, topology, named)


def _site_id(name: str | None) -> SiteId | None:
    return None if name is None else SiteId(name)


def _sites(folder: Path, names: Mapping[str, str]) -> Topology:
    where = _path(folder, FIXED)
    nodes, children, slots = _fixed(where, _load(folder, FIXED))
    for parent, below in children.items():
        for end in (parent, *below):
            if end not in nodes:
                msg = f"{where}: children of {parent} name node {end}, which is not under nodes; add it there"
                raise DataError(msg)
    pairs = {frozenset((parent, child)): (child, parent) for parent in children for child in children[parent]}
    has_parent = {child for child, _parent in pairs.values()}
    sites = []
    for node, place in nodes.items():
        if not (isinstance(place, list) and len(place) == 2 and all(isinstance(x, int | float) for x in place)):
            msg = f"{where}: nodes entry {node}: must be [latitude, longitude], not {place!r}"
            raise DataError(msg)
        kind = "edge" if not children.get(node) else "fog" if node in has_parent else "cloud"
        name = SiteId(names.get(node, node))
        sites.append(Site(name, _REGION, float(slots.get(node, _SLOTS)), kind=kind, lat=place[0], lon=place[1]))
    links = [Link(SiteId(names.get(c, c)), SiteId(names.get(p, p)), 1000.0, 1.0) for c, p in pairs.values() if c != p]
    return Topology.of(sites, links)


def _fixed(where: Path, content: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, list[str]], dict[str, Any]]:
    """nodes, children and slots, numbered as the updates number them."""
    nodes, children = (_dict(where, content, key) for key in ("nodes", "children"))
    slots = content.get("slots", {})
    odd = [name for name in [*nodes, *children, *chain.from_iterable(children.values())] if not str(name).isdigit()]
    if odd:
        msg = f"{where}: node {odd[0]!r} is not a number; NebulaStream numbers its nodes"
        raise DataError(msg)
    shift = 1 if "1" in nodes else 0

    def name(node: object) -> str:
        return str(int(str(node)) + shift)

    below = {name(parent): [name(child) for child in ids] for parent, ids in children.items()}
    return {name(k): v for k, v in nodes.items()}, below, {name(k): v for k, v in slots.items()}


def _events(folder: Path, names: Mapping[str, str], lead_ms: int, pace: float) -> tuple[list[TraceEvent], int]:
    """Their link changes as our events; a remove and an add of one child at one moment become one hand-over."""
    where, content = _path(folder, UPDATES), _load(folder, UPDATES)
    at: dict[str, str] = {}
    for i, pair in enumerate(_list(where, content, "initial_parents")):
        if not (isinstance(pair, list) and len(pair) == 2):
            msg = f"{where}: initial_parents entry {i}: must be [parent, child], not {pair!r}"
            raise DataError(msg)
        at[str(pair[1])] = str(pair[0])
    first = dict(at)
    found: list[TraceEvent] = []
    batches = _list(where, content, "topology_updates")
    t = now = 0
    for i, batch in enumerate(batches):
        t = _time(where, i, batch, t)
        now = lead_ms + round(t * pace)
        moves = _moves(where, i, batch, at)
        # What moves at moment 0 has not been anywhere: it is attached where it ends up.
        if now == 0:
            first = dict(at)
        else:
            found.extend(_event(now, device, old, new, names) for device, (old, new) in moves.items() if old != new)
    found.extend(_event(0, device, None, site, names) for device, site in first.items())
    return found, now


def _event(t: int, device: str, old: str | None, new: str | None, names: Mapping[str, str]) -> TraceEvent:
    kind = "handover" if old and new else "attach" if new else "detach"
    site, previous = (None if x is None else names.get(x, x) for x in (new, old))
    return TraceEvent(t, names.get(device, device), kind, site, previous)  # type: ignore[arg-type]


def _moves(where: Path, i: int, batch: Mapping[str, Any], at: dict[str, str]) -> dict[str, tuple[Any, Any]]:
    """Carry one batch out on `at`; the device -> (site before, site after) of all it touches."""
    before: dict[str, str | None] = {}
    for j, edit in enumerate(_list(where, batch, "events")):
        place = f"{where}: topology_updates entry {i}, events entry {j}"
        if not isinstance(edit, dict) or not {"parentId", "childId", "action"} <= set(edit):
            msg = f"{place}: must have parentId, childId and action, not {edit!r}"
            raise DataError(msg)
        parent, child = str(edit["parentId"]), str(edit["childId"])
        before.setdefault(child, at.get(child))
        _edit(place, edit["action"], parent, child, at)
    return {child: (old, at.get(child)) for child, old in before.items()}


def _edit(place: str, action: object, parent: str, child: str, at: dict[str, str]) -> None:
    if action == "remove" and at.get(child) == parent:
        del at[child]
    elif action == "add" and child not in at:
        at[child] = parent
    elif action not in ("add", "remove"):
        msg = f"{place}: action must be add or remove, not {action!r}"
        raise DataError(msg)
    else:
        here = f"it is at {at[child]}" if child in at else "it is attached nowhere"
        msg = f"{place}: cannot {action} {child} at {parent}: {here}; list the remove before the add"
        raise DataError(msg)


def _time(where: Path, i: int, batch: Any, now: int) -> int:
    t = batch.get("timestamp") if isinstance(batch, dict) else None
    if not isinstance(t, int) or isinstance(t, bool) or t < now:
        msg = f"{where}: topology_updates entry {i}: timestamp must be a whole number of ms from {now} on, not {t!r}"
        raise DataError(msg)
    return t


def _find(folder: Path, name: str) -> Path | None:
    return next((folder / end for end in (name, f"{name}.gz") if (folder / end).is_file()), None)


def _path(folder: Path, name: str) -> Path:
    return _find(folder, name) or folder / name


def _load(folder: Path, name: str) -> dict[str, Any]:
    path = _find(folder, name)
    if path is None:
        msg = f"{folder / name}: is missing (also as .gz); a NebulaStream folder has {FIXED} and {UPDATES}"
        raise DataError(msg)
    try:
        raw = path.read_bytes()
        content = json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        msg = f"{path}: not readable JSON ({error}); the file may be cut off"
        raise DataError(msg) from error
    if not isinstance(content, dict):
        msg = f"{path}: must be a JSON object, not {type(content).__name__}"
        raise DataError(msg)
    return content


def _dict(where: Path, content: Mapping[str, Any], key: str) -> dict[str, Any]:
    if not isinstance(content.get(key), dict):
        msg = f"{where}: field {key!r} is missing or not an object; add it"
        raise DataError(msg)
    return content[key]  # type: ignore[no-any-return]


def _list(where: Path, content: Mapping[str, Any], key: str) -> list[Any]:
    if not isinstance(content.get(key), list):
        msg = f"{where}: field {key!r} is missing or not a list; add it"
        raise DataError(msg)
    return content[key]  # type: ignore[no-any-return]
