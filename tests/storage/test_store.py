"""One suite for every backend: what a store promises, whatever it lies on."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from godwit.errors import MissingFileError, StateError
from godwit.storage import frames, names, records
from godwit.storage.faulty import FaultyDisk, VolatileDisk
from godwit.storage.local import LocalDisk
from godwit.storage.memory import MemoryDisk
from godwit.storage.open_store import open_store
from godwit.storage.segment import Segment
from godwit.storage.store import Store
from tests.servers import Nats, bucket_url, kafka, nats_server, s3_server, until

TABLE = pa.table({"a": [1, 2, 3]})


#: stores that a server keeps; where their servers are
SERVED = {
    "nats": "nats",
    "nats, segments in a folder": "nats",
    "nats, from a leaf node": "leaf",
    "nats, a leaf node's from the hub": "leaf",
    "s3": "s3",
    "kafka": "kafka_server",
}


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with nats_server(tmp_path_factory.mktemp("nats")) as address:
        yield address


@pytest.fixture(scope="module")
def leaf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A hub, and a leaf node that has a JetStream domain of its own."""
    folder = tmp_path_factory.mktemp("leaf")
    with Nats(folder / "hub", "hub") as hub, Nats(folder / "edge", "edge", hub.leaf_address) as edge:
        yield hub.address, edge.address


def _with_domains(at: tuple[str, str], fleet: str, from_leaf: bool) -> Store:
    """Everything of region `w` lies at the leaf node, the rest at the hub."""
    own = until(lambda: _opened(f"{at[1]}/{fleet}?domain=edge"))
    own.served.claim("w")
    if from_leaf:
        return own
    own.close()
    return open_store(f"{at[0]}/{fleet}")


def _opened(url: str) -> Store | None:
    """None: the leaf node has not reached its hub yet."""
    try:
        return open_store(url)
    except OSError:
        return None


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with s3_server(tmp_path_factory.mktemp("s3")) as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def kafka_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with kafka(tmp_path_factory.mktemp("kafka")) as address:
        yield f"kafka://{address}"


#: (Java starts for it)
KAFKA = pytest.param("kafka", marks=pytest.mark.full)


@pytest.fixture(params=["local", "local, power", "memory", "faulty", "volatile, power", *list(SERVED)[:-1], KAFKA])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param in SERVED:
        at, fleet = request.getfixturevalue(SERVED[request.param]), f"t{uuid.uuid4().hex[:8]}"
        if isinstance(at, tuple):
            made = _with_domains(at, fleet, request.param == "nats, from a leaf node")
            yield made
            made.close()
            return
        urls = {
            "nats": f"{at}/{fleet}",
            "nats, segments in a folder": f"{at}/{fleet}?segments=file:{tmp_path}",
            "s3": bucket_url(at, fleet),
            "kafka": f"{at}/{fleet}?segments=file:{tmp_path}",
        }
        made = open_store(urls[request.param])
        yield made
        made.close()
        return
    disks = {
        "local": lambda: LocalDisk(tmp_path),
        "memory": MemoryDisk,
        "faulty": lambda: FaultyDisk(MemoryDisk()),
        "volatile": VolatileDisk,
    }
    name, _, durability = request.param.partition(", ")
    yield Store(disks[name](), durability or "process")  # type: ignore[arg-type]


def _has_files(store: Store) -> None:
    if store.served is not None:
        pytest.skip("about files of logs, which a broker does not have")


def test_a_log_keeps_its_records_in_order(store: Store) -> None:
    log = store.log("regions/w/sources/s")
    assert [log.append({"n": n}) for n in (1, 2, 3)] == [1, 2, 3]
    again = store.log("regions/w/sources/s")
    assert (again.first, again.last, again.end()) == (1, 3, 3)
    assert list(again.after(1)) == [(2, {"n": 2}), (3, {"n": 3})]
    assert again.read(4) is None
    assert again.exists(3)
    assert not again.exists(4)


def test_source_logs_are_found_whatever_else_lies_beside_their_records(store: Store) -> None:
    log = store.log(names.source_log("w", "s"))
    assert list(names.sources(store.disk)) == []
    store.put_table(f"{log.name}/data/0000000001.parquet", TABLE)
    store.put_document(f"{log.name}/folded", {})
    log.append({"n": 1})
    assert list(names.sources(store.disk)) == [("w", "s")]
    store.log(names.outbox_log("w", "shape", "east")).append({"n": 1})
    assert names.receivers(store.disk, "w", "shape") == ["east"]


def test_a_number_is_taken_once(store: Store) -> None:
    first, second = store.log("l"), store.log("l")
    first.append({"n": 1})
    with pytest.raises(StateError, match="two writers"):
        second.append({"n": 2})
    with pytest.raises(StateError, match="two writers"):
        first.append({"n": 2}, expect=1)
    assert store.log("l").read(1) == {"n": 1}


def test_a_reader_follows_a_log_that_is_cut_behind_it(store: Store) -> None:
    log, reader = store.log("l"), store.log("l")
    for n in range(1, 9):
        log.append({"n": n})
    assert [r["n"] for r in log.truncate(6)] == [1, 2, 3, 4, 5]
    assert [n for n, _ in reader.after(2)] == [6, 7, 8]
    assert reader.exists(3)  # a later one is there
    assert (store.log("l").first, store.log("l").last) == (6, 8)
    assert not store.has_record("l", 5)


def test_waiting_ends_with_the_record(store: Store) -> None:
    log = store.log("l")
    assert not log.wait(0, timeout=0.01)
    writer = threading.Timer(0.05, lambda: store.log("l").append({"n": 1}))
    writer.start()
    assert log.wait(0, timeout=10.0)
    writer.join()
    assert log.read(1) == {"n": 1}


