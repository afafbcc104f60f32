"""Chunk files: what was acknowledged is there, in order, and nothing else, wherever the machine stops."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from godwit.errors import StateError
from godwit.storage import chunk, chunk_log
from godwit.storage.faulty import Crashed, DiskFault, FaultyDisk, VolatileDisk
from godwit.storage.inline import INLINE_BYTES, InlineRows, SharedText
from godwit.storage.local import LocalDisk
from godwit.storage.memory import MemoryDisk
from godwit.storage.store import Store

SCHEMA = '{"type":"struct","fields":[' + ",".join('{"name":"column","type":"long"}' for _ in range(20)) + "]}"


class Watched(MemoryDisk):
    """Counts what is asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_") and name not in ("asked", "root"):
            self.asked[name] += 1
        return super().__getattribute__(name)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk, "CHUNK_RECORDS", 3)


@pytest.fixture(params=["local", "memory", "faulty"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    made: dict[str, Callable[[], Any]] = {
        "local": lambda: LocalDisk(tmp_path),
        "memory": MemoryDisk,
        "faulty": lambda: FaultyDisk(MemoryDisk()),
    }
    return made[request.param]()


def numbers(store: Store, log: str = "l") -> list[int]:
    found = store.log(log)
    return [record["n"] for _, record in found.after(found.first - 1)]


def test_many_records_lie_in_one_file(disk: Any) -> None:
    log = Store(disk).log("l")
    for n in range(1, 101):
        log.append({"n": n})
    assert disk.names("l") == ["0000000001.log"]
    assert numbers(Store(disk)) == list(range(1, 101))


@pytest.mark.usefixtures("small_chunks")
def test_a_reader_in_another_process_follows_over_chunks(disk: Any) -> None:
    log, reader = Store(disk).log("l"), Store(disk).log("l")
    seen: list[int] = []
    for n in range(1, 12):
        log.append({"n": n})
        assert reader.exists(n)
        assert not reader.exists(n + 1)
        seen += [number for number, _ in reader.after(len(seen))]
        assert seen == list(range(1, n + 1))
    assert len(disk.names("l")) == 4


@pytest.mark.usefixtures("small_chunks")
def test_old_records_are_found_in_any_order_without_remembering_where_all_of_them_lie() -> None:
    store = Store.memory()
    log = store.log("l")
    for n in range(1, 601):
        log.append({"n": n, "schema": SharedText(SCHEMA)})
    order = random.Random(1).sample(range(1, 601), 600)
    for reader in (store, Store(store.disk)):
        assert [reader.read_record("l", n)["n"] for n in order] == order  # type: ignore[index]
        chunks = reader._log("l")._chunks  # type: ignore[union-attr]
        assert len(chunks) == 200
        assert sum(len(one.records) for one in chunks) <= 3 * (chunk_log.MOST_SCANNED + 1)


def test_the_writer_needs_no_disk_to_read_and_others_one_look() -> None:
    disk = Watched()
    store, other = Store(disk), Store(disk)
    log, reader = store.log("l"), other.log("l")
    log.append({"n": 1})
    assert reader.read(1) == {"n": 1}
    disk.asked.clear()
    assert log.read(1) == {"n": 1}
    assert log.read(1) is store.log("l").read(1)
    assert not log.exists(2)
    assert not disk.asked
    assert not other.has_record("l", 2)
    assert disk.asked == {"size": 1}
    disk.asked.clear()
    log.append({"n": 2})
    assert disk.asked == {"size": 1, "append": 1}


def test_a_store_that_is_alone_never_looks() -> None:
    disk = Watched()
    store = Store(disk, alone=True)
    log = store.log("l")
    disk.asked.clear()
    assert not log.exists(1)
    assert log.end() == 0
    assert not disk.asked


@pytest.mark.usefixtures("small_chunks")
def test_what_is_dropped_frees_its_chunks_and_the_log_goes_on(disk: Any) -> None:
    store = Store(disk)
    log, reader = store.log("l"), Store(disk).log("l")
    for n in range(1, 200):
        log.append({"n": n})
        list(log.drop(n - 4))
        assert len(disk.names("l")) <= 3
    for again in (store.log("l"), Store(disk).log("l")):
        assert (again.first, again.last) == (195, 199)
        assert [n for n, _ in again.after(0)] == [195, 196, 197, 198, 199]
    assert [n for n, _ in reader.after(100)] == [195, 196, 197, 198, 199]
    assert Store(disk).numbers("l")[-1] == 199
    assert Store(disk).floor("l") == 195


def test_a_folder_that_is_removed_begins_anew(disk: Any) -> None:
    store = Store(disk, alone=True)
    store.log("shapes/s/commits").append({"n": 1})
    store.remove("shapes/s")
    assert store.log("shapes/s/commits").last == 0
    store.log("shapes/s/commits").append({"n": 7})
    assert numbers(store, "shapes/s/commits") == numbers(Store(disk), "shapes/s/commits") == [7]


@pytest.mark.usefixtures("small_chunks")
def test_a_missing_chunk_is_a_gap(disk: Any) -> None:
    log = Store(disk).log("l")
    for n in range(1, 12):
        log.append({"n": n})
    disk.delete("l/0000000004.log")
    assert Store(disk).numbers("l") == [1, 2, 3, 7, 8, 9, 10, 11]


def test_a_torn_end_is_cut_off_wherever_it_is() -> None:
    disk = MemoryDisk()
    log, ends = Store(disk).log("l"), [0]
    for n in range(1, 5):
        log.append({"n": n, "rows": InlineRows.of(pa.table({"a": [n]}))})
        ends.append(disk.size("l/0000000001.log"))
    data = disk.read("l/0000000001.log")
    for size in range(len(data)):
        left = sum(end <= size for end in ends[1:])
        disk.write("l/0000000001.log", data[:size])
        assert numbers(Store(disk)) == list(range(1, left + 1))
        writer = Store(disk)
        writer.log("l").append({"n": left + 1})
        assert numbers(writer) == numbers(Store(disk)) == list(range(1, left + 2))


def test_blocks_that_were_never_written_are_a_torn_end() -> None:
    disk = MemoryDisk()
    Store(disk).log("l").append({"n": 1})
    disk.append("l/0000000001.log", bytes(4096))
    assert numbers(Store(disk)) == [1]
    Store(disk).log("l").append({"n": 2})
    assert numbers(Store(disk)) == [1, 2]


def test_no_changed_byte_goes_unseen() -> None:
    disk = MemoryDisk()
    log = Store(disk).log("l")
    for n in (1, 2):
        log.append({"n": n, "schema": SharedText(SCHEMA), "rows": InlineRows.of(pa.table({"a": [n]}))})
    data = disk.read("l/0000000001.log")
    for place in range(len(data)):
        disk.write("l/0000000001.log", data[:place] + bytes([data[place] ^ 0x41]) + data[place + 1 :])
        with pytest.raises(StateError, match=r"l/0000000001\.log (is damaged|was written)"):
            numbers(Store(disk))


@pytest.mark.usefixtures("small_chunks")
def test_rows_travel_in_the_record_and_what_they_share_once_per_chunk() -> None:
    disk = MemoryDisk()
    store = Store(disk)
    log = store.log("l")
    for n in range(1, 8):
        log.append({"n": n, "schema": SharedText(SCHEMA), "rows": InlineRows.of(pa.table({"a": [n] * 3}))})
    for name in ("0000000001", "0000000004", "0000000007"):
        assert disk.read(f"l/{name}.log").count(SCHEMA.encode()) == 1
    list(log.drop(6))  # and what is left is still defined
    for reader in (store, Store(disk)):
        for n in (6, 7):
            record = reader.read_record("l", n)
            assert record is not None
            assert record["schema"] == SCHEMA
            assert record["rows"].table == pa.table({"a": [n] * 3})


def test_a_table_is_not_decoded_where_it_was_made() -> None:
    store, rows = Store.memory(), InlineRows.of(pa.table({"a": [1]}))
    store.log("l").append({"rows": rows})
    record = store.read_record("l", 1)
    assert record is not None
    assert record["rows"] is rows


def test_a_record_cannot_be_changed_by_its_writer() -> None:
    store, inner = Store.memory(), {"at": (1, 2)}
    store.log("l").append({"inner": inner})
    inner["at"] = (3, 4)
    assert store.read_record("l", 1) == {"inner": {"at": [1, 2]}}


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"a": list(range(INLINE_BYTES // 8 + 1))}),
        pa.table({"a": pa.array(["x"]).dictionary_encode()}),
        pa.table({"a": pa.array([["x"]], pa.list_(pa.dictionary(pa.int32(), pa.string())))}),
    ],
)
def test_what_does_not_travel_in_records(table: pa.Table) -> None:
    assert InlineRows.of(table) is None


def test_a_part_of_something_large_does_not_keep_it() -> None:
    whole = pa.table({"a": list(range(100_000)), "b": ["text"] * 100_000})
    rows = InlineRows.of(whole.slice(500, 3))
    assert rows is not None
    assert rows.table == whole.slice(500, 3)
    assert rows.table.get_total_buffer_size() < 1000


def _world(rng: random.Random, durable: bool) -> tuple[MemoryDisk, Callable[[], Store], Callable[[], None]]:
    """A disk, a way to open it with a fault at a random operation, and what a crash does to it."""
    disk = VolatileDisk() if durable else MemoryDisk()

    def opened() -> Store:
        kind = rng.choice(("torn", "crash", "full", "error"))
        fault = DiskFault("*", kind, nth=rng.randint(1, 40))  # type: ignore[arg-type]
        return Store(FaultyDisk(disk, [fault]), "power" if durable else "process")

    def stop() -> None:
        if isinstance(disk, VolatileDisk):
            disk.lose_power(torn=rng.random() < 0.5, early=rng.choice(("", "*.log")))

    return disk, opened, stop


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("seed", range(60))
def test_random_crashes_lose_nothing_and_add_nothing(seed: int, durable: bool) -> None:
    rng = random.Random(seed)
    disk, opened, stop = _world(rng, durable)
    #: number -> content, as acknowledged; from where on it must be kept
    kept: dict[int, int] = {}
    floor, tried_floor, tag, crashes = 1, 1, 0, 0
    for _ in range(12):
        #: what was being written when it failed: it may be there
        store, pending = opened(), list[tuple[int, int]]()
        try:
            log = store.log("l")
            for _ in range(rng.randint(1, 25)):
                tag += 1
                try:
                    if rng.random() < 0.2:
                        tried_floor = max(tried_floor, rng.randint(1, log.last + 1))
                        list(log.drop(tried_floor))
                        floor = max(floor, log.first)
                    else:
                        pending.append((log.last + 1, tag))
                        log.append({"n": tag, "schema": SharedText(SCHEMA)})
                        kept[log.last], pending = tag, []
                except OSError:
                    # It is not there, unless the power fails before that is written down.
                    pending = pending if durable else []
        except Crashed:
            crashes += 1
        stop()
        there = {n: record["n"] for n, record in Store(disk).log("l").after(floor - 1)}
        kept.update((number, content) for number, content in pending if there.get(number) == content)
        least = min(there, default=max(kept, default=0) + 1)
        assert there == {n: content for n, content in kept.items() if n >= least}
        assert least <= max(floor, min(tried_floor, max(kept, default=0)), 1) or not kept
        assert [n for n in Store(disk).numbers("l") if n >= least] == sorted(there)
    assert kept
