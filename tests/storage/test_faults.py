"""What survives: every acknowledged record, with the segments it names, wherever the machine stops."""

from __future__ import annotations

import threading
import time

import pyarrow as pa
import pytest

from godwit.errors import StateError
from godwit.storage.faulty import Crashed, DiskFault, FaultyDisk, VolatileDisk
from godwit.storage.memory import MemoryDisk
from godwit.storage.store import Store
from godwit.storage.sync import GroupSync


def _commit(store: Store, number: int) -> None:
    """As a runner does it: rows first, then the record that names them, and a position beside it."""
    file = f"regions/w/data/{number:010d}/rows.parquet"
    size, known = store.put_table(file, pa.table({"n": [number] * 50}))
    store.link(file, f"regions/e/data/{number:010d}/rows.parquet")
    store.log("regions/w/commits").append({"n": number, "file": file, "crc": known, "bytes": size})
    store.put_document("sinks/q/position", number)


def _is_whole(disk: VolatileDisk, acknowledged: int, positioned: int) -> None:
    store = Store(disk, "power")
    log = store.log("regions/w/commits")
    assert log.last >= acknowledged
    assert [n for n, _ in log.after(0)] == list(range(1, log.last + 1))
    for number, record in log.after(0):
        for file in (record["file"], f"regions/e/data/{number:010d}/rows.parquet"):
            assert store.table(file, record["crc"]).num_rows == 50
    assert (store.get_document("sinks/q/position") or 0) >= positioned
    _commit(store, log.last + 1)  # and it goes on


@pytest.mark.parametrize("early", ["", "*.log"])
@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("kind", ["crash", "torn"])
def test_power_may_fail_at_any_point(kind: str, torn: bool, early: str) -> None:
    """`early`: records may come to the disk before anyone has synced them, and so before what they name."""
    steps, point = 0, 0
    while True:
        point += 1
        disk = VolatileDisk()
        faulty = FaultyDisk(disk, [DiskFault("*", kind, nth=point)])  # type: ignore[arg-type]
        done = positioned = 0
        try:
            store = Store(faulty, "power")
            for number in (1, 2, 3):
                _commit(store, number)
                done = positioned = number
        except Crashed:
            steps += 1
        else:
            break
        disk.lose_power(torn=torn, early=early)
        _is_whole(disk, done, positioned)
    assert steps > 50


def test_without_syncs_a_lost_power_supply_loses_records() -> None:
    """So the test above can fail."""
    disk = VolatileDisk()
    _commit(Store(disk, "process"), 1)
    disk.lose_power()
    assert Store(disk).log("regions/w/commits").last == 0


def test_a_lost_write_is_gone_after_a_crash() -> None:
    disk = MemoryDisk()
    store = Store(FaultyDisk(disk, [DiskFault("append", "lost", match="l/*", nth=2)]))
    log = store.log("l")
    log.append({"n": 1})
    log.append({"n": 2})  # acknowledged, but gone
    with pytest.raises(StateError, match="lost a write"):
        log.append({"n": 3})
    assert Store(disk).log("l").last == 1  # whoever has read it knows better: `integrity.sequences`


def test_a_full_disk_leaves_the_log_as_it_was_and_it_goes_on_later() -> None:
    disk = MemoryDisk()
    store = Store(FaultyDisk(disk, [DiskFault("append", "full", match="l/*", nth=2)]))
    log = store.log("l")
    log.append({"n": 1})
    with pytest.raises(OSError, match="no space left"):
        log.append({"n": 2})
    assert log.append({"n": 2}) == 2
    assert Store(disk).numbers("l") == [1, 2]
    assert disk.names("l") == ["0000000001.log"]


def test_a_read_error_names_the_file() -> None:
    store = Store(FaultyDisk(MemoryDisk(), [DiskFault("read", "error", lasting=True)]))
    store.log("l").append({"n": 1})
    store.put_table("d/1.parquet", pa.table({"a": [1]}))
    with pytest.raises(StateError, match=r"l/0000000001\.log cannot be read"):
        Store(store.disk).log("l")
    with pytest.raises(StateError, match=r"d/1\.parquet cannot be read"):
        Store(store.disk).table("d/1.parquet", 0)


def test_a_slow_disk_is_only_slow() -> None:
    store = Store(FaultyDisk(MemoryDisk(), [DiskFault("append", "slow", seconds=0.05)]))
    began = time.monotonic()
    store.log("l").append({"n": 1})
    assert time.monotonic() - began >= 0.05
    assert store.log("l").read(1) == {"n": 1}


def test_writers_that_wait_share_a_round() -> None:
    inside, go_on, synced = threading.Event(), threading.Event(), []

    def sync(name: str) -> None:
        synced.append(name)
        if name == "first":
            inside.set()
            go_on.wait(10)

    group = GroupSync(sync)

    def write(name: str) -> None:
        group.note(name)
        group.wait()

    threads = [threading.Thread(target=write, args=("first",))]
    threads[0].start()
    inside.wait(10)
    threads += [threading.Thread(target=write, args=(f"later-{n}",)) for n in range(8)]
    for thread in threads[1:]:
        thread.start()
    while len(group._dirty) < 9:  # all eight, and the folder
        time.sleep(0.001)
    go_on.set()
    for thread in threads:
        thread.join()
    assert group.rounds == 2
    assert synced.count("") == 2
    assert {f"later-{n}" for n in range(8)} <= set(synced)


def test_a_round_that_failed_is_made_up_for() -> None:
    store = Store(FaultyDisk(disk := VolatileDisk(), [DiskFault("sync", "error", nth=1)]), "power")
    with pytest.raises(OSError, match="input/output"):
        store.put_document("a", 1)
    store.put_document("b", 2)
    disk.lose_power()
    assert Store(disk).get_document("b") == 2
