"""Sinks against the real systems: a commit that is delivered again, or half, ends in its rows once.

At-least-once sinks repeat, and say with each message which one it is.
"""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from godwit.delivery.sinks import (
    DeltaSink,
    IcebergSink,
    KafkaSink,
    MqttSink,
    NatsSink,
    PostgresqlSink,
    ResultBatch,
    ResultSink,
    WebhookSink,
)
from godwit.errors import DeliveryError
from godwit.ids import QueryId, RegionId
from tests import servers

Rows = list[dict[str, Any]]
AT = pa.timestamp("us", "UTC")


@dataclass(frozen=True)
class Given(ResultBatch):
    """Results that are in memory; `breaks`: reading them fails after the first rows."""

    rows: tuple[pa.Table, ...] = ()
    breaks: bool = False

    def tables(self) -> Iterator[pa.Table]:
        for table in self.rows:
            yield table
            if self.breaks:
                raise OSError


def batch(number: int, *numbers: int, region: str = "west", breaks: bool = False) -> Given:
    tables = tuple(
        pa.table({"train": [f"t{n}"], "n": pa.array([n], pa.int64()), "at": pa.array([n * 1_000_000], AT)})
        for n in numbers
    )
    columns = ("train", "n", "at")
    return Given(RegionId(region), number, QueryId("delta"), columns, (), "ab12", None, tables, breaks)


def changes(number: int, *told: tuple[str | None, int, int, bool], region: str = "west") -> Given:
    """(key, value, version, whether it is deleted)"""
    kind = pa.struct([("at", AT), ("n", pa.int64())])
    table = pa.table(
        {
            "train": pa.array([key for key, _, _, _ in told], pa.string()),
            "n": pa.array([n for _, n, _, _ in told], pa.int64()),
            "__version": pa.array([{"at": 0, "n": version} for _, _, version, _ in told], kind),
            "__deleted": pa.array([gone for _, _, _, gone in told]),
        }
    )
    columns = tuple(table.column_names)
    return Given(RegionId(region), number, QueryId("totals"), columns, (), "cd34", ("train",), (table,))


Make = Callable[[], ResultSink]
Read = Callable[[], Rows]


@contextmanager
def delta(folder: Path) -> Iterator[tuple[Make, Read]]:
    deltalake = pytest.importorskip("deltalake")
    uri = folder / "table"
    yield lambda: DeltaSink(uri), lambda: deltalake.DeltaTable(uri).to_pyarrow_table().to_pylist()


@contextmanager
def iceberg(folder: Path) -> Iterator[tuple[Make, Read]]:
    catalogs = pytest.importorskip("pyiceberg.catalog")
    told = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
    read = lambda: catalogs.load_catalog("default", **told).load_table("fleet.delta").scan().to_arrow().to_pylist()  # noqa: E731
    yield lambda: IcebergSink("fleet.delta", told), read


@contextmanager
def postgresql(folder: Path) -> Iterator[tuple[Make, Read]]:
    psycopg = pytest.importorskip("psycopg")
    with servers.postgresql(folder) as dsn:

        def read() -> Rows:
            with psycopg.connect(dsn, row_factory=psycopg.rows.dict_row) as connection:
                return connection.execute('SELECT * FROM "delta"').fetchall()

        yield lambda: PostgresqlSink(dsn, "delta"), read


@contextmanager
def nats(folder: Path) -> Iterator[tuple[Make, Read]]:
    pytest.importorskip("nats")
    with servers.nats_server(folder) as address:
        yield lambda: NatsSink(address, "results", stream="RESULTS", rows=1), lambda: _stream(address)


def _stream(address: str) -> Rows:
    import asyncio

    import nats

    async def read() -> Rows:
        connection = await nats.connect(address)
        js = connection.jetstream()
        info = await js.stream_info("RESULTS")
        found = [await js.get_msg("RESULTS", n + 1) for n in range(info.state.last_seq)]
        await connection.close()
        return [row for message in found for row in json.loads(message.data or b"")["rows"]]

    return asyncio.run(read())


