"""The runner of random faults: scripts are the seeds', and what they cost is summed up by kind."""

from __future__ import annotations

import json
from pathlib import Path

from bench.regions.chaos import out_of_order, recovery_table, script

from godwit.testing.chaos import CutStore, FullDisk, KillBroker


def test_a_seed_is_one_script_with_the_faults_of_its_store() -> None:
    assert script(3, "nats", 60) == script(3, "nats", 60)
    kinds = {type(step) for seed in range(5) for step in script(seed, "nats", 60).steps}
    assert {KillBroker, CutStore} <= kinds
    assert FullDisk not in kinds
    assert FullDisk in {type(step) for seed in range(5) for step in script(seed, "file", 60).steps}


def test_recovery_by_kind_of_fault(tmp_path: Path) -> None:
    file = tmp_path / "chaos.jsonl"
    told = [{"recovery_s": {"CutLink": [1.0, 3.0], "KillProcess": [9.0]}}, {"recovery_s": {"CutLink": [2.0]}}]
    file.write_text("".join(json.dumps(one) + "\n" for one in told))
    assert recovery_table(file) == [("CutLink", 3, 2.0, 3.0), ("KillProcess", 1, 9.0, 9.0)]


def test_rows_that_come_behind_a_later_batch_of_their_train_are_out_of_order() -> None:
    """Five rows are a batch; within one, and between trains, there is no order."""
    sunk = [
        {"train": train, "n": n} for train, n in (("t0", 4), ("t0", 0), ("t1", 12), ("t0", 6), ("t0", 3), ("t1", 9))
    ]
    assert out_of_order(sunk) == 2
