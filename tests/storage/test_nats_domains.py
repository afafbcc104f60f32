"""A region behind a leaf link keeps its logs in its own JetStream domain: writing costs no trip, readers hear of it in
one way's time, and while the link is cut nobody stands still."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pyarrow as pa
import pytest

from godwit.errors import ConfigError, StateError, StoreAwayError
from godwit.maintenance.integrity import inspect, sequences
from godwit.process.coordinator_agent import RemoteGateway
from godwit.process.proxy import Proxy
from godwit.storage import names, nats_server
from godwit.storage.open_store import holder_of, lock_of, no_processes, open_store
from godwit.storage.store import Store
from tests.servers import Nats, until

OUTBOX = "regions/west/shapes/ab/outbox/cloud"
#: what is far for the leaf node
CONTROL = names.CONTROL


class Servers:
    """A hub and a leaf node, with a link between them that can be cut or slow."""

    def __init__(self, folder: Path) -> None:
        self.hub, self.link = Nats(folder / "hub", "hub"), Proxy()
        self.link.target = self.hub.leaf_address
        self.edge = Nats(folder / "edge", "edge", self.link.address)
        self._opened: list[Store] = []

    def start(self) -> None:
        self.hub.start()
        self.edge.start()

    def store(self, at: Nats, more: str = "") -> Store:
        def opened() -> Store | None:
            try:
                return open_store(f"{at.address}/fleet{more}")
            except OSError:  # (the leaf link is not there yet)
                return None

        made = until(opened)
        self._opened.append(made)
        return made

    def west(self) -> Store:
        made = self.store(self.edge, "?domain=edge")
        made.served.claim("west")  # type: ignore[union-attr]
        return made

    def stop(self) -> None:
        for one in self._opened:
            one.close()
        self.edge.kill()
        self.hub.kill()
        self.link.close()


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    made = Servers(tmp_path)
    made.start()
    yield made
    made.stop()


def _streams(store: Store, domain: str) -> set[str]:
    server = store.served.server  # type: ignore[union-attr]
    return {one.config.description or one.config.name for one in server.request(lambda js: js.streams_info(), domain)}


def test_what_a_region_writes_lies_in_its_domain_and_the_rest_at_the_hub(servers: Servers) -> None:
    west, cloud = servers.west(), servers.store(servers.hub)
    west.log(OUTBOX).append({"n": 1})
    west.log(names.report_log("west")).append({"n": 1})
    cloud.log(CONTROL).append({"n": 1})
    west.put_document("processes/regions/west", {"beat": 1})
    west.put_document("processes/regions/west/followed", {"epoch": 1})
    large = pa.table({"a": list(range(400_000))})
    _, summed = west.put_table("regions/west/shapes/ab/data/1.parquet", large)
    assert _streams(cloud, "edge") >= {OUTBOX, "reports/west", "fleet-doc"}
    assert CONTROL not in _streams(cloud, "edge")
    assert not {OUTBOX, "reports/west"} & _streams(cloud, "")
    assert cloud.log(OUTBOX).read(1) == west.log(OUTBOX).read(1) == {"n": 1}
    assert west.log(CONTROL).read(1) == {"n": 1}
    assert cloud.get_document("processes/regions/west") == {"beat": 1}
    assert cloud.get_document("processes/regions/west/followed") == {"epoch": 1}
    assert cloud.table("regions/west/shapes/ab/data/1.parquet", summed) == large
    cloud.log(names.source_log("cloud", "s")).append({"n": 1})
    for store in (west, cloud):
        assert names.regions(store.disk) == ["cloud", "west"]
        assert names.receivers(store.disk, "west", "ab") == ["cloud"]
    cloud.remove("regions/west/shapes/ab")
    assert not {OUTBOX} & _streams(cloud, "edge")
    assert names.receivers(cloud.disk, "west", "ab") == []
    assert not cloud.exists("regions/west/shapes/ab/data/1.parquet")


def test_the_lease_of_a_region_lies_in_its_domain(servers: Servers) -> None:
    cloud = servers.store(servers.hub)
    name = "processes/regions/west"
    assert holder_of(cloud, name) is None
    west = servers.west()
    lease = lock_of(west, name)
    lease.take()
    assert until(lambda: holder_of(cloud, name), 5)["pid"] == os.getpid()
    with pytest.raises(StateError, match="is in use by process"):
        lock_of(cloud, name).take()
    with pytest.raises(StateError, match="is in use by process"):
        no_processes(cloud)
    servers.link.cut(True)
    beat = west.objects.get(f"leases/{name}/alive")  # type: ignore[union-attr]
    assert until(lambda: west.objects.get(f"leases/{name}/alive") != beat, 5)  # type: ignore[union-attr]
    servers.link.cut(False)
    lease.release()
    assert until(lambda: _held(cloud, name) is False, 10)


def _held(store: Store, name: str) -> bool | None:
    """None: the domain cannot be reached."""
    try:
        return holder_of(store, name) is not None
    except OSError:
        return None


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("regions/west", "west"),
        ("regions/west/sources/s", "west"),
        ("large/regions/west/shapes/ab/commits/12-1f", "west"),
        ("reports/west", "west"),
        ("landing/west/1", "west"),
        ("leases/processes/regions/west", "west"),
        ("leases/processes/regions/west/alive", "west"),
        ("processes/regions/west/followed.json", "west"),
        ("processes/regions/west.json", None),
        ("processes/regions/west", None),
        ("processes/coordinator.json", None),
        ("leases/processes/coordinator/0000000001", None),
        ("control", None),
        ("commands", None),
        ("regions", None),
        ("sinks/west/1f", None),
    ],
)
def test_names_have_owners(name: str, owner: str | None) -> None:
    assert names.owner_of(name) == owner


def test_over_a_slow_link_an_append_costs_no_trip_and_news_one_way(servers: Servers) -> None:
    west, cloud = servers.west(), servers.store(servers.hub)
    log, there = west.log(OUTBOX), cloud.log(OUTBOX)
    log.append({"n": 1})
    assert until(lambda: there.exists(1))
    assert there.read(1) == {"n": 1}
    servers.link.delay(0.1)
    appends, ways = [], []
    for n in range(2, 12):
        began = time.monotonic()
        log.append({"n": n})
        appends.append(time.monotonic() - began)
        while not there.exists(n):
            time.sleep(0.001)
        assert there.read(n) == {"n": n}
        ways.append(time.monotonic() - began)
    assert median(appends) < 0.05, appends
    assert 0.1 <= median(ways) < 0.18, ways


def test_while_the_link_is_cut_both_sides_go_on_and_readers_catch_up(servers: Servers) -> None:
    west, cloud = servers.west(), servers.store(servers.hub)
    log, there, epochs, follows = west.log(OUTBOX), cloud.log(OUTBOX), cloud.log(CONTROL), west.log(CONTROL)
    log.append({"n": 1})
    epochs.append({"n": 1})
    assert until(lambda: there.exists(1) and follows.exists(1))
    servers.link.cut(True)
    began = time.monotonic()
    for n in range(2, 402):
        log.append({"n": n})
        epochs.append({"n": n})
        assert not there.exists(n)
        assert not follows.exists(n)
        assert west.log(OUTBOX).end() == n
    time.sleep(max(4.0 - (time.monotonic() - began), 0.0))  # longer than news count as current
    assert not there.exists(2)
    assert not follows.exists(2)
    assert time.monotonic() - began < 20
    with pytest.raises(OSError, match="cannot be read"):
        cloud.refresh()
    cloud.refresh(CONTROL)  # (which is near)
    with pytest.raises(OSError, match="is away"):
        cloud.log("regions/west/sources/s")
    assert names.regions(cloud.disk) == ["west"]
    began = time.monotonic()
    with pytest.raises(OSError, match="is away"):
        cloud.log("regions/west/sources/s")
    assert time.monotonic() - began < 0.5, "one that is known to be away is not waited for"
    servers.link.cut(False)
    servers.link.delay(0.05)
    began = time.monotonic()
    assert until(lambda: there.exists(401) and follows.exists(401))
    assert [(n, r["n"]) for n, r in there.after(1)] == [(n, n) for n in range(2, 402)]
    assert [n for n, _ in follows.after(1)] == list(range(2, 402))
    assert time.monotonic() - began < 8, "800 records, not one trip each"
    until(lambda: _opens(cloud))
    assert cloud.log("regions/west/sources/s").last == 0


def _opens(store: Store) -> bool:
    try:
        store.log("regions/west/sources/s")
    except OSError:
        return False
    return True


def test_news_that_was_lost_is_fetched_when_the_next_comes(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    async def lost(subject: str, data: bytes) -> None:
        """Nothing is delivered."""

    west, cloud = servers.west(), servers.store(servers.hub)
    log, there = west.log(OUTBOX), cloud.log(OUTBOX)
    assert not there.exists(1)
    server = west.served.server  # type: ignore[union-attr]
    with monkeypatch.context() as patched:
        patched.setattr(server, "publish", lost)
        for n in range(1, 4):
            log.append({"n": n})
    began = time.monotonic()
    log.append({"n": 4})
    assert until(lambda: there.exists(4))
    assert time.monotonic() - began < 0.8
    assert [record["n"] for _, record in there.after(0)] == [1, 2, 3, 4]


def test_a_refresh_sees_what_was_appended_before_at_the_other_side(servers: Servers) -> None:
    west, cloud = servers.west(), servers.store(servers.hub)
    log, there = west.log(OUTBOX), cloud.log(OUTBOX)
    assert not there.exists(1)
    servers.link.delay(0.02)
    for n in range(1, 20):
        log.append({"n": n})
        cloud.refresh()
        assert there.exists(n)
        assert there.read(n) == {"n": n}


def test_how_far_a_far_log_goes_and_its_next_records_take_one_trip(servers: Servers) -> None:
    west, cloud = servers.west(), servers.store(servers.hub)
    log = west.log("regions/west/sources/s")
    for n in range(1, 50):
        log.append({"n": n})
    assert cloud.bounds_after(log.name, 0) == (1, 49)
    servers.link.delay(0.1)
    time.sleep(0.3)
    began = time.monotonic()
    assert cloud.bounds_after(log.name, 20) == (1, 49)
    assert [cloud.read_record(log.name, n) for n in range(21, 50)] == [{"n": n} for n in range(21, 50)]
    assert 0.2 <= time.monotonic() - began < 0.39
    log.append({"n": 50})
    assert cloud.bounds_after(log.name, 49) == (1, 50), "now, not as it was"
    assert cloud.read_record(log.name, 50) == {"n": 50}
    assert west.bounds_after(log.name, 0) == (1, 50)


def test_a_log_that_was_cut_or_removed_at_the_other_side(servers: Servers) -> None:
    west, cloud = servers.west(), servers.store(servers.hub)
    log, there = west.log(OUTBOX), cloud.log(OUTBOX)
    assert not there.exists(1)
    for n in range(1, 200):
        log.append({"n": n})
    log.truncate(150)
    cloud.refresh()
    assert [n for n, _ in there.after(0)][-50:] == list(range(150, 200))
    west.remove("regions/west/shapes/ab")
    west.log(OUTBOX).append({"n": "new"})
    cloud.refresh()
    assert cloud.log(OUTBOX).read(1) == {"n": "new"}
    assert cloud.log(OUTBOX).last == 1


def test_readers_find_a_region_that_joins_after_they_have_looked(servers: Servers) -> None:
    cloud = servers.store(servers.hub)
    there = cloud.log(OUTBOX)
    assert not there.exists(1)
    west = servers.west()
    west.log(OUTBOX).append({"n": 1})
    assert until(lambda: there.exists(1), 5)
    assert there.read(1) == {"n": 1}
    assert OUTBOX not in _streams(cloud, "")


def test_the_logs_of_a_region_stay_where_they_are(servers: Servers) -> None:
    west, cloud = servers.west(), servers.store(servers.hub)
    cloud.served.claim("cloud")  # type: ignore[union-attr]
    cloud.log(names.source_log("old", "s")).append({"n": 1})  # of a region from before domains
    leaf = servers.store(servers.edge, "?domain=edge")
    for region in ("cloud", "old"):
        with pytest.raises(ConfigError, match=f"region '{region}' has its logs at the hub"):
            leaf.served.claim(region)  # type: ignore[union-attr]
    cloud.served.claim("west")  # type: ignore[union-attr]
    cloud.log(OUTBOX).append({"n": 1})  # (`forget-region` works where it is started)
    assert OUTBOX in _streams(west, "edge")
    with pytest.raises(ConfigError, match="cannot be combined"):
        servers.store(servers.hub, f"?segments=file:{servers.hub._folder}/files")
    for wrong in ("?domain=a.b", "?domain=edge&segments=file:/tmp/x", "?domain=hub"):
        with pytest.raises(ConfigError):
            open_store(f"{servers.edge.address}/fleet{wrong}")


def test_two_leaf_nodes_read_each_other(servers: Servers, tmp_path: Path) -> None:
    with Nats(tmp_path / "other", "other", servers.hub.leaf_address) as second:
        west, east = servers.west(), servers.store(second, "?domain=other")
        east.served.claim("east")  # type: ignore[union-attr]
        log, there = west.log(OUTBOX), east.log(OUTBOX)
        assert not there.exists(1)
        log.append({"n": 1})
        assert until(lambda: there.exists(1), 5)
        assert there.read(1) == {"n": 1}
        assert names.regions(east.disk) == ["east", "west"]


def test_a_leaf_node_that_is_killed_has_kept_what_it_acknowledged(servers: Servers) -> None:
    west, cloud = servers.west(), servers.store(servers.hub)
    log, there = west.log(OUTBOX), cloud.log(OUTBOX)
    for n in range(1, 50):
        log.append({"n": n})
    servers.edge.kill()
    servers.edge.start()
    log.append({"n": 50})  # (waits for its server)
    assert until(lambda: there.exists(50), 20)
    assert [record["n"] for _, record in there.after(0)] == list(range(1, 51))


#: as docs/howto/run_regions_as_processes.md has them
RIGHTS = """authorization { users: [ { user: edge, password: secret, permissions: {
  publish: ["fleet.at.edge.>", "fleet.doc.>", "fleet.log.>", "fleet.news.>", "fleet.domains",
            "$JS.API.>", "$JS.*.API.>", "$O.fleet-edge-large.>"]
  subscribe: ["fleet.>", "_INBOX.>"] } } ] }
