"""Readers of a log in NATS are told what is appended: they ask no more, and find what they were not told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from godwit.storage import nats_log
from godwit.storage.open_store import open_store
from godwit.storage.store import Store
from tests.servers import Nats, until

LOG = "regions/west/shapes/ab/outbox/east"


class Asked:
    """A store that counts what it asks its server."""

    def __init__(self, url: str) -> None:
        self.store, self.questions = open_store(url), 0
        server = self.store.served.server  # type: ignore[union-attr]
        ask = server.ask

        def counted(question):  # type: ignore[no-untyped-def]
            self.questions += 1
            return ask(question)

        server.ask = counted


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
def reader(server: Nats, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    monkeypatch.setattr(nats_log, "ASK_EVERY", 60.0)  # nothing is found by asking now and then
    made = Asked(f"{server.address}/fleet")
    yield made
    made.store.close()


def test_what_is_appended_reaches_readers_without_a_question(writer: Store, reader: Asked) -> None:
    log, there = writer.log(LOG), reader.store.log(LOG)
    heard: list[str] = []
    reader.store.served.heard = heard.append  # type: ignore[union-attr]
    log.append({"n": 1})
    assert until(lambda: there.read(1), 5) == {"n": 1}
    assert not there.exists(2)  # from here on it hears
    reader.questions = 0
    for n in range(2, 50):
        log.append({"n": n, "text": "x" * 1000})
    assert until(lambda: there.exists(49), 5)
    assert [record["n"] for _, record in there.after(1)] == list(range(2, 50))
    assert not there.exists(50)
    assert reader.questions == 0
    assert set(heard) == {LOG}


def test_a_refused_append_is_no_news(writer: Store, reader: Asked, server: Nats) -> None:
    other = open_store(f"{server.address}/fleet")
    first, second, there = writer.log(LOG), other.log(LOG), reader.store.log(LOG)
    first.append({"n": "mine"})
    assert not other.try_append(LOG, 1, {"n": "theirs"})
    assert second.read(1) == there.read(1) == {"n": "mine"}
    assert not there.exists(2)
    other.close()


def test_what_was_not_heard_is_found_by_asking_now_and_then(
    writer: Store, reader: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(subject: str, data: bytes) -> None:
        """The news is lost."""

    log, there = writer.log(LOG), reader.store.log(LOG)
    assert not there.exists(1)
    monkeypatch.setattr(writer.served.server, "say", nothing)  # type: ignore[union-attr]
    log.append({"n": 1})
    assert not there.exists(1)
    monkeypatch.setattr(nats_log, "ASK_EVERY", 0.05)
    assert until(lambda: there.exists(1), 5)


def test_a_lost_connection_makes_readers_ask(writer: Store, reader: Asked, server: Nats) -> None:
    log, there = writer.log(LOG), reader.store.log(LOG)
    log.append({"n": 1})
    assert until(lambda: there.read(1), 5) == {"n": 1}
    server.kill()
    server.start()
    log.append({"n": 2})
    assert until(lambda: there.exists(2), 10)
    assert there.read(2) == {"n": 2}


def test_looking_again_sees_what_was_appended_before(writer: Store, reader: Asked) -> None:
    log, there = writer.log(LOG), reader.store.log(LOG)
    assert not there.exists(1)
    for n in range(1, 100):
        log.append({"n": n})
        reader.store.look_again()
        assert there.exists(n)


def test_a_log_that_was_cut_behind_its_reader_goes_on_where_it_begins(writer: Store, reader: Asked) -> None:
    log, there = writer.log(LOG), reader.store.log(LOG)
    assert not there.exists(1)
    for n in range(1, 200):
        log.append({"n": n})
    log.truncate(150)
    assert until(lambda: there.exists(199), 5)
    assert [n for n, _ in there.after(0)] == list(range(150, 200))


def test_a_log_that_was_removed_begins_anew(writer: Store, reader: Asked) -> None:
    log, there = writer.log(LOG), reader.store.log(LOG)
    assert not there.exists(1)
    log.append({"n": "old"})
    log.append({"n": "old"})
    assert until(lambda: there.exists(2), 5)
    writer.remove("regions/west/shapes/ab")
    writer.log(LOG).append({"n": "new"})
    reader.store.look_again()
    assert reader.store.log(LOG).read(1) == {"n": "new"}
    assert reader.store.log(LOG).last == 1