@contextmanager
def kafka(folder: Path) -> Iterator[tuple[Make, Read]]:
    confluent = pytest.importorskip("confluent_kafka")
    with servers.kafka(folder) as address:
        yield lambda: KafkaSink(address, "results", key="train"), lambda: _topic(confluent, address)


def _topic(confluent: Any, address: str) -> Rows:
    told = {"bootstrap.servers": address, "group.id": "reader", "isolation.level": "read_committed"}
    consumer = confluent.Consumer({**told, "enable.partition.eof": True})
    consumer.assign([confluent.TopicPartition("results", 0, 0)])
    found: Rows = []
    while True:
        message = consumer.poll(20)
        assert message is not None
        if message.error():
            assert message.error().code() == confluent.KafkaError._PARTITION_EOF
            break
        found.append(json.loads(message.value()))
    consumer.close()
    return found


#: Kafka's broker takes seconds to start
EXACTLY_ONCE = [delta, iceberg, postgresql, nats, pytest.param(kafka, marks=pytest.mark.full)]


def deliver(sink: ResultSink, one: Given) -> None:
    """As a delivery does: what the system does not take now (Kafka's broker has just started) comes again."""
    for _ in range(20):
        try:
            return sink.write(one)
        except DeliveryError:
            time.sleep(0.5)
            sink.open(sink.state())
    pytest.fail("it is never taken")


@pytest.mark.parametrize("system", EXACTLY_ONCE)
def test_a_repeated_commit_is_there_once(system: Any, tmp_path: Path) -> None:
    with system(tmp_path) as (make, read):
        sink = make()
        assert sink.exactly_once
        sink.open({})
        began = sink.state()
        deliver(sink, batch(1, 1, 2))
        deliver(sink, batch(1, 10, region="east"))
        with pytest.raises(OSError):  # noqa: PT011
            deliver(sink, batch(2, 3, 4, breaks=True))
        sink.open(sink.state())  # as after any failure
        deliver(sink, batch(2, 3, 4))
        deliver(sink, batch(2, 3, 4))
        sink.close()
        # The process dies; its position was kept before the first commit, so everything comes again.
        again = make()
        again.open(began)
        for one in (batch(1, 1, 2), batch(1, 10, region="east"), batch(2, 3, 4), batch(3, 5)):
            deliver(again, one)
        assert again.state() == began
        again.close()
        assert sorted(row["n"] for row in read()) == [1, 2, 3, 4, 5, 10]
        # Another life of the query counts from 1 again, and nothing of it may be lost.
        other = make()
        other.open({})
        deliver(other, batch(1, 20))
        other.close()
        assert sorted(row["n"] for row in read()) == [1, 2, 3, 4, 5, 10, 20]
        assert {row["train"] for row in read()} == {f"t{n}" for n in (1, 2, 3, 4, 5, 10, 20)}


def test_upserts_keep_the_newest_row_of_a_key_whatever_comes_first(tmp_path: Path) -> None:
    psycopg = pytest.importorskip("psycopg")
    with servers.postgresql(tmp_path) as dsn:
        sink = PostgresqlSink(dsn, "public.totals")
        sink.open({})
        began = sink.state()
        told = [
            changes(1, ("a", 1, 1, False), ("b", 5, 1, False), (None, 7, 1, False)),
            changes(2, ("a", 3, 3, False), ("b", 5, 2, True), (None, 8, 2, False)),
            changes(1, ("a", 2, 2, False), ("b", 4, 1, False), region="east"),  # older ones, later
            changes(3, ("c", 1, 1, True), ("c", 2, 2, False), ("d", 1, 1, False), ("d", 1, 2, True)),
        ]
        for again in (False, True):
            if again:
                sink = PostgresqlSink(dsn, "public.totals")
                sink.open(began)
            for one in told:
                sink.write(one)
            sink.close()
            with psycopg.connect(dsn) as connection:
                rows = set(connection.execute("SELECT train, n FROM totals").fetchall())
            assert rows == {("a", 3), (None, 8), ("c", 2)}


