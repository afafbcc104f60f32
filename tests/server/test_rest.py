"""Everything that a fleet can do, over REST: tables, plans, devices, dry runs, desired and current state, long
operations. And rows over a WebSocket; devices that move by sending from elsewhere."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from godwit.api.fleet import Fleet
from godwit.client.remote import RemoteFleet
from godwit.errors import ConfigError, GodwitError, SourceError
from godwit.ingest.device_locator import PositionColumns
from tests.server.conftest import Running
from tests.server.test_api import SQL, declare, row
from tests.waiting import until

Serve = Callable[..., Running]
PLACED = """
sites: [{id: west, region: edge-west, lat: 52.0, lon: 4.0}, {id: east, region: edge-east, lat: 52.0, lon: 5.0}]
links: [{from: west, to: east}]
"""


def at(second: int) -> dt.datetime:
    return dt.datetime(2026, 1, 1, 0, 0, second, tzinfo=dt.UTC)


def test_tables_are_declared_changed_and_joined(serve: Serve) -> None:
    with RemoteFleet(serve().url, "admin") as fleet:
        lines = fleet.table("lines", "id string, name string", key="id")
        assert lines.upsert([{"id": "a", "name": "Airport"}, {"id": "b", "name": "Beach"}]) == 2
        assert lines.delete(["b"]) == 1
        assert lines.replace([{"id": "a", "name": "Airport"}, {"id": "c", "name": "City"}]) == 1
        assert sorted(r["name"] for r in lines.rows()) == ["Airport", "City"]
        assert {c["name"] for c in lines.columns} >= {"id", "name"}
        fleet.stream("passengers", "train string, line string, boarded int, ts timestamp", device="train")
        t1 = fleet.device("t1", site="west", streams=["passengers"])
        fleet.submit("SELECT p.train, l.name, p.ts FROM passengers p JOIN lines l ON p.line = l.id", "named")
        t1.push(
            [
                {"train": "t1", "line": "c", "boarded": 1, "ts": at(1)},
                {"train": "t1", "line": "b", "boarded": 1, "ts": at(2)},
            ]
        )
        t1.push([{"train": "t1", "line": "a", "boarded": 1, "ts": at(30)}])
        fleet.close_sources()
        fleet.process_available()
        assert sorted(r["name"] for r in fleet.results("named")) == ["Airport", "City"]
        assert fleet.query("named").verdict().equal
        with pytest.raises(SourceError, match="do not fit"):
            lines.upsert([{"id": "d", "name": 1.5}])
        http = fleet._http.client
        assert http.post("/v1/tables/lines/delete", json={"keys": ["nobody"]}).json()["changed"] == 0
        assert http.get("/v1/tables/lines/rows", params={"key": "c"}).json()["rows"][0]["name"] == "City"
        assert http.get("/v1/tables/lines/rows", params={"key": "z"}).status_code == 404
        assert http.get("/v1/tables/passengers").status_code == 404
        assert http.post("/v1/tables/lines/delete", json={"keys": [["a", "b"]]}).status_code == 404
        assert [t["name"] for t in http.get("/v1/tables").json()] == ["lines"]
        assert "lines" not in [device["id"] for device in http.get("/v1/topology").json()["devices"]]  # it is a table
        told = http.get("/v1/queries/named/results", params={"newest": True, "limit": 1}).json()
        assert 0 < len(told["rows"]) < 3  # of each region one
        assert http.get("/v1/queries/named/results", params={"cursor": told["cursor"]}).json()["rows"] == []


JOIN = (
    "SELECT a.train, a.boarded AS x, b.boarded AS y, c.boarded AS z, a.ts FROM a JOIN b ON a.train = b.train "
    "AND b.ts BETWEEN a.ts - INTERVAL 5 SECONDS AND a.ts + INTERVAL 5 SECONDS JOIN c ON a.train = c.train "
    "AND c.ts BETWEEN a.ts - INTERVAL 5 SECONDS AND a.ts + INTERVAL 5 SECONDS"
)


def test_a_plan_is_changed_and_results_of_both_plans_are_read(serve: Serve) -> None:
    with RemoteFleet(serve().url, "admin") as fleet:
        for name in ("a", "b", "c"):
            fleet.stream(name, "train string, boarded int, ts timestamp", device="train", disorder="1 second")
        t1 = fleet.device("t1", site="west", streams=["a", "b", "c"])
        fleet.submit(JOIN, "three")
        for name in ("a", "b", "c"):
            t1.push([{"train": "t1", "boarded": 1, "ts": at(1)}], name)
        assert until(lambda: len(fleet.results("three")) == 1)
        dry = fleet.replan("three", order="(b JOIN c) JOIN a", dry_run=True)
        assert isinstance(dry, str)
        assert "b" in dry
        with pytest.raises(ConfigError, match="no stream of the query"):
            fleet.replan("three", order="(b JOIN x) JOIN a")
        fleet.replan("three", order="(b JOIN c) JOIN a")
        for name in ("a", "b", "c"):
            t1.push([{"train": "t1", "boarded": 2, "ts": at(3)}], name)
        assert until(lambda: len(fleet.results("three")) == 8)
        assert len(fleet.changes("three")) == 8


def test_a_stream_gets_columns_more(serve: Serve) -> None:
    with RemoteFleet(serve().url, "admin") as fleet:
        fleet.stream("passengers", "train string, boarded int, ts timestamp", device="train")
        t1 = fleet.device("t1", site="west", streams=["passengers"])
        told = fleet.alter_stream("passengers", add="color string")
        assert [c["name"] for c in told["columns"]] == ["train", "boarded", "ts", "color"]
        fleet.submit("SELECT train, color, ts FROM passengers", "colors")
        t1.push([{**row(1, 1), "color": "red"}, row(2, 2)])
        assert until(
            lambda: len(found := fleet.results("colors")) == 2 and {r["color"] for r in found} == {"red", None}
        )
        with pytest.raises(GodwitError, match="color"):
            fleet.alter_stream("passengers", add="color string")


def test_desired_and_current_state_and_dry_runs(serve: Serve) -> None:
    with serve().client() as client:
        declare(client)
        assert client.post("/v1/queries?dry_run=true", json={"name": "d", "sql": SQL}).json()["shape"]
        client.post("/v1/queries", json={"name": "delta", "sql": SQL})
        told = client.get("/v1/queries/delta").json()
        assert told["desired"]["sql"] == SQL
        assert told["current"]["state"] == "running"
        operator = next(name for name in told["current"]["placement"] if "@" not in name)
        assert client.post("/v1/placement", json={"placement": {operator: "cloud"}}).status_code == 200
        assert client.get("/v1/queries/delta").json()["desired"]["placement"] == {operator: "cloud"}
        other = SQL.replace("10 seconds", "20 seconds")
        assert client.patch("/v1/queries/delta?dry_run=true", json={"sql": SQL}).json()["possible"]
        assert (
            client.patch("/v1/queries/delta?dry_run=true", json={"sql": "SELECT train, ts FROM passengers"}).json()[
                "possible"
            ]
            is False
        )
        assert client.patch("/v1/queries/delta?dry_run=true", json={"sql": "SET x = 1"}).status_code == 422
        assert other != SQL
        assert client.delete("/v1/queries/delta?dry_run=true").json()["ends"] == "delta"
        assert client.get("/v1/queries").json()[0]["name"] == "delta"  # (dry runs have changed nothing)
        state = until(lambda: (s := client.get("/v1/state").json())["settled"] and s)
        assert state["desired"]["epoch"] == state["current"]["epoch"]
        assert set(state["current"]["regions"]) <= {"edge-west", "edge-east", "cloud"}
        sent = client.delete("/v1/queries/delta?wait=false").json()
        told = client.get(f"/v1/commands/{sent['command']}", params={"seconds": 20}).json()
        assert told["state"] == "done"
        assert client.get("/v1/jobs/99").status_code == 404
        assert client.get("/v1/devices").json()[0]["current"] == {"site": "west", "region": "edge-west"}


def test_devices_are_closed_detached_and_removed(serve: Serve) -> None:
    with RemoteFleet(serve().url, "admin") as fleet:
        fleet.stream("passengers", "train string, boarded int, ts timestamp", device="train")
        t1 = fleet.device("t1", site="west", streams=["passengers"])
        fleet.submit(SQL, "delta")
        assert t1.push([row(1, 1)])
        t1.detach()
        assert until(lambda: not t1.attached)
        assert t1.push([row(2, 2)]) is False
        assert t1.buffered == 1
        t1.attach("east")
        assert t1.buffered == 0
        assert until(lambda: fleet.is_attached("t1"))
        fleet.tell_time("passengers", {"t1": int(at(20).timestamp() * 1e6)})
        assert until(lambda: [r["n"] for r in fleet.results("delta")] == [3])
        t1.push([{"train": "t1", "boarded": "many", "ts": at(21)}])
        assert until(lambda: "boarded" in json.dumps(fleet.dead_letters()))
        t1.reset_clock()
        t1.push([row(5, 31)])
        t1.close()
        assert until(lambda: sorted(r["n"] for r in fleet.results("delta")) == [3, 5])
        assert isinstance(fleet.query("delta").late(), list)
        with pytest.raises(ConfigError, match="mobility"):
            fleet.notify_handover("t1", "west")
        fleet.check()
        fleet.close_sources()
        assert fleet._http.client.delete("/v1/devices/t1").status_code == 200
        assert until(lambda: fleet._http.client.get("/v1/devices/t1").status_code == 404)


def site_of(client: httpx.Client, device: str) -> str | None:
    found: str | None = client.get(f"/v1/devices/{device}").json()["site"]
    return found


def test_a_device_that_sends_from_another_site_is_handed_over(serve: Serve) -> None:
    server = serve()
    with server.client("admin") as client, server.client("t1") as device:
        declare(client)
        rows = "/v1/streams/passengers/rows?device=t1"
        assert device.post(f"{rows}&sequence=1&site=west", json=[row(1, 1)]).json()["taken"]
        assert device.post(f"{rows}&sequence=2", json=[row(1, 2)], headers={"godwit-site": "east"}).json()["taken"]
        assert site_of(client, "t1") == "east"
        assert device.post(f"{rows}&sequence=1&site=west", json=[row(1, 1)]).json() == {"taken": False, "rows": 0}
        assert site_of(client, "t1") == "east"  # (a repeat says where it was then)
        assert device.post(f"{rows}&sequence=3&site=nowhere-such", json=[row(1, 3)]).status_code == 422
        assert client.post("/v1/streams/passengers/rows?site=west", json=[row(1, 3)]).status_code == 422
        with server.client("feed") as feeder:
            assert feeder.post(f"{rows}&site=west", json=[row(1, 3)]).status_code == 403


def test_positions_attach_devices_to_the_nearest_site(open_fleet: Callable[..., Fleet]) -> None:
    fleet = open_fleet()
    fleet.topology.load(PLACED)
    fleet.stream("gps", "train string, lat double, lon double, ts timestamp", device="train")
    fleet.start()
    from tests.server.conftest import tokens

    server = Running(fleet, tokens(), None, PositionColumns(hysteresis_m=10_000))
    try:
        with server.client() as client:

            def report(lon: float) -> dict[str, Any]:
                told: dict[str, Any] = client.post("/v1/devices/t9/position", json={"lat": 52.0, "lon": lon}).json()
                return told

            client.put("/v1/devices/t9", json={"streams": ["gps"]})
            assert report(4.1) == {"device": "t9", "site": "west", "moved": True}
            assert report(4.52) == {"device": "t9", "site": "west", "moved": False}  # nearer to east, but not by enough
            assert report(4.9)["site"] == "east"
            assert client.post("/v1/devices/t9/position", json={"lat": 95, "lon": 0}).status_code == 422
            sent = [{"train": "t9", "lat": 52.0, "lon": 4.05, "ts": "2026-01-01T00:00:01Z"}]
            assert client.post("/v1/streams/gps/rows?device=t9", json=sent).status_code == 200
            assert site_of(client, "t9") == "west"
            url = f"ws://127.0.0.1:{server.port}/v1/streams/gps/socket?device=t9&token=admin"
            with connect(url) as socket:
                socket.send(json.dumps({"position": {"lat": 52.0, "lon": 4.99}}))
                assert json.loads(socket.recv()) == {"site": "east", "moved": True}
                socket.send(json.dumps([{"train": "t9", "lat": 52.0, "lon": 4.01, "ts": "2026-01-01T00:00:02Z"}]))
                assert json.loads(socket.recv())["taken"] is True
                assert site_of(client, "t9") == "west"
                socket.send(json.dumps({"position": {"lat": "north"}}))
                assert "position" in json.loads(socket.recv())["message"]
    finally:
        server.stop()


def test_rows_over_a_websocket_are_acknowledged_one_by_one(serve: Serve) -> None:
    server = serve()
    url = f"ws://127.0.0.1:{server.port}/v1/streams/passengers/socket?device=t1"
    with server.client() as client:
        declare(client)
        client.post("/v1/queries", json={"name": "all", "sql": "SELECT train, boarded, ts FROM passengers"})
        with connect(f"{url}&site=east&token=t1") as socket:
            assert site_of(client, "t1") == "east"
            for message in (
                row(1, 1),
                [row(2, 2)],
                {"sequence": 1, "rows": [row(3, 3)]},
                {"sequence": 1, "rows": [row(3, 3)]},
            ):
                socket.send(json.dumps(message))
            told = [json.loads(socket.recv()) for _ in range(4)]
            assert [one["taken"] for one in told] == [True, True, True, False]
            for bad in ("[", '{"sequence": 0, "rows": []}', '{"sequence": "x", "rows": []}', b"no arrow"):
                socket.send(bad)
                assert json.loads(socket.recv())["error"] == "SourceError"
        assert until(lambda: len(client.get("/v1/queries/all/results").json()["rows"]) == 3)
        for token, code in (("read", 4403), ("nobody", 4401)):
            with pytest.raises(Exception, match="403"), connect(f"{url}&token={token}"):
                pass  # (refused before it is accepted: HTTP 403, with the reason as the code)
            assert code > 4000
