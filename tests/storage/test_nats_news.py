"""Readers of a log in NATS receive what is appended: they need no requests, and find what was not delivered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from godwit.storage import nats_log
from godwit.storage.inline import InlineRows
from godwit.storage.open_store import open_store
from godwit.storage.store import Store
from tests.servers import Nats, until

LOG = "regions/west/shapes/ab/outbox/east"


class Counted:
    """A store that counts its requests."""

    def __init__(self, url: str) -> None:
        self.store, self.requests = open_store(url), 0
        server = self.store.served.server  # type: ignore[union-attr]
        request = server.request

        def counted(*question):  # type: ignore[no-untyped-def]
            self.requests += 1
            return request(*question)

        server.request = counted


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Nats]:
    made = Nats(tmp_path / "nats")
    with made:
        yield made


@pytest.fixture
def writer(server: Nats) -> Iterator[Store]:
    made = open_store(f"{server.address}/fleet")
    yield made
    made.close()


@pytest.fixture
def reader(server: Nats, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    monkeypatch.setattr(nats_log, "CHECK_EVERY", 60.0)  # nothing is found by checking now and then
    made = Counted(f"{server.address}/fleet")
    yield made
    made.store.close()


def test_what_this_process_has_appended_is_read_without_a_request(reader: Counted) -> None:
    """A region reads its own source logs: every batch of rows, on the thread that processes them."""
    rows = InlineRows.of(pa.table({"n": [1, 2, 3]}))
    log = reader.store.log(LOG, create=True)
    log.append({"n": 1})
    assert log.read(1) == {"n": 1}  # (from here on it is known to be read here)
    reader.requests = 0
    for n in range(2, 50):
        log.append({"n": n, "rows": rows})
    found = list(log.after(1))
    assert [record["n"] for _, record in found] == list(range(2, 50))
    assert all(record["rows"] is rows for _, record in found), "the very same rows"
    assert reader.requests == 48, "appends alone"


def test_a_table_of_the_store_is_fetched_once(reader: Counted) -> None:
    store, table = reader.store, pa.table({"n": list(range(1000))})
    _, checksum = store.put_table("regions/west/some.parquet", table)
    store.cache.drop("regions/west/some.parquet")
    reader.requests = 0
    assert store.table("regions/west/some.parquet", checksum) == table
    assert reader.requests == 1
    store.verify("regions/west/some.parquet", checksum)
    assert Path(store.path("regions/west/some.parquet")).stat().st_size > 0
    assert reader.requests == 2, "a copy for Spark, once"


def test_what_is_appended_reaches_readers_without_a_request(writer: Store, reader: Counted) -> None:
    log, there = writer.log(LOG), reader.store.log(LOG)
    heard: list[str] = []
    reader.store.served.on_append = heard.append  # type: ignore[union-attr]
    log.append({"n": 1})
    assert until(lambda: there.read(1), 5) == {"n": 1}
    assert not there.exists(2)  # from here on it follows
    reader.requests = 0
    for n in range(2, 50):
        log.append({"n": n, "text": "x" * 1000})
    assert until(lambda: there.exists(49), 5)
    assert [record["n"] for _, record in there.after(1)] == list(range(2, 50))
    assert not there.exists(50)
    assert reader.requests == 0
    assert set(heard) == {LOG}


def test_a_refused_append_is_no_news(writer: Store, reader: Counted, server: Nats) -> None:
    other = open_store(f"{server.address}/fleet")
    first, second, there = writer.log(LOG), other.log(LOG), reader.store.log(LOG)
    first.append({"n": "mine"})
    assert not other.try_append(LOG, 1, {"n": "theirs"})
    assert second.read(1) == there.read(1) == {"n": "mine"}
    assert not there.exists(2)
    other.close()


def test_what_was_not_delivered_is_found_by_checking_now_and_then(
    writer: Store, reader: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(subject: str, data: bytes) -> None:
        """The news is lost."""

    log, there = writer.log(LOG), reader.store.log(LOG)
    assert not there.exists(1)
    monkeypatch.setattr(writer.served.server, "publish", nothing)  # type: ignore[union-attr]
    log.append({"n": 1})
    assert not there.exists(1)
    monkeypatch.setattr(nats_log, "CHECK_EVERY", 0.05)
    assert until(lambda: there.exists(1), 5)


def test_a_lost_connection_makes_readers_check(writer: Store, reader: Counted, server: Nats) -> None:
    log, there = writer.log(LOG), reader.store.log(LOG)
    log.append({"n": 1})
    assert until(lambda: there.read(1), 5) == {"n": 1}
    server.kill()
    server.start()
    log.append({"n": 2})
    assert until(lambda: there.exists(2), 10)
    assert there.read(2) == {"n": 2}


def test_a_refresh_sees_what_was_appended_before(writer: Store, reader: Counted) -> None:
    log, there = writer.log(LOG), reader.store.log(LOG)
    assert not there.exists(1)
    for n in range(1, 100):
        log.append({"n": n})
        reader.store.refresh()
        assert there.exists(n)


def test_a_log_that_was_cut_behind_its_reader_goes_on_where_it_begins(writer: Store, reader: Counted) -> None:
    log, there = writer.log(LOG), reader.store.log(LOG)
    assert not there.exists(1)
    for n in range(1, 200):
        log.append({"n": n})
    log.truncate(150)
    assert until(lambda: there.exists(199), 5)
    assert [n for n, _ in there.after(0)] == list(range(150, 200))


def test_a_log_that_was_removed_begins_again(writer: Store, reader: Counted) -> None:
    log, there = writer.log(LOG), reader.store.log(LOG)
    assert not there.exists(1)
    log.append({"n": "old"})
    log.append({"n": "old"})
    assert until(lambda: there.exists(2), 5)
    writer.remove("regions/west/shapes/ab")
    writer.log(LOG).append({"n": "new"})
    reader.store.refresh()
    assert reader.store.log(LOG).read(1) == {"n": "new"}
    assert reader.store.log(LOG).last == 1