"""


class _Hub(Nats):
    def _config(self) -> str:
        return super()._config().replace("no_advertise", "authorization { user: leaf, password: pw }, no_advertise")


class _Leaf(Nats):
    def _config(self) -> str:
        return super()._config().replace("nats-leaf://", "nats-leaf://leaf:pw@") + RIGHTS


def test_users_with_no_more_rights_than_they_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nats_server, "TIMEOUT", 1.0)
    made = Servers.__new__(Servers)
    made.hub, made.link, made._opened = _Hub(tmp_path / "hub", "hub"), Proxy(), []
    made.link.target = made.hub.leaf_address
    made.edge = _Leaf(tmp_path / "edge", "edge", made.link.address)
    made.start()
    try:
        made.edge.address = made.edge.address.replace("nats://", "nats://edge:secret@")
        west, cloud = made.west(), made.store(made.hub)
        west.log(OUTBOX).append({"n": 1})
        large = pa.table({"a": list(range(400_000))})
        _, summed = west.put_table("regions/west/data/1.parquet", large)
        assert cloud.log(OUTBOX).read(1) == {"n": 1}
        assert cloud.table("regions/west/data/1.parquet", summed) == large
        assert west.try_append(names.COMMANDS, 1, {"n": 1})
        assert cloud.log(names.COMMANDS).read(1) == {"n": 1}
        cloud.log(CONTROL).append({"n": 1})
        assert west.log(CONTROL).read(1) == {"n": 1}
        assert "secret" not in west.disk.root
        west.served.domains._learn(b"east other")  # type: ignore[union-attr]
        with pytest.raises(OSError, match="is away"):
            west.put_document("regions/east/x", {"not": "its own"})
        with pytest.raises(
            ConfigError, match=r"refuses this user \(nats: 'Authorization Violation'\); give nats://USER"
        ):
            open_store(f"{made.edge.address.replace('edge:secret@', '')}/fleet?domain=edge")
    finally:
        made.stop()


def test_logs_behind_a_link_that_is_cut_are_inspected_later(servers: Servers) -> None:
    """A coordinator that is started meanwhile goes on without them: it has read nothing of them yet."""
    west = servers.west()
    west.log(names.source_log("west", "s")).append({"n": 1})
    west.log(names.commit_log("west", "ab"), create=True)
    first = servers.store(servers.hub)
    first.log(CONTROL).append({"starts": {"west/s": 1}})
    first.log(names.source_log("cloud", "s")).append({"n": 1})
    servers.link.cut(True)
    started = servers.store(servers.hub)  # (another process, which has listed nothing)
    assert inspect(started) == {"west"}
    with pytest.raises(StoreAwayError, match="'edge'"):
        list(sequences(started))
    assert RemoteGateway(started).known_ends == {names.source_log("west", "s"): 1}
    servers.link.cut(False)
    assert until(lambda: not inspect(started))


def test_who_ends_does_not_wait_for_a_server_that_is_away(servers: Servers) -> None:
    west = servers.west()
    west.log(OUTBOX).append({"n": 1})
    servers.edge.kill()
    failed: list[BaseException] = []

    def append() -> None:
        try:
            west.log(OUTBOX).append({"n": 2})
        except OSError as fault:
            failed.append(fault)

    waits = threading.Thread(target=append, daemon=True)
    waits.start()
    waits.join(1.0)
    assert waits.is_alive()  # a server of one's own is waited for
    began = time.monotonic()
    west.part()
    waits.join(20.0)
    assert failed
    for _ in range(20):
        with pytest.raises(OSError, match="is away"):
            west.log(OUTBOX).append({"n": 2})
    assert time.monotonic() - began < 12


def test_a_connection_that_uvloop_has_closed_counts_as_a_server_that_is_away() -> None:
    """It says so by an error of no kind of its own; what it ends must be tried again, as after any other loss."""
    assert nats_server.is_away(RuntimeError("unable to perform operation on <TCPTransport>; the handler is closed"))
    assert not nats_server.is_away(RuntimeError("a bug"))
