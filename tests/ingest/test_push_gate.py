"""Pushes of a device that is held wait, and go on by event time; nobody else waits."""

from __future__ import annotations

import threading
import time

from godwit.ids import DeviceId
from godwit.ingest.push_gate import PushGate

CAR, BUS = DeviceId("car"), DeviceId("bus")


def test_pushes_wait_and_go_on_by_event_time() -> None:
    gate, went = PushGate(), list[int]()
    gate.hold(CAR, time.time() + 0.15)
    assert gate.holds(CAR)
    assert not gate.holds(BUS)

    def push(at: int) -> None:
        gate.wait(CAR, at)
        went.append(at)

    began = time.time()
    threads = [threading.Thread(target=push, args=(at,)) for at in (30, 10, 20)]
    for thread in threads:
        thread.start()
        time.sleep(0.02)
    assert went == []
    for thread in threads:
        thread.join()
    assert went == [10, 20, 30]
    assert time.time() - began >= 0.1
    assert not gate.holds(CAR), "the moment is over"
