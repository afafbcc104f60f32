"""Between processes: the token, formats, errors that arrive as they were raised, members that fall silent. No Spark."""

from __future__ import annotations

import contextlib
import gc
import logging
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from godwit.errors import ConfigError, ElsewhereError, StoreAwayError, TypeMismatchError
from godwit.ids import DeviceId, RegionId, StreamId
from godwit.process import wire
from godwit.process.fleet_document import FleetDocument, fleet_options, write_fleet_options
from godwit.process.fleet_file import RegionSpec, load_fleet_file
from godwit.process.members import ProcessMember, SilenceWatch, member, region_document
from godwit.process.sequences import SequenceIndex
from godwit.process.wire import Head, Listener, WireCaller, advertised, as_error, raise_error
from godwit.storage import names, nats_server
from godwit.storage.nats_server import ServerAwayError
from godwit.storage.open_store import folder_of, open_store
from godwit.storage.store import Store
from tests import servers

SECRET = "a token of the fleet"


def _answers(head: Head, body: bytes) -> tuple[Head, bytes] | None:
    match head["do"]:
        case "echo":
            return {"size": len(body)}, body[::-1]
        case "elsewhere":
            msg = "not here"
            raise ElsewhereError(msg, "cloud")
        case "sql":
            msg = "no type"
            raise TypeMismatchError(msg, place="a + b", remedy="cast it")
        case _:
            raise ValueError(head["do"])


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener(_answers, SECRET, "west")
    made.start()
    yield made
    made.stop()


def test_bytes_come_back_and_errors_as_they_were_raised(listener: Listener) -> None:
    caller = WireCaller(listener.address, SECRET, "west")
    assert caller.call({"do": "echo"}, b"abc" * 100_000) == ({"size": 300_000}, b"cba" * 100_000)
    with pytest.raises(ElsewhereError) as elsewhere:
        caller.call({"do": "elsewhere"})
    assert elsewhere.value.region == "cloud"
    with pytest.raises(TypeMismatchError, match="remedy: cast it"):
        caller.call({"do": "sql"})
    assert caller.call({"do": "echo"}, b"ab")[1] == b"ba"
    caller.close()


def test_a_wrong_token_gets_nothing_and_is_logged(listener: Listener, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), pytest.raises(ConfigError, match="GODWIT_FLEET_TOKEN"):
        WireCaller(listener.address, "another token entirely", "west").call({"do": "echo"})
    assert any("connected without" in record.message and "127.0.0.1" in record.message for record in caplog.records)


def test_a_listener_without_the_token_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody has taken a region's old port: he cannot prove anything, so he gets no rows."""
    monkeypatch.setattr(Listener, "_let_in", _says_yes_to_anybody)
    impostor = Listener(_answers, "he has to guess it", "west")
    impostor.start()
    with pytest.raises(ConfigError, match="does not have the fleet's token"):
        WireCaller(impostor.address, SECRET, "west").call({"do": "echo"})
    impostor.stop()


def _says_yes_to_anybody(self: Listener, caller: socket.socket, who: str) -> bool:
    wire.send(caller, {"godwit": wire.FORMAT, "nonce": "0"})
    wire.receive(caller)
    wire.send(caller, {"proof": "guessed"})
    return True


def test_another_format_is_refused_with_the_remedy(listener: Listener) -> None:
    host, _, port = listener.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=5) as newer:
        hello = wire.receive(newer)
        assert hello is not None
        proof = wire._proof(SECRET, "caller", hello[0]["nonce"])
        wire.send(newer, {"godwit": wire.FORMAT + 1, "proof": proof, "nonce": "0"})
        answer = wire.receive(newer)
        assert answer is not None
        assert "same godwit version everywhere" in answer[0]["message"]


def test_a_frame_that_is_too_large_or_no_json_ends_the_connection_only(listener: Listener) -> None:
    host, _, port = listener.address.rpartition(":")
    for garbage in (struct.pack(">II", 2**31, 0), struct.pack(">II", 3, 0) + b"{]}", b"GET / HTTP/1.1\r\n\r\n"):
        with socket.create_connection((host, int(port)), timeout=5) as stranger:
            stranger.sendall(garbage)
            stranger.settimeout(5)
            while stranger.recv(4096):
                pass
    assert WireCaller(listener.address, SECRET, "west").call({"do": "echo"})[0] == {"size": 0}


def test_silence_is_measured_by_the_watcher_alone() -> None:
    watch = SilenceWatch(lease=5.0)
    watch.observe("west", ProcessMember("", beat=1, pid=7), now=100.0)
    watch.observe("west", ProcessMember("", beat=1, pid=7), now=104.0)
    assert watch.silent(104.9) == set()
    assert watch.silent(105.1) == {"west"}
    watch.observe("west", ProcessMember("", beat=1, pid=8), now=106.0)  # another process, whose beat is as high
    assert watch.silent(110.0) == set()