def test_documents_are_replaced(store: Store) -> None:
    assert store.get_document("sinks/q/a") is None
    store.put_document("sinks/q/b", {"at": 1})
    store.put_document("sinks/q/b", {"at": 2})
    assert store.get_document("sinks/q/b") == {"at": 2}
    assert store.disk.names("sinks/q") == ["b.json"]
    store.delete_document("sinks/q/b")
    assert store.get_document("sinks/q/b") is None


def test_a_segment_is_read_linked_and_deleted(store: Store) -> None:
    size, known = store.put_table("d/1.parquet", TABLE)
    segment = Segment(("d/1.parquet",), 3, size, "", sums=(known,), store=store)
    assert store.size("d/1.parquet") == size
    assert Segment.from_json(segment.to_json(), store) == segment
    store.link("d/1.parquet", "e/2.parquet")
    store.delete("d/1.parquet")
    assert not store.exists("d/1.parquet")
    assert store.table("e/2.parquet", known) == TABLE
    fresh = Store(store.disk)
    assert fresh.table("e/2.parquet", known) == TABLE
    assert Path(fresh.path("e/2.parquet")).stat().st_size == size
    with pytest.raises(MissingFileError, match=r"1\.parquet is missing"):
        fresh.table("d/1.parquet", known)


def test_what_spark_wrote_is_taken_in(store: Store) -> None:
    folder = Path(store.path("d/3"))
    folder.mkdir(parents=True)
    (folder / "part-1.parquet").write_bytes(b"x")
    (folder / "_SUCCESS").touch()
    assert store.take_in("d/3") == ["d/3/part-1.parquet"]
    assert store.size("d/3/part-1.parquet") == 1


def test_a_damaged_segment_is_named(store: Store) -> None:
    size, known = store.put_table("d/1.parquet", TABLE)
    data = store.disk.read("d/1.parquet")
    for bad in (data[: size // 2], data[:40] + b"\xff" + data[41:], b""):
        store.disk.write("d/1.parquet", bad)
        fresh = Store(store.disk)
        with pytest.raises(StateError, match=r"d/1\.parquet is damaged.*godwit check"):
            fresh.table("d/1.parquet", known)
        with pytest.raises(StateError, match=r"d/1\.parquet is damaged"):
            fresh.verify("d/1.parquet", known)


def test_damaged_records_are_named(store: Store) -> None:
    _has_files(store)
    log = store.log("l")
    log.append({"n": 1, "text": "é"})
    log.append({"n": 2})
    good = store.disk.read("l/0000000001.log")
    for bad in (good.replace(b'"n":1', b'"n":7'), good[:60] + b"\xff" + good[61:], b"x" + good[1:], b'{"n": 1}' * 9):
        store.disk.write("l/0000000001.log", bad)
        with pytest.raises(StateError, match=r"l/0000000001\.log is damaged: .* at byte \d+.*--repair"):
            Store(store.disk).log("l").read(1)


def test_a_shared_logs_damaged_records_are_named(store: Store) -> None:
    _has_files(store)
    store.log("commands").append({"n": 1, "text": "é"})
    good = store.disk.read("commands/0000000001.json")
    for bad in (good[:-4], good.replace(b'"n":1', b'"n":2'), b"", b"\x00" * 30, b'{"n": 1}', b"{}"):
        store.disk.write("commands/0000000001.json", bad)
        with pytest.raises(StateError, match=r"commands/0000000001\.json (is|has)"):
            store.log("commands").read(1)


@pytest.mark.parametrize(("other", "who"), [(7, "a newer"), (1, "an older")])
def test_another_format_is_refused(store: Store, other: int, who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _has_files(store)
    with monkeypatch.context() as patch:
        for part in (records, frames):
            patch.setattr(part, "FORMAT", other)
        store.put_document("topology", [1])
        store.log("l").append({"n": 1})
    again = Store(store.disk)
    with pytest.raises(StateError, match=rf"topology\.json was written by {who} godwit \(format {other}, .* reads 2\)"):
        again.get_document("topology")
    with pytest.raises(StateError, match=rf"l/0000000001\.log was written by {who} godwit \(format {other}, "):
        again.log("l")


def test_a_folder_of_one_file_per_record_is_refused(store: Store) -> None:
    _has_files(store)
    store.disk.write("control/0000000001.json", b"{}")
    with pytest.raises(StateError, match=r"control/0000000001\.json was written by an older godwit .* that version"):
        store.log("control")


def test_foreign_files_are_ignored(store: Store) -> None:
    store.log("l").append({"n": 1})
    for name in ("l/notes.json", "l/.DS_Store", "l/0000000002.log.bak", "l/12.log"):
        store.disk.write(name, b"mine")
    assert store.numbers("l") == [1]
    assert store.log("l").last == 1


def test_lines_are_added_and_replaced(store: Store) -> None:
    store.append_lines("history.jsonl", ["a", "b"])
    store.append_lines("history.jsonl", ["c"])
    assert store.read_lines("history.jsonl") == ["a", "b", "c"]
    store.replace_lines("history.jsonl", ["c"])
    assert store.read_lines("history.jsonl") == ["c"]
    assert store.read_lines("nothing") == []


def test_lines_go_on_after_one_that_was_cut_off(store: Store) -> None:
    store.append_lines("history.jsonl", ["a", "b"])
    store.disk.write("history.jsonl", b"a\nb")
    again = Store(store.disk)
    again.append_lines("history.jsonl", ["c"])
    again.append_lines("history.jsonl", ["d"])
    assert again.read_lines("history.jsonl") == ["a", "b", "c", "d"]


def test_an_unknown_durability_is_refused() -> None:
    with pytest.raises(StateError, match="use 'process' or 'power'"):
        Store(MemoryDisk(), "most")  # type: ignore[arg-type]
