"""NebulaStream's files: their published ones read, ours read back to the same events, bad ones are refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from godwit.errors import DataError
from godwit.mobility.nebula import read_nebula, write_nebula
from godwit.mobility.ring import Ring, make_ring
from godwit.mobility.twin import play

FIXED = {"nodes": {"2": [0.0, 0.0], "3": [0.0, 0.0]}, "slots": {"2": 8, "3": 8}, "children": {"2": [3], "3": []}}
MOVE = [{"parentId": 2, "childId": 9, "action": "remove"}, {"parentId": 3, "childId": 9, "action": "add"}]
UPDATES = {"initial_parents": [[2, 9]], "topology_updates": [{"timestamp": 1000, "events": MOVE}]}


def _folder(folder: Path, fixed: Any = FIXED, updates: Any = UPDATES) -> Path:
    (folder / "fixed_topology.json").write_text(json.dumps(fixed))
    (folder / "topology_updates.json").write_text(json.dumps(updates))
    return folder


def test_a_remove_and_an_add_are_a_handover(tmp_path: Path) -> None:
    found = read_nebula(_folder(tmp_path))
    assert [(e.t, e.device, e.kind, e.site, e.previous) for e in found.trace.events] == [
        (0, "9", "attach", "2", None),
        (1000, "9", "handover", "3", "2"),
    ]
    assert {s.id: s.kind for s in found.topology.sites.values()} == {"2": "cloud", "3": "edge"}


def test_attach_and_detach_stand_alone(tmp_path: Path) -> None:
    updates = {
        "initial_parents": [],
        "topology_updates": [
            {"timestamp": 5, "events": [{"parentId": 3, "childId": 9, "action": "add"}]},
            {"timestamp": 7, "events": [{"parentId": 3, "childId": 9, "action": "remove"}]},
        ],
    }
    assert [(e.t, e.kind) for e in read_nebula(_folder(tmp_path, updates=updates)).trace.events] == [
        (5, "attach"),
        (7, "detach"),
    ]


def test_ours_reads_back_to_the_same_events(tmp_path: Path) -> None:
    played = play(make_ring(Ring(trains=6, duration_s=600)), speedup=5)
    write_nebula(played.trace, played.topology, tmp_path)
    found = read_nebula(tmp_path)
    assert found.trace.events == played.trace.events
    assert set(found.topology.sites) == set(played.topology.sites)
    assert set(found.topology.links) == set(played.topology.links)
    plain = (tmp_path / "topology_updates.json").read_bytes()
    (tmp_path / "topology_updates.json").unlink()
    (tmp_path / "topology_updates.json.gz").write_bytes(gzip.compress(plain))
    assert read_nebula(tmp_path).trace == found.trace


def test_their_published_example(shared: Path) -> None:
    found = read_nebula(shared / "nes_topology_example")
    assert len(found.topology.sites) == 10
    assert len(found.trace.devices) == 40
    # 120 batches of 20 moves; the batch at moment 0 is where the 20 start.
    assert sum(event.kind == "handover" for event in found.trace.events) == 119 * 20
    assert found.trace.duration_ms == 119_000
    assert len(found.groups) == 40


@pytest.mark.full
def test_every_published_input_reads(shared: Path) -> None:
    folders = {path.parent for path in (shared / "isqd").rglob("topology_updates.json.gz")}
    assert len(folders) > 25
    for folder in folders:
        assert read_nebula(folder).trace.events


def _updates(**change: Any) -> dict[str, Any]:
    return UPDATES | change


def _batch(*events: Any, timestamp: Any = 1000) -> dict[str, Any]:
    return _updates(topology_updates=[{"timestamp": timestamp, "events": list(events)}])


BAD: dict[str, tuple[Any, Any, str]] = {
    "no nodes": ({"children": {}}, UPDATES, "field 'nodes' is missing"),
    "no place": (FIXED | {"nodes": {"2": 5, "3": [0, 0]}}, UPDATES, "nodes entry 2: must be [latitude, longitude]"),
    "unknown child": (FIXED | {"children": {"2": [7]}}, UPDATES, "name node 7, which is not under nodes"),
    "not a number": (FIXED | {"nodes": {"x": [0, 0]}}, UPDATES, "node 'x' is not a number"),
    "no parents": (FIXED, {"topology_updates": []}, "field 'initial_parents' is missing"),
    "odd pair": (FIXED, _updates(initial_parents=[[1]]), "initial_parents entry 0: must be [parent, child]"),
    "odd time": (FIXED, _batch(timestamp="now"), "timestamp must be a whole number of ms from 0 on, not 'now'"),
    "odd event": (FIXED, _batch({"parentId": 2}), "events entry 0: must have parentId, childId and action"),
    "odd action": (FIXED, _batch(MOVE[0] | {"action": "hop"}), "action must be add or remove, not 'hop'"),
    "add before remove": (FIXED, _batch(MOVE[1], MOVE[0]), "cannot add 9 at 3: it is at 2; list the remove before"),
    "remove of nobody": (FIXED, _batch(MOVE[0] | {"childId": 8}), "it is attached nowhere"),
    "unknown site": (FIXED, _updates(initial_parents=[[7, 9]], topology_updates=[]), "site 7 is not in the topology"),
    "a list": (FIXED, [], "must be a JSON object, not list"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_folder_is_refused(tmp_path: Path, case: str) -> None:
    fixed, updates, says = BAD[case]
    with pytest.raises(DataError) as caught:
        read_nebula(_folder(tmp_path, fixed, updates))
    assert says in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_missing_and_broken_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"fixed_topology\.json: is missing"):
        read_nebula(tmp_path)
    _folder(tmp_path)
    (tmp_path / "topology_updates.json").unlink()
    (tmp_path / "topology_updates.json.gz").write_bytes(gzip.compress(b"{}")[:-4])
    with pytest.raises(DataError, match="not readable JSON"):
        read_nebula(tmp_path)