def test_documents_of_another_format_are_refused() -> None:
    store = Store.memory()
    store.put_document(region_document("west"), {"format": 99, "address": ""})
    with pytest.raises(ConfigError, match="format 99"):
        member(store, region_document("west"))
    with pytest.raises(ConfigError, match="start its coordinator first"):
        fleet_options(store)
    write_fleet_options(store, FleetDocument(state="transfer"))
    assert fleet_options(store).state == "transfer"
    store.put_document(f"{names.PROCESSES}/fleet", {"format": 99})
    with pytest.raises(ConfigError, match="one godwit version"):
        write_fleet_options(store, FleetDocument())


def test_numbers_that_another_region_took_are_known() -> None:
    store, stream, t = Store.memory(), StreamId("s"), DeviceId("t")
    index = SequenceIndex(store, RegionId("east"))
    west = store.log(names.source_log("west", "s"), create=True)
    west.append({"sequence": {"t": 4}})
    west.append({"sequence": {"t": 5, "u": 2}})
    store.log(names.source_log("east", "s"), create=True).append({"sequence": {"t": 99}})
    assert [index.of(stream, DeviceId(device), 1) for device in ("t", "u", "v")] == [5, 2, 0]
    assert index.of(stream, t, 1) == 5, "who has asked has not noted it yet: the same rows may come twice at once"
    index.known(stream, t, 1)
    assert index.of(stream, t, 1) is None, "nobody else takes its rows in this session"


def test_numbers_that_another_region_took_and_cut_off_are_known() -> None:
    store, stream, t = Store.memory(), StreamId("s"), DeviceId("t")
    index, west = SequenceIndex(store, RegionId("east")), store.log(names.source_log("west", "s"), create=True)
    west.append({"sequence": {"t": 1}})
    assert index.of(stream, t, 1) == 1
    for number in (2, 3, 4):
        west.append({"sequence": {"t": number} if number < 4 else {}})
    store.put_document(f"{west.name}/folded", {"sequence": {"t": 3}})
    west.truncate(4)
    assert index.of(stream, t, 1) == 3


def test_of_a_device_that_comes_back_only_where_it_has_been_is_read() -> None:
    store, stream, t = Store.memory(), StreamId("s"), DeviceId("t")
    index = SequenceIndex(store, RegionId("east"))
    assert index.of(stream, t, 1) == 0
    index.known(stream, t, 1)
    for region, number, session in (("west", 6, 2), ("north", 7, 3)):  # logs that were not there the first time
        index.attached(t, RegionId(region), session)
        store.log(names.source_log(region, "s"), create=True).append({"sequence": {"t": number}})
    index.attached(t, RegionId("east"), 4)
    assert index.of(stream, t, 4) == 7
    index.known(stream, t, 4)
    store.log(names.source_log("west", "s")).append({"sequence": {"t": 99}})  # it cannot have been there since
    index.attached(t, RegionId("north"), 5)
    index.attached(t, RegionId("east"), 6)
    assert index.of(stream, t, 6) == 7
    index.forget(t)
    assert index.of(stream, t, 1) == 99


def test_fleet_files_say_what_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text("store: fleet\nlease: 3\nregions:\n  west: {memory: 1g}\n  cloud:\n")
    spec = load_fleet_file(file)
    assert spec.store == tmp_path / "fleet"
    assert (spec.lease, spec.regions) == (3.0, (RegionSpec("west", memory="1g"), RegionSpec("cloud")))
    for text, says in {
        "regions: {a: {}}": "store",
        "store: x\nregions: [a]": "regions",
        "store: x\nregions: {a: {memroy: 1g}}": "did you mean 'memory'",
        "store: x\nlease: soon\nregions: {a: }": "lease",
        "store: x\nregions: {a/b: }": "a/b",
        "store: ftp://bucket\nregions: {a: }": "one of file:, s3:",
        "store: [": "not YAML",
        "store: x\nregions: {a: {memory: 512}}": r"a: memory: 512 is no size of Java's heap; write it like 512m",
        "store: x\nregions: {a: {memory: huge}}": "'huge' is no size of Java's heap",
        "store: x\nregions: {a: {master: 2}}": "a: master: 2 is not a text",
        "store: x\nregions: {a: {keep: maybe}}": "a: keep: 'maybe' is neither true nor false",
        "store: x\nregions: {a: {conf: [x]}}": "a: conf: .* is not a mapping",
        "store: x\nregions: {a: {conf: {executor.memory: 4g}}}": "write `spark.NAME: VALUE`",
        "store: x\nrule: bottom\nregions: {a: }": "did you mean 'bottom-up'",
        "store: x\nstate: delte\nregions: {a: }": "did you mean 'delta'",
        "store: nats://h:4222/f?domian=a\nregions: {a: }": "did you mean 'domain'",
        "store: x\nregions: {a: {store: 'nats://h:4222/f?domian=a'}}": "did you mean 'domain'",
        "store: x\nregions: {a: {store: 'nats://h:4222/f?domain=a'}}": "a: store: .* is another fleet than x",
        "store: nats://h:4222/g\nregions: {a: {store: 'nats://l:4222/f?domain=a'}}": "is another fleet than",
    }.items():
        file.write_text(text)
        with pytest.raises(ConfigError, match=says):
            load_fleet_file(file)
    file.write_text("store: x\nregions: {a: {conf: {spark.executor.cores: 2, spark.ui.enabled: true}}}")
    (region,) = load_fleet_file(file).regions
    assert "spark.executor.cores=2" in region.options
    assert "spark.ui.enabled=true" in region.options
    file.write_text("store: nats://h:4222/f\nregions: {a: {store: 'nats://leaf:4222/f?domain=a&hub=hub'}}")
    assert load_fleet_file(file).regions[0].store == "nats://leaf:4222/f?domain=a&hub=hub"


