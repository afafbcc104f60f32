"""Queries that were withdrawn and devices that left leave nothing behind in the control plane (bench/core: 10,000)."""

from __future__ import annotations

from pathlib import Path

from bench.core.control_leftovers import PASS_EVERY, ControlCycles


def test_queries_and_devices_that_come_and_go_leave_nothing_in_memory_and_no_files(tmp_path: Path) -> None:
    cycles = ControlCycles(tmp_path, sites=31)
    for number in range(3 * PASS_EVERY):
        cycles.run(number)
    before = cycles.sample()
    for number in range(3 * PASS_EVERY, 5 * PASS_EVERY):
        cycles.run(number)
    after = cycles.sample()
    assert after["items"] <= before["items"]
    assert after["files"] <= before["files"] + 2
    deployment = cycles.executor.deployment
    assert set(deployment.stays) == set(deployment.devices) == {"stays"}
    assert deployment.feeds == {"readings": ("stays",)}
