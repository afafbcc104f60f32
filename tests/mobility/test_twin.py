"""Synthetic worlds: the same seed makes the same trace, and every trace holds together on its topology."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from godwit.errors import ConfigError, DataError
from godwit.mobility.city import City, make_city
from godwit.mobility.field import Field, make_field
from godwit.mobility.ring import STATIONS, Ring, make_ring
from godwit.mobility.summary import summarise
from godwit.mobility.trace import Trace, replay
from godwit.mobility.twin import MovingWorld, Played, play, read_calls, write_calls
from godwit.model.changes import DeviceMoved, apply
from godwit.model.topology import Topology

MAKERS: dict[str, Callable[[int], MovingWorld]] = {
    "ring": lambda seed: make_ring(Ring(trains=8, duration_s=900, seed=seed)),
    "two rings": lambda seed: make_ring(Ring(trains=9, lines=3, rings=2, duration_s=600, seed=seed)),
    "city": lambda seed: make_city(City(cars=12, crossings=20, duration_s=600, seed=seed)),
    "field": lambda seed: make_field(Field(sensors=30, gateways=5, duration_s=60, seed=seed)),
}


@pytest.mark.parametrize("kind", MAKERS)
@settings(max_examples=8, deadline=None)
@given(
    seed=st.integers(0, 10**6), meters=st.sampled_from([0.0, 50.0, 200.0]), speedup=st.sampled_from([1.0, 7.3, 60.0])
)
def test_every_trace_holds_together(kind: str, seed: int, meters: float, speedup: float) -> None:
    played = play(MAKERS[kind](seed), hysteresis_m=meters, speedup=speedup)
    _at_most_one_tower_and_in_order(played.trace, played.topology)
    assert play(MAKERS[kind](seed), hysteresis_m=meters, speedup=speedup).trace == played.trace


def _at_most_one_tower_and_in_order(trace: Trace, topology: Topology) -> None:
    """Replayed into a topology, an attachment at a time: it is always the one the trace says, and the last wins."""
    sites, moves = set(topology.sites), 0
    for event, attached in replay(trace.events, sites=frozenset(sites)):
        if event.t > 0:
            topology = apply(topology, [DeviceMoved(event.device, event.site)])
            moves += 1
        assert topology.devices[event.device].site == attached.get(event.device)
        neighbours = list(topology.neighbours(event.device))
        assert neighbours == ([event.site] if event.site else [])
    assert topology.version == moves
    assert set(topology.sites) == sites


def test_other_seeds_make_other_worlds() -> None:
    for maker in MAKERS.values():
        assert play(maker(1)).topology != play(maker(2)).topology


def test_the_ring_is_the_ring() -> None:
    assert len(STATIONS) == 27
    played = play(make_ring(Ring(trains=2, duration_s=3600)))
    visited = [call.station for call in played.calls if call.line == "S42"]
    names = [name for name, *_rest in STATIONS]
    at = names.index(visited[0])
    assert visited[:26] == (names + names)[at : at + 26]
    other = [call.station for call in played.calls if call.line == "S41"]
    at = names[::-1].index(other[0])
    assert other[:26] == (names[::-1] * 2)[at : at + 26]
    lap = [call.t for call in played.calls if call.device == "S42-01" and call.station == visited[0]]
    assert len(lap) == 1 or 3500_000 < lap[1] - lap[0] < 3700_000


def test_the_demo_has_a_handover_a_second_and_more() -> None:
    played = play(make_ring(Ring(trains=24, duration_s=1200)), speedup=10)
    figures = summarise(played.trace)
    assert figures.devices == 24
    assert figures.duration_s == 120
    assert figures.handovers_per_s > 1
    per_second = Counter(event.t // 1000 for event in played.trace.events if event.t > 0)
    assert sum(per_second[s] > 0 for s in range(120)) > 110
    assert len(played.topology.regions) == 3


def test_more_towers_more_handovers() -> None:
    counts = [summarise(play(make_ring(Ring(trains=4, towers_per_km=d))).trace).handovers for d in (1, 3, 10)]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]


def test_speed_squeezes_time_and_nothing_else() -> None:
    slow, fast = (play(MAKERS["ring"](3), speedup=s) for s in (1.0, 10.0))
    assert [(e.device, e.kind, e.site) for e in slow.trace.events] == [
        (e.device, e.kind, e.site) for e in fast.trace.events
    ]
    assert [e.t // 10 for e in slow.trace.events] == [e.t for e in fast.trace.events]
    assert fast.trace.duration_ms * 10 == slow.trace.duration_ms


def test_sensors_stay_where_they_are() -> None:
    trace = play(MAKERS["field"](0)).trace
    assert {(event.kind, event.t) for event in trace.events} == {("attach", 0)}
    assert len(trace.events) == 30


def test_positions_at_a_moment() -> None:
    world = make_ring(Ring(trains=4, duration_s=600))
    for t in (0, 1, 299_999, 599_999):
        assert set(world.positions(t)) == set(world.devices)
    assert world.positions(600_000) == {}


def test_calls_read_back(tmp_path: Path) -> None:
    played: Played = play(MAKERS["ring"](0))
    write_calls(played.calls, tmp_path / "calls.jsonl")
    assert read_calls(tmp_path / "calls.jsonl") == played.calls
    (tmp_path / "calls.jsonl").write_text('{"device": "d"}\n')
    with pytest.raises(DataError, match=r"line 1: not a stop .*a stop has device, line, station and t"):
        read_calls(tmp_path / "calls.jsonl")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: make_ring(Ring(trains=0)), "at least one of trains"),
        (lambda: make_ring(Ring(towers_per_km=0)), "towers_per_km"),
        (lambda: make_city(City(cars=0)), "a city needs"),
        (lambda: make_city(City(speed=(0, 5))), "a city needs"),
        (lambda: make_field(Field(sensors=0)), "a field needs"),
        (lambda: play(make_field(Field()), speedup=0), "speedup must be more than 0"),
        (lambda: play(make_field(Field()), speedup=5000), "at most 1000"),
    ],
)
def test_what_cannot_be_made_is_refused(make: Callable[[], object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        make()


def test_the_twin_needs_no_spark() -> None:
    modules = [
        "trace",
        "nebula",
        "attach",
        "motion",
        "hierarchy",
        "summary",
        "twin",
        "ring",
        "city",
        "field",
        "payloads",
    ]
    code = f"import sys; [__import__('godwit.mobility.' + m) for m in {modules}]; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