def test_stores_by_url(tmp_path: Path) -> None:
    assert folder_of(f"file:{tmp_path}") == folder_of(f"file://{tmp_path}") == folder_of(str(tmp_path)) == tmp_path
    with pytest.raises(ConfigError, match="file:/path"):
        folder_of("ftp://somewhere/else")
    with pytest.raises(ConfigError, match="there is no 'ftp:'"):
        open_store("ftp://somewhere/else")
    with pytest.raises(ConfigError, match="name the fleet"):
        open_store("nats://127.0.0.1:4222")
    assert open_store(f"file:{tmp_path}").disk.root == str(tmp_path)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("nats://u:secret@127.0.0.1:1/f?domian=x", "no option 'domian'; did you mean 'domain'"),
        ("nats://u:secret@127.0.0.1:1/a.b", "name the fleet, as in nats://127.0.0.1:1/my-fleet"),
        ("nats://u:secret@127.0.0.1:1/f?segments=natz:/x", "segments='natz:/x' cannot be used; give a path or one of"),
        ("kafka://127.0.0.1:1/f?segment=x", "no option 'segment'; did you mean 'segments'"),
        ("kafka://127.0.0.1:1/f?segments=x&replication=three", "replication='three' is no number of copies"),
        ("s3://b/f?endpont=http://127.0.0.1:1&secret_access_key=secret", "'endpont' is not valid"),
    ],
)
def test_a_url_that_is_written_wrong_is_told_at_once_without_its_secrets(url: str, says: str) -> None:
    with pytest.raises(ConfigError) as told:
        open_store(url)
    assert says in str(told.value)
    assert "secret@" not in str(told.value)
    assert "=secret" not in str(told.value)
    assert "\n" not in str(told.value)


def test_a_server_that_is_not_there_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(nats_server, "TIMEOUT", 0.3)
    with pytest.raises(ConfigError, match=r"NATS at nats://127.0.0.1:1 cannot be reached \(.+\); check the address"):
        open_store("nats://u:secret@127.0.0.1:1/fleet")
    monkeypatch.setenv(nats_server.CREDENTIALS, "no.creds")
    with pytest.raises(ConfigError, match=r"needs the file no.creds, which GODWIT_NATS_CREDENTIALS names"):
        open_store("nats://127.0.0.1:1/fleet")
    gc.collect()
    assert caplog.records == [], "what was tried is over: asyncio would log a task that nobody has ended"


def test_a_nats_server_that_lacks_what_is_needed_is_told_at_once(tmp_path: Path) -> None:
    """One without JetStream was waited for, and one without TLS got the password in the clear."""
    with servers.nats_server(tmp_path, jetstream=False) as address:
        with pytest.raises(ConfigError, match=r"NATS at nats://127.0.0.1:\d+ runs without JetStream; start it with"):
            open_store(f"{address}/fleet")
        secret = address.replace("nats://", "tls://u:secret@")
        with pytest.raises(ConfigError, match=r"NATS at tls://127.0.0.1:\d+ offers no TLS; give it `tls"):
            open_store(f"{secret}/fleet")


def test_a_bucket_that_refuses_its_user_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that answers 403, as one does whose keys are wrong."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_forbid, args=(server,), daemon=True).start()
        url = f"s3://b/f?endpoint=http://127.0.0.1:{server.getsockname()[1]}&access_key_id=a&secret_access_key=secret"
        with pytest.raises(ConfigError, match=r"^s3://b/f cannot be used: .*; check the bucket's name, the end"):
            open_store(f"{url}&region=us-east-1")


def _forbid(server: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            caller, _ = server.accept()
            caller.recv(65536)
            caller.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            caller.close()


def test_the_address_that_others_are_told() -> None:
    assert advertised("", "10.0.0.7:40123") == "10.0.0.7:40123"
    assert advertised("edge.example", "10.0.0.7:40123") == "edge.example:40123", "the port that it listens at"
    assert advertised("edge.example:7070", "0.0.0.0:40123") == "edge.example:7070"
    for told, listens in (("", "0.0.0.0:40123"), ("edge.example:", "a:1"), (":7070", "a:1"), ("a:70700", "a:1")):
        with pytest.raises(ConfigError, match="--advertise"):
            advertised(told, listens)


def test_a_server_that_is_away_is_an_error_after_which_rows_are_sent_again() -> None:
    with pytest.raises(StoreAwayError, match="is cut"):
        raise_error(as_error(ServerAwayError("the link is cut")))
