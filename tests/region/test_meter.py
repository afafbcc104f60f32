"""What devices send, measured."""

from __future__ import annotations

import pytest

from godwit.ids import DeviceId
from godwit.ingest.rates import MEMORY_S, WARM_S, Meter


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def send(meter: Meter, clock: Clock, seconds: float, rows: dict[str, int], size: int, every: float = 0.5) -> None:
    until = clock.now + seconds
    while clock.now < until:
        meter.count("s", rows, size)  # type: ignore[arg-type]
        clock.now += every


def test_a_steady_rate_is_found_and_shared_by_rows(clock):
    meter = Meter(clock)
    send(meter, clock, WARM_S / 2, {"t0": 3, "t1": 1}, 50_000)
    assert meter.mbps() == {}
    send(meter, clock, 3 * MEMORY_S, {"t0": 3, "t1": 1}, 50_000)
    # 100,000 bytes a second are 0.8 Mbit/s
    assert meter.mbps() == {("s", "t0"): pytest.approx(0.6, rel=0.05), ("s", "t1"): pytest.approx(0.2, rel=0.05)}


def test_it_follows_a_change_and_forgets_a_silent_device(clock):
    meter = Meter(clock)
    send(meter, clock, 60, {"t0": 1}, 50_000)
    send(meter, clock, 2 * MEMORY_S, {"t0": 1}, 500_000)
    assert meter.mbps()["s", "t0"] == pytest.approx(8.0, rel=0.2)  # type: ignore[index]
    clock.now += 5 * MEMORY_S
    assert meter.mbps()["s", "t0"] < 0.1  # type: ignore[index]


def test_a_device_that_left_leaves_nothing(clock):
    meter = Meter(clock)
    send(meter, clock, 20, {"t0": 1, "t1": 1}, 50_000)
    meter.forget({DeviceId("t0")})
    assert set(meter.mbps()) == {("s", "t1")}
    meter.forget({DeviceId("never")})
    assert set(meter.mbps()) == {("s", "t1")}


def test_nothing_sent_is_nothing_measured(clock):
    meter = Meter(clock)
    meter.count("s", {}, 0)  # type: ignore[arg-type]
    meter.count("s", {"t0": 0}, 0)  # type: ignore[arg-type]
    clock.now += 60
    assert meter.mbps() == {("s", "t0"): 0.0}
