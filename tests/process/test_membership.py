"""Who has a name where no file system has locks; who counts as silent; which departed devices may be forgotten."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from godwit.errors import StateError
from godwit.ids import DeviceId, RegionId
from godwit.process.departures import Departures
from godwit.process.members import ProcessMember, SilenceWatch
from godwit.storage import lease
from godwit.storage.lease import Lease, lease_holder
from godwit.storage.nats_documents import NatsDocuments
from godwit.storage.nats_server import HUB, NatsServer
from tests.servers import nats_server

NAME = "processes/regions/west"


@pytest.fixture
def objects(tmp_path: Path) -> Iterator[NatsDocuments]:
    with nats_server(tmp_path) as address:
        server = NatsServer(address, "fleet")
        yield NatsDocuments(server, HUB)
        server.close()


def test_a_name_has_one_holder_who_is_named(objects: NatsDocuments) -> None:
    first = Lease(objects, NAME)
    first.take()
    with pytest.raises(StateError, match=f"is in use by process {os.getpid()} on"):
        Lease(objects, NAME).take()
    assert lease_holder(objects, NAME) is not None
    first.release()
    assert lease_holder(objects, NAME) is None
    first.take()  # once more, as a fleet that is stopped and started
    with pytest.raises(StateError, match="is in use"):
        Lease(objects, NAME).take()
    first.release()
    second = Lease(objects, NAME)
    second.take()
    second.release()


def test_the_name_of_a_dead_process_is_free_at_once(objects: NatsDocuments) -> None:
    code = (
        "import os, sys\n"
        "from godwit.storage.lease import Lease\n"
        "from godwit.storage.nats_documents import NatsDocuments\n"
        "from godwit.storage.nats_server import HUB, NatsServer\n"
        f"Lease(NatsDocuments(NatsServer(sys.argv[1], 'fleet'), HUB), {NAME!r}).take()\nos.kill(os.getpid(), 9)\n"
    )
    address = objects.root.rpartition("/")[0]
    assert subprocess.run([sys.executable, "-c", code, address], check=False).returncode == -9
    began = time.monotonic()
    mine = Lease(objects, NAME)
    mine.take()
    assert time.monotonic() - began < lease.SILENCE / 2
    mine.release()


def test_a_holder_that_was_silent_is_fenced(objects: NatsDocuments, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "BEAT_EVERY", 0.05)
    monkeypatch.setattr(lease, "SILENCE", 0.5)
    fenced: list[str] = []
    old = Lease(objects, NAME, lambda: fenced.append("old"))
    monkeypatch.setattr(lease, "_me", lambda: {"pid": 1, "host": "another", "machine": "another", "born": "?"})
    old.take()
    monkeypatch.undo()
    monkeypatch.setattr(lease, "SILENCE", 0.5)
    old._over.set()  # it stands still: nothing is said any more
    assert old._thread is not None
    old._thread.join()
    new = Lease(objects, NAME)
    new.take()
    old._over.clear()
    old._run()  # it goes on, and finds that another has come
    assert fenced == ["old"]
    new.release()


def test_whoever_was_away_himself_calls_nobody_silent() -> None:
    watch = SilenceWatch(lease=4.0)
    for now in (0.0, 1.0):
        watch.looks(now)
        watch.observe("west", ProcessMember("a", beat=1), now)
    watch.looks(30.0)  # the coordinator was stopped, or its store was away
    watch.observe("west", ProcessMember("a", beat=1), 30.0)
    assert watch.silent(30.0) == set()
    for now in (31.0, 32.0, 33.0, 34.0, 35.0):
        watch.looks(now)
    assert watch.silent(35.0) == {"west"}


def test_a_device_is_forgotten_once_every_region_has_read_it_since_it_left() -> None:
    west, east, train = RegionId("west"), RegionId("east"), DeviceId("t")
    book = Departures()
    book.record(west, 4, [train])  # of an earlier stay
    book.at(5, {train})
    book.record(east, 5, [train])
    assert book.forgettable([west, east]) == set()
    book.record(west, 6, [train])
    assert book.forgettable([west, east]) == {train}
    book.at(7, set())  # it is back
    book.at(8, {train})  # and has left again
    assert book.forgettable([west, east]) == set()
    assert book.forgettable([]) == set()
