"""The live driver: devices hop, buffer, flush; nothing is lost, on a recording target and on a real fleet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from godwit.api.fleet import Fleet
from godwit.mobility.driver import Cue, Driver, Feed, FleetTarget, TickingClock, cues
from godwit.mobility.payloads import PASSENGERS, Passengers, SensorReadings
from godwit.mobility.trace import Trace, TraceEvent, check, ordered
from godwit.mobility.twin import StationStop
from godwit.model.topology import Device, Link, Site, Topology

DISORDER_MS = 300


class Recorder:
    """Checks what every target may rely on, and keeps what came."""

    def __init__(self) -> None:
        self.at: dict[str, str] = {}
        self.rows: list[pa.Table] = []
        self.moves: list[Cue] = []
        self.told: dict[str, int] = {}
        self.left: list[str] = []

    def move(self, moves: Sequence[Cue]) -> None:
        assert moves
        assert len({cue.device for cue in moves}) == len(moves), "one change of a device at a time"
        for cue in moves:
            self.moves.append(cue)
            self.at.pop(cue.device, None)
            if cue.site is not None:
                self.at[cue.device] = cue.site

    def push(self, stream: str, rows: pa.Table, where: Mapping[str, str]) -> None:
        assert stream == "readings"
        assert dict(where) == self.at
        for row in rows.to_pylist():
            assert row["sensor"] in self.at, "a device that is away keeps its rows"
            assert row["ts"].timestamp() * 1e6 >= self.told.get(row["sensor"], 0), "nothing older than it has told"
        self.rows.append(rows)

    def tell(self, stream: str, clocks: Mapping[str, int]) -> None:
        assert set(clocks) == set(self.at), "only who is attached can tell"
        self.told.update(clocks)

    def leave(self, device: str) -> None:
        assert device not in self.at
        self.left.append(device)


def trace_of(*events: tuple[int, str, str | None], duration: int = 4000) -> Trace:
    """(ms, device, site or None), in any order."""
    at: dict[str, str] = {}
    found = []
    for t, device, site in sorted(events, key=lambda event: (event[0], event[1])):
        before = at.pop(device, None)
        kind = "attach" if before is None else "detach" if site is None else "handover"
        found.append(TraceEvent(t, device, kind, site, before))  # type: ignore[arg-type]
        if site is not None:
            at[device] = site
    return check(Trace(duration, ordered(found)))


def test_a_hand_over_takes_its_time() -> None:
    trace = trace_of((0, "a", "x"), (1000, "a", "y"), (1200, "a", "z"))
    assert cues(trace) == [Cue(0, "a", "x"), Cue(1000, "a", "y"), Cue(1200, "a", "z")]
    assert cues(trace, gap_ms=500) == [
        Cue(0, "a", "x"),
        Cue(1000, "a", None),
        Cue(1199, "a", "y"),  # the next hand-over is near: shorter
        Cue(1200, "a", None),
        Cue(1700, "a", "z"),
    ]


hops = st.lists(
    st.tuples(st.integers(1, 3900), st.sampled_from("abc"), st.sampled_from(["x", "y", "z", None])), max_size=12
)


@settings(max_examples=60, deadline=None)
@given(hops, st.sampled_from([0, 50, 400]), st.sampled_from([50, 200, 1500]), st.sampled_from([0.5, 1.0, 20.0]))
def test_every_row_of_a_device_that_is_attached_in_the_end_arrives_once(
    moves: list[tuple[int, str, str | None]], gap_ms: int, tick_ms: int, speed: float
) -> None:
    """Whatever the hops, the gap, the tick and the speed: the rows are those the payload made, once each."""
    trace = _holding_together(moves)
    payload = SensorReadings(period_ms=100, disorder_ms=DISORDER_MS)
    target = Recorder()
    driver = Driver(
        trace,
        [Feed("readings", payload, DISORDER_MS)],
        target,
        gap_ms=gap_ms,
        tick_ms=tick_ms,
        speed=speed,
        clock=TickingClock(),
    )
    driver.play()
    got = sorted((row["sensor"], row["ts"]) for table in target.rows for row in table.to_pylist())
    end = int(driver.t)
    want = []
    for device in "abc":
        if device in target.at:
            want += [(row["sensor"], row["ts"]) for row in payload.batch(device, 0, end).to_pylist()]
    assert [row for row in got if row[0] in target.at] == sorted(want)
    assert len(got) == len(set(got))
    assert driver.rows == len(got)
    assert driver.buffered == sum(payload.batch(d, 0, end).num_rows for d in "abc") - len(got)
    last = {event.device: event.site for event in trace.events}
    assert target.at == {device: site for device, site in last.items() if site is not None}
    assert sorted(target.left) == sorted(device for device, site in last.items() if site is None)


def _holding_together(moves: list[tuple[int, str, str | None]]) -> Trace:
    """All start at x; of the moves, those that can happen."""
    found: list[tuple[int, str, str | None]] = [(0, device, "x") for device in "abc"]
    at: dict[str, str | None] = dict.fromkeys("abc", "x")
    last = dict.fromkeys("abc", 0)
    for t, device, site in sorted(moves, key=lambda move: (move[0], move[1])):
        if t > last[device] and site != at[device]:
            found.append((t, device, site))
            at[device], last[device] = site, t
    return trace_of(*found)


TRAINS = ("t1", "t2")
GROUND = Topology.of(
    [Site("west", "edge-west"), Site("east", "edge-east"), Site("cloud", "cloud")],  # type: ignore[arg-type]
    [Link("west", "cloud"), Link("east", "cloud")],  # type: ignore[arg-type]
    [Device("t1", "west"), Device("t2", "east")],  # type: ignore[arg-type]
)
TRACE = trace_of(
    *((0, "t1", "west"), (0, "t2", "east")),
    *((900, "t1", "east"), (1500, "t2", None), (2600, "t2", "west"), (2900, "t1", "west")),
    duration=8000,
)


def test_the_oracle_agrees_after_hops_and_gaps(open_fleet: Callable[..., Fleet]) -> None:
    """Window and join state in flight, a train out of reach with rows to send: the results are the batch's."""
    fleet = open_fleet()
    fleet.topology.add(GROUND)
    schema = ", ".join(f"{f.name} {_spark_type(f.type)}" for f in PASSENGERS)
    fleet.stream("passengers", schema, device="train", disorder="300 milliseconds")
    for train in TRAINS:
        fleet.device(train, streams=["passengers"])
    fleet.submit(
        "SELECT train, sum(boarded) AS n, max(coach) AS c, window.end AS until FROM passengers "
        "GROUP BY train, window(ts, '1 second')",
        "occupancy",
    )
    fleet.submit(
        "SELECT a.train AS one, b.train AS other, a.coach AS coach, a.ts AS at FROM passengers a JOIN passengers b "
        "ON a.station = b.station AND a.coach = b.coach "
        "AND a.ts BETWEEN b.ts - INTERVAL 2 SECONDS AND b.ts + INTERVAL 2 SECONDS "
        "WHERE a.line = 'S41' AND b.line = 'S42'",
        "meet",
    )
    calls = [
        StationStop(t, line, "Ostkreuz", ms)
        for ms in (100, 1300, 2500)
        for t, line in zip(TRAINS, ("S41", "S42"), strict=True)
    ]
    driver = Driver(
        TRACE,
        [Feed("passengers", Passengers(calls, coaches=3, disorder_ms=DISORDER_MS), DISORDER_MS)],
        FleetTarget(fleet),
        gap_ms=300,
        tick_ms=1300,
        clock=TickingClock(),
        watch=lambda _: fleet.process_available(),
        attached=dict(TRACE.initial()),
    )
    driver.play()
    fleet.close_sources()
    fleet.process_available()
    assert driver.handovers == 3
    assert driver.rows == 18
    assert driver.buffered == 0
    for name in ("occupancy", "meet"):
        verdict = fleet.query(name).verdict()
        assert verdict.equal, str(verdict)
        assert verdict.got > 0


def _spark_type(kind: pa.DataType) -> str:
    return "timestamp" if pa.types.is_timestamp(kind) else {"string": "string", "int32": "int"}[str(kind)]
