"""A fleet through its REST API: what users do from other machines and languages."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pyarrow as pa

from godwit.server.limits import ServerLimits
from tests.server.conftest import Running
from tests.waiting import until

SQL = "SELECT train, sum(boarded) AS n, window.end AS until FROM passengers GROUP BY train, window(ts, '10 seconds')"
Serve = Callable[..., Running]


def declare(client: httpx.Client) -> None:
    body = {"name": "passengers", "columns": "train string, boarded int, ts timestamp", "device": "train"}
    assert client.post("/v1/streams", json=body).status_code == 201
    body = {"site": "west", "streams": ["passengers"]}
    assert client.put("/v1/devices/t1", json=body).json()["state"] == "done"


def row(boarded: int, second: int) -> dict[str, Any]:
    return {"train": "t1", "boarded": boarded, "ts": f"2026-01-01T00:00:{second:02d}Z"}


def test_a_fleet_is_declared_fed_moved_and_read_over_http(serve: Serve) -> None:
    with serve().client() as client:
        declare(client)
        assert client.post("/v1/queries", json={"name": "delta", "sql": SQL}).status_code == 201
        push = "/v1/streams/passengers/rows"
        assert client.post(push, json=[row(7, 1)]).json() == {"taken": True, "rows": 1}
        assert client.put("/v1/devices/t1", json={"site": "east"}).json()["state"] == "done"
        lines = "\n".join(json.dumps(row(n, s)) for n, s in ((1, 5), (2, 11)))
        told = client.post(push, content=lines, headers={"content-type": "application/x-ndjson"})
        assert told.json()["rows"] == 2
        table = pa.table(
            {
                "train": ["t1"],
                "boarded": pa.array([5], pa.int32()),
                "ts": pa.array([40_000_000], pa.timestamp("us", "UTC")),
            }
        )
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as out:
            out.write_table(table)
        arrow = {"content-type": "application/vnd.apache.arrow.stream"}
        assert client.post(push, content=sink.getvalue().to_pybytes(), headers=arrow).json()["rows"] == 1
        assert client.post(push, json=row(0, 59)).status_code == 200
        page = until(
            lambda: (p := client.get("/v1/queries/delta/results").json())["rows"] and len(p["rows"]) >= 2 and p
        )
        assert {(r["n"], r["until"]) for r in page["rows"]} >= {
            (8, "2026-01-01T00:00:10+00:00"),
            (2, "2026-01-01T00:00:20+00:00"),
        }
        again = client.get("/v1/queries/delta/results", params={"cursor": page["cursor"]}).json()
        assert again["rows"] == []
        assert client.get("/v1/devices/t1").json()["site"] == "east"
        assert any(r["outcome"] == "committed" for r in client.get("/v1/history").json())
        assert client.get("/v1/status").json()["queries"][0]["name"] == "delta"
        assert 'godwit_query_results_total{query="delta"}' in client.get("/metrics").text
        assert client.delete("/v1/queries/delta").json()["state"] == "done"
        assert client.get("/v1/queries").json() == []
        assert len(client.get("/v1/queries/delta/results").json()["rows"]) >= 2


def test_pages_follow_one_another_without_gaps_or_repeats(serve: Serve) -> None:
    with serve().client() as client:
        declare(client)
        client.post("/v1/queries", json={"name": "all", "sql": "SELECT train, boarded, ts FROM passengers"})
        sent = list(range(20))
        for n in sent:
            client.post("/v1/streams/passengers/rows", json=row(n, n))
            if n == 10:
                client.put("/v1/devices/t1", json={"site": "east"})
        seen: list[int] = []
        cursor = None

        def next_page() -> bool:
            nonlocal cursor
            page = client.get(
                "/v1/queries/all/results", params={"limit": 3, **({"cursor": cursor} if cursor else {})}
            ).json()
            assert len(page["rows"]) <= 3
            seen.extend(r["boarded"] for r in page["rows"])
            cursor = page["cursor"]
            return len(seen) >= len(sent)

        assert until(next_page)
        assert sorted(seen) == sent


def test_results_are_pushed_to_subscribers(serve: Serve) -> None:
    server = serve()
    with server.client() as client:
        declare(client)
        client.post("/v1/queries", json={"name": "all", "sql": "SELECT train, boarded, ts FROM passengers"})
        got: list[dict[str, Any]] = []
        connected = threading.Event()

        def listen() -> None:
            with server.client("read") as mine, mine.stream("GET", "/v1/queries/all/live") as response:
                for line in response.iter_lines():
                    connected.set()
                    if line.startswith("data:"):
                        got.append(json.loads(line[5:]))
                        return

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        assert connected.wait(20)
        client.post("/v1/streams/passengers/rows", json=row(3, 1))
        thread.join(30)
        assert [r["boarded"] for message in got for r in message["rows"]] == [3]


def test_a_repeat_with_a_sequence_number_is_harmless(serve: Serve) -> None:
    with serve().client("admin") as client:
        declare(client)
        told = [
            client.post("/v1/streams/passengers/rows?device=t1&sequence=1", json=row(1, 1)).json() for _ in range(2)
        ]
        assert [t["taken"] for t in told] == [True, False]


def test_a_command_can_be_followed_by_its_number(serve: Serve) -> None:
    with serve().client() as client:
        declare(client)
        sent = client.post(
            "/v1/queries?wait=false", json={"name": "bad", "sql": "SELECT nothing FROM passengers"}
        ).json()
        assert sent["state"] == "waiting"
        told = until(lambda: (t := client.get(f"/v1/commands/{sent['command']}").json())["state"] != "waiting" and t)
        assert told["state"] == "refused"
        assert "nothing" in told["message"]
        assert client.get("/v1/commands/9999").status_code == 404


def test_bad_input_is_refused_with_place_and_remedy(serve: Serve) -> None:
    with serve(limits=ServerLimits(body=10_000)).client() as client:
        declare(client)
        told = client.post("/v1/queries", json={"name": "q", "sql": "SELECT nothing FROM passengers"})
        assert told.status_code == 422
        assert "nothing" in told.json()["message"]
        told = client.post("/v1/streams", json={"name": "s", "colums": "a int, ts timestamp"})
        assert told.status_code == 422
        assert told.json()["message"] == "body.colums: there is no such key; did you mean 'columns'?"
        rows = "/v1/streams/passengers/rows"
        cases = [
            (client.post("/v1/queries", json={"name": "../x", "sql": SQL}), 422),
            (client.post("/v1/queries", json={"name": "q"}), 422),
            (client.post("/v1/queries", json={"name": "q", "sql": SQL, "more": 1}), 422),
            (client.post("/v1/queries", content=b"{"), 422),
            (client.get("/v1/queries/none"), 404),
            (client.delete("/v1/queries/none"), 404),
            (client.get("/v1/queries/none/results"), 404),
            (client.get("/v1/queries?limit=x"), 200),
            (client.post(rows, content=b"[1, "), 422),
            (client.post(rows, content=b"x", headers={"content-type": "text/plain"}), 422),
            (client.post(rows, content=b"x", headers={"content-type": "application/vnd.apache.arrow.stream"}), 422),
            (client.post("/v1/streams/none/rows", json=[]), 404),
            (client.post(rows, json=[{"train": "t9", "boarded": 1, "ts": "2026-01-01T00:00:00Z"}]), 409),
            (client.post(rows, content=b" " * 20_000), 413),
            (client.post("/v1/changes", json={"changes": ["device t1 jumps"]}), 422),
            (client.post("/v1/changes", json={"changes": ["device t1 -> nowhere-such"]}), 422),
            (client.post("/v1/topology", json={"yaml": "sites: 7"}), 422),
            (client.get("/v1/nothing"), 404),
            (client.delete("/v1/queries"), 405),
            (client.options("/v1/status"), 405),
            (client.get("/nothing.html"), 404),
        ]
        for response, status in cases:
            assert response.status_code == status, (response.request.url, response.text)
            if status != 200:
                assert response.json()["message"]
        assert client.delete("/v1/queries").headers["allow"] == "GET, POST"
        assert client.head("/v1/health").status_code == 200
        assert client.head("/v1/events").status_code == 405
        for path in ("/v1", "/v1/"):
            assert client.get(path).json()["paths"]["/v1/queries"]["POST"].startswith("Check a query")
        misfit = client.post(rows, json=[{"train": "t1", "boarded": 1.5, "ts": "yesterday"}])
        assert misfit.status_code == 200  # taken, as a dead letter with its reason
        assert until(lambda: 'godwit_dead_letters_total{stream="passengers"} 1.0' in client.get("/metrics").text)


def test_a_device_token_is_tied_to_its_device(serve: Serve) -> None:
    server = serve()
    with server.client("admin") as admin:
        declare(admin)
    with server.client("t1") as device:
        assert device.post("/v1/streams/passengers/rows?device=t1", json=[row(1, 1)]).status_code == 200
        assert device.post("/v1/streams/passengers/rows?device=t2", json=[row(1, 1)]).status_code == 403
        assert device.post("/v1/streams/passengers/rows", json=[row(1, 1)]).status_code == 403
        assert device.put("/v1/devices/t1", json={"site": "east"}).status_code == 200
        assert device.put("/v1/devices/t2", json={"site": "east"}).status_code == 403
    with server.client("feed") as feeder:
        assert feeder.put("/v1/devices/t1", json={"site": "west"}).status_code == 403


def test_a_slow_subscriber_is_let_go_and_holds_nobody_up() -> None:
    from godwit.server.hub import LAGGED, Hub, News

    async def play() -> list[str]:
        hub = Hub(10, 3)
        with hub.subscribed("x") as one:
            for n in range(10):
                hub.publish("x", lambda n=n: News("rows", {"n": n}))  # type: ignore[misc]
                if n == 2:
                    await asyncio.sleep(0)
                    told = [news.text for news in await one.news(1)]
            await asyncio.sleep(0)
            return told + [news.text for news in await one.news(1)] + [news.text for news in await one.news(1)]

    assert asyncio.run(play()) == ['{"n": 0}', '{"n": 1}', '{"n": 2}', LAGGED.text]


def test_everybody_hears_of_everything_in_order() -> None:
    from godwit.server.hub import Hub, News, Subscriber

    async def follow(one: Subscriber, heard: list[str]) -> None:
        while len(heard) < 300:
            heard += [news.text for news in await one.news(5)]

    async def play() -> list[list[str]]:
        hub, heard = Hub(100, 1000), [list[str]() for _ in range(90)]
        with contextlib.ExitStack() as listening:
            ones = [listening.enter_context(hub.subscribed("x")) for _ in heard]
            tasks = [asyncio.create_task(follow(one, mine)) for one, mine in zip(ones, heard, strict=True)]
            for n in range(300):
                hub.publish("x", lambda n=n: News("rows", {"n": n}))  # type: ignore[misc]
                await asyncio.sleep(0.001 if n % 3 else 0)
            await asyncio.wait_for(asyncio.gather(*tasks), 10)
            assert hub.count == 90
        assert hub.count == 0
        return heard

    assert asyncio.run(play()) == [[json.dumps({"n": n}) for n in range(300)]] * 90


def test_rows_that_do_not_fit_are_told_with_the_reason(serve: Serve) -> None:
    with serve().client() as client:
        declare(client)
        push, wrong = "/v1/streams/passengers/rows", {**row(1, 2), "boarded": "many"}
        for path in (push, f"{push}?device=t1", f"{push}?device=t1&sequence=1"):
            told = client.post(path, json=[row(7, 1), wrong]).json()
            assert (told["taken"], told["rows"], told["dead"]) == (True, 1, 1)
            (letter,) = told["dead_letters"]
            assert letter["row"]["boarded"] == "many"
            assert letter["reason"] == "boarded: 'many' is no int"
        assert client.post(f"{push}?device=t1&sequence=1", json=[row(7, 1), wrong]).json() == {
            "taken": False,
            "rows": 0,
        }
        told = client.post(f"{push}?device=t1", json={**row(3, 3), "train": "t2"}).json()
        assert (told["rows"], told["dead"]) == (0, 1)
        assert "another device" in told["dead_letters"][0]["reason"]
        assert len(client.get("/v1/dead-letters").json()) == 4
        told = client.post(push, json={**row(3, 4), "Boarded": 3, "bordead": 3}).json()
        assert {name: text.rpartition("; ")[2] for name, text in told["unknown_columns"].items()} == dict.fromkeys(
            ["Boarded", "bordead"], "did you mean 'boarded'?"
        )