def test_postgresql_takes_every_type_of_a_result(tmp_path: Path) -> None:
    from decimal import Decimal

    psycopg = pytest.importorskip("psycopg")
    values = {
        "b": pa.array([True, None]),
        "i": pa.array([2**31 - 1, None], pa.int32()),
        "f": pa.array([float("nan"), None], pa.float64()),
        "t": pa.array(["a\x00b\n\t\\", None]),
        "d": pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)),
        "day": pa.array([1, None], pa.date32()),
        "list": pa.array([[1, 2], None]),
        "select": pa.array([{"x": 'q"'}, None]),
        "raw": pa.array([b"\x00\xff", None]),
    }
    table = pa.table(values)
    one = Given(RegionId("w"), 1, QueryId("q"), tuple(values), (), "x", None, (table,))
    with servers.postgresql(tmp_path) as dsn:
        sink = PostgresqlSink(dsn, 'odd "name"')
        sink.open({})
        sink.write(one)
        sink.close()
        with psycopg.connect(dsn) as connection:
            rows = connection.execute('SELECT b, i, f::text, t, d, day::text, list, "select", raw FROM "odd ""name"""')
            first, second = rows.fetchall()
    assert first == (
        True,
        2**31 - 1,
        "NaN",
        "a\ufffdb\n\t\\",
        Decimal("1.50"),
        "1970-01-02",
        [1, 2],
        {"x": 'q"'},
        b"\x00\xff",
    )
    assert set(second) == {None}


def test_a_webhook_repeats_under_the_same_key_and_waits_for_success() -> None:
    got: list[tuple[str, str, list[int]]] = []
    answers = iter([200, 500, *([200] * 20)])

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status = next(answers)
            if status == 200:
                signed = self.headers["X-Godwit-Signature"][:7]
                got.append((self.headers["Idempotency-Key"], signed, [row["n"] for row in body["rows"]]))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/hook?token=x"
        sink = WebhookSink(url, rows=2, secret="s")
        assert not sink.exactly_once
        assert "token" not in sink.name
        sink.open({})
        with pytest.raises(Exception, match="500"):
            sink.write(batch(1, 1, 2, 3))
        sink.write(batch(1, 1, 2, 3))
        sink.close()
    finally:
        server.shutdown()
        server.server_close()
    assert [rows for _, _, rows in got] == [[1, 2], [1, 2], [3]]
    assert len({key for key, _, _ in got}) == 2
    assert {signed for _, signed, _ in got} == {"sha256="}


def test_mqtt_repeats_with_the_same_ids(tmp_path: Path) -> None:
    mqtt = pytest.importorskip("paho.mqtt.client")
    with servers.mosquitto(tmp_path) as port:
        got: list[tuple[str, str, int]] = []
        subscribed = threading.Event()
        reader = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
        reader.on_subscribe = lambda *_: subscribed.set()
        reader.on_message = lambda c, u, m: got.append(
            (m.topic, m.properties.UserProperty[0][1], json.loads(m.payload)["n"])
        )
        reader.connect("127.0.0.1", port)
        reader.subscribe("results/#", qos=1)
        reader.loop_start()
        assert subscribed.wait(10)
        sink = MqttSink("127.0.0.1", "results/{query}/{train}", port=port)
        assert not sink.exactly_once
        sink.open({})
        for _ in range(2):
            sink.write(batch(1, 1, 2))
        sink.close()
        assert servers.until(lambda: len(got) >= 4)
        reader.disconnect()
        reader.loop_stop()
    assert sorted(n for _, _, n in got) == [1, 1, 2, 2]
    assert {topic for topic, _, _ in got} == {"results/delta/t1", "results/delta/t2"}
    assert len({name for _, name, _ in got}) == 2
